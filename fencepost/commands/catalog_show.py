"""A table's rows for people and for programs: an aligned table, CSV, JSONL, Parquet."""

import base64
import csv
import io
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.output_files import write_file
from fencepost.impl.publish.schema import Row, encode_rows

FORMATS = ("table", "csv", "jsonl", "parquet")
Columns = Sequence[tuple[str, str]]


def render(columns: Columns, rows: Sequence[Row], shape: str) -> bytes:
    """The rows in one of FORMATS."""
    if shape == "parquet":
        return encode_rows(columns, rows)
    make = {"table": _table, "csv": _csv, "jsonl": _jsonl}[shape]
    return make([name for name, _ in columns], rows).encode()


def plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def plain_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [{name: plain(value) for name, value in row.items()} for row in rows]


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(plain(value))


def _table(names: Sequence[str], rows: Sequence[Row]) -> str:
    # Control characters would move the terminal's cursor.
    cells = [
        [
            _word(row[name]).encode("unicode_escape").decode() if _odd(row[name]) else _word(row[name])
            for name in names
        ]
        for row in rows
    ]
    return aligned(names, cells)


def _odd(value: Any) -> bool:
    return isinstance(value, str) and not value.isprintable()


def aligned(names: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Columns under their names, two spaces apart."""
    lines = [names, *cells]
    widths = [max(len(line[at]) for line in lines) for at in range(len(names))]
    padded = (
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)) for line in lines
    )
    return "".join(f"{line.rstrip()}\n" for line in padded)


def _csv(names: Sequence[str], rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_word(row[name]) for name in names] for row in rows)
    return text.getvalue()


def _jsonl(_: Sequence[str], rows: Sequence[Row]) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False, allow_nan=False)}\n" for row in plain_rows(rows))


def check_out(target: str | None) -> None:
    """Refuse now what could not be written later."""
    if target is None:
        return
    folder = Path(target).absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK) or Path(target).is_dir():
        raise BadRequest(f"cannot write {target}: name a file in a folder that exists and may be written to")


def write_out(body: bytes, target: str | None) -> None:
    """To the file `target`, whole or not at all, or to standard output."""
    if target is None:
        sys.stdout.write(body.decode())
        return
    write_file(Path(target), body, "--out")
