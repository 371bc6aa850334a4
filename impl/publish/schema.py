"""Tables as users describe them: columns with plain types, one key column, edges to other tables' keys."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.impl.publish import keys
from fencepost.impl.publish.documents import digest, encode
from fencepost.impl.publish.errors import Invalid

Row = Mapping[str, Any]

KINDS: Mapping[str, tuple[type, ...]] = {
    "int64": (int,),
    "float64": (float, int),
    "string": (str,),
    "bool": (bool,),
    "bytes": (bytes,),
}
"""Column types, and the Python values they take. Every column but the key may be empty (None)."""


@dataclass(frozen=True, slots=True)
class Schema:
    """What rows of a table look like."""

    columns: tuple[tuple[str, str], ...]
    key: str
    edges: tuple[tuple[str, str], ...] = ()
    """(column, table whose key it holds), by column."""

    @staticmethod
    def of(table: str, columns: Mapping[str, str], key: str, edges: Mapping[str, str]) -> "Schema":
        """Check a description and make it a schema."""
        keys.check_name(table, "table")
        for name, kind in columns.items():
            keys.check_name(name, "column")
            if kind not in KINDS:
                raise Invalid(f"table {table}: column {name} has type {kind!r}; known are {', '.join(KINDS)}")
        if columns.get(key) not in ("int64", "string"):
            raise Invalid(f"table {table}: key {key!r} must be one of the columns, of type int64 or string")
        for column in edges:
            if column not in columns or column == key:
                raise Invalid(f"table {table}: edge {column!r} must be one of the columns and not the key")
        return Schema(tuple(columns.items()), key, tuple(sorted(edges.items())))

    @property
    def hash(self) -> str:
        return digest(encode({"columns": [list(column) for column in self.columns]}))[:16]

    def shape(self, row: Row) -> Row:
        """A stored row with exactly these columns; those that came later are empty."""
        return {name: row.get(name) for name, _ in self.columns}

    def check_row(self, table: str, row: Row) -> Row:
        """The row in the order of the columns, or a sentence about what is wrong with it."""
        for name in row:
            if not any(name == column for column, _ in self.columns):
                raise Invalid(f"table {table} has no column {name!r}; add it first, or leave it out")
        checked = {}
        for name, kind in self.columns:
            value = row.get(name)
            if not _fits(value, kind, empty=name != self.key):
                raise Invalid(f"table {table}, column {name} is {kind} and cannot hold {value!r}")
            checked[name] = float(value) if kind == "float64" and value is not None else value
        return checked


def _fits(value: object, kind: str, *, empty: bool) -> bool:
    if value is None:
        return empty
    if isinstance(value, bool) and kind != "bool":
        return False
    if not isinstance(value, KINDS[kind]):
        return False
    return kind != "int64" or -(2**63) <= int(str(value)) < 2**63
