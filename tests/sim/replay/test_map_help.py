"""Help for a map: the runs of a trace, and a first proposal that runs as it is."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fencepost.examples.work_queue.model import WorkQueue
from fencepost.examples.work_queue.refinement import QueueMap
from fencepost.impl.store.events import Event
from fencepost.sim.replay.run_explanation import explain_runs
from fencepost.sim.replay.skeleton import skeleton
from fencepost.sim.trace import TraceError, table_of, write_parquet
from fencepost.sim.trace.grouping import find_grouping, grouped
from tests.commands.running import exit_of


def put(seq: int, key: str, process: str = "a", fields: str = "") -> list[Event]:
    return [
        Event("r", 2 * seq, seq, process, 0, seq, "request", "put", key, "absent", trace_fields=fields),
        Event("r", 2 * seq + 1, seq, process, 0, seq, "response", "put", key, outcome="done"),
    ]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    events = [
        *put(0, "jobs/1"),
        *put(1, "claims/1", fields="attempt=1 state=claimed"),
        *put(2, "jobs/2"),
        *put(3, "odd/2"),
    ]
    path = tmp_path / "trace.parquet"
    write_parquet(path, table_of(events))
    return path


def test_runs_are_named_by_a_value_of_the_keys(trace: Path) -> None:
    by = find_grouping(None, QueueMap.runs, QueueMap.keys)
    table = table_of([*put(0, "jobs/1"), *put(1, "b/claims/1"), *put(2, "done/2"), *put(3, "odd/2")])
    named, left = grouped(table, by)
    assert (named["run"].to_pylist(), left) == (["1"] * 4 + ["2"] * 2, 2)
    with pytest.raises(TraceError, match="no keys of the map have the value 'nobody'"):
        find_grouping("key:nobody", "run", QueueMap.keys)


def test_the_explanation_names_what_is_not_read(trace: Path) -> None:
    by = find_grouping(None, QueueMap.runs, QueueMap.keys)
    found = explain_runs([trace], by, QueueMap(), print).as_json()
    assert (found["runs"], found["smallest"], found["largest"]) == (2, 2, 4)
    assert found["left_out"] == {"put of 'odd/...', whose key does not match": 2}
    one_run = explain_runs([trace], "run", QueueMap(), print)
    assert any("--runs key:job" in hint for hint in one_run.hints)
    assert any("no keys of the map match odd/..." in hint for hint in one_run.hints)


def test_a_skeleton_runs_as_it_is(trace: Path, tmp_path: Path) -> None:
    """Also beside a model of the user's own."""
    (tmp_path / "mine.py").write_text("from fencepost.examples.work_queue.model import WorkQueue\n")
    for name in ("mine.py:WorkQueue", "work-queue"):
        text = skeleton([trace], name, WorkQueue, print)
        assert "Keys('claim', 'claims/(?P<name>.+)')" in text
        assert "state: claimed" in text
        assert "self.does('created', w=seen.rank(\"process\"))" in text
        file = tmp_path / "proposed.py"
        file.write_text(text)
        assert exit_of("replay", str(trace), "--model", f"{file}:WorkQueueMap") in (0, 1, 3)


def test_a_skeleton_of_a_lease_and_its_log_is_a_map_that_accepts_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One key that changes again and again, a folder beside it, and numbers that rise."""
    (tmp_path / "lease.py").write_text(
        "from fencepost.model import *\n\n\n"
        "class Lease(Machine):\n"
        "    parties, epochs = Size(2), Size(40)\n"
        "    epoch = Int(0, epochs)\n\n"
        "    @action(p=parties)\n"
        "    def take_leader(s, p: int) -> None:\n"
        "        s.require(s.epoch < s.epochs)\n"
        "        s.epoch = s.epoch + 1\n\n"
        "    @action(p=parties, e=epochs)\n"
        "    def write_log(s, p: int, e: int) -> None:\n"
        "        s.require(s.epoch == e + 1)\n"
    )
    for leader in ("leader", "cluster/leader"):
        events: list[Event] = []
        for epoch in range(1, 21):
            process, fields = "ab"[epoch % 2], f"epoch={epoch}"
            events += put(2 * epoch, leader, process, fields)
            events += put(2 * epoch + 1, f"cluster/log/{epoch:06d}", process, fields)
        trace = tmp_path / "lease.parquet"
        write_parquet(trace, table_of(events))
        text = skeleton([trace], "lease.py:Lease", _machine(tmp_path / "lease.py"), print)
        assert f"Keys('leader', '{leader}')" in text
        assert "Keys('log', 'cluster/log/(?P<name>.+)')" in text
        (tmp_path / "lease_map.py").write_text(text)
        found = tmp_path / "found.json"
        model = f"{tmp_path}/lease_map.py:LeaseMap"
        assert exit_of("replay", str(trace), "--model", model, "--json", str(found)) == 0
        assert json.loads(found.read_text())["accepted"] == 1
        broken = [*events[:40], *put(99, "cluster/log/x", "a", "epoch=3"), *events[40:]]
        write_parquet(trace, table_of(replace(one, seq=seq) for seq, one in enumerate(broken)))
        capsys.readouterr()
        assert exit_of("replay", str(trace), "--model", model) == 1
        assert f"fencepost audit FILE.py:FUNCTION --like {trace}\n" in capsys.readouterr().out


def _machine(file: Path) -> Any:
    from fencepost.commands.models import find_machine

    return find_machine(f"{file}:Lease")


def test_the_command_prints_a_skeleton(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_of("replay", str(trace), "--skeleton", "two-phase") == 0
    assert "class TwoPhaseMap(Refinement):" in capsys.readouterr().out
    assert exit_of("replay", str(trace), "--skeleton", "two-phase", "--model", "publish") == 2
    assert exit_of("replay", str(trace), "--skeleton", "nonsense") == 2
