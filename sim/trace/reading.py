"""Reads trace files in whatever state they are, and reports by name what it had to leave out.

A trace comes from production: files are rotated, compressed, cut off by a crash, written by a newer
producer. None of that may hide the rest, so everything that cannot be read becomes a `Problem` that names
the file, the line or the row group, and reading goes on. A damaged run is then undecided.
"""

import gzip
import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

from fencepost.sim.trace.schema import DICTIONARIES, SCHEMA, Problem, TraceError, missing_columns

Report = Callable[[Problem], object]

_BLOCK = 1 << 23
_BAD_LINES_NAMED = 20
"""Bad lines of one file that are named one by one; the rest are counted."""

_READ = pj.ReadOptions(block_size=2 * _BLOCK, use_threads=False)
_PARSE = pj.ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="ignore")


def discover(places: Iterable[str | Path]) -> list[Path]:
    """The files of `places`: each a file, or a folder to look through. Hidden files are passed over."""
    found: list[Path] = []
    for place in map(Path, places):
        if place.is_dir():
            inside = sorted(path for path in place.rglob("*") if path.is_file())
            found += [path for path in inside if not _hidden(path.relative_to(place))]
        elif place.exists():
            found.append(place)
        else:
            raise TraceError(f"there is no file or folder {place}; name trace files, or a folder of them")
    if not found:
        raise TraceError(f"no files in {', '.join(map(str, places))}; name trace files, or a folder of them")
    return found


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def is_parquet(path: Path) -> bool:
    """By its first bytes, not by its name; an empty file by its name."""
    with path.open("rb") as file:
        magic = file.read(4)
    return magic == b"PAR1" or (path.suffix == ".parquet")


def batches(
    files: Iterable[Path], report: Report, *, columns: tuple[str, ...] = tuple(SCHEMA.names)
) -> Iterator[pa.Table]:
    """The events of all files, a few hundred thousand at a time, in the order of the files."""
    for path in files:
        try:
            reader = _parquet if is_parquet(path) else _json_lines
            yield from reader(path, report, columns)
        except OSError as error:
            report(Problem(str(path), f"cannot be read: {error.strerror or error}"))


def open_parquet(path: Path, report: Report) -> pq.ParquetFile | None:
    """The file, when it is whole and has the columns that events need."""
    try:
        metadata = pq.read_metadata(path)
        present = set(metadata.schema.to_arrow_schema().names)
        often = [name for name in DICTIONARIES if name in present]
        file = pq.ParquetFile(path, metadata=metadata, read_dictionary=often)
    except (pa.ArrowInvalid, pa.ArrowException) as error:
        report(
            Problem(str(path), f"is not a whole Parquet file (cut off, or something else): {_line(error)}")
        )
        return None
    missing = missing_columns(file.schema_arrow.names)
    if missing:
        report(Problem(str(path), f"lacks the column {', '.join(missing)}, without which it is no trace"))
        return None
    return file


def read_group(file: pq.ParquetFile, group: int, columns: Iterable[str]) -> pa.Table:
    """One row group, with the types of the event table; raises `TraceError` when it is damaged."""
    present = [name for name in columns if name in file.schema_arrow.names]
    try:
        return conformed(file.read_row_group(group, columns=present, use_threads=False))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TraceError(f"row group {group} cannot be read: {_line(error)}") from error


def conformed(table: pa.Table) -> pa.Table:
    """The same events in the types of the schema; text may stay dictionaries; what is null is empty."""
    columns = []
    for name in table.column_names:
        wanted = SCHEMA.field(name).type
        column = table.column(name)
        if pa.types.is_dictionary(column.type):
            if column.type.value_type != wanted:
                column = column.cast(wanted)
        elif column.type != wanted:
            column = column.cast(wanted)
        if column.null_count:
            column = column.cast(wanted).fill_null("" if wanted == pa.string() else -1)
        columns.append(column)
    return pa.table(columns, names=table.column_names)


def _parquet(path: Path, report: Report, columns: tuple[str, ...]) -> Iterator[pa.Table]:
    file = open_parquet(path, report)
    if file is None:
        return
    for group in range(file.num_row_groups):
        try:
            yield read_group(file, group, columns)
        except TraceError as error:
            report(Problem(str(path), str(error)))


def _json_lines(path: Path, report: Report, columns: tuple[str, ...]) -> Iterator[pa.Table]:
    bad = _BadLines(path, report)
    number = 1
    checked = False
    for block, lines in blocks(path, report):
        for table in _parsed(block, number, bad):
            if not checked and len(table):
                missing = [name for name in missing_columns([]) if table[name].null_count == len(table)]
                if missing:
                    what = f"lacks {', '.join(missing)}, without which an event cannot be placed"
                    report(Problem(str(path), what))
                    return
                checked = True
            yield conformed(table.select([name for name in columns if name in table.column_names]))
        number += lines
    bad.end()


def blocks(path: Path, report: Report) -> Iterator[tuple[bytes, int]]:
    """The file in pieces of whole lines, unpacked, each with its number of lines."""
    rest = b""
    try:
        with opened(path) as file:
            while piece := file.read(_BLOCK):
                piece = rest + piece
                cut = piece.rfind(b"\n") + 1
                rest = piece[cut:]
                if cut:
                    yield piece[:cut], piece.count(b"\n", 0, cut)
    except (EOFError, gzip.BadGzipFile) as error:
        report(Problem(str(path), f"is cut off or damaged: {error}; everything before it was read"))
    if rest.strip():
        yield rest + b"\n", 1


def opened(path: Path) -> IO[bytes]:
    """The file, unpacked if it is packed by gzip: by its first bytes, since rotation changes names."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if packed else path.open("rb")  # type: ignore[return-value]


def _parsed(block: bytes, number: int, bad: "_BadLines") -> Iterator[pa.Table]:
    """The events of a block; what cannot be parsed is halved until the bad lines stand alone."""
    if not block.strip():
        return
    try:
        yield pj.read_json(io.BytesIO(block), read_options=_READ, parse_options=_PARSE)
        return
    except (pa.ArrowInvalid, pa.ArrowException) as error:
        lines = block.splitlines(keepends=True)
        if len(lines) == 1:
            bad.add(number, lines[0], _line(error))
            return
    middle = len(lines) // 2
    yield from _parsed(b"".join(lines[:middle]), number, bad)
    yield from _parsed(b"".join(lines[middle:]), number + middle, bad)


class _BadLines:
    """The lines of one file that are no events."""

    def __init__(self, path: Path, report: Report) -> None:
        self._path, self._report, self._count = path, report, 0

    def add(self, number: int, line: bytes, why: str) -> None:
        self._count += 1
        if self._count <= _BAD_LINES_NAMED:
            start = line.strip()[:40].decode("utf-8", "replace")
            self._report(Problem(f"{self._path}, line {number}", f"is no event: {start!r} ({why})", 1))

    def end(self) -> None:
        if self._count > _BAD_LINES_NAMED:
            rest = self._count - _BAD_LINES_NAMED
            self._report(Problem(str(self._path), f"has {rest} more lines that are no events", rest))


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:160]
