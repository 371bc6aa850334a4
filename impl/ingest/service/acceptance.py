"""Between HTTP and the protocol: takes a batch, returns the response of the collector.

`Strict` is acceptance = "s3_manifest": any number of collectors, and the create in the bucket decides. The
other mode is in `landing`.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from fencepost.impl.environment import Environment
from fencepost.impl.http.turns import Turns
from fencepost.impl.ingest.authority import Accepted, Authority, Conflict, Unavailable, check_batch
from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.documents import Manifest
from fencepost.impl.ingest.errors import Refusal as Reason
from fencepost.impl.ingest.errors import Refused
from fencepost.impl.ingest.keys import Identity
from fencepost.impl.ingest.operator import Blocklist
from fencepost.impl.ingest.query import Local
from fencepost.impl.ingest.service.background import FollowUps
from fencepost.impl.ingest.service.requests import Refusal
from fencepost.impl.store.interface import Store

_TURNS = Turns()
"""Of the threads of this process that read frames."""

Result = Literal["accepted", "duplicate", "conflict", "unavailable", "refused"]

KIND_OF = {
    Reason.FOREIGN_AGENT: "foreign_agent",
    Reason.ENCODED: "unsupported_encoding",
    Reason.TOO_LARGE: "body_too_large",
    Reason.BAD_FRAME: "bad_frame",
    Reason.MISMATCH: "mismatch",
    Reason.QUARANTINED: "quarantined",
}

OnAnswer = Callable[[Identity, str, Result], object]
"""Takes the identity of a batch, the SHA-256 of its frame, and the result."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result for a batch, and the response: a body with 200, or a refusal."""

    result: Result
    body: dict[str, Any] | None = None
    refusal: Refusal | None = None


class Acceptance(ABC):
    store: Store
    """Where this collector keeps the conflicts."""
    env: Environment
    blocklist: Blocklist
    bucket: IngestContext
    """Where the accepted batches of all collectors are, for queries."""

    @abstractmethod
    def accept(self, agent: str, identity: Identity, body: bytes) -> Answer:
        """Judge a batch that the authenticated `agent` sent. Blocks; called by many threads."""

    @abstractmethod
    def verify(self) -> None:
        """Raise a StoreError when batches cannot be accepted."""

    def wait_idle(self) -> None:  # noqa: B027 - a mode may have nothing to do after the response
        """Return when nothing is left to do about batches that were answered."""

    def unlanded(self) -> Local:
        """The batches that were accepted here and are perhaps not in the bucket."""
        return {}


class Strict(Acceptance):
    """A batch is accepted once its manifest is in the bucket; without the bucket, no batch is."""

    def __init__(
        self,
        authority: Authority,
        follow_up: FollowUps,
        blocklist: Blocklist,
        on_answer: OnAnswer | None = None,
    ) -> None:
        """`on_answer` is called with each answer about a batch, before the agent has it."""
        self._on_answer = on_answer
        self.store = authority.store
        self.env = authority.env
        self.blocklist = blocklist
        self.bucket = IngestContext(authority.store, authority.env, authority.settings)
        self._authority = authority
        self._follow_up = follow_up

    def accept(self, agent: str, identity: Identity, body: bytes) -> Answer:
        answer = judge(self._authority, self.blocklist, agent, identity, body, self._follow_up)
        if self._on_answer is not None:
            self._on_answer(identity, hashlib.sha256(body).hexdigest(), answer.result)
        return answer

    def verify(self) -> None:
        self.store.verify()

    def wait_idle(self) -> None:
        self._follow_up.wait_idle()


def judge(
    authority: Authority,
    blocklist: Blocklist,
    agent: str,
    identity: Identity,
    body: bytes,
    on_accepted: Callable[[Manifest], object],
) -> Answer:
    """The result of the protocol as a response; calls `on_accepted` for a new batch."""
    try:
        with _TURNS.taken():
            limits, safeguards = authority.settings.limits, authority.safeguards
            check_batch(agent, identity, body, limits=limits, safeguards=safeguards, turn=_TURNS.pass_on)
        blocklist.check(identity)
    except Refused as refused:
        return Answer("refused", refusal=Refusal(KIND_OF[refused.kind], refused.sentence))
    match authority.accept(identity, body):
        case Accepted(duplicate, manifest):
            if not duplicate:
                on_accepted(manifest)
            shown = {
                "duplicate": duplicate,
                **identity.fields,
                "frame_sha256": manifest.frame_sha256,
                "accepted_at_unix_ns": manifest.accepted_at_unix_ns,
                "collector_id": manifest.collector_id,
            }
            return Answer("duplicate" if duplicate else "accepted", body=shown)
        case Conflict() as conflict:
            return Answer("conflict", refusal=_conflict(conflict))
        case Unavailable(reason, retry_after_s):
            return Answer(
                "unavailable", refusal=Refusal("store_unavailable", reason, retry_after_s=retry_after_s)
            )


def _conflict(conflict: Conflict) -> Refusal:
    old, new = conflict.existing, conflict.offered
    return Refusal(
        "identity_conflict",
        f"batch {old.identity} was accepted with other bytes (sha256 {old.frame_sha256}); park yours "
        "until an operator has decided",
        accepted_frame_sha256=old.frame_sha256,
        accepted_manifest_key=old.key,
        submitted_frame_sha256=new.frame_sha256,
        conflict_key=conflict.record_key,
    )
