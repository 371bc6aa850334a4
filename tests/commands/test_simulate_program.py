"""`fencepost simulate FILE:FUNCTION`: the program of an audit in simulated time, and beside a revision."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fencepost.commands.exit_codes import Exit
from tests.commands.running import exit_of

PROGRAM = """
from fencepost.impl.store import ANYTHING


def save(store, looks):
    for _ in range(looks):
        store.get("k")
    store.put("k", b"x", when=ANYTHING)


def program(world, looks=LOOKS):
    for name in ("ann", "bob"):
        world.spawn(save, world.store(), looks, name=name)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(PROGRAM.replace("LOOKS", "1"))
    return tmp_path


def simulated(*words: str) -> dict[str, Any]:
    assert exit_of("simulate", "mine.py:program", *words, "--json", "result.json") == Exit.HOLDS
    found: dict[str, Any] = json.loads(Path("result.json").read_text())
    return found


def test_every_swept_value_is_a_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = simulated(
        "--sweep", "clients=1,3", "--sweep", "looks=1,2", "--latency", "10 ms", "--operations", "5"
    )
    parameters = [run["parameters"] for run in found["runs"]]
    assert parameters == [{"clients": c, "looks": n} for c in ("1", "3") for n in ("1", "2")]
    stats = [run["operations"]["save"] for run in found["runs"]]
    assert [one["p50"] for one in stats] == [20, 30, 20, 30]
    assert [one["count"] for one in stats] == [5, 5, 15, 15]
    assert found["runs"][0]["dollars_million"] == pytest.approx(5.4)
    assert "clients  looks  operation" in capsys.readouterr().out
    assert not found["notes"]


def test_a_constant_in_the_place_of_a_distribution_is_noted(project: Path) -> None:
    words = ["--latency", "10 ms/40 ms", "--operations", "2"]
    (note,) = simulated(*words, "--sweep", "latency=5 ms,20 ms/30 ms")["notes"]
    assert "replaces the distribution 10 ms/40 ms by constants" in note
    assert not simulated(*words, "--sweep", "latency=5 ms/9 ms,20 ms/30 ms")["notes"]


def test_each_kind_may_have_a_latency(project: Path) -> None:
    found = simulated("--latency", "10 ms", "--latency", "put=25 ms", "--operations", "2", "--clients", "1")
    assert found["runs"][0]["operations"]["save"]["p50"] == 35


def test_a_scenario_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.toml"
    latency = '{ p50 = "20 ms", p99 = "60 ms" }'
    workload = '[workload]\nsystem = "ingest"\noperations = 3\n'
    file.write_text(f'title = "T"\nabout = "A"\n[store]\nlatency = {latency}\n{workload}')
    assert exit_of("simulate", str(file), "--sweep", "latency=10 ms,20 ms", "--jobs", "1") == Exit.HOLDS
    assert "replaces the distribution" in " ".join(capsys.readouterr().out.split())
    assert exit_of("simulate", str(file), "--sweep", "writers=1,2", "--jobs", "1") == Exit.HOLDS
    assert "replaces" not in capsys.readouterr().out


def git(folder: Path, *words: str) -> None:
    identity = {f"GIT_{who}_{what}": "t@t" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(["git", *words], cwd=folder, check=True, env={**os.environ, **identity})


@pytest.mark.slow
def test_a_base_shows_what_a_change_costs(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One look more: a request and a hop of 10 ms."""
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "first")
    (project / "mine.py").write_text(PROGRAM.replace("LOOKS", "2"))
    found = simulated("--base", "HEAD", "--latency", "10 ms", "--operations", "4")
    before, after = found["runs"]
    assert [run["parameters"]["code"] for run in (before, after)] == ["HEAD", "now"]
    assert [run["operations"]["save"]["p50"] for run in (before, after)] == [20, 30]
    (note,) = found["notes"]
    assert "requests 2 -> 3 (+50%), hops 2 -> 3 (+50%), p50 ms 20 -> 30 (+50%)" in note
    assert "$/million" in note
    assert note in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["mine.py:program", "--out", "x"], "a program has --json"),
        (["mine.py:program", "--sweep", "depth=1,2"], "there is no such key; there are clients"),
        (["mine.py:program", "--sweep", "clients"], "must read KEY=A,B"),
        (["mine.py:program", "--sweep", "clients=some"], "give a whole number above 0"),
        (["mine.py:program", "--latency", "soon"], "soon"),
        (["mine.py:program", "--latency", "9 ms/3 ms"], "give P50/P99"),
        (["mine.py:program", "--latency", "putt=9 ms"], "no request is of kind 'putt'"),
        (["mine.py:program", "--profile", "none.json"], "none.json"),
        (["mine.py:nobody"], "holds no program 'nobody'"),
        (["mine.py:program", "--base", "HEAD"], "not under git"),
        (["cap-tail", "--clients", "3"], "--clients is for a program"),
        (["cap-tail", "--set", "a=1"], "--set is for a program"),
    ],
)
def test_requests_that_make_no_sense(
    project: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert exit_of("simulate", *words) == Exit.BAD_REQUEST
    error = capsys.readouterr().err
    assert says in error
    assert len(error.strip().splitlines()) == 1
