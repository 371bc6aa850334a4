"""Between HTTP and the protocol: a batch goes in, what the agent is told comes out.

`Strict` is acceptance = "s3_manifest": any number of collectors, and the create in the bucket decides. The
other mode is in `landing`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from fencepost.impl.environment import Environment
from fencepost.impl.ingest.authority import Accepted, Authority, Conflict, Unavailable, check_batch
from fencepost.impl.ingest.documents import Manifest
from fencepost.impl.ingest.errors import Refusal as Why
from fencepost.impl.ingest.errors import Refused
from fencepost.impl.ingest.identity import Identity
from fencepost.impl.ingest.operator import Blocklist
from fencepost.impl.ingest.service.answers import Refusal
from fencepost.impl.ingest.service.followups import FollowUps
from fencepost.impl.store.interface import Store

Result = Literal["accepted", "duplicate", "conflict", "unavailable", "refused"]

KIND_OF = {
    Why.WRONG_AGENT: "wrong_agent",
    Why.ENCODED: "unsupported_encoding",
    Why.TOO_LARGE: "body_too_large",
    Why.BAD_FRAME: "bad_frame",
    Why.MISMATCH: "mismatch",
    Why.QUARANTINED: "quarantined",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a batch, and what is said about it: a body with 200, or a refusal."""

    result: Result
    body: dict[str, Any] | None = None
    refusal: Refusal | None = None


class Acceptance(ABC):
    """One of the two modes."""

    store: Store
    """Where this collector's conflicts are on record."""
    env: Environment
    blocklist: Blocklist

    @abstractmethod
    def accept(self, agent: str, identity: Identity, body: bytes) -> Answer:
        """Judge a batch that the authenticated `agent` sent. Blocks; called by many threads."""

    @abstractmethod
    def verify(self) -> None:
        """Raise a StoreError when batches cannot be accepted."""

    def wait_idle(self) -> None:  # noqa: B027 - nothing behind the answers is a valid way to be
        """Return when nothing is left to do about batches that were answered."""


class Strict(Acceptance):
    """Accepted is what has its manifest in the bucket; without the bucket, nothing is."""

    def __init__(self, authority: Authority, follow_up: FollowUps, blocklist: Blocklist) -> None:
        self.store = authority.store
        self.env = authority.env
        self.blocklist = blocklist
        self._authority = authority
        self._follow_up = follow_up

    def accept(self, agent: str, identity: Identity, body: bytes) -> Answer:
        return judged(self._authority, self.blocklist, agent, identity, body, self._follow_up)

    def verify(self) -> None:
        self.store.verify()

    def wait_idle(self) -> None:
        self._follow_up.wait_idle()


def judged(
    authority: Authority,
    blocklist: Blocklist,
    agent: str,
    identity: Identity,
    body: bytes,
    accepted: Callable[[Manifest], object],
) -> Answer:
    """The protocol's answer as HTTP's; `accepted` is told of a batch that is new."""
    try:
        check_batch(agent, identity, body, limits=authority.settings.limits, safeguards=authority.safeguards)
        blocklist.check(identity)
    except Refused as refused:
        return Answer("refused", refusal=Refusal(KIND_OF[refused.kind], refused.sentence))
    match authority.accept(identity, body):
        case Accepted(duplicate, manifest):
            if not duplicate:
                accepted(manifest)
            return Answer("duplicate" if duplicate else "accepted", body=_told(manifest, duplicate=duplicate))
        case Conflict() as conflict:
            return Answer("conflict", refusal=_conflict(conflict))
        case Unavailable(reason, retry_after_s):
            return Answer(
                "unavailable", refusal=Refusal("store_unavailable", reason, retry_after_s=retry_after_s)
            )


_TOLD = ("agent_id", "boot_id", "seq_start", "seq_end", "frame_sha256", "accepted_at_unix_ns", "collector_id")


def _told(manifest: Manifest, *, duplicate: bool) -> dict[str, Any]:
    said = asdict(manifest)
    return {"duplicate": duplicate, **{name: said[name] for name in _TOLD}}


def _conflict(conflict: Conflict) -> Refusal:
    old, new = conflict.existing, conflict.offered
    return Refusal(
        "identity_conflict",
        f"batch {old.identity} was accepted with other bytes (sha256 {old.frame_sha256}); keep yours "
        "aside until an operator has decided",
        accepted_frame_sha256=old.frame_sha256,
        accepted_manifest_key=old.key,
        submitted_frame_sha256=new.frame_sha256,
        conflict_key=conflict.record_key,
    )
