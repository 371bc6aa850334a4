"""`nox -s all`: a table of every session, which is resumed, and whose processes end with it."""

import ast
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import depth, outcomes, sessions
from tests.sessions import Need, Row, Table

GREEN = "pass"
RED = "raise SystemExit(3)"
COUNTS = """
from tests import outcomes
outcomes.record(5, ["tests/test_a.py::test_one"], {"no server | here": 2})
outcomes.record(1, [], {"no server | here": 1, "xfail: known": 1})
"""
ROOT = Path(__file__).parents[1]


class Nox:
    """Scripts in the place of sessions, and a count of their runs."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.scripts, self.commit = folder, dict[str, str](), "a" * 40
        self.needs = dict[str, tuple[Need, ...]]()
        monkeypatch.setattr(sessions, "listed", lambda: list(self.scripts))
        monkeypatch.setattr(sessions, "clean_commit", lambda: self.commit)
        monkeypatch.setattr(sessions, "command", self._command)
        monkeypatch.setattr(sessions, "NEEDS", self.needs)

    def _command(self, session: str) -> list[str]:
        return [sys.executable, "-c", f"print({session!r})\n" + self.scripts[session]]

    def __call__(self, *words: str) -> int:
        return sessions.main(["--folder", str(self.folder), *words])

    @property
    def rows(self) -> dict[str, Row]:
        return Table(self.folder).rows


@pytest.fixture
def nox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nox:
    return Nox(tmp_path / "sessions", monkeypatch)


def test_a_red_session_does_not_end_the_run(nox: Nox, capsys: pytest.CaptureFixture[str]) -> None:
    """One run must name everything that is red."""
    nox.scripts |= {"first": GREEN, "second": RED, "third": GREEN}
    assert nox() == 1
    assert {name: (row.result, row.why) for name, row in nox.rows.items()} == {
        "first": ("green", ""),
        "second": ("red", "exit code 3"),
        "third": ("green", ""),
    }
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [
        ["first", "green,"],
        ["second", "red,"],
        ["third", "green,"],
    ]
    assert (nox.folder / "second.log").read_text() == "second\n"


def test_all_is_green_when_every_session_is(nox: Nox) -> None:
    nox.scripts |= {"first": GREEN, "second": GREEN}
    assert nox() == 0


def test_the_table_counts_tests_and_gives_the_reasons_of_skips(nox: Nox) -> None:
    """A session may run pytest twice; its counts are added up."""
    nox.scripts |= {"counts": COUNTS + RED, "lint": GREEN, "bench": RED}
    assert nox() == 1
    row = nox.rows["counts"]
    assert (row.tests, row.passed, row.failed) == (11, 6, ["tests/test_a.py::test_one"])
    assert row.skipped == {"no server | here": 3, "xfail: known": 1}
    data = json.loads((nox.folder / "table.json").read_text())["sessions"]
    assert [(one["session"], one["tests"]) for one in data] == [
        ("counts", 11),
        ("lint", None),
        ("bench", None),
    ]
    table = (nox.folder / "table.md").read_text()
    assert "| counts | red: exit code 3 | 11 | 6 | 1 | 4: 3 no server \\| here; 1 xfail: known |" in table
    assert "| lint | green | - | - | - | - |" in table
    assert f"| bench | left out: {sessions.LEFT_OUT['bench']} |" in table
    assert "- counts: `tests/test_a.py::test_one`" in table


def test_counts_of_another_run_are_not_taken(nox: Nox) -> None:
    """A session that fails before its first test has no counts, whatever the run before had."""
    nox.scripts["counts"] = COUNTS
    nox()
    nox.scripts["counts"] = RED
    nox("--fresh")
    assert nox.rows["counts"].passed is None


def runs(nox: Nox) -> Callable[[], list[str]]:
    """Return a function that returns the sessions that ran since its last call."""
    seen = nox.folder.parent / "seen"
    for name, script in nox.scripts.items():
        nox.scripts[name] = f"open({str(seen)!r}, 'a').write('{name} ')\n{script}"

    def ran() -> list[str]:
        names = seen.read_text().split() if seen.exists() else []
        seen.unlink(missing_ok=True)
        return names

    return ran


def test_what_is_green_for_this_commit_is_not_run_again(nox: Nox, capsys: pytest.CaptureFixture[str]) -> None:
    nox.scripts |= {"first": GREEN, "second": RED, "third": GREEN}
    ran = runs(nox)
    nox()
    assert ran() == ["first", "second", "third"]
    capsys.readouterr()
    assert nox() == 1
    assert ran() == ["second"]
    assert capsys.readouterr().out.count("(not run again)") == 2
    nox("--fresh")
    assert ran() == ["first", "second", "third"]
    nox.commit = "b" * 40
    nox()
    assert ran() == ["first", "second", "third"]


def test_a_tree_with_changes_is_run_every_time(nox: Nox) -> None:
    """A commit says nothing about files that differ from it."""
    nox.scripts["first"] = GREEN
    ran = runs(nox)
    nox.commit = ""
    assert (nox(), nox()) == (0, 0)
    assert ran() == ["first", "first"]
    nox.commit = "a" * 40
    nox()
    assert ran() == ["first"]


def test_a_tree_that_changes_during_a_session_is_run_again(nox: Nox, monkeypatch: pytest.MonkeyPatch) -> None:
    nox.scripts["first"] = GREEN
    ran = runs(nox)
    commits = iter(["a" * 40, "a" * 40])
    monkeypatch.setattr(sessions, "clean_commit", lambda: next(commits, "b" * 40))
    nox()
    nox()
    assert ran() == ["first", "first"]
    nox()
    assert ran() == []


def test_a_table_that_was_cut_is_begun_anew(nox: Nox) -> None:
    nox.scripts["first"] = GREEN
    nox()
    (nox.folder / "table.json").write_text('{"sessions": [{"ses')
    assert nox() == 0
    assert nox.rows["first"].result == "green"


def test_a_chosen_session_leaves_the_rows_of_the_others(nox: Nox) -> None:
    nox.scripts |= {"first": RED, "second": GREEN}
    nox()
    assert nox("--only", "second") == 0
    assert [*nox.rows] == ["first", "second"]
    with pytest.raises(SystemExit):
        nox("--only", "third")


def test_a_session_that_is_gone_leaves_the_table(nox: Nox) -> None:
    nox.scripts |= {"first": RED, "second": GREEN}
    nox()
    del nox.scripts["first"]
    assert nox() == 0
    assert [*nox.rows] == ["second"]


def test_a_session_without_its_program_is_not_run(nox: Nox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing program makes the run red, unless that is allowed."""
    nox.scripts |= {"first": GREEN, "second": GREEN}
    nox.needs["second"] = (Need("a-program-of-no-system", "a-package"),)
    monkeypatch.setattr(Need, "install", lambda need: None)
    ran = runs(nox)
    assert nox() == 1
    assert ran() == ["first"]
    row = nox.rows["second"]
    assert (row.result, row.why) == (
        "not run",
        "a-program-of-no-system is missing: apt-get install a-package",
    )
    assert nox("--allow-missing") == 0


def test_a_program_that_can_be_installed_is(nox: Nox, monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[str] = []
    need = Need("a program", "a-package", lambda: bool(installed))
    nox.scripts["first"], nox.needs["first"] = GREEN, (need,)
    monkeypatch.setattr(Need, "install", lambda need: installed.append(need.package))
    assert nox() == 0
    assert installed == ["a-package"]


def test_a_session_that_hangs_is_stopped(nox: Nox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "GRACE_S", 0.1)
    nox.scripts |= {"first": "import time; time.sleep(60)", "second": GREEN}
    assert nox("--limit", "0.005") == 1
    assert nox.rows["first"].why == "stopped after 0.005 minutes"
    assert nox.rows["second"].result == "green"


INTERRUPTED = """
import sys
from tests import sessions
sessions.GRACE_S = 0.5
sessions.listed = lambda: ["first", "second"]
sessions.clean_commit = lambda: "a" * 40
sessions.NEEDS = {}
sessions.command = lambda session: [sys.executable, "-c", {"first": "pass", "second": sys.argv[2]}[session]]
raise SystemExit(sessions.main(["--folder", sys.argv[1]]))
"""
STUBBORN = """
import pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
ignore = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"
sleep = [sys.executable, "-c", ignore]
here = subprocess.Popen(sleep)
elsewhere = subprocess.Popen(sleep, start_new_session=True)
pathlib.Path(FILE + ".new").write_text(f"{here.pid} {elsewhere.pid}")
pathlib.Path(FILE + ".new").rename(FILE)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_every_process_and_the_next_run_continues(
    nox: Nox, tmp_path: Path, number: signal.Signals
) -> None:
    """Servers that are left behind disturb the next run. A session that was cut is no result."""
    pids = tmp_path / "pids"
    script = f"FILE = {str(pids)!r}\n{STUBBORN}"
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(nox.folder), script],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        until = time.monotonic() + 60
        while not pids.exists():
            assert time.monotonic() < until
            time.sleep(0.02)
        child.send_signal(number)
        out, _ = child.communicate(timeout=60)
    assert child.returncode == 130
    assert out.endswith("interrupted; the same command continues here\n")
    for pid in map(int, pids.read_text().split()):
        assert ended(pid)
    assert {name: row.result for name, row in nox.rows.items()} == {"first": "green"}
    nox.scripts |= {"first": GREEN, "second": GREEN}
    ran = runs(nox)
    assert nox() == 0
    assert ran() == ["second"]


def ended(pid: int) -> bool:
    """Return True once the process is gone or waits for its parent only."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        found = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        if not found.stdout.strip() or found.stdout.startswith("Z"):
            return True
        time.sleep(0.05)
    return False


def test_a_session_with_parameters_is_one_and_long_ones_are_last() -> None:
    names = ["all", "tests", "deep", "sdks", "sdks", "spark"]
    listing = [{"session": f"{name}({number})", "name": name} for number, name in enumerate(names)]
    assert sessions.sessions_of(json.dumps(listing)) == ["tests", "sdks", "spark", "deep"]


def test_the_sessions_are_those_of_the_noxfile() -> None:
    """A new session takes part without an entry elsewhere."""
    pytest.importorskip("nox", reason="pip install nox")
    assert set(sessions.listed()) == set(defined()) - {"all"}


def defined() -> list[str]:
    """Return the names of the sessions that the noxfile defines."""
    found = []
    for node in ast.parse((ROOT / "noxfile.py").read_text()).body:
        for decorator in node.decorator_list if isinstance(node, ast.FunctionDef) else []:
            words = ast.unparse(decorator)
            if words.startswith("nox.session"):
                name = re.search(r"name='([^']+)'", words)
                found.append(name[1] if name else node.name)
    return found


def test_the_guide_gives_the_time_and_the_needs_of_each_session() -> None:
    """A row of CONTRIBUTING.md for each session, with every program that it needs."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    found = re.findall(r"^\| `(\w+)` \| (\d+|-) \| (.*?)\|$", text, re.MULTILINE)
    needs = {name: needed.lower() for name, _, needed in found}
    assert set(needs) >= {*defined(), *sessions.NEEDS}
    for name, needed in sessions.NEEDS.items():
        assert all(need.name in needs[name] for need in needed), name


def test_deep_runs_every_property_and_leaves_out_the_rest() -> None:
    """A module that is left out by mistake never looks further than in every run."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    deeper = {file for file in files if depth.looks_further(file)}
    words = re.compile(r"@given\(|\bexamples\(|\bDEEP\b|RuleBasedStateMachine|run_state_machine_as_test")
    used = {file for file in files if words.search(file.read_text())} - {Path(__file__)}
    assert used <= deeper
    assert ROOT / "tests" / "test_layout.py" not in deeper
    assert len(deeper) < len(files) / 3


def test_a_run_of_pytest_records_its_counts(tmp_path: Path) -> None:
    """Workers and nested runs must not count a second time."""
    (tmp_path / "test_a.py").write_text(
        "import os, pytest\n"
        "def test_passes(): assert 'FENCEPOST_OUTCOMES' not in os.environ\n"
        "def test_fails(): assert False\n"
        "def test_skips(): pytest.skip('no server')\n"
        "@pytest.mark.xfail(reason='known')\n"
        "def test_known(): assert False\n"
        "@pytest.fixture\n"
        "def broken(): raise ValueError\n"
        "def test_error(broken): pass\n"
    )
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    file = tmp_path / "outcomes"
    options = ["-q", "-n", "2", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path)]
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, outcomes.VARIABLE: str(file)},
        capture_output=True,
        check=False,
    )
    found = outcomes.read(file)
    assert found is not None
    assert found.passed == 1
    assert [name.split("::")[1] for name in sorted(found.failed)] == ["test_error", "test_fails"]
    assert found.skipped == {"no server": 1, "xfail: known": 1}
    assert len(file.read_text().splitlines()) == 1
