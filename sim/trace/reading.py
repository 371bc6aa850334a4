"""Reads trace files in whatever state they are, and reports by name what it had to leave out.

A trace comes from production: files are rotated, compressed, cut off by a crash, written by a newer
producer. None of that may hide the rest, so everything that cannot be read becomes a `Problem` that names
the file, the line or the row group, and reading goes on. A damaged run is then undecided.
"""

import codecs
import functools
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from fencepost.impl.recording.files import OPEN, rest_of
from fencepost.sim.trace.schema import ALWAYS, DICTIONARIES, SCHEMA, Problem, TraceError, missing_columns
from fencepost.sim.whole_files import open_file

Report = Callable[[Problem], object]

_BLOCK = 1 << 23
_BAD_LINES_NAMED = 20
"""Bad lines of one file that are named one by one; the rest are counted."""

_READ = pj.ReadOptions(block_size=2 * _BLOCK, use_threads=False)
_LINE_MAX = 2 * _BLOCK
"""Bytes of one line that are kept."""
_OBJECT = re.compile(rb"^[ \t]*\{", re.MULTILINE)
_NO_BRACE = re.compile(rb"\n[^{]")
_NO_OBJECT = re.compile(rb"(?m)^[ \t\r]*[^{ \t\r\n]")
"""A line that does not begin as an object; the other pattern is quick, and misses none."""
_REFUSED = (ValueError, pa.ArrowException)
DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)
"""Errors of a compressed file that is cut off or damaged."""
_PARSE = pj.ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="ignore")


def discover(places: Iterable[str | Path]) -> list[Path]:
    """The files of `places`: each a file, or a folder to look through. Hidden files are passed over."""
    found: list[Path] = []
    for place in map(Path, places):
        if place.is_dir():
            inside = sorted(path for path in place.rglob("*") if path.is_file())
            found += [path for path in inside if not _hidden(path.relative_to(place))]
        elif place.is_file():
            found.append(place)
        elif place.exists():
            raise TraceError(f"{place} is no regular file; name trace files, or - for standard input")
        else:
            raise TraceError(f"there is no file or folder {place}; name trace files, or a folder of them")
    if not found:
        raise TraceError(f"no files in {', '.join(map(str, places))}; name trace files, or a folder of them")
    return found


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def is_parquet(path: Path) -> bool:
    """By its first bytes, not by its name; an empty file by its name."""
    try:
        with open_file(path) as file:
            magic = file.read(4)
    except OSError:
        return False  # who reads it meets the same error, and names it
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
    except (pa.ArrowException, OSError, ValueError) as error:
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
        table = conformed(file.read_row_group(group, columns=present, use_threads=False))
        table.validate(full=True)  # Parquet does not test whether text is UTF-8
        return table
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
        if not checked and not _OBJECT.search(block):
            report(Problem(str(path), _no_trace(block), lines))
            return
        if not checked and (missing := _missing_in_all(block)):
            what = f"lacks {', '.join(missing)}, without which an event cannot be placed"
            report(Problem(str(path), what))
            return
        for table in _parsed(block, number, bad):
            checked = True
            yield conformed(table.select([name for name in columns if name in table.column_names]))
        number += lines
    bad.end()


def _no_trace(block: bytes) -> str:
    """Why a file without any JSON object is none."""
    try:
        start = block[: block.find(b"\n")].decode()[:40]
    except UnicodeDecodeError:
        start = "\0"
    if "\0" in start:
        return "is no trace: it has binary data; give JSON lines or Parquet, or either packed by gzip"
    return f"is no trace: its lines are no JSON objects, as {start!r}; logs of others are read with --from"


def blocks(path: Path, report: Report) -> Iterator[tuple[bytes, int]]:
    """The file in pieces of whole lines, unpacked, each with its number of lines."""
    rest = b""
    size = 0
    try:
        with opened(path) as file:
            if file.peek(3)[:3] == codecs.BOM_UTF8:  # type: ignore[attr-defined]
                file.read(3)
            while piece := file.read(_BLOCK) or _accepted(path, size):
                size += len(piece)
                piece = rest + piece
                cut = piece.rfind(b"\n") + 1
                rest = piece[cut:][:_LINE_MAX]  # a longer line is no event, which its beginning shows
                if cut:
                    yield piece[:cut], piece.count(b"\n", 0, cut)
    except DAMAGED as error:
        report(Problem(str(path), f"is cut off or damaged: {error}; everything before it was read"))
    if rest.strip():
        yield rest + b"\n", 1


def _accepted(path: Path, size: int) -> bytes:
    """The bytes that the recorder of an open file has accepted and not written behind its first `size`."""
    return rest_of(path, size) if path.name.endswith(OPEN) else b""


def opened(path: Path) -> IO[bytes]:
    """The file, unpacked if it is packed by gzip: by its first bytes, since rotation changes names."""
    with open_file(path) as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if packed else path.open("rb")  # type: ignore[return-value]


def _missing_in_all(block: bytes) -> list[str]:
    """The needed columns that no event of a block has; none where a part of it is no event."""
    try:
        table = _table(block)
    except _REFUSED:
        return []
    return [name for name in missing_columns([]) if len(table) and table[name].null_count == len(table)]


def _parsed(block: bytes, number: int, bad: "_BadLines") -> Iterator[pa.Table]:
    """The events of a block, whose first line has this number; its other lines are bad."""
    try:
        table = _table(block)
    except _REFUSED:
        table = None
    if table is not None and not any(table[name].null_count for name in ALWAYS):
        yield table
        return
    lines = enumerate(block.split(b"\n"), start=number)
    yield from _halved([(at, line + b"\n") for at, line in lines if line.strip()], bad)


def _halved(lines: list[tuple[int, bytes]], bad: "_BadLines") -> Iterator[pa.Table]:
    """Return the events of lines, halving them until a line that cannot be parsed is alone."""
    try:
        table = _table(b"".join(line for _, line in lines))
    except _REFUSED as error:
        why = _line(error)
    else:
        nulls = [table[name].is_null() for name in ALWAYS]
        lacks = functools.reduce(pc.or_, nulls).to_numpy()
        if len(table) == len(lines):
            for at in np.flatnonzero(lacks).tolist():
                missing = [name for name, null in zip(ALWAYS, nulls, strict=True) if null[at].as_py()]
                bad.add(*lines[at], f"lacks {', '.join(missing)}")
        if len(table) == len(lines) or not lacks.any():
            yield table.filter(pa.array(~lacks))
            return
        why = "several values, of which one is no event"
    if len(lines) == 1:
        bad.add(*lines[0], why)
        return
    middle = len(lines) // 2
    yield from _halved(lines[:middle], bad)
    yield from _halved(lines[middle:], bad)


def _table(block: bytes) -> pa.Table:
    """The objects of a block as rows. Raises what `_REFUSED` names where it holds anything else.

    Arrow takes any bytes for text and `null` for a row, and crashes where `null` comes first.
    """
    if (block[:1] != b"{" or _NO_BRACE.search(block)) and _NO_OBJECT.search(block):
        raise ValueError("it is no JSON object")
    if not block.isascii():
        block.decode()
    return pj.read_json(io.BytesIO(block), read_options=_READ, parse_options=_PARSE)


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
