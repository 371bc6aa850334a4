"""Fragments: rows, or deleted keys, as Parquet files that any Parquet reader understands.

The only module that touches pyarrow, and it does so when the first fragment is written or read.
"""

import io
from collections.abc import Iterable, Sequence
from typing import Any

from fencepost.impl.publish.errors import Damaged, Invalid
from fencepost.impl.publish.schema import Row

CONTENT_TYPE = "application/vnd.apache.parquet"


def arrow_schema(columns: Sequence[tuple[str, str]]) -> Any:
    import pyarrow as pa

    kinds = {
        "int64": pa.int64(),
        "float64": pa.float64(),
        "string": pa.string(),
        "bool": pa.bool_(),
        "bytes": pa.binary(),
    }
    return pa.schema([(name, kinds[kind]) for name, kind in columns])


def to_arrow(columns: Sequence[tuple[str, str]], rows: Iterable[Row]) -> Any:
    """Rows as a pyarrow Table."""
    import pyarrow as pa

    try:
        return pa.Table.from_pylist(list(rows), schema=arrow_schema(columns))
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError) as error:
        raise Invalid(f"these rows cannot be stored as Parquet: {error}") from None


def encode_rows(columns: Sequence[tuple[str, str]], rows: Iterable[Row]) -> bytes:
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(to_arrow(columns, rows), buffer)
    return buffer.getvalue()


def decode_rows(body: bytes, key: str) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Threads would be invisible to a harness, and the files are small.
        table = pq.read_table(pa.BufferReader(body), use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise Damaged(f"{key} cannot be read as Parquet ({error}); restore it from a copy") from None
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
