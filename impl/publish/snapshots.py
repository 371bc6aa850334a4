"""What readers hold: one manifest, and the tables as it pins them. A snapshot never changes."""

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.impl.publish.contents import Library
from fencepost.impl.publish.documents import Entry, Manifest
from fencepost.impl.publish.errors import Absent
from fencepost.impl.publish.fragments import to_arrow
from fencepost.impl.publish.kept import Contents
from fencepost.impl.publish.schema import Row, Schema


class Snapshot:
    """All tables of a branch at one manifest."""

    def __init__(self, manifest: Manifest, library: Library) -> None:
        self.manifest = manifest
        self._library = library

    @property
    def id(self) -> int:
        return self.manifest.id

    @property
    def tables(self) -> Sequence[str]:
        return sorted(self.manifest.tables)

    def schema(self, table: str) -> Schema:
        return self._contents(table).schema

    def rows(self, table: str) -> list[Row]:
        """The rows, in order of their keys: the caller's own, since those that are remembered are shared."""
        return _rows(self._contents(table))

    def get(self, table: str, key: Any) -> Row | None:
        row = self._contents(table).rows.get(key)
        return None if row is None else dict(row)

    def arrow(self, table: str) -> Any:
        """The rows as a pyarrow Table."""
        return to_arrow(self.schema(table).columns, self.rows(table))

    def load(self) -> dict[str, list[Row]]:
        """Every table, read in two parallel steps."""
        found = self._library.contents(self.manifest.tables)
        return {table: _rows(found[table]) for table in self.tables}

    def runs(self, table: str) -> Sequence[Mapping[str, Any]]:
        """What the table is made of, in order. One run of rows is a plain Parquet file of the table."""
        return self._contents(table).runs

    def _entry(self, table: str) -> Entry:
        entry = self.manifest.tables.get(table)
        if entry is None:
            raise Absent(f"manifest {self.id} of branch {self.manifest.branch} has no table {table!r}")
        return entry

    def _contents(self, table: str) -> Contents:
        return self._library.contents({table: self._entry(table)})[table]


def _rows(contents: Contents) -> list[Row]:
    return [dict(contents.rows[key]) for key in sorted(contents.rows)]
