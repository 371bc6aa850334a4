"""What a recorder dropped is no evidence: neither continuity nor a model judges what a gap may explain."""

from pathlib import Path

import pytest

from fencepost.impl.recording.files import BEGIN, GAP
from fencepost.impl.store.events import Event
from fencepost.results import ReplayResult
from fencepost.sim.trace import table_of, write_parquet
from tests.commands.running import exit_of


def event(seq: int, phase: str, kind: str, key: str, op: int = -1, process: str = "a", **more: str) -> Event:
    return Event("b", seq, seq, process, 0, op, phase, kind, key, **more)  # type: ignore[arg-type]


LOST = [
    event(0, "note", BEGIN, ""),
    event(1, "request", "put", "k", 0, hash="h"),
    event(2, "response", "put", "k", 0, outcome="done", etag="e1"),
    event(3, "request", "get", "k", 1),
    event(4, "response", "get", "k", 1, outcome="missing"),
]


def replayed(tmp_path: Path, events: list[Event], *words: str) -> int:
    path = tmp_path / "trace.parquet"
    write_parquet(path, table_of(events))
    return exit_of("replay", str(path), *words)


def test_a_lost_write_is_found_where_nothing_was_dropped(tmp_path: Path) -> None:
    assert replayed(tmp_path, LOST) == 1


@pytest.mark.parametrize(("key", "expected"), [("k", 3), ("", 3), ("other", 1)])
def test_a_gap_explains_what_it_is_about(tmp_path: Path, key: str, expected: int) -> None:
    """A deletion may have been dropped; a gap without a key may be about anything."""
    assert replayed(tmp_path, [*LOST, event(5, "note", GAP, key)]) == expected


@pytest.mark.parametrize(("key", "expected"), [("k", 3), ("", 3)])
def test_gaps_count_where_runs_are_named_by_keys(tmp_path: Path, key: str, expected: int) -> None:
    assert replayed(tmp_path, [*LOST, event(5, "note", GAP, key)], "--runs", "(k)") == expected


def test_events_of_no_run_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replayed(tmp_path, LOST, "--runs", "jobs/(.+)") == 3
    printed = capsys.readouterr().out
    assert "4 events belong to no run" in printed
    assert "2 put of 'k', whose key does not match" in printed
    assert ReplayResult.__dataclass_fields__["left_out_by"]
