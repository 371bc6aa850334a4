"""Drafts: what a user wants to change, as verbs in order. A draft knows no snapshot and no store."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.impl.publish.schema import Row


@dataclass(frozen=True, slots=True)
class Change:
    """One verb on one table."""

    table: str
    verb: str
    """create, append, upsert, overwrite, delete, drop, rewrite, read, {add,drop}-{column,edge}."""
    rows: tuple[Row, ...] = ()
    keys: tuple[Any, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Draft:
    """Collects verbs; `Catalog.publish` turns them into one plan."""

    changes: list[Change] = field(default_factory=list)
    message: str = ""

    def create_table(
        self, table: str, columns: Mapping[str, str], *, key: str, edges: Mapping[str, str] | None = None
    ) -> None:
        """A new, empty table. `edges`: column to the table whose key it holds."""
        details = {"columns": dict(columns), "key": key, "edges": dict(edges or {})}
        self.changes.append(Change(table, "create", details=details))

    def append(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows; none of their keys may be there."""
        self.changes.append(Change(table, "append", rows=tuple(rows)))

    def upsert(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows, replacing those with the same keys."""
        self.changes.append(Change(table, "upsert", rows=tuple(rows)))

    def overwrite(self, table: str, rows: Iterable[Row]) -> None:
        """The table shall hold exactly these rows."""
        self.changes.append(Change(table, "overwrite", rows=tuple(rows)))

    def delete(self, table: str, keys: Iterable[Any]) -> None:
        """Remove the rows with these keys; keys that are not there are no error."""
        self.changes.append(Change(table, "delete", keys=tuple(keys)))

    def add_column(self, table: str, column: str, kind: str) -> None:
        """A new column, empty in every row."""
        self.changes.append(Change(table, "add-column", details={"column": column, "kind": kind}))

    def drop_column(self, table: str, column: str) -> None:
        """Remove a column and what it holds. Rewrites the table's rows."""
        self.changes.append(Change(table, "drop-column", details={"column": column}))

    def add_edge(self, table: str, column: str, target: str) -> None:
        """From now on `column` holds keys of `target`. Every row is checked."""
        self.changes.append(Change(table, "add-edge", details={"column": column, "target": target}))

    def drop_edge(self, table: str, column: str) -> None:
        """From now on `column` holds plain values."""
        self.changes.append(Change(table, "drop-edge", details={"column": column}))

    def drop_table(self, table: str) -> None:
        """Remove a table. Its name may be used again."""
        self.changes.append(Change(table, "drop"))

    def rely_on(self, tables: Sequence[str]) -> None:
        """The change was decided on what these tables hold: it is refused when they have changed."""
        for table in tables:
            self.changes.append(Change(table, "read"))

    def rewrite(self, table: str) -> None:
        """Store the same rows as one fragment (compaction)."""
        self.changes.append(Change(table, "rewrite"))
