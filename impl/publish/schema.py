"""Tables as users describe them (columns with plain types, one key column, edges to other tables' keys), and
their rows as Parquet.

Fragments are files that any Parquet reader understands. pyarrow is imported when the first fragment is
written or read.
"""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.impl.publish import keys
from fencepost.impl.publish.documents import digest, encode
from fencepost.impl.publish.errors import Damaged, Invalid

Row = Mapping[str, Any]
Columns = Sequence[tuple[str, str]]

KINDS: Mapping[str, tuple[type, ...]] = {
    "int64": (int,),
    "float64": (float, int),
    "string": (str,),
    "bool": (bool,),
    "bytes": (bytes,),
}
"""Column types, and the Python types of their values. Every column but the key may be empty (None)."""
CONTENT_TYPE = "application/vnd.apache.parquet"


@dataclass(frozen=True, slots=True)
class Schema:
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
        return digest(encode({"columns": self.columns}))[:16]

    def shape(self, row: Row) -> Row:
        """A stored row with exactly these columns; columns added later are empty."""
        return {name: row.get(name) for name, _ in self.columns}

    def check_row(self, table: str, row: Row) -> Row:
        """The row in the order of the columns; `Invalid` if it does not fit them."""
        if not isinstance(row, Mapping):
            raise Invalid(f"table {table}: a row maps columns to values, and {row!r} does not")
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

    def check_key(self, table: str, key: Any) -> Any:
        """The key; `Invalid` if no row can have it."""
        if not _fits(key, dict(self.columns)[self.key], empty=False):
            raise Invalid(f"table {table}: no row can have the key {key!r}")
        return key


def _fits(value: object, kind: str, *, empty: bool) -> bool:
    if value is None:
        return empty
    if isinstance(value, bool) and kind != "bool":
        return False
    if not isinstance(value, KINDS[kind]):
        return False
    if isinstance(value, str) and not _is_unicode(value):
        return False
    return kind != "int64" or -(2**63) <= int(str(value)) < 2**63


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# Parquet.


def arrow_schema(columns: Columns) -> Any:
    """Return the Arrow schema of these columns."""
    import pyarrow as pa

    kinds = {
        "int64": pa.int64(),
        "float64": pa.float64(),
        "string": pa.string(),
        "bool": pa.bool_(),
        "bytes": pa.binary(),
    }
    return pa.schema([(name, kinds[kind]) for name, kind in columns])


def to_arrow(columns: Columns, rows: Iterable[Row]) -> Any:
    import pyarrow as pa

    try:
        return pa.Table.from_pylist(list(rows), arrow_schema(columns))
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError) as error:
        raise Invalid(f"these rows cannot be stored as Parquet: {error}") from None


def encode_rows(columns: Columns, rows: Iterable[Row]) -> bytes:
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(to_arrow(columns, rows), buffer)
    return buffer.getvalue()


def decode_rows(body: bytes, key: str) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # No threads: a harness cannot see them, and the files are small. `read_table` takes ten times longer.
        table = pq.ParquetFile(pa.BufferReader(body)).read(use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise Damaged(f"{key} cannot be read as Parquet ({error}); restore it from a copy") from None
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def read_batches(body: bytes, key: str, columns: Columns) -> Iterator[Any]:
    """Read these columns of a fragment as Arrow batches; a column that was added later is empty."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = arrow_schema(columns)
    try:
        file = pq.ParquetFile(pa.BufferReader(body))
        stored = set(file.schema_arrow.names)
        names = [name for name in schema.names if name in stored] or file.schema_arrow.names[:1]
        for batch in file.iter_batches(columns=names, use_threads=False):
            arrays = [
                batch.column(field.name) if field.name in stored else pa.nulls(batch.num_rows, field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
    except (pa.ArrowException, OSError) as error:
        raise Damaged(f"{key} cannot be read as Parquet ({error}); restore it from a copy") from None
