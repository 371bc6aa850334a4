"""The commands on a real standalone cluster: one master, two workers, all on loopback."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from fencepost.sim.trace import table_of, write_json_lines, write_parquet
from tests.commands.test_replay import BAD, GOOD, MAP, traced
from tests.spark.cluster import cluster_and_workers, started_by

pytestmark = pytest.mark.spark


def ran(*words: str, folder: Path) -> tuple[int, dict[str, Any], str]:
    command = [sys.executable, "-m", "fencepost", *words, "--json", str(folder / "result.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=folder)
    return done.returncode, json.loads((folder / "result.json").read_text()), done.stderr


def test_check_on_a_cluster(master: str, tmp_path: Path) -> None:
    words = ["check", "create-only-lock", "--without", "number-the-takes"]
    ended, there, error = ran(*words, "--engine", "spark", "--master", master, folder=tmp_path)
    assert (ended, error) == (1, "")
    ended, here, _ = ran(*words, folder=tmp_path)
    assert ended == 1
    for key in ("verdict", "distinct", "generated", "depth", "properties", "coverage"):
        assert there[key] == here[key], key


def test_replay_on_a_cluster(master: str, tmp_path: Path) -> None:
    (tmp_path / "lock_map.py").write_text(MAP)
    write_json_lines(tmp_path / "1.jsonl", table_of(traced(GOOD)))
    write_parquet(tmp_path / "2.parquet", table_of(traced(BAD)))
    words = ["replay", "1.jsonl", "2.parquet", "--model", "lock_map.py:LockMap"]
    out = ["--out", str(tmp_path / "out")]
    ended, there, error = ran(*words, "--engine", "spark", "--master", master, *out, folder=tmp_path)
    assert (ended, error) == (1, "")
    assert (there["accepted"], there["rejected"], there["engine"]) == (1, 1, "spark")
    ended, here, _ = ran(*words, folder=tmp_path)
    for key in ("verdict", "runs", "events", "violations", "statistics", "coverage"):
        assert there[key] == here[key], key


@pytest.mark.parametrize("ext", ["jsonl", "parquet"])
def test_a_giant_run_and_a_killed_executor_change_nothing(tmp_path: Path, ext: str) -> None:
    """One run has most of the events. An executor is killed; the other judges its parts again, and no run is
    there twice. Lines are shuffled; row groups that hold whole runs are judged where they are.
    """
    (tmp_path / "lock_map.py").write_text(MAP)
    small = [replace(event, run=f"run-{n:03d}") for n in range(200) for event in traced(GOOD)]
    giant = [
        replace(event, run="run-100-giant", seq=seq)
        for seq, event in enumerate(event for _ in range(10_000) for event in traced(GOOD))
    ]
    bad = [replace(event, run="trace") for event in traced(BAD)]
    if ext == "jsonl":
        write_json_lines(tmp_path / "giant.jsonl", table_of(giant))
        write_json_lines(tmp_path / "small.jsonl", table_of([*small, *bad]))
        traces = ["giant.jsonl", "small.jsonl"]
    else:
        whole = sorted([*giant, *small, *bad], key=lambda event: (event.run, event.seq))
        write_parquet(tmp_path / "all.parquet", table_of(whole), rows=5_000)
        traces = ["all.parquet"]
    words = ["replay", *traces, "--model", "lock_map.py:LockMap"]
    words += ["--runs", "run"]
    ended, here, _ = ran(*words, "--out", "here", folder=tmp_path)
    with cluster_and_workers(tmp_path) as (master, workers):
        command = [sys.executable, "-m", "fencepost", *words, "--engine", "spark", "--master", master]
        command += ["--out", "there", "--json", "there.json"]
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as replay:
            for _ in range(1800):
                found = started_by(workers[0].pid)
                if any(map(started_by, found)) or replay.poll() is not None:
                    break
                time.sleep(0.1)
            assert replay.poll() is None, "the replay ended before the executor was killed"
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            workers[0].kill()
            assert replay.wait(timeout=900) == ended
    there = json.loads((tmp_path / "there.json").read_text())
    for key in ("verdict", "runs", "events", "violations", "continuity", "statistics"):
        assert there[key] == here[key], key
    for table in ("verdicts.parquet", "violations.parquet"):
        one, other = (pq.read_table(tmp_path / name / table).sort_by("run") for name in ("here", "there"))
        assert one.to_pylist() == other.to_pylist()
