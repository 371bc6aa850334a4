"""Parquet encoded and decoded once for all runs: harnesses repeat the same few rows thousands of times.

The code under test stays as it ships. While the cache is installed, two functions of it are replaced by
caching ones.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fencepost.impl.publish import cache, schema, tables
from fencepost.impl.publish.schema import Row

_encode, _decode = schema.encode_rows, schema.decode_rows
_encoded: dict[str, bytes] = {}
_decoded: dict[bytes, list[dict[str, Any]]] = {}


def _encode_once(columns: Sequence[tuple[str, str]], rows: Iterable[Row]) -> bytes:
    rows = list(rows)
    # By their text: 1, 1.0 and True are equal, and not the same in Parquet.
    name = repr((columns, rows))
    if name not in _encoded:
        _encoded[name] = _encode(columns, rows)
    return _encoded[name]


def _decode_once(body: bytes, key: str) -> list[dict[str, Any]]:
    if body not in _decoded:
        _decoded[body] = _decode(body, key)
    return [dict(row) for row in _decoded[body]]


def _replace(encode: Callable[..., bytes], decode: Callable[..., list[dict[str, Any]]]) -> None:
    vars(tables)["encode_rows"] = encode
    vars(cache)["decode_rows"] = decode


def install() -> Callable[[], None]:
    """Install the cache; returns what removes it."""
    _replace(_encode_once, _decode_once)
    return lambda: _replace(_encode, _decode)


@contextmanager
def installed() -> Iterator[None]:
    remove = install()
    try:
        yield
    finally:
        remove()
