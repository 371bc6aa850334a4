"""A table while a transaction changes it, and the runs that its next version consists of.

The changes are a layer over the pinned rows, so that trying a draft on a copy and discarding the copy is
cheap, however large the table is.

**Why runs stay few.** A commit adds its changes as a run after those of the version before. A process that
reads the table for the first time reads all runs, and every version document and sidecar lists them. With
one run for every commit ever made, each commit would cost more than the one before, and opening would become
slower every day. Therefore a writer merges the last small runs into its own as soon as there are `FAN_IN` of
a size with it. Runs count like digits: eight of one size become one of the next. After n commits there are
about 7 · log8(n) runs, and each row was rewritten about log8(n) times, until its run reaches `ROWS_MAX` or
`BYTES_MAX`; compaction rewrites larger ones. Merging costs no request: a commit that writes rows writes a
fragment anyway, and the rows of the merged runs are cached; a commit that only deletes merges runs of keys
only.

Merging changes no content, and readers need not know about it. The new run adds and removes the difference
between two sets of rows: those before the first merged run, and those after the commit. The plan contains the
resulting runs, so every executor writes the same bytes.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.impl.publish import keys
from fencepost.impl.publish.cache import BYTES_MAX, ROWS_MAX, Contents, Layer, Run, last_layers
from fencepost.impl.publish.documents import Entry, digest
from fencepost.impl.publish.errors import Absent, Invalid
from fencepost.impl.publish.schema import CONTENT_TYPE, Row, Schema, encode_rows
from fencepost.impl.store import ABSENT
from fencepost.impl.store.requests import Put

FAN_IN = 8
"""Runs of a size that become one. Fewer: fewer runs to read. More: rows are rewritten less often."""
KEYS_INLINE_MAX = 1000
"""Deleted keys in the version document itself: our own limit on its size."""


@dataclass
class WorkingTable:
    """See the top of this module. `schema` is None while the table does not exist."""

    table: str
    entry: Entry | None
    base: Contents | None
    schema: Schema | None
    fresh: bool = False
    """All rows are in `changes`: created, overwritten or rewritten; nothing of the pinned runs remains."""
    changes: dict[Any, Row | None] = field(default_factory=dict)
    """Key to row, or to None for a removed row."""
    verbs: tuple[str, ...] = ()

    @staticmethod
    def of(table: str, entry: Entry | None, contents: Contents | None) -> "WorkingTable":
        return WorkingTable(table, entry, contents, contents.schema if contents else None)

    def copy(self) -> "WorkingTable":
        return replace(self, changes=dict(self.changes))

    def existing(self) -> Schema:
        """The schema; `Absent` if there is no table."""
        if self.schema is None:
            raise Absent(f"there is no table {self.table!r}; create it first")
        return self.schema

    def get(self, key: Any) -> Row | None:
        if key in self.changes:
            return self.changes[key]
        return None if self.fresh or self.base is None else self.base.rows.get(key)

    def rows(self) -> Iterator[Row]:
        if not self.fresh and self.base is not None:
            yield from (row for key, row in self.base.rows.items() if key not in self.changes)
        yield from (row for row in self.changes.values() if row is not None)

    def by_key(self) -> dict[Any, Row]:
        self.existing()
        # Copying and then changing is fast; a commit pays this for every row of the table.
        found = dict(self.base.rows) if self.base is not None and not self.fresh else {}
        for key, row in self.changes.items():
            if row is None:
                found.pop(key, None)
            else:
                found[key] = row
        return found

    # The verbs.

    def create(self, schema: Schema) -> None:
        if self.schema is not None:
            raise Invalid(f"there is a table {self.table!r} already; drop it first or choose another name")
        self.schema, self.fresh, self.changes = schema, True, {}
        self._record("register")

    def add(self, rows: tuple[Row, ...], verb: str) -> list[Any]:
        """Append or upsert; returns the keys."""
        schema = self.existing()
        added = [schema.check_row(self.table, row) for row in rows]
        if verb == "append":
            seen: set[Any] = set()
            for row in added:
                key = row[schema.key]
                if key in seen or self.get(key) is not None:
                    raise Invalid(f"table {self.table} has a row {key!r} already; upsert replaces rows")
                seen.add(key)
        if added:
            self.changes.update((row[schema.key], row) for row in added)
            self._record(verb)
        return [row[schema.key] for row in added]

    def overwrite(self, rows: tuple[Row, ...]) -> tuple[list[Any], list[Any]]:
        """Replace all rows; returns the keys, and those that are gone."""
        before = self.by_key()
        self.fresh, self.changes = True, {}
        self._record("overwrite")
        added = self.add(rows, "append") if rows else []
        return added, [key for key in before if key not in self.changes]

    def delete(self, keys: tuple[Any, ...]) -> list[Any]:
        """Remove rows; returns the keys that existed."""
        schema = self.existing()
        checked = [schema.check_key(self.table, key) for key in keys]
        gone = [key for key in dict.fromkeys(checked) if self.get(key) is not None]
        for key in gone:
            if self.fresh:
                del self.changes[key]
            else:
                self.changes[key] = None
        if gone:
            self._record("delete")
        return gone

    def drop(self) -> list[Any]:
        """Drop the table; returns the keys that are gone."""
        gone = list(self.by_key())
        self.schema, self.fresh, self.changes = None, True, {}
        self._record("tombstone")
        return gone

    def alter(self, schema: Schema, *, rewrite: bool = False) -> None:
        """Set another schema. Dropping a column must `rewrite`, or its values would reappear."""
        if rewrite:
            self.rewrite()
        names = [name for name, _ in schema.columns]
        self.schema = schema
        if self.base is not None and not self.fresh:
            added = [name for name in names if all(name != old for old, _ in self.base.schema.columns)]
            if added:
                rows = {key: {**row, **dict.fromkeys(added)} for key, row in self.base.rows.items()}
                self.base = replace(self.base, rows=rows)
        self.changes = {
            key: None if row is None else {name: row.get(name) for name in names}
            for key, row in self.changes.items()
        }
        self._record("alter")

    def rewrite(self) -> None:
        """Store the same rows in one run."""
        self.fresh, self.changes = True, dict(self.by_key())
        self._record("rewrite")

    def _record(self, verb: str) -> None:
        if verb not in self.verbs:
            self.verbs = (*self.verbs, verb)


# The runs of the next version.


def write_runs(table: WorkingTable, plan_id: str) -> tuple[Contents, list[Put]]:
    """The contents as runs, and the fragment to write: at most one, so that a table costs two requests."""
    base = None if table.fresh else table.base
    if base is None:
        return _add_runs(table, plan_id, (), (), dict.fromkeys(table.changes))
    for merged in (runs_to_merge(_sizes(table, base), len(table.changes)), 0):
        before = _rows_before(table, base, merged)
        gone = len(_removed(table, before))
        if gone <= KEYS_INLINE_MAX or not merged:
            break
    if gone > KEYS_INLINE_MAX and any(row is not None for row in table.changes.values()):
        return _add_runs(table, plan_id, (), (), dict.fromkeys(table.by_key()))
    runs, tail = base.runs[: len(base.runs) - merged], base.tail[: len(base.tail) - merged]
    return _add_runs(table, plan_id, runs, tail, before)


def runs_to_merge(sizes: Sequence[tuple[int, int]], rows: int) -> int:
    """Return the number of last runs, of these rows and bytes, that a new run of so many rows merges."""
    merged = size = 0
    while rows:
        more = _runs_of_size(sizes[: len(sizes) - merged], rows)
        rows, size = rows + sum(run[0] for run in more), size + sum(run[1] for run in more)
        if len(more) < FAN_IN - 1 or rows > ROWS_MAX or size > BYTES_MAX:
            break
        merged += len(more)
    return merged


def _runs_of_size(sizes: Sequence[tuple[int, int]], rows: int) -> list[tuple[int, int]]:
    """The last runs that have no more digits, to the base `FAN_IN`, than a run with so many rows."""
    limit = FAN_IN
    while limit <= rows:
        limit *= FAN_IN
    return list(itertools.takewhile(lambda run: run[0] < limit, reversed(sizes)))


def _sizes(table: WorkingTable, base: Contents) -> list[tuple[int, int]]:
    """The runs that can be merged: a commit that writes no fragment merges only runs without one."""
    sizes = [(len(layer.before), layer.bytes) for layer in base.tail]
    if any(row is not None for row in table.changes.values()):
        return sizes
    inline = sum(1 for _ in itertools.takewhile(lambda run: "path" not in run, reversed(base.runs)))
    return sizes[max(0, len(sizes) - inline) :]


def _rows_before(table: WorkingTable, base: Contents, merged: int) -> dict[Any, Row | None]:
    """For every key that the new run may touch, the row before the first run that it merges."""
    before: dict[Any, Row | None] = {}
    for layer in base.tail[len(base.tail) - merged :]:
        for key, row in layer.before.items():
            before.setdefault(key, row)
    for key in table.changes:
        before.setdefault(key, base.rows.get(key))
    return before


def _removed(table: WorkingTable, before: Mapping[Any, Row | None]) -> list[Any]:
    return [key for key, row in before.items() if row is not None and table.get(key) is None]


def _add_runs(
    table: WorkingTable,
    plan_id: str,
    runs: Sequence[Run],
    tail: Sequence[Layer],
    before: Mapping[Any, Row | None],
) -> tuple[Contents, list[Put]]:
    """Add to `runs`, which give the rows `before`, the runs that lead to the rows of `table`."""
    schema = table.existing()
    removed = _removed(table, before)
    rows = [row for key in before if (row := table.get(key)) is not None]
    added: list[Run] = []
    layers = list(tail)
    puts: list[Put] = []

    def add(
        holds: str, columns: tuple[tuple[str, str], ...], stored: list[Row], touched: Iterable[Any]
    ) -> None:
        body = encode_rows(columns, stored)
        put = Put(keys.fragment(table.table, plan_id, holds), body, ABSENT, CONTENT_TYPE)
        puts.append(put)
        added.append({"holds": holds, "path": put.key, "rows": len(stored), "digest": digest(body)[:32]})
        layers.append(Layer({key: before[key] for key in touched}, len(body)))

    if len(removed) > KEYS_INLINE_MAX:
        key_column = (schema.key, dict(schema.columns)[schema.key])
        add("keys", (key_column,), [{schema.key: key} for key in removed], removed)
    elif removed:
        added.append({"holds": "keys", "keys": removed})
        layers.append(Layer({key: before[key] for key in removed}, 0))
    if rows:
        add("rows", schema.columns, rows, [row[schema.key] for row in rows])
    return Contents(schema, (*runs, *added), table.by_key(), last_layers(layers)), puts
