"""Rows in files (.csv, .jsonl, .parquet), in both directions, and as a table for people.

Rows that are read are converted to a table's columns; an error names the file and the row. A CSV file has a
line of column names. An empty field is no value: CSV cannot distinguish it from an empty text. Bytes are
base64 in CSV and JSONL.
"""

import base64
import binascii
import csv
import io
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.operating import format_table
from fencepost.commands.output_files import write_file
from fencepost.impl.publish.schema import Columns, Row, encode_rows

FORMATS = ("table", "csv", "jsonl", "parquet")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
"""The values of a column of a new table that holds numbers: "007" and "1_000" are names."""
INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True)
class Rows:
    """The content of a file as written in it: text in CSV, values elsewhere."""

    path: str
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    places: tuple[str, ...]
    """The place of each row, for messages."""
    kinds: Mapping[str, str]
    """Column types that the file declares (Parquet), or that its values have in common."""

    def as_columns(self, columns: Mapping[str, str]) -> list[dict[str, Any]]:
        """The rows as values of these column types."""
        return [
            {name: self._value(name, value, columns.get(name), place) for name, value in row.items()}
            for row, place in zip(self.rows, self.places, strict=True)
        ]

    def _value(self, name: str, value: Any, kind: str | None, place: str) -> Any:
        if kind is None:
            raise BadRequest(f"{place}: the table has no column {name!r}; add it with --add-columns")
        if value is None:
            return None
        try:
            return _CONVERT[kind](value)
        except (ValueError, TypeError):
            raise BadRequest(f"{place}: column {name} is {kind} and cannot hold {value!r}") from None


def _int64(value: Any) -> int:
    if isinstance(value, str):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value not in INT64:
        raise ValueError(value)
    return value


def _float64(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError(value)
    return float(value)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    value.encode()  # a lone surrogate is no text
    return value


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValueError(value)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else base64.b64decode(value, validate=True)


_CONVERT: Mapping[str, Callable[[Any], Any]] = {
    "int64": _int64,
    "float64": _float64,
    "string": _string,
    "bool": _bool,
    "bytes": _bytes,
}


def read_rows(path: str) -> Rows:
    """Read a whole file."""
    reader = _READERS.get(Path(path).suffix)
    if reader is None:
        raise BadRequest(f"{path}: give a file that ends in {', '.join(_READERS)}")
    try:
        return reader(path)
    except OSError as error:
        raise BadRequest(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path} is not UTF-8 (at byte {error.start}); convert it first") from error
    except (csv.Error, binascii.Error) as error:
        raise BadRequest(f"{path} cannot be read as CSV: {error}") from error


def _read_csv(path: str) -> Rows:
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        columns = tuple(next(reader, ()))
        if not columns or len(set(columns)) < len(columns):
            raise BadRequest(f"{path}: the first line must name the columns, each once")
        rows, places = [], []
        for fields in reader:
            if not fields:
                continue
            place = f"{path}, line {reader.line_num}"
            if len(fields) != len(columns):
                raise BadRequest(f"{place} has {len(fields)} fields, the first line has {len(columns)}")
            rows.append({name: text or None for name, text in zip(columns, fields, strict=True)})
            places.append(place)
    kinds = {name: _kind_of_texts([row[name] for row in rows]) for name in columns}
    return Rows(path, columns, tuple(rows), tuple(places), kinds)


def _kind_of_texts(values: Iterable[str | None]) -> str:
    texts = [value for value in values if value is not None]
    for kind in ("int64", "float64", "bool"):
        if texts and all(_fits(kind, text) for text in texts):
            return kind
    return "string"


def _fits(kind: str, text: str) -> bool:
    try:
        _CONVERT[kind](text)
    except ValueError:
        return False
    return kind == "bool" or _NUMBER.fullmatch(text) is not None


def _read_jsonl(path: str) -> Rows:
    rows, places = [], []
    with Path(path).open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            place = f"{path}, line {number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise BadRequest(f"{place} is not JSON: {error}") from error
            if not isinstance(row, dict):
                raise BadRequest(f"{place} is no object; every line is one row, as in {{'id': 1}}")
            rows.append(row)
            places.append(place)
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    kinds = {name: _kind_of_values([row.get(name) for row in rows]) for name in columns}
    return Rows(path, columns, tuple(rows), tuple(places), kinds)


def _kind_of_values(values: list[Any]) -> str:
    """The type of a new column: the only one in it, or float64 for whole and other numbers together."""
    types = {type(value) for value in values if value is not None}
    if types == {bool}:
        return "bool"
    if types == {int}:
        return "int64"
    return "float64" if types and types <= {int, float} else "string"


def _read_parquet(path: str) -> Rows:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with Path(path).open("rb") as file:
            table = pq.read_table(file)
    except pa.ArrowException as error:
        raise BadRequest(f"{path} cannot be read as Parquet: {' '.join(str(error).split())}") from error
    kinds = {}
    for column in table.schema:
        kinds[column.name] = _kind_of_arrow(pa, column.type)
        if not kinds[column.name]:
            raise BadRequest(
                f"{path}: column {column.name} is {column.type}; known are whole numbers, floats, text, bool "
                "and bytes"
            )
    rows = tuple(table.to_pylist())
    places = tuple(f"{path}, row {number}" for number in range(1, len(rows) + 1))
    return Rows(path, tuple(table.column_names), rows, places, kinds)


def _kind_of_arrow(pa: Any, found: Any) -> str:
    tests = {
        "int64": (pa.types.is_integer,),
        "float64": (pa.types.is_floating,),
        "string": (pa.types.is_string, pa.types.is_large_string),
        "bool": (pa.types.is_boolean,),
        "bytes": (pa.types.is_binary, pa.types.is_large_binary),
    }
    return next((kind for kind, any_of in tests.items() if any(test(found) for test in any_of)), "")


_READERS = {".csv": _read_csv, ".jsonl": _read_jsonl, ".parquet": _read_parquet}


# Writing.


def render(columns: Columns, rows: Sequence[Row], shape: str) -> bytes:
    """The rows in one of FORMATS."""
    names = [name for name, _ in columns]
    if shape == "parquet":
        return encode_rows(columns, rows)
    if shape == "jsonl":
        lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) for row in plain_rows(rows))
        return "".join(f"{line}\n" for line in lines).encode()
    if shape == "table":
        return format_table(names, [[_printable(row[name]) for name in names] for row in rows]).encode()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_word(row[name]) for name in names] for row in rows)
    return text.getvalue().encode()


def plain_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows with values that JSON can hold."""
    return [{name: _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(_plain(value))


def _printable(value: Any) -> str:
    """A cell of a table. Control characters would move the terminal's cursor."""
    if isinstance(value, str) and not value.isprintable():
        return value.encode("unicode_escape").decode()
    return _word(value)


def write_out(body: bytes, target: str | None) -> None:
    """Write the file `target`, whole or not at all, or standard output."""
    if target is None:
        sys.stdout.write(body.decode())
    else:
        write_file(Path(target), body, "--out")
