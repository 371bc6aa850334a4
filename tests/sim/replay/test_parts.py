"""Parts hold whole runs, however the files lie; and what a part cannot hold is dealt."""

from dataclasses import replace
from pathlib import Path

import pytest

from fencepost.impl.store.events import Event
from fencepost.sim.replay.parts import in_parts, load, plan
from fencepost.sim.trace import Problem, events_of, table_of, write_json_lines, write_parquet
from fencepost.sim.trace.columns import COLUMNS


def runs(*sizes: int, first: int = 0) -> list[Event]:
    return [
        Event(f"run-{number:03d}", seq, seq, "p", 0, seq, "landed", "put", "k")
        for number, size in enumerate(sizes, first)
        for seq in range(size)
    ]


def planned(
    tmp_path: Path, files: list[Path], by: str = "run", events: int = 10
) -> list[list[tuple[str, int]]]:
    """The runs of each part, and how many events of each."""
    problems: list[Problem] = []
    folder = tmp_path / "dealt"
    folder.mkdir(exist_ok=True)
    found = plan(files, by, folder, problems.append, events)
    parts = []
    for part in found.parts:
        rows = events_of(load(part, COLUMNS, problems.append))
        assert part.events == len(rows)
        names = [row.run for row in rows]
        assert names == sorted(names)
        parts.append([(name, names.count(name)) for name in dict.fromkeys(names)])
    assert not problems
    return parts


def test_files_in_order_are_read_where_they_are(tmp_path: Path) -> None:
    write_parquet(tmp_path / "b", table_of(runs(4, 4, 4, first=5)), rows=4)
    write_parquet(tmp_path / "a", table_of(runs(4, 4, 9, 2, 2)), rows=4)
    assert in_parts([tmp_path / "b", tmp_path / "a"], "run", print, 10) is not None
    assert planned(tmp_path, [tmp_path / "b", tmp_path / "a"]) == [
        [("run-000", 4), ("run-001", 4)],
        [("run-002", 9)],
        [("run-003", 2), ("run-004", 2), ("run-005", 4)],
        [("run-006", 4), ("run-007", 4)],
    ]
    assert list((tmp_path / "dealt").iterdir()) == []


def test_a_run_that_goes_on_in_the_next_file_stays_whole(tmp_path: Path) -> None:
    whole = runs(3, 6, 3)
    write_parquet(tmp_path / "1", table_of(whole[:5]), rows=100)
    write_parquet(tmp_path / "2", table_of(whole[5:]), rows=100)
    assert planned(tmp_path, [tmp_path / "1", tmp_path / "2"], events=5) == [
        [("run-000", 3), ("run-001", 6), ("run-002", 3)]
    ]


@pytest.mark.parametrize("by", ["run", "process"])
def test_anything_else_is_dealt(tmp_path: Path, by: str) -> None:
    whole = runs(3, 6, 3)
    write_json_lines(tmp_path / "1", table_of(whole[::2]))
    write_parquet(tmp_path / "2", table_of(whole[1::2]))
    assert in_parts([tmp_path / "1", tmp_path / "2"], by, print) is None
    named = "/p" if by == "process" else ""
    found = [run for part in planned(tmp_path, [tmp_path / "1", tmp_path / "2"], by) for run in part]
    assert sorted(found) == [(f"run-000{named}", 3), (f"run-001{named}", 6), (f"run-002{named}", 3)]


def test_overlapping_files_are_dealt(tmp_path: Path) -> None:
    whole = runs(3, 6, 3)
    write_parquet(tmp_path / "1", table_of(whole[::2]))
    write_parquet(tmp_path / "2", table_of(whole[1::2]))
    assert in_parts([tmp_path / "1", tmp_path / "2"], "run", print) is None


def test_several_counters_in_one_run_are_put_in_the_order_of_time(tmp_path: Path) -> None:
    ann = [replace(event, process="ann", t_ns=10 * event.seq) for event in runs(3)]
    bob = [replace(event, process="bob", t_ns=10 * event.seq + 5) for event in runs(3)]
    write_parquet(tmp_path / "t", table_of([*ann, *bob]))
    [part] = plan([tmp_path / "t"], "run", tmp_path, print).parts
    rows = events_of(load(part, (*COLUMNS, "t_ns"), print))
    assert [(row.process, row.seq) for row in rows] == [
        ("ann", 0),
        ("bob", 1),
        ("ann", 2),
        ("bob", 3),
        ("ann", 4),
        ("bob", 5),
    ]
