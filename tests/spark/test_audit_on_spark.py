"""Audits on a real standalone cluster: the same results as with `--jobs`, also when an executor is killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster import cluster_and_workers, started_by

pytestmark = pytest.mark.spark

BESIDE = """
from fencepost.impl.store import ABSENT, ANYTHING, Matches


def add(store, name, world, safe):
    found = store.get("count")
    value = int(found.body) if found.done else 0
    when = ANYTHING if not safe else ABSENT if not found.done else Matches(found.info.etag)
    if store.put("count", b"%d" % (value + 1), when=when).done:
        world.note("added", name)
"""
PROGRAM = """
from beside import add


def program(world, rivals=3, safe=False):
    store = world.store()
    for number in range(rivals):
        world.spawn(add, store, str(number), world, safe, name=f"rival-{number}")
    world.finally_("counts", lambda view: int(view.get("count") or 0) >= len(view.notes("added")))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text(
        "from fencepost.impl.store import ABSENT, ANYTHING, Matches\n" + BESIDE
    )
    (tmp_path / "mine.py").write_text(PROGRAM)
    return tmp_path


def command(folder: Path, *words: str) -> tuple[list[str], Path]:
    target = folder / "result.json"
    return [sys.executable, "-m", "fencepost", *words, "--json", str(target)], target


def ran(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    line, target = command(folder, *words)
    done = subprocess.run(line, capture_output=True, text=True, timeout=900, cwd=folder)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(target.read_text())


def compared(value: Any) -> Any:
    """A result without what depends on time."""
    if isinstance(value, dict):
        left_out = ("seconds", "provenance")
        return {name: compared(inner) for name, inner in value.items() if name not in left_out}
    return [compared(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("safe", ["true", "false"])
def test_executors_find_what_processes_find(project: Path, master: str, safe: str) -> None:
    """Every count, and the same counterexample; the program's neighbour reaches the executors."""
    words = ["audit", "mine.py:program", "--set", f"safe={safe}", "--faults", "none,reply_lost=1"]
    words += ["--strategy", "exhaustive"]  # the default explores so small a program without executors
    ended, here = ran(project, *words, "--jobs", "2")
    assert ended == (0 if safe == "true" else 1)
    again, there = ran(project, *words, "--engine", "spark", "--master", master)
    assert (again, compared(there)) == (ended, compared(here))


def test_a_killed_executor_changes_nothing(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Its pieces are explored again by the other; SIGKILL, as when a machine is lost."""
    words = ["audit", "mine.py:program", "--set", "safe=true", "--strategy", "exhaustive"]
    _, here = ran(project, *words, "--jobs", "2")
    with cluster_and_workers(tmp_path_factory.mktemp("lost")) as (master, workers):
        line, target = command(project, *words, "--engine", "spark", "--master", master)
        target.unlink()
        with subprocess.Popen(line, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as audit:
            found: list[int] = []
            for _ in range(1800):
                found = started_by(workers[0].pid)
                if any(map(started_by, found)) or audit.poll() is not None:
                    break
                time.sleep(0.1)
            time.sleep(2)  # its Python explores
            assert audit.poll() is None, "the audit ended before the executor was killed"
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            workers[0].kill()
            output, _ = audit.communicate(timeout=900)
        assert audit.returncode == 0, output
        assert compared(json.loads(target.read_text())) == compared(here)


@pytest.mark.parametrize(
    "words",
    [
        ["audit", "counter", "--mutants"],
        ["audit", "mine.py:program", "--mutate", "--set", "rivals=2", "--set", "safe=true"],
        ["zoo", "two-phase"],
    ],
    ids=["mutants", "mutate", "zoo"],
)
def test_rows_are_those_of_one_process(project: Path, master: str, words: list[str]) -> None:
    ended, here = ran(project, *words)
    again, there = ran(project, *words, "--engine", "spark", "--master", master)
    assert (again, compared(there["rows"])) == (ended, compared(here["rows"]))


def test_what_executors_lack_is_one_line(project: Path, master: str) -> None:
    """A module that only the driver has."""
    elsewhere = project / "elsewhere"
    elsewhere.mkdir()
    (project / "beside.py").rename(elsewhere / "beside.py")
    line, _ = command(project, "audit", "mine.py:program", "--engine", "spark", "--master", master)
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, cwd=project)
    assert done.returncode == 2
    assert "there is no module 'beside'" in done.stderr
    words = ["audit", "mine.py:program", "--set", "rivals=2", "--py-files", "elsewhere"]
    line, _ = command(project, *words, "--engine", "spark", "--master", master)
    environment = {**os.environ, "PYTHONPATH": str(elsewhere)}
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, cwd=project, env=environment)
    assert done.returncode == 1, done.stderr
