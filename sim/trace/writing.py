"""Trace files: Parquet for keeping and replaying, JSON lines for reading and for writing as things happen.

A file appears whole or not at all: it is written beside its name and renamed. A Parquet row group holds
whole runs where it can, in the order of their names, so that a reader can take a part of a file, judge the
runs in it and forget them. The statistics of the row groups in every Parquet file name those runs.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.sim.trace.schema import SCHEMA, TraceError, completed
from fencepost.sim.whole_files import replaced

ROWS_A_GROUP = 1 << 18
"""Events of a row group: some tens of megabytes in memory, and work enough to outweigh a task's start."""


def write_parquet(
    path: str | Path, tables: pa.Table | Iterable[pa.Table], *, rows: int = ROWS_A_GROUP
) -> int:
    """Write events to one Parquet file, row groups of about `rows` events; returns their number.

    Each table is sorted by run and event. Give tables whose runs follow each other by name, and no run in
    two of them: otherwise the file can still be read, but not in parts.
    """
    written = 0
    with _replaced(Path(path)) as temporary, pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as file:
        for table in [tables] if isinstance(tables, pa.Table) else tables:
            ready = sorted_by_run(completed(table))
            for start, stop in _groups(ready, rows):
                file.write_table(ready.slice(start, stop - start).cast(SCHEMA), row_group_size=stop - start)
            written += len(ready)
    return written


def write_json_lines(path: str | Path, table: pa.Table) -> int:
    """Write events as JSON lines, one object a line, without empty columns."""
    with _replaced(Path(path)) as temporary, temporary.open("w", encoding="utf-8") as file:
        for batch in completed(table).cast(SCHEMA).to_batches(max_chunksize=1 << 14):
            for row in batch.to_pylist():
                file.write(json_line(row))
    return len(table)


def json_line(row: dict[str, object]) -> str:
    """One event as a line."""
    columns = {name: value for name, value in row.items() if value not in ("", -1) or name in ("seq", "op")}
    return json.dumps(columns, ensure_ascii=False, separators=(",", ":")) + "\n"


def sorted_by_run(table: pa.Table) -> pa.Table:
    """The events by the name of their run, within a run by number; equal numbers stay as they came."""
    if not len(table):
        return table
    runs = table.column("run").combine_chunks().dictionary_encode()
    rank = np.empty(len(runs.dictionary), np.int64)
    rank[pc.sort_indices(runs.dictionary.cast(pa.string())).to_numpy()] = np.arange(len(rank))
    by_name = rank[runs.indices.to_numpy()]
    seq = table.column("seq").to_numpy()
    falls = by_name[1:] < by_name[:-1]
    back = (by_name[1:] == by_name[:-1]) & (seq[1:] < seq[:-1])
    if not falls.any() and not back.any():
        return table
    return table.take(pa.array(np.lexsort((seq, by_name))))


def _groups(table: pa.Table, rows: int) -> Iterator[tuple[int, int]]:
    """Where to cut, so that a row group is about `rows` long and ends with the end of a run."""
    codes = table.column("run").combine_chunks().dictionary_encode().indices.to_numpy()
    ends = np.append(np.flatnonzero(codes[1:] != codes[:-1]) + 1, len(codes))
    start = 0
    while start < len(codes):
        at = int(np.searchsorted(ends, start + rows))
        fits = at > 0 and int(ends[at - 1]) > start and (at == len(ends) or int(ends[at]) > start + rows)
        stop = int(ends[at - 1]) if fits else int(ends[min(at, len(ends) - 1)])
        yield start, stop
        start = stop


@contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """As `replaced`; a file that cannot be opened is a `TraceError`."""
    with ExitStack() as stack:
        try:
            temporary = stack.enter_context(replaced(path))
        except OSError as error:
            raise TraceError(f"cannot write {path}: {error.strerror}; give another place") from error
        yield temporary
