"""One writer's or reader's view of one branch: the manifest it knows, its epoch, and what it still owes.

A handle is not for several threads at once: group commit serialises them.
"""

import enum
from collections.abc import Sequence
from typing import Any

from fencepost.impl.publish.contents import Library
from fencepost.impl.publish.context import BranchContext
from fencepost.impl.publish.documents import Manifest, read_manifest
from fencepost.impl.publish.endings import Published, Unknown
from fencepost.impl.publish.errors import Absent, Fenced, Invalid, StaleView
from fencepost.impl.publish.plan import PublishPlan
from fencepost.impl.publish.safeguards import Epoch
from fencepost.impl.store.requests import Outcome


class Mode(enum.StrEnum):
    """How a catalog is opened."""

    CLAIM = "claim"
    """Write, and fence every writer before: the default."""
    JOIN = "join"
    """Write beside others of the present epoch; lost races are StaleView."""
    READ = "read"


class Handle:
    """See the top of this module."""

    def __init__(self, context: BranchContext, library: Library, author: str, mode: Mode) -> None:
        self.context = context
        self.library = library
        self.author = author
        self.mode = mode
        self.epoch = 0
        self.fenced = ""
        """Why this handle can no longer write; empty while it can."""
        self.retiring: list[str] = []
        """Plans whose sidecars may go, with the next stage step or on close."""
        self._latest: Manifest | None = None

    # The manifest.

    @property
    def latest(self) -> Manifest:
        """The newest manifest this handle knows of."""
        assert self._latest is not None, "a handle is resolved before it is used"
        return self._latest

    def resolve(self) -> Manifest:
        """Find the newest manifest, knowing nothing."""
        found = self.context.newest()
        if found is None:
            raise Absent(
                f"there is no branch {self.context.branch!r} at {self.context.store.url}; "
                "create the catalog, or look at the branches it has"
            )
        self._latest = found
        return self._alive()

    def refresh(self) -> Manifest:
        """Catch up with what others committed."""
        chain = self.context.chain
        probe, boundary = self.context.read_all([chain.probe(self.latest.id + 1), chain.boundary.request()])
        # When what we know was cleaned up, so was what came next: its absence says nothing.
        if probe.outcome is not Outcome.DONE and chain.boundary.value(boundary)[0] >= self.latest.id:
            return self.resolve()
        newest = chain.newest_after(self.latest.id, probe)
        if newest is not None:
            self.learn([read_manifest(newest[1], chain.key(newest[0]))])
        return self._alive()

    def learn(self, manifests: Sequence[Manifest]) -> None:
        for manifest in manifests:
            if self._latest is None or manifest.id > self._latest.id:
                self._latest = manifest

    def _alive(self) -> Manifest:
        if self.latest.deleted:
            raise Absent(f"branch {self.context.branch!r} was deleted by {self.latest.author}")
        return self.latest

    # The epoch.

    def claim(self) -> None:
        """Claim the next epoch: a manifest, created like any other, that fences all writers before."""
        ended = self.draft("claim").apply(self.context, self.latest, self.latest.epoch)
        if not isinstance(ended, Published):
            why = ended.why if isinstance(ended, Unknown) else "others claimed it again and again"
            raise StaleView(f"could not claim branch {self.context.branch}: {why}; open the catalog again")
        self.learn([ended.manifest])
        self.epoch = ended.manifest.epoch
        self.fenced = ""

    def join(self) -> None:
        self.epoch = self.latest.epoch

    def check_writable(self) -> None:
        if self.mode is Mode.READ:
            raise Invalid("this catalog was opened for reading; open it with mode='claim' or 'join' to write")
        self._alive()
        if not self.fenced and self.judge(self.latest.epoch) is Epoch.LATER:
            self.fenced = f"epoch {self.latest.epoch} was claimed, this writer has {self.epoch}"
        if self.fenced:
            raise Fenced(f"this writer is fenced ({self.fenced}); open the catalog again to take over")

    def judge(self, theirs: int) -> Epoch:
        return self.context.safeguards.epoch_check(self.epoch, theirs)

    def draft(self, kind: str, **details: Any) -> PublishPlan:
        """A plan of this handle on the manifest it knows, with nothing in it but `details`."""
        latest = self._latest
        fields: dict[str, Any] = {
            "branch": self.context.branch,
            "epoch": self.epoch,
            "base": latest.id if latest else 0,
            "incarnation": latest.incarnation if latest else "",
            **details,
        }
        return PublishPlan(
            id=self.context.env.new_id(),
            kind=kind,
            author=self.author,
            time_ns=self.context.env.now_ns(),
            **fields,
        )
