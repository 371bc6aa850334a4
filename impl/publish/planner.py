"""From drafts to a plan: apply verbs to a pinned snapshot, check the result, and describe what to publish.

A draft collects verbs and knows no snapshot and no store. Several drafts can be planned on one snapshot, one
after another (group commit): each is tried on a copy of the tables, so that a refused one leaves no trace. A
draft that has read a table which an earlier draft changed must begin again (`changed_read`): its reads are
of the snapshot, and no pin of the common plan would show the conflict.

**Referential integrity**: no visible edge points at a missing row. Adding rows with edges checks the tables
that they point at; removing rows checks every table that points at theirs. Both decisions depend on what was
read, so the plan pins what was read, and the commit checks the pins again. The checks run at the end of a
draft: before it, edges may point at rows that a later verb adds. So do those of constraints (see there).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.impl.publish import constraints, keys
from fencepost.impl.publish.cache import Contents, TableReader
from fencepost.impl.publish.constraints import Constraint
from fencepost.impl.publish.documents import Action, Entry, Manifest, Merges, PublishPlan
from fencepost.impl.publish.errors import Absent, Dangling, Invalid, Unchanged
from fencepost.impl.publish.requests import Request, recorded
from fencepost.impl.publish.safeguards import Safeguards
from fencepost.impl.publish.schema import Row, Schema
from fencepost.impl.publish.tables import WorkingTable, write_runs
from fencepost.impl.store.requests import Put

_REMOVING = frozenset({"delete", "overwrite", "drop"})
_SCHEMA = frozenset({"create", "drop", "add-column", "drop-column", "add-edge", "drop-edge"})
_NEW_SCHEMA = frozenset({"register", "tombstone", "alter"})
"""The names of these verbs in the actions of a plan."""
ALL_TABLES = "*"
"""In the place of a table that was read: which tables there are, with their keys, edges and columns."""


@dataclass(frozen=True, slots=True)
class Change:
    """One verb on one table."""

    table: str
    verb: str
    """create, append, upsert, overwrite, delete, drop, rewrite, read, constrain, {add,drop}-{column,edge}."""
    rows: tuple[Row, ...] = ()
    keys: tuple[Any, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Draft:
    """Collects verbs; `Catalog.publish` turns them into one plan."""

    changes: list[Change] = field(default_factory=list)
    message: str = ""
    merges: Merges | None = None
    """The branch whose changes these are."""
    request: Request | None = None
    """Set if the draft may be published by somebody else too, or was: it is published once."""

    def create_table(
        self, table: str, columns: Mapping[str, str], *, key: str, edges: Mapping[str, str] | None = None
    ) -> None:
        """Create an empty table. `edges`: column to the table whose key it holds."""
        self._add(table, "create", columns=dict(columns), key=key, edges=dict(edges or {}))

    def append(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows; none of their keys may exist."""
        self.changes.append(Change(table, "append", rows=tuple(rows)))

    def upsert(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows, replacing those with the same keys."""
        self.changes.append(Change(table, "upsert", rows=tuple(rows)))

    def overwrite(self, table: str, rows: Iterable[Row]) -> None:
        """Replace all rows of the table by these."""
        self.changes.append(Change(table, "overwrite", rows=tuple(rows)))

    def delete(self, table: str, keys: Iterable[Any]) -> None:
        """Remove the rows with these keys; missing keys are no error."""
        self.changes.append(Change(table, "delete", keys=tuple(keys)))

    def add_column(self, table: str, column: str, kind: str) -> None:
        """Add a column, empty in every row."""
        self._add(table, "add-column", column=column, kind=kind)

    def drop_column(self, table: str, column: str) -> None:
        """Remove a column and its values. Rewrites the table's rows."""
        self._add(table, "drop-column", column=column)

    def add_edge(self, table: str, column: str, target: str) -> None:
        """Declare that `column` holds keys of `target`. Checks every row."""
        self._add(table, "add-edge", column=column, target=target)

    def drop_edge(self, table: str, column: str) -> None:
        """Declare that `column` holds plain values."""
        self._add(table, "drop-edge", column=column)

    def drop_table(self, table: str) -> None:
        """Remove a table. Its name may be used again."""
        self._add(table, "drop")

    def limit(self, table: str, columns: Sequence[str], at_most: int = 1) -> None:
        """Allow at most so many rows with the same values in `columns`. Checks every row, now and later."""
        self._add(constraints.TABLE, "constrain", constraint=Constraint(table, tuple(columns), at_most))

    def cascade(self, table: str, edge: str) -> None:
        """Delete rows of `table` together with the row that their column `edge` points at."""
        self._add(constraints.TABLE, "constrain", constraint=Constraint(table, (edge,), None))

    def drop_constraint(self, name: str) -> None:
        """Remove a constraint by its name in the table of constraints."""
        self.delete(constraints.TABLE, [name])

    def rewrite(self, table: str) -> None:
        """Store the same rows as one fragment (compaction)."""
        self._add(table, "rewrite")

    def record_read(self, table: str) -> None:
        """The change was decided on what this table, or `ALL_TABLES`, is on a transaction's snapshot."""
        read = Change(table, "read")
        if read not in self.changes:
            self.changes.append(read)

    def _add(self, table: str, verb: str, **details: Any) -> None:
        self.changes.append(Change(table, verb, details=details))


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, the fragments to stage with it, and the contents of its tables after the commit."""

    plan: PublishPlan
    fragments: tuple[Put, ...]
    contents: Mapping[str, Contents]


@dataclass
class _Touched:
    """The keys that one draft added and removed, by table, for the checks at its end.

    Keys, not rows: a later verb of the draft may change the rows, and the checks are about the final ones.
    """

    added: dict[str, dict[Any, None]] = field(default_factory=dict)
    removed: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, table: str, keys: Iterable[Any]) -> None:
        self.added.setdefault(table, {}).update(dict.fromkeys(keys))

    def remove(self, table: str, keys: Iterable[Any]) -> None:
        self.removed.setdefault(table, []).extend(keys)


class Planner:
    def __init__(self, snapshot: Manifest, reader: TableReader, safeguards: Safeguards) -> None:
        self._snapshot = snapshot
        self._reader = reader
        self._safeguards = safeguards
        self._tables: dict[str, WorkingTable] = {}
        self._pinned: set[str] = set()
        self._pins_schema = False
        self._members: list[str] = []
        self._merges: Merges | None = None
        self._requests: list[Request] = []

    def add(self, draft: Draft) -> None:
        """Apply `draft`, or raise why it cannot be applied and change nothing."""
        if draft.merges and self._merges:
            raise Invalid("one commit merges one branch; publish the merges one after the other")
        self.read(draft)
        before, pinned = self._tables, set(self._pinned)
        self._tables = {name: table.copy() for name, table in before.items()}
        try:
            touched = _Touched()
            for change in draft.changes:
                self._apply(change, touched)
            self._check(touched)
            if draft.request is not None:
                self._pin_named(draft)
        except BaseException:
            self._tables, self._pinned = before, pinned
            raise
        self._pins_schema |= any(
            change.verb in _REMOVING | _SCHEMA or change.table == ALL_TABLES for change in draft.changes
        )
        self._merges = draft.merges or self._merges
        self._requests += [draft.request] if draft.request is not None else []
        self._members.append(draft.message)

    def changed_read(self, draft: Draft) -> str | None:
        """Return a table that `draft` has read and an earlier draft changed; `draft` may write it too."""
        verbs = {name: set(table.verbs) for name, table in self._tables.items()}
        changed = {name for name, found in verbs.items() if found - {"rewrite"}}
        if any(found & _NEW_SCHEMA for found in verbs.values()):
            changed.add(ALL_TABLES)
        read = [change.table for change in draft.changes if change.verb == "read"]
        return self._safeguards.reads_checked_within_group(read, changed)

    # One parallel read of the tables that the verbs need.

    def read(self, draft: Draft) -> None:
        """Read the tables that `draft` needs: those it names, and those that edges connect with them."""
        self._load(self._needed(draft))

    def _needed(self, draft: Draft) -> set[str]:
        tables = self._snapshot.tables
        needed = {change.table for change in draft.changes} - {ALL_TABLES}
        needed |= {constraints.TABLE} & tables.keys()
        for change in draft.changes:
            if change.verb == "add-edge":
                needed.add(change.details["target"])
            if change.verb == "create":
                needed |= set(change.details["edges"].values())
            if change.verb in _REMOVING:
                needed |= {name for name, e in tables.items() if any(to == change.table for _, to in e.edges)}
        for name in list(needed):
            if name in tables:
                needed |= {to for _, to in tables[name].edges}
        return needed

    def _load(self, needed: set[str]) -> None:
        tables = self._snapshot.tables
        new = sorted(needed - self._tables.keys())
        found = self._reader.contents({name: tables[name] for name in new if name in tables})
        for name in new:
            self._tables[name] = WorkingTable.of(name, tables.get(name), found.get(name))

    def _table(self, name: str) -> WorkingTable:
        if name not in self._tables:
            self._load({name})
        return self._tables[name]

    # The verbs.

    def _apply(self, change: Change, touched: _Touched) -> None:
        if change.verb == "read":
            self._pin_read(change.table)
            return
        table = self._table(change.table)
        details = change.details
        match change.verb:
            case "create":
                table.create(Schema.of(change.table, details["columns"], details["key"], details["edges"]))
                touched.add(change.table, ())
            case "append" | "upsert":
                touched.add(change.table, table.add(change.rows, change.verb))
            case "overwrite":
                added, gone = table.overwrite(change.rows)
                touched.add(change.table, added)
                touched.remove(change.table, gone)
            case "delete":
                self._delete(table, change.keys, touched)
            case "constrain":
                if table.schema is None:
                    table.create(constraints.SCHEMA)
                touched.add(change.table, table.add((details["constraint"].row,), "upsert"))
            case "drop":
                touched.remove(change.table, table.drop())
            case "rewrite":
                table.rewrite()
            case _:
                self._alter(table, change.verb, details, touched)

    def _pin_read(self, table: str) -> None:
        if table == ALL_TABLES:
            return  # the plan pins the schema: see `add`
        if table not in self._snapshot.tables:
            raise Absent(f"there is no table {table!r}, and the transaction has read it; begin again")
        self._pinned.add(table)

    def _pin_named(self, draft: Draft) -> None:
        """Rely on every table that a request names, so that no other plan can carry it out as well."""
        named = {change.table for change in draft.changes} - {ALL_TABLES}
        if not any(self._tables[name].verbs for name in named):
            raise Unchanged("nothing to publish: the changes leave every table as it is")
        self._pinned |= named & self._snapshot.tables.keys()

    def _alter(self, table: WorkingTable, verb: str, details: Mapping[str, Any], touched: _Touched) -> None:
        schema = table.existing()
        column, columns, edges = details["column"], dict(schema.columns), dict(schema.edges)
        if verb == "add-column":
            if column in columns:
                raise Invalid(f"table {table.table} has a column {column!r} already")
            columns[column] = details["kind"]
        elif column not in columns or (verb == "drop-edge" and column not in edges):
            what = "edge" if verb == "drop-edge" else "column"
            raise Absent(f"table {table.table} has no {what} {column!r}")
        if verb == "drop-column":
            del columns[column]
            edges.pop(column, None)
        elif verb == "add-edge":
            edges[column] = details["target"]
        elif verb == "drop-edge":
            del edges[column]
        table.alter(Schema.of(table.table, columns, schema.key, edges), rewrite=verb == "drop-column")
        touched.add(table.table, table.by_key() if verb == "add-edge" else ())

    # Constraints and referential integrity.

    def _delete(self, table: WorkingTable, wanted: Iterable[Any], touched: _Touched) -> None:
        """Delete rows, then the rows whose edges to them cascade, until no such row is left."""
        gone = table.delete(tuple(wanted))
        touched.remove(table.table, gone)
        if not gone:
            return
        for source, column in self._edges_to(table.table):
            if any(one.cascades and one.is_of(source.table, column) for one in self._declared()):
                self._pinned.add(constraints.TABLE)  # a rival may have withdrawn the cascade
                keys_ = set(gone)
                pointing = [row for row in source.rows() if row[column] in keys_]
                self._delete(source, [row[source.existing().key] for row in pointing], touched)

    def _declared(self) -> Sequence[Constraint]:
        if constraints.TABLE not in self._snapshot.tables and constraints.TABLE not in self._tables:
            return ()
        table = self._table(constraints.TABLE)
        if table.schema is None:
            return ()
        if table.schema != constraints.SCHEMA:
            raise Invalid(f"table {constraints.TABLE} is for constraints; name and columns are not free")
        return constraints.declared(table.rows())

    def _check(self, touched: _Touched) -> None:
        self._check_edges(touched)
        self._check_constraints(touched)

    def _check_constraints(self, touched: _Touched) -> None:
        declared = self._declared()
        new = touched.added.get(constraints.TABLE, {})
        for one in declared:
            if one.name in new:
                table = self._table(one.table)
                one.check_schema(table.schema)
                table.alter(table.existing())  # a rival that does not know the constraint must become stale
                self._check_limit(one, table, None)
            elif one.table in touched.added or one.table in touched.removed:
                table = self._table(one.table)
                one.check_schema(table.schema)
                rows = (table.get(key) for key in touched.added.get(one.table, ()))
                self._check_limit(one, table, [row for row in rows if row is not None])

    def _check_limit(self, one: Constraint, table: WorkingTable, added: Sequence[Row] | None) -> None:
        values = one.broken_by(table.rows(), added)
        if values is not None:
            raise Invalid(f"{one.broken_text(values)}; constraint {one.name!r} forbids it")

    def _check_edges(self, touched: _Touched) -> None:
        for name, added in touched.added.items():
            table = self._table(name)
            if table.schema is not None:
                rows = (table.get(key) for key in added)
                self._check_outbound(table, [row for row in rows if row is not None])
        for name, gone in touched.removed.items():
            table = self._table(name)
            self._check_inbound(table, [key for key in gone if table.get(key) is None])

    def _check_outbound(self, table: WorkingTable, rows: Sequence[Row]) -> None:
        """Every edge of `rows` points at a row."""
        edges = table.existing().edges
        targets = {to: self._table(to) for _, to in edges}
        self._pinned.update(targets)
        for to, target in targets.items():
            if target.schema is None:
                raise Absent(f"table {table.table} points at table {to!r}, which is missing; create it first")
        for row in rows:
            for column, to in edges:
                value = row[column]
                if value is not None and targets[to].get(value) is None:
                    raise Dangling(
                        f"table {table.table}, column {column}: {to} has no row {value!r}; "
                        "add that row in the same transaction or before it",
                        table=table.table,
                        column=column,
                        value=value,
                    )

    def _check_inbound(self, table: WorkingTable, removed: Sequence[Any]) -> None:
        """No edge points at a removed row, and none at a dropped table."""
        sources = self._edges_to(table.table)
        self._pinned.update(source.table for source, _ in sources)
        pointed_at = {
            row[column]: f"{source.table}.{column}"
            for source, column in sources
            for row in source.rows()
            if row[column] is not None
        }
        found = self._safeguards.inbound_check_on_removal(removed, pointed_at)
        if found is not None:
            raise Dangling(
                f"row {found!r} of table {table.table} cannot be removed: {pointed_at[found]} points at it; "
                "remove or change those rows in the same transaction"
            )
        if table.schema is None and sources:
            source, column = sources[0]
            raise Invalid(f"table {table.table} cannot be dropped: {source.table}.{column} points at it")

    def _edges_to(self, target: str) -> list[tuple[WorkingTable, str]]:
        """(table, column) of every edge that points at `target`."""
        edges = {name: entry.edges for name, entry in self._snapshot.tables.items()}
        edges |= {name: table.schema.edges for name, table in self._tables.items() if table.schema}
        pointing = sorted(name for name, found in edges.items() if any(to == target for _, to in found))
        tables = [self._table(name) for name in pointing]
        return [(t, column) for t in tables if t.schema for column, to in t.schema.edges if to == target]

    # The plan.

    def finish(self, plan_id: str, *, author: str, time_ns: int, epoch: int) -> Planned | None:
        """The plan of everything added; None if that changes nothing. A merge is recorded at any rate."""
        changed = [
            table
            for _, table in sorted(self._tables.items())
            if table.verbs and not (table.entry is None and table.schema is None)
        ]
        if not changed and self._merges is None:
            return None
        fragments: list[Put] = []
        contents: dict[str, Contents] = {}
        actions = []
        for table in changed:
            if table.schema is not None:
                contents[table.table], puts = write_runs(table, plan_id)
                fragments += puts
            actions.append(self._action(table, plan_id, contents.get(table.table)))
        reads = {
            name: self._snapshot.tables[name].pin
            for name in sorted(self._pinned - {table.table for table in changed})
            if name in self._snapshot.tables
        }
        members = tuple(self._members) if len(self._members) > 1 else ()
        plan = PublishPlan(
            id=plan_id,
            branch=self._snapshot.branch,
            kind="publish",
            author=author,
            time_ns=time_ns,
            epoch=epoch,
            base=self._snapshot.id,
            incarnation=self._snapshot.incarnation,
            message="" if members else self._members[0],
            members=members,
            actions=tuple(actions),
            reads=reads,
            schema_since=self._snapshot.schema_since if self._pins_schema else None,
            merges=self._merges,
            requests=tuple(self._safeguards.requests_recorded(recorded(self._requests))),
        )
        return Planned(plan, tuple(fragments), contents)

    def _action(self, table: WorkingTable, plan_id: str, contents: Contents | None) -> Action:
        base = table.entry.pin if table.entry else None
        if table.schema is None or contents is None:
            return Action(table.table, table.verbs, base, None)
        old = None if "register" in table.verbs else table.entry
        owned = old is not None and old.owner == self._snapshot.incarnation
        entry = Entry(
            location=old.location if old is not None and owned else keys.lineage(table.table, plan_id),
            version=0,  # the number and digest are known when the head is moved
            digest="",
            owner=self._snapshot.incarnation,
            key=table.schema.key,
            edges=table.schema.edges,
            columns=table.schema.hash,
        )
        verbs = ("fork", *table.verbs) if old is not None and not owned else table.verbs
        return Action(table.table, verbs, base, entry, table.schema.columns, contents.runs)
