"""The tables of `--out`, which are equal whichever engine judged.

    verdicts.parquet      a row a run, see `VERDICTS`
    violations.parquet    a row a violation, see `VIOLATIONS`

Both are read by `pyarrow.parquet.read_table`, DuckDB or Spark. The first is one file, or a folder of files
from Spark. The order of its rows has no meaning.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.sim.replay.result import ReplayResult

VERDICTS = pa.schema(
    [
        ("run", pa.string()),
        ("verdict", pa.string()),
        ("events", pa.int64()),
        ("read", pa.int64()),
        ("seq", pa.int64()),
        ("event", pa.string()),
        ("reason", pa.string()),
        ("state", pa.string()),
        ("possible", pa.string()),
    ]
)
"""A row a run. `events` counts all of them, `read` those that were read; the rest is empty when accepted."""
VIOLATIONS = pa.schema(
    [
        ("found_by", pa.string()),
        ("run", pa.string()),
        ("seq", pa.int64()),
        ("event", pa.string()),
        ("reason", pa.string()),
        ("rule", pa.string()),
        ("key", pa.string()),
        ("other_seq", pa.int64()),
        ("other", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("time", pa.string()),
    ]
)
"""A row a violation that the result lists. `found_by` is `model` or `continuity`."""


def write_violations(result: ReplayResult, path: Path) -> None:
    """Write the violations that a result lists."""
    pq.write_table(pa.Table.from_pylist(list(_violations(result)), schema=VIOLATIONS), path)


def _violations(result: ReplayResult) -> Iterator[Mapping[str, Any]]:
    found = result.continuity.findings if result.continuity is not None else ()
    for source, rows in (("continuity", found), ("model", result.violations)):
        for row in rows:
            yield {"key": "", "other_seq": -1, "other": "", **asdict(row), "found_by": source}
