"""Clocks of several hosts make no false alarm, and hide no mistake that no order explains."""

from pathlib import Path

import pytest

from fencepost.examples.work_queue import refinement
from fencepost.impl.recording.files import BEGIN
from fencepost.impl.store.events import Event
from fencepost.sim.trace import table_of, write_parquet
from tests.commands.running import exit_of

MS = 10**6


def process(name: str, clock: str, shift_ms: int, *lines: tuple[int, str, str, str, str]) -> list[Event]:
    """Lines: time in ms, kind, key, condition, fields; each is answered `done` after a millisecond."""
    begin = Event("b", 0, 0, name, 0, -1, "note", BEGIN, "", trace_fields=f"clock={clock}")
    found = [begin]
    for op, (at, kind, key, condition, fields) in enumerate(lines):
        t_ns = (at + shift_ms) * MS
        given = {"condition": condition, "trace_fields": fields}
        found.append(Event("b", 2 * op + 1, t_ns, name, 0, op, "request", kind, key, **given))
        found.append(Event("b", 2 * op + 2, t_ns + MS, name, 0, op, "response", kind, key, outcome="done"))
    return found


def judged(tmp_path: Path, events: list[Event], *words: str) -> int:
    path = tmp_path / "trace.parquet"
    write_parquet(path, table_of(events))
    return exit_of("replay", str(path), "--model", f"{refinement.__file__}:QueueMap", *words)


def night(clock: str, shift_ms: int, *, robbed: bool = False) -> list[Event]:
    """A worker completes a job, and the janitor on another host collects it."""
    worker = [
        (10, "put", "jobs/1", "absent", ""),
        (20, "put", "claims/1", "absent", "attempt=1 state=claimed"),
        (30, "put", "claims/1", "matches", "attempt=1 state=done"),
        (40, "put", "done/1", "absent", ""),
    ]
    janitor = [(50, "delete", "jobs/1", "anything", ""), (60, "delete", "claims/1", "matches", "")]
    if robbed:
        janitor.insert(0, (45, "put", "claims/1", "matches", "attempt=1 state=done"))
    return [*process("worker", "a", 0, *worker), *process("janitor", clock, shift_ms, *janitor)]


@pytest.mark.parametrize(
    ("clock", "shift_ms", "words", "expected"),
    [
        ("a", 0, (), 0),
        ("a", -30, (), 1),  # one machine has one clock: this is what happened
        ("b", -30, (), 3),  # two machines: perhaps not
        ("b", -30, ("--skew", "0"), 1),
        ("b", -5000, (), 1),  # clocks are not off by five seconds
        ("b", -5000, ("--skew", "10"), 3),
    ],
)
def test_a_deletion_before_its_record(
    tmp_path: Path, clock: str, shift_ms: int, words: tuple[str, ...], expected: int
) -> None:
    assert judged(tmp_path, night(clock, shift_ms), *words) == expected


def test_a_mistake_in_every_order_stays_one(tmp_path: Path) -> None:
    """Nobody but its owner completes a job, whatever the clocks."""
    assert judged(tmp_path, night("b", -30, robbed=True)) == 1
