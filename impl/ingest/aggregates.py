"""What a rollup chunk holds: of one metric and one hour, for every set of labels, count, sum, min and max.

A chunk is JSON, packed: by zstd where pyarrow is installed, else by zlib; a reader tells them apart by
their first bytes. Points that are no number (NaN) are counted apart and touch nothing else.
"""

import io
import json
import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.impl.ingest.errors import Damaged
from fencepost.impl.ingest.frames import Point
from fencepost.impl.ingest.keys import hour_path

SCHEMA = "lightmetrics.rollup_chunk.v1"
_ZSTD = b"\x28\xb5\x2f\xfd"

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Aggregate:
    """Of any number of points; adding two gives that of all their points."""

    count: int = 0
    sum: float = 0.0
    min: float = math.inf
    max: float = -math.inf
    nan: int = 0

    def take(self, value: float) -> None:
        if math.isnan(value):
            self.nan += 1
            return
        self.count += 1
        self.sum += value
        self.min = min(self.min, value)
        self.max = max(self.max, value)

    def add(self, other: "Aggregate") -> None:
        self.count += other.count
        self.sum += other.sum
        self.min = min(self.min, other.min)
        self.max = max(self.max, other.max)
        self.nan += other.nan


Series = dict[Labels, Aggregate]
Hours = dict[tuple[str, str], Series]
"""By metric and hour (`date=.../hour=.../`)."""


def aggregate(into: Hours, points: Iterable[Point]) -> None:
    """Take all points in."""
    for point in points:
        series = into.setdefault((point.name, hour_path(point.unix_ns)), {})
        labels = tuple(sorted(point.labels.items()))
        series.setdefault(labels, Aggregate()).take(point.value)


def pack(metric: str, hour: str, series: Series) -> bytes:
    """The chunk of one metric and hour."""
    rows = [
        [list(map(list, labels)), one.count, *map(_out, (one.sum, one.min, one.max)), one.nan]
        for labels, one in sorted(series.items())
    ]
    said = {"schema": SCHEMA, "metric": metric, "hour": hour, "series": rows}
    return _compress(json.dumps(said, sort_keys=True, separators=(",", ":")).encode())


def unpack(body: bytes, key: str) -> Series:
    """The series of a chunk."""
    try:
        said = json.loads(_decompress(body))
        return {
            tuple((name, value) for name, value in labels): Aggregate(
                count, float(total), float(least), float(most), nan
            )
            for labels, count, total, least, most, nan in said["series"]
        }
    except (ValueError, KeyError, TypeError, OSError, zlib.error) as wrong:
        raise Damaged(f"{key} is no rollup chunk: {wrong}") from None


def _out(value: float) -> Any:
    """JSON has no word for the infinities."""
    return value if math.isfinite(value) else repr(value)


def _compress(plain: bytes) -> bytes:
    arrow = _arrow()
    if arrow is None:
        return zlib.compress(plain)
    packed: bytes = arrow.Codec("zstd").compress(plain, asbytes=True)
    return packed


def _decompress(body: bytes) -> bytes:
    if not body.startswith(_ZSTD):
        return zlib.decompress(body)
    arrow = _arrow()
    if arrow is None:
        raise ValueError("it is packed with zstd, for which pyarrow is missing: install fencepost[catalog]")
    with arrow.input_stream(io.BytesIO(body), compression="zstd") as stream:
        plain: bytes = stream.read()
    return plain


def _arrow() -> Any:
    """pyarrow with zstd, where it is installed."""
    try:
        import pyarrow as pa
    except ImportError:
        return None
    return pa if pa.Codec.is_available("zstd") else None


def merged(all_series: Iterable[Mapping[Labels, Aggregate]]) -> Series:
    """The series of all of them together."""
    total: Series = {}
    for series in all_series:
        for labels, one in series.items():
            total.setdefault(labels, Aggregate()).add(one)
    return total
