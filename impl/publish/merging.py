"""Three-way merge of branches by rows, where no fast-forward is possible.

Every row is compared in three states: the *base*, which both branches had, and the two branches:

    base   this branch   other branch    result
    r      r             r'              r'          also added or removed (no row)
    r      r'            r               r'
    r      r'            r'              r'
    r      r'            r''             a conflict, which names table and key

A merge with a conflict is refused whole. The result is an ordinary transaction on this branch: edges are
checked as always, and a writer of the same tables makes it stale.

**The base.** A manifest records, for each branch that was merged into it, the number of the manifest that was
merged (`merged_ids`). So three states may have been common: the one at the fork, this branch as it was last
merged into the other, and the other as it was last merged into this one. The last of them is the base: with
an older one, a change that was merged and then taken back would come back. Of two merges in opposite
directions the later is the one whose source already contained the other. If neither did, no state is the
last, and the merge is refused.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.impl.publish.cache import Contents, TableReader
from fencepost.impl.publish.context import BranchContext
from fencepost.impl.publish.documents import Manifest, Merges, read_manifest, tables_digest
from fencepost.impl.publish.errors import Absent, Conflicted, Invalid, RowConflict
from fencepost.impl.publish.planner import Draft
from fencepost.impl.publish.schema import Row, Schema

CONFLICTS_MAX = 20
"""Conflicts that one error names."""


def base_of(context: BranchContext, ours: Manifest, theirs: Manifest) -> Manifest:
    """Return the last state that both branches had. `context` is of the branch `ours`."""
    into_us, into_them = ours.merged_ids.get(theirs.incarnation), theirs.merged_ids.get(ours.incarnation)
    if into_us and into_them:
        if into_us.source >= into_them.at:
            into_them = None
        elif into_them.source >= into_us.at:
            into_us = None
        else:
            raise Invalid(
                f"branches {ours.branch} and {theirs.branch} were merged into each other at the same time: "
                "there is no last common state; repeat the changes of one on a new branch of the other"
            )
    if into_us:
        return _manifest(context.on(theirs.branch), into_us.source, theirs.incarnation)
    if into_them:
        return _manifest(context, into_them.source, ours.incarnation)
    for child, parent in ((theirs, ours), (ours, theirs)):
        if child.origin.get("branch") == parent.branch and child.origin["of"] == parent.incarnation:
            try:
                return _manifest(context.on(parent.branch), child.origin["id"], parent.incarnation)
            except Absent:
                # The first manifest of the branch has the same tables.
                first = int(child.incarnation.rpartition("@")[2])
                return _manifest(context.on(child.branch), first, child.incarnation)
    raise Invalid(
        f"branch {theirs.branch} was not made from {ours.branch}, nor {ours.branch} from it: they have no "
        "common state to compare with"
    )


def _manifest(context: BranchContext, id_: int, incarnation: str) -> Manifest:
    chain = context.chain
    body = chain.read(id_)
    # After reading: an id that was cleaned up may have been created again.
    if body is None or chain.boundary.read() >= id_:
        raise Absent(
            f"manifest {id_} of branch {context.branch}, the last common state, was cleaned up; merge more "
            "often, or let cleanup --keep more"
        )
    found = read_manifest(body, chain.key(id_))
    assert found.incarnation == incarnation, "numbers continue when a branch is made again"
    return found


@dataclass(frozen=True)
class _Sides:
    """One table in the three states; None where it does not exist."""

    table: str
    base: Contents | None
    ours: Contents | None
    theirs: Contents | None


def merge_rows(reader: TableReader, base: Manifest, ours: Manifest, theirs: Manifest, draft: Draft) -> None:
    """Add to `draft`, a transaction on `ours`, what `theirs` changed since `base`; raises `Conflicted`."""
    draft.merges = Merges(theirs.incarnation, theirs.id, tables_digest(theirs.tables))
    names = [
        table
        for table in sorted({*base.tables, *theirs.tables})
        if base.tables.get(table) != theirs.tables.get(table)
        and ours.tables.get(table) != theirs.tables.get(table)
    ]
    read = [
        reader.contents({table: state.tables[table] for table in names if table in state.tables})
        for state in (base, ours, theirs)
    ]
    conflicts: list[RowConflict] = []
    for table in names:
        _merge_table(_Sides(table, *(state.get(table) for state in read)), draft, conflicts)
    if conflicts:
        raise Conflicted(theirs.branch, ours.branch, conflicts[:CONFLICTS_MAX], len(conflicts))


def _merge_table(sides: _Sides, draft: Draft, conflicts: list[RowConflict]) -> None:
    base, ours, theirs, table = sides.base, sides.ours, sides.theirs, sides.table
    if theirs is None:
        assert base is not None, "a table that changed is in one of the states"
        if ours is None:
            return
        if _equal(ours, base):
            draft.drop_table(table)
        else:
            conflicts.append(RowConflict(table, None, "dropped there and changed here"))
        return
    if ours is None and base is not None:
        if not _equal(theirs, base):
            conflicts.append(RowConflict(table, None, "dropped here and changed there"))
        return
    schema = _schema_of(sides)
    if schema is None:
        conflicts.append(RowConflict(table, None, "its columns, key or edges were changed on both branches"))
        return
    if ours is None:
        draft.create_table(table, dict(schema.columns), key=schema.key, edges=dict(schema.edges))
    else:
        _alter(draft, table, ours.schema, schema)
    upserts, deletes = [], []
    for key, found in _changes(*(_rows(state, schema) for state in (base, ours, theirs))):
        if found is _CONFLICT:
            conflicts.append(RowConflict(table, key, "changed on both branches"))
        elif found is None:
            deletes.append(key)
        else:
            upserts.append(found)
    if upserts:
        draft.upsert(table, upserts)
    if deletes:
        draft.delete(table, deletes)


_CONFLICT: Any = object()


def _changes(
    base: Mapping[Any, Row], ours: Mapping[Any, Row], theirs: Mapping[Any, Row]
) -> Iterator[tuple[Any, Any]]:
    """Each key whose row changes on our branch, with its row there, None or a conflict: see the top."""
    for key in sorted({*base, *theirs}):
        before, here, there = base.get(key), ours.get(key), theirs.get(key)
        if not _same(there, before) and not _same(there, here):
            yield key, there if _same(here, before) else _CONFLICT


def _same(one: Row | None, other: Row | None) -> bool:
    """Return True for equal rows; a NaN is equal to itself here."""
    if one is None or other is None:
        return one is other
    return all(
        value == other[name] or (value != value and other[name] != other[name]) for name, value in one.items()
    )


def _equal(one: Contents, other: Contents) -> bool:
    """Return True for tables of the same schema and rows."""
    if one.schema != other.schema or one.rows.keys() != other.rows.keys():
        return False
    return all(_same(row, other.rows[key]) for key, row in one.rows.items())


def _rows(contents: Contents | None, schema: Schema) -> Mapping[Any, Row]:
    """The rows with the columns of `schema`."""
    return {} if contents is None else {key: schema.shape(row) for key, row in contents.rows.items()}


def _schema_of(sides: _Sides) -> Schema | None:
    """The schema of the merged table: that of the side that changed it; None if both did, differently."""
    ours = sides.ours.schema if sides.ours else None
    theirs = sides.theirs.schema if sides.theirs else None
    base = sides.base.schema if sides.base else None
    schemas = [schema for schema in (base, ours, theirs) if schema is not None]
    # A column that was dropped and added with another type has values that the merged table cannot hold.
    kinds = [dict(schema.columns) for schema in schemas]
    names = set().union(*kinds)
    if any(len({kind[name] for kind in kinds if name in kind}) > 1 for name in names):
        return None
    if len({schema.key for schema in schemas}) > 1:
        return None
    if ours is None or ours in (base, theirs):
        return theirs
    return ours if theirs == base else None


def _alter(draft: Draft, table: str, before: Schema, after: Schema) -> None:
    old, new = dict(before.columns), dict(after.columns)
    old_edges, new_edges = dict(before.edges), dict(after.edges)
    for column in old_edges:
        if column in new and new_edges.get(column) != old_edges[column]:
            draft.drop_edge(table, column)
    for column in old:
        if column not in new:
            draft.drop_column(table, column)
    for column, kind in new.items():
        if column not in old:
            draft.add_column(table, column, kind)
    for column, target in new_edges.items():
        if old_edges.get(column) != target:
            draft.add_edge(table, column, target)
