"""The catalog: what users hold.

    with Catalog.open("file:///var/lib/graph", author="ann", create=True) as catalog:
        with catalog.transaction() as txn:
            txn.create_table("person", {"id": "int64", "name": "string"}, key="id")
            txn.append("person", [{"id": 1, "name": "Ada"}])
        catalog.snapshot().rows("person")

One `Catalog` is one writer (or reader) on one branch and belongs to one thread; `GroupCommit` lets many
share it. Published means visible and durable; `Unknown` means what it says; everything else is an error
after which nothing is or will be visible.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

from fencepost.impl.environment import Environment
from fencepost.impl.publish import branches, keys, recovery, sidecar
from fencepost.impl.publish.branches import MAIN
from fencepost.impl.publish.cleanup import Cleaned, cleanup
from fencepost.impl.publish.contents import Library
from fencepost.impl.publish.context import GRACE_S, BranchContext
from fencepost.impl.publish.documents import Manifest, read_manifest
from fencepost.impl.publish.drafts import Draft
from fencepost.impl.publish.endings import Published, Unknown
from fencepost.impl.publish.errors import Absent, Invalid, PublishError, StaleView
from fencepost.impl.publish.handle import Handle, Mode
from fencepost.impl.publish.kept import Contents
from fencepost.impl.publish.lowering import Lowering
from fencepost.impl.publish.machine import publish
from fencepost.impl.publish.recovery import Notice
from fencepost.impl.publish.safeguards import STANDARD, Safeguards
from fencepost.impl.publish.schema import Row
from fencepost.impl.publish.snapshots import Snapshot
from fencepost.impl.store.interface import Store
from fencepost.impl.store.urls import open_store

WRITE_ATTEMPTS = 5
KEEP = 20
"""Manifests that cleanup retains unless told otherwise."""


class Transaction(Draft):
    """A draft that can also read the snapshot it began on. What it reads, it relies on."""

    def __init__(self, snapshot: Snapshot, message: str) -> None:
        super().__init__(message=message)
        self.snapshot = snapshot
        self.result: Published | Unknown | None = None

    def read(self, table: str) -> list[Row]:
        self.rely_on([table])
        return self.snapshot.rows(table)


class Catalog:
    """See the top of this module."""

    def __init__(self, handle: Handle, library: Library, *, owns_store: bool) -> None:
        self._handle = handle
        self._library = library
        self._owns_store = owns_store
        self.notices: list[Notice] = []
        """What the recovery at opening found."""

    @staticmethod
    def open(
        store: Store | str,
        *,
        env: Environment | None = None,
        author: str = "",
        mode: Mode | str = Mode.CLAIM,
        branch: str = MAIN,
        create: bool = False,
        grace_s: float = GRACE_S,
        safeguards: Safeguards = STANDARD,
    ) -> "Catalog":
        """Open a branch to claim it (fencing earlier writers), to join its writers, or to read it."""
        if mode not in list(Mode):
            raise Invalid(f"mode is {mode!r}; choose one of {', '.join(Mode)}")
        opened = open_store(store, env) if isinstance(store, str) else store
        context = BranchContext(
            opened, env or opened.env, keys.check_name(branch, "branch"), safeguards, grace_s
        )
        library = Library(context)
        catalog = Catalog(
            Handle(context, library, author or "somebody", Mode(mode)),
            library,
            owns_store=isinstance(store, str),
        )
        try:
            if create and branch == MAIN and mode != Mode.READ and context.newest() is None:
                catalog._handle.draft("init").apply(context, None, 0)
            catalog._begin()
        except BaseException:
            if isinstance(store, str):
                opened.close()
            raise
        return catalog

    def _begin(self) -> None:
        self._handle.resolve()
        if self._handle.mode is Mode.CLAIM:
            self._handle.claim()
        elif self._handle.mode is Mode.JOIN:
            self._handle.join()
        if self._handle.mode is not Mode.READ:
            self.notices = recovery.recover(self._handle)

    # Reading.

    @property
    def branch(self) -> str:
        return self._handle.context.branch

    @property
    def context(self) -> BranchContext:
        """The store and the chain, for tools that look beneath."""
        return self._handle.context

    @property
    def epoch(self) -> int:
        return self._handle.epoch

    @property
    def manifest(self) -> Manifest:
        """The newest manifest this handle knows of."""
        return self._handle.latest

    def refresh(self) -> Manifest:
        """Catch up with what others committed: one step of two requests when there is nothing new."""
        return self._handle.refresh()

    def snapshot(self, id_: int | None = None) -> Snapshot:
        """The tables as this handle knows them, or as of an earlier manifest."""
        return Snapshot(self._handle.latest if id_ is None else self._at(id_), self._library)

    def _at(self, id_: int) -> Manifest:
        chain = self._handle.context.chain
        body = chain.read(id_) if id_ > 0 else None
        # After reading: an id that was cleaned up may have come back.
        if body is None or chain.boundary.read() >= id_:
            raise Absent(f"branch {self.branch} has no manifest {id_}, or it was cleaned up; see its log")
        return read_manifest(body, chain.key(id_))

    def log(self, after: int = 0) -> Iterator[Manifest]:
        """The retained manifests behind id `after`, the newest first."""
        chain = self._handle.context.chain
        for id_, body in chain.backwards(max(after, chain.boundary.read())):
            yield read_manifest(body, chain.key(id_))

    # Writing.

    def draft(self, message: str = "") -> Transaction:
        """A transaction that the caller publishes, or throws away."""
        return Transaction(self.snapshot(), message)

    @contextmanager
    def transaction(self, message: str = "") -> Iterator[Transaction]:
        """Collect changes and publish them at the end of the `with`; `result` tells how that ended."""
        transaction = self.draft(message)
        yield transaction
        transaction.result = self.publish(transaction)

    def publish(self, draft: Draft) -> Published | Unknown:
        """Publish one draft."""
        result = self.publish_all([draft])[0]
        if isinstance(result, PublishError):
            raise result
        return result

    def publish_all(self, drafts: Sequence[Draft]) -> list[Published | Unknown | PublishError]:
        """Publish drafts as one plan; those that are wrong by themselves are answered by their error."""
        handle = self._handle
        handle.check_writable()
        lowering = Lowering(handle.latest, self._library, handle.context.safeguards)
        try:
            return self._publish_all(lowering, drafts)
        except StaleView:
            with suppress(PublishError):
                self.refresh()  # so that whoever begins again begins on what is there now
            raise

    def _publish_all(
        self, lowering: Lowering, drafts: Sequence[Draft]
    ) -> list[Published | Unknown | PublishError]:
        handle = self._handle
        results: list[Published | Unknown | PublishError | None] = [None] * len(drafts)
        for at, draft in enumerate(drafts):
            if isinstance(draft, Transaction) and draft.snapshot.id != handle.latest.id:
                moved = _moved(draft.snapshot.manifest, handle.latest, draft)
                if moved is not None:
                    results[at] = StaleView(f"table {moved} changed since the transaction began; begin again")
                    continue
            try:
                lowering.add(draft)
            except Invalid as error:
                results[at] = error
        ended = self._publish(lowering) if None in results else None
        nothing = Invalid("nothing to publish: the changes leave every table as it is")
        return [result or ended or nothing for result in results]

    def _publish(self, lowering: Lowering) -> Published | Unknown | None:
        handle = self._handle
        env = handle.context.env
        lowered = lowering.finish(
            env.new_id(), author=handle.author, time_ns=env.now_ns(), epoch=handle.epoch
        )
        if lowered is None:
            return None
        ended = publish(handle, lowered.plan, lowered.fragments)
        if isinstance(ended, Published) and ended.manifest.plan == lowered.plan.id:
            self._keep(ended.manifest, lowered.contents)
        return ended

    def _keep(self, manifest: Manifest, contents: Mapping[str, Contents]) -> None:
        for table, held in contents.items():
            self._library.keep(manifest.tables[table].pin, held)

    def write(
        self, change: Callable[[Transaction], Any], *, attempts: int = WRITE_ATTEMPTS, message: str = ""
    ) -> Published | Unknown:
        """Publish what `change` does to a transaction; begin again when others were first."""
        for attempt in range(attempts):
            transaction = self.draft(message)
            change(transaction)
            try:
                return self.publish(transaction)
            except StaleView:
                if attempt == attempts - 1:
                    raise
                self._handle.context.back_off(attempt)
                self.refresh()
        raise Invalid(f"attempts is {attempts}; try at least once")

    def settle(self, unknown: Unknown) -> Published | Unknown | None:
        """What became of an unknown plan: Published, None for never, or still Unknown."""
        # The sidecar first: it goes only after the plan has ended.
        standing = self._handle.context.sidecars.one(unknown.plan)
        published = next((m for m in self.log(unknown.base) if m.plan == unknown.plan), None)
        if published is not None:
            return Published(published, unknown.plan)
        if standing is not None or self._handle.context.chain.boundary.read() > unknown.base:
            return unknown
        return None

    # Branches.

    def on(self, branch: str, mode: Mode | str | None = None) -> "Catalog":
        """Another branch of the same catalog, as a handle of its own."""
        context = self._handle.context.on(keys.check_name(branch, "branch"))
        handle = Handle(context, self._library, self._handle.author, Mode(mode or self._handle.mode))
        catalog = Catalog(handle, self._library, owns_store=False)
        catalog._begin()
        return catalog

    def branches(self) -> list[str]:
        newest = branches.newest(self._handle.context)
        return sorted(name for name, found in newest.items() if found is not None and not found.deleted)

    def create_branch(self, name: str, at: int | None = None) -> Published | Unknown:
        """Make a branch of this one as it is, or as it was at an earlier manifest."""
        return branches.create(self._handle, name, self.refresh() if at is None else self._at(at))

    def merge(self, name: str) -> Published | Unknown:
        """Fast-forward this branch to branch `name`."""
        return branches.merge(self._handle, name)

    def delete_branch(self, name: str) -> Published | Unknown:
        """Delete branch `name`, whoever writes to it."""
        context = self._handle.context.on(keys.check_name(name, "branch"))
        handle = Handle(context, self._library, self._handle.author, self._handle.mode)
        handle.resolve()
        handle.join()
        return branches.delete(handle)

    # Maintenance.

    def recover(self) -> list[Notice]:
        """Settle the sidecars of this branch that are nobody's live write."""
        self._handle.check_writable()
        self.refresh()
        return recovery.recover(self._handle)

    def repair(self) -> list[Notice]:
        """Claim the branch, so that no other writer is alive, and settle every sidecar."""
        if self._handle.mode is Mode.READ:
            self._handle.check_writable()
        self._handle.resolve()
        self._handle.claim()
        return recovery.recover(self._handle)

    def cleanup(self, keep: int = KEEP) -> Cleaned:
        """Delete what the newest `keep` manifests of every branch do not need."""
        self._handle.check_writable()
        return cleanup(self._handle.context, keep=keep, author=self._handle.author)

    def close(self) -> None:
        """Retire what is owed, and close the store if this catalog opened it."""
        owed, self._handle.retiring = self._handle.retiring, []
        if owed:
            self._handle.context.store.send_all([sidecar.delete(name) for name in owed])
        if self._owns_store:
            self._handle.context.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _moved(then: Manifest, now: Manifest, draft: Draft) -> str | None:
    """A table that `draft` touches or relies on and that is not as it was when the transaction began."""
    tables = sorted({change.table for change in draft.changes})
    return next((table for table in tables if then.pin(table) != now.pin(table)), None)
