"""`fencepost replay --follow` as a process, beside one that writes and rotates its trace: Ctrl-C ends it with
the verdict on everything that was read, and the next one goes on there.
"""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.sim.replay.test_growing import append, lines, turns

pytestmark = pytest.mark.server


def started(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fencepost", "replay", "traces", "--follow", "--out", "out"]
    return subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for(folder: Path, runs: int) -> None:
    """Wait until the table of verdicts has so many runs."""
    table = folder / "out" / "verdicts.parquet"
    for _ in range(600):
        if table.exists() and pq.read_metadata(table).num_rows >= runs:
            return
        time.sleep(0.2)
    raise AssertionError(f"{runs} runs were not judged in two minutes")


def ended(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    return process.returncode


def test_a_trace_is_followed_while_it_is_written_and_rotated(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    path = traces / "t.jsonl"
    written = 0
    for half in range(2):
        process = started(tmp_path)
        try:
            for number in range(half * 5, half * 5 + 5):
                data = lines(turns(f"run-{number}", 3))
                append(path, data[:-40])
                if number % 2:
                    path.rename(traces / f"t-{number}.jsonl")
                    path = traces / f"t-{number}.jsonl"
                append(path, data[-40:])
                path = traces / "t.jsonl"
                written += 6
                wait_for(tmp_path, number + 1)
        finally:
            code = ended(process)
        found = json.loads((tmp_path / "out" / "summary.json").read_text())
        assert (found["events"], found["runs"], found["problems"]) == (written, half * 5 + 5, [])
        assert (code, found["verdict"]) in ((0, "holds"), (3, "undecided"))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "follow",
        "summary.json",
        "verdicts.parquet",
        "violations.parquet",
    ]
