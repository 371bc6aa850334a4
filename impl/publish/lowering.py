"""From drafts to a plan: apply verbs to a pinned snapshot, check them, and write down what must be published.

Several drafts can be lowered onto one snapshot, one after another (group commit): each is tried on a copy
of the sheets, so that a refused one leaves nothing behind.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.impl.publish import keys
from fencepost.impl.publish.contents import Library
from fencepost.impl.publish.documents import Entry, Manifest
from fencepost.impl.publish.drafts import Change, Draft
from fencepost.impl.publish.errors import Absent, Invalid
from fencepost.impl.publish.integrity import check_inbound, check_outbound
from fencepost.impl.publish.kept import Contents
from fencepost.impl.publish.plan import Action, PublishPlan
from fencepost.impl.publish.runs import written
from fencepost.impl.publish.safeguards import Safeguards
from fencepost.impl.publish.schema import Row, Schema
from fencepost.impl.publish.sheets import Sheet
from fencepost.impl.store.requests import Put

_REMOVING = frozenset({"delete", "overwrite", "drop"})
_SCHEMA = frozenset({"create", "drop", "add-column", "drop-column", "add-edge", "drop-edge"})


@dataclass
class _Touched:
    """What one draft added and removed, for the checks at its end."""

    added: dict[str, list[Row]] = field(default_factory=dict)
    removed: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, table: str, rows: Iterable[Row]) -> None:
        self.added.setdefault(table, []).extend(rows)

    def remove(self, table: str, gone: Iterable[Any]) -> None:
        self.removed.setdefault(table, []).extend(gone)


@dataclass(frozen=True, slots=True)
class Lowered:
    """A plan, the fragments to stage with it, and what its tables will hold."""

    plan: PublishPlan
    fragments: tuple[Put, ...]
    contents: Mapping[str, Contents]


class Lowering:
    """Drafts on one snapshot."""

    def __init__(self, snapshot: Manifest, library: Library, safeguards: Safeguards) -> None:
        self._snapshot = snapshot
        self._library = library
        self._safeguards = safeguards
        self._sheets: dict[str, Sheet] = {}
        self._pinned: set[str] = set()
        self._pins_schema = False
        self._members: list[str] = []

    def add(self, draft: Draft) -> None:
        """Apply `draft`, or raise what is wrong with it and change nothing."""
        self._load(self._needed(draft))
        kept, pinned = self._sheets, set(self._pinned)
        self._sheets = {table: sheet.copy() for table, sheet in kept.items()}
        try:
            touched = _Touched()
            for change in draft.changes:
                self._apply(change, touched)
            self._check(touched)
        except BaseException:
            self._sheets, self._pinned = kept, pinned
            raise
        self._pins_schema |= any(change.verb in _REMOVING | _SCHEMA for change in draft.changes)
        self._members.append(draft.message)

    # Reading what the verbs need, at once.

    def _needed(self, draft: Draft) -> set[str]:
        tables = self._snapshot.tables
        needed = {change.table for change in draft.changes}
        needed |= {change.details["target"] for change in draft.changes if change.verb == "add-edge"}
        for change in draft.changes:
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
        fresh = sorted(needed - self._sheets.keys())
        found = self._library.contents({name: tables[name] for name in fresh if name in tables})
        for name in fresh:
            self._sheets[name] = Sheet.of(name, tables.get(name), found.get(name))

    def _sheet(self, table: str) -> Sheet:
        if table not in self._sheets:
            self._load({table})
        return self._sheets[table]

    # The verbs.

    def _apply(self, change: Change, touched: _Touched) -> None:
        sheet = self._sheet(change.table)
        details = change.details
        match change.verb:
            case "create":
                sheet.create(Schema.of(change.table, details["columns"], details["key"], details["edges"]))
                touched.add(change.table, ())
            case "append" | "upsert":
                touched.add(change.table, sheet.add(change.rows, change.verb))
            case "overwrite":
                added, gone = sheet.overwrite(change.rows)
                touched.add(change.table, added)
                touched.remove(change.table, gone)
            case "delete":
                touched.remove(change.table, sheet.delete(change.keys))
            case "drop":
                touched.remove(change.table, sheet.drop())
            case "rewrite":
                sheet.there()
                sheet.rewrite()
            case "read":
                sheet.there()
                self._pinned.add(change.table)
            case _:
                self._alter(sheet, change.verb, details, touched)

    def _alter(self, sheet: Sheet, verb: str, details: Mapping[str, Any], touched: _Touched) -> None:
        schema = sheet.there()
        column, columns, edges = details["column"], dict(schema.columns), dict(schema.edges)
        if verb == "add-column":
            if column in columns:
                raise Invalid(f"table {sheet.table} has a column {column!r} already")
            columns[column] = details["kind"]
        elif column not in columns or (verb == "drop-edge" and column not in edges):
            raise Absent(
                f"table {sheet.table} has no {'edge' if verb == 'drop-edge' else 'column'} {column!r}"
            )
        if verb == "drop-column":
            del columns[column]
            edges.pop(column, None)
        elif verb == "add-edge":
            edges[column] = details["target"]
        elif verb == "drop-edge":
            del edges[column]
        sheet.alter(Schema.of(sheet.table, columns, schema.key, edges), rewrite=verb == "drop-column")
        touched.add(sheet.table, sheet.rows() if verb == "add-edge" else ())

    # Referential integrity, at the end of the draft: in between, edges may point at rows yet to come.

    def _check(self, touched: _Touched) -> None:
        for table, rows in touched.added.items():
            schema = self._sheet(table).schema
            if schema is None:
                continue
            targets = {to: _Keys(self._target(table, to)) for _, to in schema.edges}
            self._pinned.update(targets)
            present = [row for row in rows if self._sheet(table).get(row[schema.key]) == row]
            check_outbound(table, schema.edges, present, targets)
        for table, gone in touched.removed.items():
            removed = [key for key in gone if self._sheet(table).get(key) is None]
            sources = [
                (name, column, list(self._sheet(name).rows()))
                for name in self._pointing_at(table)
                for column, to in self._sheet(name).there().edges
                if to == table
            ]
            self._pinned.update(name for name, _, _ in sources)
            check_inbound(self._safeguards, table, removed, sources)
            if self._sheet(table).schema is None and sources:
                raise Invalid(
                    f"table {table} cannot be dropped: {sources[0][0]}.{sources[0][1]} points at it"
                )

    def _target(self, table: str, target: str) -> Sheet:
        sheet = self._sheet(target)
        if sheet.schema is None:
            raise Absent(f"table {table} points at table {target!r}, which is not there; create it first")
        return sheet

    def _pointing_at(self, table: str) -> list[str]:
        edges = {name: entry.edges for name, entry in self._snapshot.tables.items()}
        edges |= {name: sheet.schema.edges for name, sheet in self._sheets.items() if sheet.schema}
        names = sorted(name for name, found in edges.items() if any(to == table for _, to in found))
        return [name for name in names if self._sheet(name).schema is not None]

    # The plan.

    def finish(self, plan_id: str, *, author: str, time_ns: int, epoch: int) -> Lowered | None:
        """The plan of everything added; None when that changes nothing."""
        lowered = [
            _lower(self._snapshot, sheet, plan_id)
            for _, sheet in sorted(self._sheets.items())
            if sheet.verbs and not (sheet.entry is None and sheet.schema is None)
        ]
        if not lowered:
            return None
        touched = {action.table for action, _, _ in lowered}
        reads = {
            table: self._snapshot.tables[table].pin
            for table in sorted(self._pinned - touched)
            if table in self._snapshot.tables
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
            actions=tuple(action for action, _, _ in lowered),
            reads=reads,
            schema_since=self._snapshot.schema_since if self._pins_schema else None,
        )
        contents = {action.table: kept for action, _, kept in lowered if kept is not None}
        return Lowered(plan, tuple(put for _, puts, _ in lowered for put in puts), contents)


class _Keys(Mapping[Any, Row]):
    """A sheet as a mapping of its rows, without copying them."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet

    def __getitem__(self, key: Any) -> Row:
        row = self._sheet.get(key)
        if row is None:
            raise KeyError(key)
        return row

    def __iter__(self) -> Any:
        return iter(self._sheet.keyed())

    def __len__(self) -> int:
        return len(self._sheet.keyed())


def _lower(snapshot: Manifest, sheet: Sheet, plan_id: str) -> tuple[Action, list[Put], Contents | None]:
    """What the plan says of one table, what it stages for it, and what the table will hold."""
    base = sheet.entry.pin if sheet.entry else None
    if sheet.schema is None:
        return Action(sheet.table, sheet.verbs, base, None), [], None
    contents, puts = written(sheet, plan_id)
    old = None if "register" in sheet.verbs else sheet.entry
    owned = old is not None and old.owner == snapshot.incarnation
    entry = Entry(
        location=old.location if old is not None and owned else keys.lineage(sheet.table, plan_id),
        version=0,  # where its head comes to stand is found out when it is moved
        digest="",
        owner=snapshot.incarnation,
        key=sheet.schema.key,
        edges=sheet.schema.edges,
        columns=sheet.schema.hash,
    )
    verbs = ("fork", *sheet.verbs) if old is not None and not owned else sheet.verbs
    action = Action(sheet.table, verbs, base, entry, sheet.schema.columns, contents.runs)
    return action, puts, contents
