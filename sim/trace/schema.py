"""The event table: one row an event, the columns of `fencepost.impl.store.events.Event`, no others needed.

A trace file may leave out columns that are empty; an event has no meaning without those in `NEEDED`. Unknown
columns are ignored, so that a producer may add its own.
"""

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fencepost.impl.store.events import Event
from fencepost.impl.store.requests import Request

_FIELDS = dataclasses.fields(Event)
_TYPES: dict[object, Any] = {str: pa.string(), int: pa.int64()}

SCHEMA = pa.schema([pa.field(field.name, _TYPES[field.type]) for field in _FIELDS])
"""Text is plain text here; in memory most columns are dictionaries (`DICTIONARIES`)."""

NEEDED = ("run", "seq", "process", "op", "phase", "kind", "key")
"""Without these an event cannot be placed. A file that lacks one is refused by name."""

ALWAYS = ("seq", "op", "phase")
"""Of those, the columns that no event leaves empty: what lacks one is no event."""

DICTIONARIES = ("run", "process", "phase", "kind", "condition", "outcome", "key", "etag", "trace_fields")
"""Read as dictionaries: each distinct value is looked at once, however many events have it."""


def _kinds(root: type[Request[Any]]) -> set[str]:
    own = {root.kind} if hasattr(root, "kind") else set()
    return own.union(*(_kinds(child) for child in root.__subclasses__()))


_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character, which JSON can name and UTF-8 cannot hold."""

KINDS = frozenset(_kinds(Request))
"""The kinds of requests to a store; notes have kinds of their own."""

_EMPTY: dict[object, str | int] = {str: "", int: 0}
EMPTY: dict[str, Any] = {
    field.name: field.default if field.default is not dataclasses.MISSING else _EMPTY[field.type]
    for field in _FIELDS
}


class TraceError(Exception):
    """A trace cannot be read: which, why, and what to do."""


@dataclass(frozen=True)
class Problem:
    """A part of the input that was left out, so that the rest could be read."""

    where: str
    what: str
    lines: int = 0
    """Number of lines of a file that are no events, where that is the problem."""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def table_of(events: Iterable[Event]) -> pa.Table:
    """Events as a table."""
    rows = list(events)
    columns = [[getattr(event, name) for event in rows] for name in SCHEMA.names]
    return pa.table(
        [pa.array(column, type=field.type) for column, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )


def events_of(table: pa.Table) -> list[Event]:
    """A table as events, one object a row: for people and tests, not for millions."""
    return [Event(**row) for row in completed(table).cast(SCHEMA).to_pylist()]


def completed(table: pa.Table) -> pa.Table:
    """The table with every column, those that were left out empty, in the order of the schema."""
    columns = []
    for field in SCHEMA:
        if field.name in table.column_names:
            columns.append(table.column(field.name))
        else:
            empty = pa.repeat(pa.scalar(EMPTY[field.name], field.type), len(table))
            columns.append(pa.chunked_array([empty]))
    return pa.table(columns, names=SCHEMA.names)


def is_event(value: object) -> bool:
    """Return true if a JSON value is an event, as the reader of trace files takes it."""
    if not isinstance(value, dict) or any(value.get(name) is None for name in ALWAYS):
        return False
    return all(_fits(value[field.name], field.type) for field in _FIELDS if value.get(field.name) is not None)


def _fits(value: object, kind: object) -> bool:
    if kind is int:
        return type(value) is int and -(1 << 63) <= value < 1 << 63
    return isinstance(value, str) and not _SURROGATE.search(value)


def missing_columns(names: Iterable[str]) -> list[str]:
    """The needed columns that are not among `names`."""
    present = set(names)
    return [name for name in NEEDED if name not in present]
