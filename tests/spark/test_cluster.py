"""The commands on a real standalone cluster: one master, two workers, all on loopback."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fencepost.sim.trace import table_of, write_json_lines, write_parquet
from tests.commands.test_replay import BAD, GOOD, MAP, traced

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
