"""Rows from files (.csv, .jsonl, .parquet), converted to a table's columns; what is wrong names file and row.

A CSV file has a line of column names. An empty field is no value: CSV cannot tell it from an empty text.
Bytes are base64 in CSV and JSONL.
"""

import base64
import binascii
import csv
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.commands.exit_codes import BadRequest

KNOWN = (".csv", ".jsonl", ".parquet")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
"""What a column of a new table must look like to hold numbers: "007" and "1_000" are names."""
INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True)
class Rows:
    """What a file holds, as it is written there: text in CSV, values elsewhere."""

    path: str
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    places: tuple[str, ...]
    """Where each row stands, for messages."""
    kinds: Mapping[str, str]
    """Column types the file says itself (Parquet), or that its values have in common."""

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
    return {"true": True, "false": False}.get(str(value).lower()) if _words(value) else _no(value)


def _words(value: Any) -> bool:
    return isinstance(value, str) and value.lower() in ("true", "false")


def _no(value: Any) -> bool:
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
    readers = {".csv": _csv, ".jsonl": _jsonl, ".parquet": _parquet}
    reader = readers.get(Path(path).suffix)
    if reader is None:
        raise BadRequest(f"{path}: give a file that ends in {', '.join(KNOWN)}")
    try:
        return reader(path)
    except OSError as error:
        raise BadRequest(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path} is not UTF-8 (at byte {error.start}); convert it first") from error
    except (csv.Error, binascii.Error) as error:
        raise BadRequest(f"{path} cannot be read as CSV: {error}") from error


def _csv(path: str) -> Rows:
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
    return Rows(path, columns, tuple(rows), tuple(places), _text_kinds(columns, rows))


def _text_kinds(columns: Iterable[str], rows: list[dict[str, Any]]) -> dict[str, str]:
    return {
        name: next(
            kind
            for kind in ("int64", "float64", "bool", "string")
            if kind == "string" or _all_fit(kind, [row[name] for row in rows])
        )
        for name in columns
    }


def _all_fit(kind: str, values: list[Any]) -> bool:
    given = [value for value in values if value is not None]
    try:
        for value in given:
            _CONVERT[kind](value)
            if kind in ("int64", "float64") and not _NUMBER.fullmatch(value):
                return False
    except ValueError:
        return False
    return bool(given)


def _jsonl(path: str) -> Rows:
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
    kinds = {name: _json_kind([row.get(name) for row in rows]) for name in columns}
    return Rows(path, columns, tuple(rows), tuple(places), kinds)


def _json_kind(values: list[Any]) -> str:
    """The type of a new column: the only one there is, or float64 for whole and other numbers together."""
    types = {type(value) for value in values if value is not None}
    if types == {bool}:
        return "bool"
    if types == {int}:
        return "int64"
    return "float64" if types and types <= {int, float} else "string"


def _parquet(path: str) -> Rows:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with Path(path).open("rb") as file:
            table = pq.read_table(file)
    except pa.ArrowException as error:
        raise BadRequest(f"{path} cannot be read as Parquet: {' '.join(str(error).split())}") from error
    kinds = {field.name: _arrow_kind(pa, field.type) for field in table.schema}
    for name, kind in kinds.items():
        if not kind:
            found = table.schema.field(name).type
            raise BadRequest(
                f"{path}: column {name} is {found}; known are whole numbers, floats, text, bool and bytes"
            )
    rows = tuple(table.to_pylist())
    places = tuple(f"{path}, row {number}" for number in range(1, len(rows) + 1))
    return Rows(path, tuple(table.column_names), rows, places, kinds)


def _arrow_kind(pa: Any, found: Any) -> str:
    asked = {
        "int64": (pa.types.is_integer,),
        "float64": (pa.types.is_floating,),
        "string": (pa.types.is_string, pa.types.is_large_string),
        "bool": (pa.types.is_boolean,),
        "bytes": (pa.types.is_binary, pa.types.is_large_binary),
    }
    return next((kind for kind, questions in asked.items() if any(ask(found) for ask in questions)), "")
