"""The state that the components of publish share: a branch in the store, and a writer's or reader's view."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.publish import keys
from fencepost.impl.publish.cache import TableReader
from fencepost.impl.publish.chain import Boundary, Chain, News
from fencepost.impl.publish.documents import (
    JSON,
    Manifest,
    PublishPlan,
    Version,
    read_manifest,
    read_version,
)
from fencepost.impl.publish.errors import Absent, Fenced, Invalid, StoreUnavailable
from fencepost.impl.publish.pace import WAIT_S
from fencepost.impl.publish.safeguards import Epoch, Safeguards
from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.impl.store.requests import Delete, Get, List, Outcome, Put

MAIN = "main"
GRACE_S = 60.0
"""Seconds for which an unfenced sidecar counts as a live write. Only politeness depends on it."""
STUCK_AFTER_S = 5.0
"""Seconds for which a writer watches the unfinished plan of another in its way before it ends that plan."""
RETRY = RetryPolicy("publish", StoreUnavailable, attempts=6, backoff_s=0.1)
"""Five retries, about two seconds of pauses."""


@dataclass(eq=False)
class BranchContext(Context):
    branch: str
    safeguards: Safeguards
    grace_s: float = GRACE_S
    stuck_after_s: float = STUCK_AFTER_S
    wait_s: float = WAIT_S
    """Seconds for which a write begins again when others were first."""
    retry: RetryPolicy = field(default=RETRY, kw_only=True)
    boundary_seen: int = field(default=0, init=False)
    """The highest boundary of this branch in any reply."""

    @property
    def chain(self) -> Chain:
        boundary = Boundary(self, keys.boundary(self.branch), self._note_boundary)
        return Chain(self, keys.manifests(self.branch), boundary)

    def _note_boundary(self, found: int) -> None:
        self.boundary_seen = max(self.boundary_seen, found)

    def on(self, branch: str) -> "BranchContext":
        return replace(self, branch=branch)

    def newest(self) -> Manifest | None:
        """The branch's newest manifest, found without knowing any."""
        found = self.chain.newest()
        return None if found is None else read_manifest(found[1], self.chain.key(found[0]))

    def manifests(self, news: News) -> list[Manifest]:
        return [read_manifest(body, self.chain.key(id_)) for id_, body in news.entries]

    def versions(self, names: Sequence[str]) -> list[Version]:
        """Version objects by key, without missing ones."""
        return [read_version(body, name) for name, body in self._bodies(names).items()]

    def sidecars(self) -> list[PublishPlan]:
        """Every plan that has a sidecar, oldest first, of all branches."""
        bodies = self._bodies(self.list_keys(keys.RECOVERY))
        return [PublishPlan.from_bytes(body, name) for name, body in bodies.items()]

    def sidecar(self, plan: str) -> PublishPlan | None:
        reply = self.read(Get(keys.sidecar(plan)))
        return PublishPlan.from_bytes(reply.body, reply.info.key) if reply.info is not None else None

    def list_keys(self, prefix: str) -> list[str]:
        listing = self.pages(lambda token: List(prefix, token=token))
        return [info.key for page in listing for info in page.objects]

    def _bodies(self, names: Sequence[str]) -> dict[str, bytes]:
        replies = self.read_all([Get(name) for name in names])
        found = zip(names, replies, strict=True)
        return {name: reply.body for name, reply in found if reply.outcome is Outcome.DONE}


def put_sidecar(plan: PublishPlan) -> Put:
    """The write of a sidecar: the whole plan, from before its first trace until it has ended."""
    return Put(keys.sidecar(plan.id), plan.to_bytes(), ABSENT, JSON)


def delete_sidecar(plan: str) -> Delete:
    """Retire a plan that has ended. Unconditional on purpose: the key belongs to this plan alone."""
    return Delete(keys.sidecar(plan), ANYTHING)


@dataclass(frozen=True, slots=True)
class Notice:
    """The end of one sidecar."""

    plan: str
    branch: str
    classified: str
    done: str
    """left, retired, rolled-forward, rolled-back. Rolled back is for ever. A plan that is retired unsettled
    blocks no writer. It may still be published if it is of an earlier epoch (its owner stages it once more,
    and recovery rolls it forward), or if it only creates tables.
    """
    text: str
    epoch: int
    """In which the plan was begun."""

    @property
    def may_be_alive(self) -> bool:
        return self.classified == "live"

    @property
    def is_over(self) -> bool:
        return self.done != "left"


class Mode(enum.StrEnum):
    CLAIM = "claim"
    """Write, and fence all earlier writers: the default."""
    JOIN = "join"
    """Write beside others of the present epoch; lost races are StaleView."""
    READ = "read"


class Handle:
    """One writer's or reader's view of one branch: its manifest, its epoch, its sidecars to retire.

    For one thread at a time; group commit serialises several.
    """

    def __init__(self, context: BranchContext, reader: TableReader, author: str, mode: Mode) -> None:
        self.context = context
        self.reader = reader
        self.author = author
        self.mode = mode
        self.epoch = 0
        self.fenced = ""
        """Why this handle can no longer write; empty while it can."""
        self.obstacle: Notice | None = None
        """The plan of another that was in the way of the last publish."""
        self._met = ("", 0)
        """The plan that is in the way, and the time by this process's own clock when it was first."""
        self.retiring: list[str] = []
        """Plans whose sidecars the next stage step, or closing, deletes."""
        self._latest: Manifest | None = None

    @property
    def latest(self) -> Manifest:
        assert self._latest is not None, "a handle is resolved before it is used"
        return self._latest

    def resolve(self) -> Manifest:
        """Find the newest manifest without knowing any."""
        found = self.context.newest()
        if found is None:
            raise Absent(
                f"there is no branch {self.context.branch!r} at {self.context.store.url}; "
                "create the catalog, or look at the branches it has"
            )
        self._latest = found
        return self.check_exists()

    def refresh(self) -> Manifest:
        """Catch up with the commits of others."""
        chain = self.context.chain
        probe, boundary = self.context.read_all([chain.probe(self.latest.id + 1), chain.boundary.request()])
        # If our manifest was cleaned up, so was the next one: its absence proves nothing.
        if probe.outcome is not Outcome.DONE and chain.boundary.value(boundary)[0] >= self.latest.id:
            return self.resolve()
        newest = chain.newest_after(self.latest.id, probe)
        if newest is not None:
            self.learn([read_manifest(newest[1], chain.key(newest[0]))])
        return self.check_exists()

    def learn(self, manifests: Sequence[Manifest]) -> None:
        for manifest in manifests:
            if self._latest is None or manifest.id > self._latest.id:
                self._latest = manifest

    def is_stuck(self, plan: str) -> bool:
        """Return True if this plan of another has been in the way for longer than this handle is patient.

        Only times of this process are compared. Another plan in the way is progress.
        """
        now_ns = self.context.env.monotonic_ns()
        if self._met[0] != plan:
            self._met = (plan, now_ns)
        return now_ns - self._met[1] >= round(self.context.stuck_after_s * 1e9)

    def join(self) -> None:
        """Write in the present epoch."""
        self.epoch = self.latest.epoch

    def check_writable(self) -> None:
        if self.mode is Mode.READ:
            raise Invalid("this catalog was opened for reading; open it with mode='claim' or 'join' to write")
        self.check_exists()
        theirs = self.latest.epoch
        if not self.fenced and self.context.safeguards.epoch_check(self.epoch, theirs) is Epoch.LATER:
            self.fenced = f"epoch {theirs} was claimed, this writer has {self.epoch}"
        if self.fenced:
            raise Fenced(f"this writer is fenced ({self.fenced}); open the catalog again to take over")

    def check_exists(self) -> Manifest:
        if self.latest.deleted:
            raise Absent(f"branch {self.context.branch!r} was deleted by {self.latest.author}")
        return self.latest

    def draft(self, kind: str, **details: Any) -> PublishPlan:
        """Make a plan of this handle on its manifest, with these details only."""
        latest = self._latest
        fields: dict[str, Any] = {
            "branch": self.context.branch,
            "epoch": self.epoch,
            "base": latest.id if latest else 0,
            "incarnation": latest.incarnation if latest else "",
            **details,
        }
        env = self.context.env
        return PublishPlan(id=env.new_id(), kind=kind, author=self.author, time_ns=env.now_ns(), **fields)
