"""The tracer of production: every event a line in a file, files rotated, never a body.

    store = TracedStore(open_store(url), "/var/log/fencepost", process="collector-1", run="bucket-1")

A line is written before the request is sent, so a killed process leaves a record of what it did; only a
machine that loses power can lose the last lines, because nothing waits for the disk. The open file ends in
`.jsonl.open`; a full one is renamed, and with `parquet=True` rewritten as Parquet, a tenth of the size. A
file that an earlier incarnation left open is closed by the next, never written into.
"""

import dataclasses
import re
import threading
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from fencepost.impl.store.events import Event, TraceFields
from fencepost.impl.store.interface import Store
from fencepost.impl.store.layers import Traced
from fencepost.sim.trace.reading import batches
from fencepost.sim.trace.schema import Problem, TraceError
from fencepost.sim.trace.writing import json_line, write_parquet

ROTATE_BYTES = 64 << 20
_FIELDS = tuple(field.name for field in dataclasses.fields(Event))


class Rotating:
    """A sink for `Traced`: `name-000001.jsonl`, `name-000002.jsonl`, ... in a folder."""

    def __init__(
        self, folder: str | Path, name: str, *, rotate_bytes: int = ROTATE_BYTES, parquet: bool = False
    ) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise TraceError(f"name {name!r}: use letters, digits, '.', '_', '-'; it becomes a file name")
        self._folder, self._name = Path(folder), name
        self._rotate_bytes, self._parquet = rotate_bytes, parquet
        self._lock = threading.Lock()
        self._written = 0
        self._folder.mkdir(parents=True, exist_ok=True)
        self._number = self._close_what_was_left()
        self._begin()

    def __call__(self, event: Event) -> None:
        line = json_line({name: getattr(event, name) for name in _FIELDS}).encode()
        with self._lock:
            self._file.write(line)
            self._file.flush()
            self._written += len(line)
            if self._written >= self._rotate_bytes:
                self._finish()
                self._begin()

    def close(self) -> None:
        """Close the open file; an empty one is removed."""
        with self._lock:
            self._finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self) -> None:
        self._number += 1
        self._path = self._folder / f"{self._name}-{self._number:06d}.jsonl.open"
        self._file = self._path.open("xb")
        self._written = 0

    def _finish(self) -> None:
        self._file.close()
        _closed(self._path, self._parquet)

    def _close_what_was_left(self) -> int:
        """Close files that were left open; returns the highest number used."""
        used = 0
        for path in sorted(self._folder.glob(f"{self._name}-*")):
            match = re.fullmatch(re.escape(self._name) + r"-(\d{6})\.(jsonl\.open|jsonl|parquet)", path.name)
            if match:
                used = max(used, int(match[1]))
                if match[2] == "jsonl.open":
                    _closed(path, parquet=False)
        return used


def _closed(path: Path, parquet: bool) -> None:
    if not path.exists():
        return
    done = path.with_suffix("")
    if not path.stat().st_size:
        path.unlink()
        return
    path.rename(done)
    if parquet:
        _as_parquet(done)


def _as_parquet(path: Path) -> None:
    """Rewrite a closed file of lines; the lines stay when anything in them cannot be read."""
    problems: list[Problem] = []
    tables = list(batches([path], problems.append))
    if not problems:
        write_parquet(path.with_suffix(".parquet"), pa.concat_tables(tables, promote_options="permissive"))
        path.unlink()


class TracedStore(Traced):
    """`store` with every request and reply written below `folder`; `options` are those of `Rotating`."""

    def __init__(
        self,
        store: Store,
        folder: str | Path,
        *,
        process: str,
        run: str = "",
        incarnation: int = 0,
        trace_fields: TraceFields | None = None,
        **options: Any,
    ) -> None:
        self._files = Rotating(folder, process, **options)
        super().__init__(
            store, self._files, process=process, run=run, incarnation=incarnation, trace_fields=trace_fields
        )

    def close(self) -> None:
        super().close()
        self._files.close()
