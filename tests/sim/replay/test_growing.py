"""A folder that grows is judged as the whole trace is, whatever way its files come; nothing counts twice."""

import gzip
import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from fencepost.impl.store.events import Event
from fencepost.model import Model
from fencepost.model.create_only_lock import CreateOnlyLock
from fencepost.properties.refinement import Automaton
from fencepost.sim.replay.growing import PIECES_MAX, Growing
from fencepost.sim.replay.judging import Judge
from fencepost.sim.replay.local import Outcome, replay
from fencepost.sim.replay.parts import Part, plan
from fencepost.sim.trace import TraceError, discover, table_of, write_parquet
from tests.properties.refinement import maps


def turns(run: str, count: int, *, violated_at: int = -1) -> list[Event]:
    """One client takes the lock and gives it back, so often; or does not give it back once."""
    made: list[Event] = []
    for turn in range(count):
        base = Event(run, 0, 0, f"{run}-ann", 0, turn, "landed", "put", f"locks/{run}", outcome="done")
        made.append(replace(base, trace_fields=f"take={turn % 3 + 70}"))
        made += [replace(base, kind="delete")] if turn != violated_at else []
    return [replace(event, seq=seq, t_ns=1000 * (seq + 1), op=seq) for seq, event in enumerate(made)]


def lines(events: list[Event]) -> bytes:
    return b"".join(json.dumps(asdict(event)).encode() + b"\n" for event in events)


class Following:
    """A folder, and the verdicts on it so far. Each round can be that of a new process."""

    def __init__(self, folder: Path) -> None:
        self.traces, self.state = folder / "traces", folder / "state"
        self.traces.mkdir()
        self.judge = Judge(Automaton(maps.LockMap(Model(CreateOnlyLock)), slots=4), whole=True)
        self.growing = self.anew()
        self.rounds = 0

    def anew(self) -> Growing:
        self.growing = Growing([self.traces], "run", self.state)
        return self.growing

    def round(self) -> dict[str, Any]:
        """Read and judge what is new; the result, and the table of verdicts."""
        self.growing.read()
        outcome = self.growing.judge(self._judged, Outcome())
        self.growing.write_verdicts(self.state / "all.parquet")
        table = pq.read_table(self.state / "all.parquet").sort_by("run").to_pylist()
        return {**_counts(outcome), "table": table}

    def whole(self) -> dict[str, Any]:
        """The same of all files at once."""
        folder = self.state / "whole"
        folder.mkdir(exist_ok=True)
        problems: list[Any] = []
        parts = plan(discover([self.traces]), "run", folder, problems.append).parts
        outcome = replay(self.judge, parts, verdicts=folder / "all.parquet")
        table = pq.read_table(folder / "all.parquet").sort_by("run").to_pylist()
        return {**_counts(outcome), "problems": len(problems), "table": table}

    def _judged(self, part: Part, verdicts: Path) -> Outcome:
        return replay(self.judge, [part], verdicts=verdicts, workers=1)


def _counts(outcome: Outcome) -> dict[str, Any]:
    names = ("runs", "events", "accepted", "rejected", "undecided")
    found: dict[str, Any] = {name: getattr(outcome, name) for name in names}
    found |= {"continuity": outcome.continuity.as_row(), "statistics": outcome.statistics.as_row()}
    return {**found, "problems": len(outcome.problems)}


@pytest.fixture
def following(tmp_path: Path) -> Following:
    return Following(tmp_path)


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_lines_come_in_pieces_and_a_torn_one_waits(following: Following) -> None:
    """Every cut of the bytes gives the verdicts of what is whole; in the end, those of the whole trace."""
    data = lines(turns("a", 3) + turns("b", 2, violated_at=0))
    path = following.traces / "1.jsonl"
    seen = []
    for start in range(0, len(data), 300):
        append(path, data[start : start + 300])
        found = following.round()
        assert found["problems"] == 0
        assert found["events"] == data[: start + 300].count(b"\n")
        seen.append(found["rejected"])
    assert found == following.whole()
    assert seen[0] == 0
    assert seen[-1] == 1


def test_a_late_file_completes_runs_that_were_judged(following: Following) -> None:
    run = turns("a", 3)
    append(following.traces / "2.jsonl", lines(run[4:]))
    first = following.round()
    assert first["events"] == 2
    append(following.traces / "1.jsonl", lines(run[:4]))
    write_parquet(following.traces / "3.parquet", table_of(turns("c", 1)))
    found = following.round()
    assert found == following.whole()
    assert (found["events"], found["accepted"]) == (len(run) + 2, 2)


@pytest.mark.parametrize("how", ["renamed", "copied and emptied", "packed"])
def test_rotation_counts_nothing_twice_and_loses_nothing(following: Following, how: str) -> None:
    """Some events are written between the last round and the rotation."""
    path, old = following.traces / "t.jsonl", following.traces / "t.jsonl.1"
    run = turns("a", 3)
    append(path, lines(run[:3]))
    following.round()
    append(path, lines(run[3:5]))
    if how == "renamed":
        path.rename(old)
    elif how == "copied and emptied":
        old.write_bytes(path.read_bytes())
        os.truncate(path, 0)
    else:
        with gzip.open(old.with_suffix(".gz"), "wb") as file:
            file.write(path.read_bytes())
        path.unlink()
    append(path, lines(run[5:]))
    found = following.round()
    assert found == following.whole()
    assert (found["events"], found["runs"], found["accepted"]) == (len(run), 1, 1)
    assert following.round() == found


@pytest.mark.parametrize("count", [1, 3])
def test_a_file_that_is_emptied_and_written_anew_is_a_new_one(following: Following, count: int) -> None:
    """Its new content is shorter or longer than what was read."""
    path = following.traces / "t.jsonl"
    append(path, lines(turns("a", 2)))
    before = following.round()
    path.write_bytes(lines(turns("b", count)))
    found = following.round()
    assert (found["runs"], found["events"]) == (2, before["events"] + 2 * count)


def test_a_new_process_goes_on_and_counts_nothing_twice(following: Following) -> None:
    run = turns("a", 3)
    append(following.traces / "t.jsonl", lines(run[:3]))
    first = following.round()
    following.anew()
    assert following.round() == first, "a restart without new events"
    append(following.traces / "t.jsonl", lines(run[3:]))
    following.anew()
    assert following.round() == following.whole()


def test_a_process_that_dies_before_its_round_is_complete_is_as_if_it_had_not_been(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = turns("a", 3)
    append(following.traces / "t.jsonl", lines(run[:3]))
    following.round()
    append(following.traces / "t.jsonl", lines(run[3:]))

    def dies(_state: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(following.growing, "_save", dies)
    with pytest.raises(KeyboardInterrupt):
        following.growing.read()
    assert following.growing.judge(following._judged, Outcome()).events == 3
    monkeypatch.undo()
    assert following.round() == following.whole(), "the same process goes on"
    following.anew()
    assert following.round() == following.whole()


def test_many_rounds_leave_few_files(following: Following) -> None:
    run = turns("a", PIECES_MAX)
    for event in run:
        append(following.traces / "t.jsonl", lines([event]))
        following.growing.read()
    assert len(list(following.state.glob("piece-*"))) <= PIECES_MAX
    assert following.round() == following.whole()


def test_damage_is_named_once_and_an_unfinished_file_waits(following: Following) -> None:
    write_parquet(following.traces / "p.parquet", table_of(turns("a", 2)))
    data = (following.traces / "p.parquet").read_bytes()
    (following.traces / "p.parquet").write_bytes(data[:-50])
    append(following.traces / "t.jsonl", b"{no event}\n" + lines(turns("b", 1)))
    found = following.round()
    assert (found["events"], found["problems"]) == (2, 1)
    (following.traces / "p.parquet").write_bytes(data)
    assert (following.round()["events"], following.round()["problems"]) == (6, 1)
    (following.traces / "p.parquet").write_bytes(data + b"more")
    assert following.round()["problems"] == 2, "what changed after it was read is named"
    assert following.round()["problems"] == 2


def test_the_state_of_another_replay_is_refused(following: Following) -> None:
    append(following.traces / "t.jsonl", lines(turns("a", 1)))
    following.round()
    with pytest.raises(TraceError, match="by another unit"):
        Growing([following.traces], "process", following.state)
    (following.state / "state.json").write_text("{")
    with pytest.raises(TraceError, match="cannot be read"):
        following.anew()
