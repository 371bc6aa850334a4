"""What readers hold: one manifest, and the tables as it pins them. A snapshot never changes."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.impl.publish.contents import Contents, Library
from holdfast.impl.publish.documents import Entry, Manifest
from holdfast.impl.publish.errors import Absent
from holdfast.impl.publish.fragments import to_arrow
from holdfast.impl.publish.schema import Row, Schema


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
        """The rows, in order of their keys."""
        contents = self._contents(table)
        return [contents.rows[key] for key in sorted(contents.rows)]

    def get(self, table: str, key: Any) -> Row | None:
        return self._contents(table).rows.get(key)

    def arrow(self, table: str) -> Any:
        """The rows as a pyarrow Table."""
        return to_arrow(self.schema(table).columns, self.rows(table))

    def load(self) -> dict[str, list[Row]]:
        """Every table, read in two parallel steps."""
        self._library.contents(self.manifest.tables)
        return {table: self.rows(table) for table in self.tables}

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
