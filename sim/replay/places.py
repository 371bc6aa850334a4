"""Finds the events that verdicts name again in the files of a trace: file, line and time, for an operator.

Judging loses the place of an event: parts are cut, dealt and put in order. The few events that are reported
are looked up afterwards, by number, run and text.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from fencepost.impl.store.events import Event
from fencepost.sim.replay.judging import IN_WORDS, event_text
from fencepost.sim.replay.result import RunVerdict
from fencepost.sim.trace.ordering import ordered
from fencepost.sim.trace.reading import DAMAGED, batches, is_parquet, opened
from fencepost.sim.trace.schema import EMPTY, is_event, table_of

R = TypeVar("R", bound=RunVerdict)
IDENTITY = ("process", "incarnation", "op", "phase", "kind")
"""Columns that distinguish the events of a run, whatever their numbers."""
TIME_MAX = 4_102_444_800 * 10**9
"""The year 2100. Times beyond this are no clock's."""


class Place(NamedTuple):
    """The place of an event in the files, and its time."""

    file: str
    line: int
    time: str


def located(rows: Sequence[R], files: Sequence[Path], *, as_recorded: bool) -> list[R]:
    """The rows, with `file`, `line` and `time` of their events set; unchanged where one is not found again.

    With `as_recorded`, runs are those of the trace, not new groups.
    """
    wanted = [row for row in rows if row.seq >= 0]
    texts = {row.event for row in wanted}
    runs = {row.run for row in wanted} if as_recorded else None
    found: dict[str, list[_Event]] = {}
    for file in files if wanted else ():
        for line, event in _events(file, runs):
            text = event_text(*(str(event.get(name) or "") for name in IN_WORDS))
            if as_recorded or text in texts:
                run = str(event.get("run", "")) if as_recorded else ""
                found.setdefault(run, []).append(_Event(event, text, Place(str(file), line, _time(event))))
    return [_with_place(row, found.get(row.run if as_recorded else "", []), as_recorded) for row in rows]


@dataclass(frozen=True)
class _Event:
    columns: Mapping[str, Any]
    text: str
    place: Place


def _with_place(row: R, events: Sequence[_Event], as_recorded: bool) -> R:
    """The row, with the place of the one event that it can mean."""
    alike = [one for one in events if one.text == row.event]
    numbers = [one.columns.get("seq") for one in events]
    if as_recorded and len(set(numbers)) < len(numbers):
        alike = [one for one in alike if _number(one, events) == row.seq]  # several counters: numbered anew
    else:
        alike = [one for one in alike if one.columns.get("seq") == row.seq] or alike
    return replace(row, **alike[0].place._asdict()) if len(alike) == 1 else row


def _number(event: _Event, events: Sequence[_Event]) -> int:
    """The number of an event among those of its run, in the order in which they were judged."""
    table = table_of(
        Event(
            **{
                name: empty if (value := one.columns.get(name)) is None else value
                for name, empty in EMPTY.items()
            }
        )
        for one in events
    )
    order = ordered(table).table.select(IDENTITY).to_pylist()
    defaults = {"incarnation": 0, "op": -1}
    place: int = order.index({name: event.columns.get(name, defaults.get(name, "")) for name in IDENTITY})
    return place


def _events(file: Path, runs: set[str] | None) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The events of a file, of these runs or of all, with their lines (rows, of a Parquet file)."""
    if is_parquet(file):
        yield from _rows(file, runs)
        return
    names = [run.encode() for run in runs or ()]
    try:
        with opened(file) as lines:
            for number, line in enumerate(lines, start=1):
                if runs is None or any(name in line for name in names):
                    event = _parsed(line)
                    if event and (runs is None or event.get("run") in runs):
                        yield number, event
    except (OSError, *DAMAGED):
        return  # it is named among the problems already


def _rows(file: Path, runs: set[str] | None) -> Iterator[tuple[int, Mapping[str, Any]]]:
    first = 1
    for table in batches([file], lambda _: None):
        for at, run in enumerate(table["run"].to_pylist()):
            if runs is None or run in runs:
                yield first + at, table.slice(at, 1).to_pylist()[0]
        first += len(table)


def _parsed(line: bytes) -> Mapping[str, Any]:
    """The event of a line; nothing where the line is none, and was counted as damaged."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return event if is_event(event) else {}


def _time(event: Mapping[str, Any]) -> str:
    t_ns = event.get("t_ns")
    if not isinstance(t_ns, int) or not 0 < t_ns < TIME_MAX:
        return ""
    return datetime.fromtimestamp(t_ns / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
