"""The catalog: the interface for users.

    with Catalog.open("file:///var/lib/graph", author="ann", create=True) as catalog:
        with catalog.transaction() as txn:
            txn.create_table("person", {"id": "int64", "name": "string"}, key="id")
            txn.append("person", [{"id": 1, "name": "Ada"}])
        catalog.snapshot().rows("person")

One `Catalog` is one writer (or reader) on one branch and belongs to one thread; with `GroupCommit` many
threads share one. `Published` means visible and durable; `Unknown` means that the outcome is not known yet;
everything else is an error after which nothing is or will be visible.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

from fencepost.impl.environment import Environment
from fencepost.impl.publish import branches, constraints, keys, recovery
from fencepost.impl.publish.cache import Contents, Run, TableReader
from fencepost.impl.publish.cleanup import Cleaned, cleanup
from fencepost.impl.publish.commit import Committed, Published, Unknown, execute
from fencepost.impl.publish.context import (
    GRACE_S,
    MAIN,
    STUCK_AFTER_S,
    BranchContext,
    Handle,
    Mode,
    Notice,
    delete_sidecar,
)
from fencepost.impl.publish.documents import Entry, Manifest, PublishPlan, read_manifest
from fencepost.impl.publish.errors import Absent, Invalid, Overdue, PublishError, StaleView, Unchanged
from fencepost.impl.publish.merging import base_of, merge_rows
from fencepost.impl.publish.opening import open_branch
from fencepost.impl.publish.pace import WAIT_S, Pace
from fencepost.impl.publish.planner import ALL_TABLES, Draft, Planner
from fencepost.impl.publish.pressure import STANDARD as STANDARD_PRESSURE
from fencepost.impl.publish.pressure import Debt, Pressure
from fencepost.impl.publish.publisher import claim, publish
from fencepost.impl.publish.requests import Request, Requests, first_of_each, other_changes
from fencepost.impl.publish.safeguards import STANDARD, Safeguards
from fencepost.impl.publish.scan import Scan
from fencepost.impl.publish.schema import Row, Schema, to_arrow
from fencepost.impl.store.interface import Store
from fencepost.impl.store.urls import open_store

COMPACT_ATTEMPTS = 5
"""The protocol's own limit against live writers."""
KEEP = 20
"""Manifests that cleanup retains by default."""


class Snapshot:
    """All tables of a branch at one manifest. A snapshot never changes."""

    def __init__(self, manifest: Manifest, reader: TableReader) -> None:
        self.manifest = manifest
        self._reader = reader

    @property
    def id(self) -> int:
        return self.manifest.id

    @property
    def tables(self) -> Sequence[str]:
        return sorted(self.manifest.tables)

    def _read(self, tables: Sequence[str]) -> Mapping[str, Contents]:
        return self._reader.contents({table: self._entry(table) for table in tables})

    def schema(self, table: str) -> Schema:
        return self._contents(table).schema

    def rows(self, table: str) -> list[Row]:
        """The rows in order of their keys: copies, because the cached rows are shared."""
        return _rows(self._contents(table))

    def get(self, table: str, key: Any) -> Row | None:
        row = self._contents(table).rows.get(key)
        return None if row is None else dict(row)

    def arrow(self, table: str) -> Any:
        return to_arrow(self.schema(table).columns, self.rows(table))

    def scan(self, table: str, columns: Sequence[str] | None = None) -> Scan:
        """The table, or these columns of it, as Arrow batches that are read when they are wanted."""
        return Scan(self._reader.context, self._reader.documents({table: self._entry(table)})[table], columns)

    def load(self) -> dict[str, list[Row]]:
        """Every table, read in two parallel steps."""
        found = self._read(self.tables)
        return {table: _rows(found[table]) for table in self.tables}

    def runs(self, table: str) -> Sequence[Run]:
        """The runs of the table, in order. A single run of rows is a plain Parquet file of the table."""
        return self._contents(table).runs

    def count_runs(self, tables: Sequence[str]) -> dict[str, int]:
        """Return the number of runs of these tables, without reading their rows."""
        found = self._reader.documents({table: self._entry(table) for table in tables})
        return {table: len(document.runs) for table, document in found.items()}

    def _entry(self, table: str) -> Entry:
        """The table in the manifest: every method that reads a table calls this one."""
        entry = self.manifest.tables.get(table)
        if entry is None:
            raise Absent(f"manifest {self.id} of branch {self.manifest.branch} has no table {table!r}")
        return entry

    def _contents(self, table: str) -> Contents:
        return self._read([table])[table]


def _rows(contents: Contents) -> list[Row]:
    return [dict(contents.rows[key]) for key in sorted(contents.rows)]


class Transaction(Draft):
    """A draft that can also read the snapshot it began on. It relies on everything that it reads there."""

    def __init__(self, snapshot: Snapshot, message: str) -> None:
        super().__init__(message=message)
        self.snapshot: Snapshot = _ReadSnapshot(snapshot, self)
        self.result: Published | Unknown | None = None

    def read(self, table: str) -> list[Row]:
        return self.snapshot.rows(table)

    def delete_where(
        self, table: str, chosen: Callable[[Row], bool], *, cascade: bool = False
    ) -> dict[str, list[Any]]:
        """Remove the rows of the snapshot that are `chosen`; returns the removed keys by table.

        With `cascade`, rows whose edges point at removed rows go too, and rows that point at those; without
        it, only edges that were declared to cascade do so, and the commit is refused if another points at
        one of them. Rows that this transaction adds are not looked at. The transaction is refused if another
        one changes what was read meanwhile.
        """
        removed = {table: {row[self.snapshot.schema(table).key] for row in self.read(table) if chosen(row)}}
        declared = self._cascades()
        open_ = [table] if (cascade or declared) and removed[table] else []
        while open_:
            target = open_.pop()
            for name in self.snapshot.tables:
                columns = [
                    column
                    for column, to in self.snapshot.manifest.tables[name].edges
                    if to == target and (cascade or (name, column) in declared)
                ]
                if not columns:
                    continue
                key, gone = self.snapshot.schema(name).key, removed.setdefault(name, set())
                points = (row for row in self.read(name) if any(row[at] in removed[target] for at in columns))
                more = {row[key] for row in points} - gone
                if more:
                    gone |= more
                    open_.append(name)
        found = {name: sorted(gone) for name, gone in sorted(removed.items()) if gone}
        for name, gone_keys in found.items():
            self.delete(name, gone_keys)
        return found

    def _cascades(self) -> set[tuple[str, str]]:
        """(table, column) of the edges that were declared to cascade."""
        if constraints.TABLE not in self.snapshot.manifest.tables:
            return set()
        found = constraints.declared(self.read(constraints.TABLE))
        return {(one.table, one.columns[0]) for one in found if one.cascades}

    def rely_on(self, tables: Sequence[str]) -> None:
        """The change was decided on the contents of these tables: it is refused if they have changed."""
        for table in tables:
            self.record_read(table)


class _ReadSnapshot(Snapshot):
    """A snapshot that records in a draft which tables were read, whether their rows are there or not."""

    def __init__(self, snapshot: Snapshot, draft: Draft) -> None:
        super().__init__(snapshot.manifest, snapshot._reader)  # noqa: SLF001 - its own class
        self._draft = draft

    @property
    def tables(self) -> Sequence[str]:
        self._draft.record_read(ALL_TABLES)
        return super().tables

    def _entry(self, table: str) -> Entry:
        self._draft.record_read(table)
        return super()._entry(table)


@dataclass(frozen=True, slots=True)
class Compacted:
    table: str
    runs: int
    """Fragments before."""
    done: bool
    text: str


class Catalog:
    def __init__(self, handle: Handle, *, owns_store: bool, pressure: Pressure = STANDARD_PRESSURE) -> None:
        self._handle = handle
        self._owns_store = owns_store
        self._pressure = pressure
        self._plans = 0
        self.slowed_s = 0.0
        """Seconds for which commits waited because cleanup lags."""
        self._requests = Requests(handle.context)
        self.notices: list[Notice] = []
        """The findings of the recovery at opening."""

    @staticmethod
    def open(
        store: Store | str | Sequence[str],
        *,
        env: Environment | None = None,
        author: str = "",
        mode: Mode | str = Mode.CLAIM,
        branch: str = MAIN,
        create: bool = False,
        grace_s: float = GRACE_S,
        stuck_after_s: float = STUCK_AFTER_S,
        wait_s: float = WAIT_S,
        safeguards: Safeguards = STANDARD,
        tables: Sequence[str] = (),
        pressure: Pressure = STANDARD_PRESSURE,
        layer: Callable[[Store], Store] = lambda store: store,
        token: str = "",
    ) -> "Catalog":
        """Open a branch to claim it (fencing earlier writers), to join its writers, or to read it.

        `write` begins again for `wait_s` when others are first. Naming the `tables` that will be used saves a
        step of requests at the first use. `pressure` has the limits from which on commits are slowed and
        refused because cleanup lags. `layer` may wrap the store, for instance in one that counts requests.

        In the place of a store there may be the address of a server, `http://...`, with the `token` that it
        wants; or several places, which are tried in their order (`fencepost.impl.publish.service.client`).
        """
        if mode not in list(Mode):
            raise Invalid(f"mode is {mode!r}; choose one of {', '.join(Mode)}")
        if not isinstance(store, Store):
            first = store if isinstance(store, str) else next(iter(store), "")
            if first.startswith(("http://", "https://")):
                from fencepost.impl.publish.service.client import open_served

                return open_served(
                    store,
                    env=env,
                    author=author,
                    mode=mode,
                    branch=branch,
                    token=token,
                    wait_s=wait_s,
                    layer=layer,
                )
            if not isinstance(store, str):
                raise Invalid("several places begin with the address of a server, http://host:port")
        owns_store = isinstance(store, str)
        opened = layer(open_store(store, env) if isinstance(store, str) else store)
        keys.check_name(branch, "branch")
        context = BranchContext(opened, env or opened.env, branch, safeguards, grace_s, stuck_after_s, wait_s)
        handle = Handle(context, TableReader(context), author or "somebody", Mode(mode))
        catalog = Catalog(handle, owns_store=owns_store, pressure=pressure)
        try:
            if create and branch == MAIN and mode != Mode.READ and context.newest() is None:
                execute(context, handle.draft("init"), None, 0)
            catalog._begin(tables)
        except BaseException:
            if owns_store:
                opened.close()
            raise
        return catalog

    def _begin(self, tables: Sequence[str] = ()) -> None:
        handle = self._handle
        if handle.mode is Mode.JOIN:
            plans = open_branch(handle, tables)
            handle.join()
            self.notices = self._recover(plans)
            return
        handle.resolve()
        if handle.mode is Mode.CLAIM:
            claim(handle)
            self.notices = self._recover()  # after the claim: all plans before it are fenced

    def _recover(self, plans: Sequence[PublishPlan] | None = None) -> list[Notice]:
        """Settle the plans of this branch; `plans` are all that have a sidecar, if already read."""
        staged = self._handle.context.sidecars() if plans is None else plans
        notices = recovery.recover(self._handle, staged)
        self._plans = len(staged) - sum(notice.is_over for notice in notices)
        return notices

    # Reading.

    @property
    def branch(self) -> str:
        return self._handle.context.branch

    @property
    def context(self) -> BranchContext:
        """The branch in the store, for tools that inspect it."""
        return self._handle.context

    @property
    def epoch(self) -> int:
        return self._handle.epoch

    @property
    def manifest(self) -> Manifest:
        """The newest manifest this handle knows."""
        return self._handle.latest

    @property
    def is_obstructed(self) -> bool:
        """True if the unfinished plan of another was in the way of the last publish."""
        return self._handle.obstacle is not None

    def refresh(self) -> Manifest:
        """Catch up with the commits of others: one step of two requests if there are none."""
        return self._handle.refresh()

    def snapshot(self, id_: int | None = None) -> Snapshot:
        """The tables as this handle knows them, or as of an earlier manifest."""
        return Snapshot(self._handle.latest if id_ is None else self._at(id_), self._handle.reader)

    def _at(self, id_: int) -> Manifest:
        chain = self._handle.context.chain
        body = chain.read(id_) if id_ > 0 else None
        # After reading: an id that was cleaned up may have been created again.
        if body is None or chain.boundary.read() >= id_:
            raise Absent(f"branch {self.branch} has no manifest {id_}, or it was cleaned up; see its log")
        return read_manifest(body, chain.key(id_))

    def log(self, after: int = 0) -> Iterator[Manifest]:
        """The retained manifests after id `after`, the newest first."""
        chain = self._handle.context.chain
        for id_, body in chain.backwards(max(after, chain.boundary.read())):
            yield read_manifest(body, chain.key(id_))

    # Writing.

    def draft(self, message: str = "") -> Transaction:
        """A transaction that the caller publishes or discards."""
        return Transaction(self.snapshot(), message)

    @contextmanager
    def transaction(self, message: str = "") -> Iterator[Transaction]:
        """Collect changes and publish them at the end of the `with`, which sets `result`."""
        transaction = self.draft(message)
        yield transaction
        transaction.result = self.publish(transaction)

    def read_ahead(self, draft: Draft) -> None:
        """Read what publishing `draft` is going to read, in one step of requests for all its tables."""
        Planner(self._handle.latest, self._handle.reader, self._handle.context.safeguards).read(draft)

    def publish(self, draft: Draft) -> Published | Unknown:
        return _result(self.publish_all([draft])[0])

    @property
    def debt(self) -> Debt:
        """What waits for cleanup on this branch, as far as this handle knows without another request."""
        context = self._handle.context
        return Debt(max(0, self._handle.latest.id - context.boundary_seen), self._plans)

    def _wait_for_cleanup(self) -> None:
        """Pause as long as the debt demands; raise `Overdue` if it is too high."""
        if not self._pressure.acts(self.debt):
            return
        context = self._handle.context
        context.chain.boundary.read()
        self._plans = len(context.list_keys(keys.RECOVERY))
        self._pressure.check(self.debt, self.branch)
        pause_s = self._pressure.pause_s(self.debt)
        if pause_s > 0:
            self.slowed_s += pause_s
            context.env.sleep(pause_s)

    def publish_all(self, drafts: Sequence[Draft]) -> list[Published | Unknown | PublishError]:
        """Publish drafts as one plan, as if one after another. The result of a refused draft is its error."""
        self._handle.check_writable()
        try:
            self._wait_for_cleanup()
        except Overdue as error:
            return self._published_before(drafts, error)
        return self._publish_now(drafts)

    def _published_before(
        self, drafts: Sequence[Draft], error: Overdue
    ) -> list[Published | Unknown | PublishError]:
        """Return the error for each draft, but the commit of a request that was published before."""
        latest = self.refresh()
        requests = [draft.request for draft in drafts if draft.request is not None]
        self._requests.search(requests, latest)
        twins = first_of_each(requests)
        return [
            (draft.request and self._answered(draft.request, twins[draft.request.id], latest)) or error
            for draft in drafts
        ]

    def _publish_now(self, drafts: Sequence[Draft]) -> list[Published | Unknown | PublishError]:
        handle = self._handle
        handle.check_writable()
        if any(draft.request and draft.request.since > handle.latest.id for draft in drafts):
            self.refresh()
        try:
            return self._publish_all(handle.latest, drafts)
        except StaleView:
            with suppress(PublishError):
                self.refresh()  # so that the next attempt begins on the newest manifest
            raise

    def _publish_all(
        self, latest: Manifest, drafts: Sequence[Draft]
    ) -> list[Published | Unknown | PublishError]:
        planner = Planner(latest, self._handle.reader, self._handle.context.safeguards)
        results: list[Published | Unknown | PublishError | None] = [None] * len(drafts)
        requests = [draft.request for draft in drafts if draft.request is not None]
        self._requests.search(requests, latest)
        twins = first_of_each(requests)
        for at, draft in enumerate(drafts):
            if draft.request is not None:
                results[at] = self._answered(draft.request, twins[draft.request.id], latest)
                if results[at] is not None or draft.request is not twins[draft.request.id]:
                    continue
            changed = planner.changed_read(draft)
            if changed is None and isinstance(draft, Transaction):
                changed = _changed(draft.snapshot.manifest, latest, draft)
            if changed is not None:
                what = "the list of tables" if changed == ALL_TABLES else f"table {changed}"
                results[at] = StaleView(f"{what} changed since the transaction began; begin again")
                continue
            try:
                planner.add(draft)
            except Invalid as error:
                results[at] = error
        result = self._publish(planner, latest) if None in results else None
        nothing = Unchanged("nothing to publish: the changes leave every table as it is")
        ends = [error or result or nothing for error in results]
        by_request = {id(draft.request): end for draft, end in zip(drafts, ends, strict=True)}
        return [
            by_request[id(twins[draft.request.id])] if draft.request and results[at] is None else ends[at]
            for at, draft in enumerate(drafts)
        ]

    def _answered(
        self, request: Request, first: Request, latest: Manifest
    ) -> Published | PublishError | None:
        """The end of a request that was published before, or cannot be; None if it is to be published.

        `first` is the first request of the group with this id.
        """
        if request.since > latest.id:
            return Invalid(f"branch {self.branch} has no manifest {request.since}; its newest is {latest.id}")
        if request.digest != first.digest:
            return other_changes(request, "was sent at the same time")
        return self._requests.answer(request)

    def _publish(self, planner: Planner, latest: Manifest) -> Published | Unknown | None:
        handle = self._handle
        env = handle.context.env
        planned = planner.finish(env.new_id(), author=handle.author, time_ns=env.now_ns(), epoch=handle.epoch)
        if planned is None:
            return None
        result = publish(handle, planned.plan, latest, planned.fragments)
        if isinstance(result, Committed) and result.manifest.plan == planned.plan.id:
            for table, contents in planned.contents.items():
                handle.reader.cache.put(result.manifest.tables[table].pin, contents)
        return result

    def write(
        self,
        change: Callable[[Transaction], Any],
        *,
        attempts: int | None = None,
        wait_s: float | None = None,
        message: str = "",
    ) -> Published | Unknown:
        """Publish what `change` does to a transaction; begin again when others were first.

        It begins again for `wait_s`, by default the time that was given when the catalog was opened. With
        `attempts` it begins so often instead. Attempts that find the same unfinished plan in the way do not
        count: it is soon over, one way or another.
        """
        if attempts is not None and attempts < 1:
            raise Invalid(f"attempts is {attempts}; try at least once")
        context = self._handle.context
        pace = Pace(context.env, context.wait_s if wait_s is None else wait_s)
        attempt, obstacle = 0, None
        self._handle.check_writable()
        self._wait_for_cleanup()  # before the draft: a pause after it would make conflicts likely
        while True:
            transaction = self.draft(message)
            change(transaction)
            try:
                return _result(self._publish_now([transaction])[0])
            except StaleView as error:
                before, obstacle = obstacle, self._handle.obstacle
                if attempts is not None:
                    if attempt >= attempts - 1 and not _passes(before, obstacle):
                        raise
                    context.back_off(min(attempt, attempts - 1))
                elif not pace.pause():
                    raise _too_late(error, pace, context.store.url) from error
                attempt += 1
                self.refresh()

    def settle(self, unknown: Unknown) -> Published | Unknown | None:
        """Return the end of an unknown plan: Published, None for never, or still Unknown."""
        # The sidecar first: it is deleted only after the plan has ended.
        sidecar = self._handle.context.sidecar(unknown.plan)
        published = next((m for m in self.log(unknown.base) if m.plan == unknown.plan), None)
        if published is not None:
            return Committed.of(published, unknown.plan)
        if sidecar is not None or self._handle.context.chain.boundary.read() > unknown.base:
            return unknown
        return None

    # Branches.

    def on(self, branch: str, mode: Mode | str | None = None) -> "Catalog":
        """Another branch of the same catalog, with its own handle."""
        handle = self._handle_on(branch, Mode(mode or self._handle.mode))
        catalog = Catalog(handle, owns_store=False, pressure=self._pressure)
        catalog._begin()
        return catalog

    def _handle_on(self, branch: str, mode: Mode) -> Handle:
        context = self._handle.context.on(keys.check_name(branch, "branch"))
        return Handle(context, self._handle.reader, self._handle.author, mode)

    def branches(self) -> list[str]:
        newest = branches.newest(self._handle.context)
        return sorted(name for name, found in newest.items() if found is not None and not found.deleted)

    def create_branch(self, name: str, at: int | None = None) -> Published | Unknown:
        """Create a branch from this one as it is, or as it was at an earlier manifest."""
        return branches.create(self._handle, name, self.refresh() if at is None else self._at(at))

    def merge(self, name: str, *, attempts: int | None = None) -> Published | Unknown:
        """Merge branch `name` into this one: by a fast-forward if possible, else row by row.

        Raises `Conflicted` if both branches changed the same row differently since their last common state.
        """

        def change(txn: Transaction) -> None:
            source = branches.to_merge(self._handle, name)
            base = base_of(self._handle.context, txn.snapshot.manifest, source)
            merge_rows(self._handle.reader, base, txn.snapshot.manifest, source, txn)

        source = branches.to_merge(self._handle, name)
        target = self.refresh()
        if branches.is_fast_forward(target, source):
            self._wait_for_cleanup()
            return branches.fast_forward(self._handle, target, source)
        return self.write(change, attempts=attempts, message=f"merge {name}")

    def delete_branch(self, name: str) -> Published | Unknown:
        """Delete branch `name`, even while others write to it."""
        handle = self._handle_on(name, self._handle.mode)
        handle.resolve()
        handle.join()
        return branches.delete(handle)

    # Maintenance.

    def recover(self) -> list[Notice]:
        """Settle the sidecars of this branch that belong to no live write."""
        self._handle.check_writable()
        self.refresh()
        return self._recover()

    def repair(self) -> list[Notice]:
        """Claim the branch, so that no other writer is alive, and settle every sidecar."""
        if self._handle.mode is Mode.READ:
            self._handle.check_writable()
        self._handle.resolve()
        claim(self._handle)
        return self._recover()

    def cleanup(self, keep: int = KEEP) -> Cleaned:
        """Delete what the newest `keep` manifests of every branch do not need."""
        self._handle.check_writable()
        return cleanup(self._handle.context, keep=keep, author=self._handle.author)

    def compact(self, table: str, *, attempts: int = COMPACT_ATTEMPTS, runs: int = 2) -> Compacted:
        """Rewrite `table` as one fragment if it has so many runs.

        The plan is like any other, so live writers may be first.
        """
        least, runs = runs, 0
        for _ in range(attempts):
            runs = self.snapshot().count_runs([table])[table]
            if runs < least:
                return Compacted(table, runs, True, "nothing to do")
            draft = Draft(message=f"compact {table}")
            draft.rewrite(table)
            try:
                done = isinstance(_result(self._publish_now([draft])[0]), Published)
            except StaleView:
                self.refresh()
                continue
            return Compacted(table, runs, done, "rewritten" if done else "unknown whether it was rewritten")
        text = f"live writers were first {attempts} times; try again when fewer write"
        return Compacted(table, runs, False, text)

    def close(self) -> None:
        """Retire the remaining sidecars, and close the store if this catalog opened it."""
        retiring, self._handle.retiring = self._handle.retiring, []
        if retiring:
            self._handle.context.store.send_all([delete_sidecar(plan) for plan in retiring])
        if self._owns_store:
            self._handle.context.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _result(result: Published | Unknown | PublishError) -> Published | Unknown:
    if isinstance(result, PublishError):
        raise result
    return result


def _too_late(error: StaleView, pace: Pace, url: str) -> StaleView:
    times = "once" if pace.attempts == 1 else f"{pace.attempts} times"
    return StaleView(
        f"others were first {times}, until the time was over; the last time: {error}. Where many writers "
        f"meet, let them share one server (fencepost catalog serve {url}), or wait longer"
    )


def _passes(before: Notice | None, now: Notice | None) -> bool:
    """Return True if the next attempt may get past the plan that was in the way."""
    if now is None or not now.may_be_alive:
        return now is not None and now.is_over
    return before is not None and before.plan == now.plan


def _changed(then: Manifest, now: Manifest, draft: Draft) -> str | None:
    """Return a table or schema that `draft` touches or relies on and that changed since it began.

    Pins, not manifest ids: the transaction may have begun on another branch.
    """
    tables = {change.table for change in draft.changes}
    schemas = ALL_TABLES in tables and (then.schema_since, then.schema_hash) != (
        now.schema_since,
        now.schema_hash,
    )
    changed = (table for table in sorted(tables - {ALL_TABLES}) if then.pin(table) != now.pin(table))
    return next(changed, ALL_TABLES if schemas else None)
