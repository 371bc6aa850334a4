"""Promises and outcome coverage as users get them: options, suspicions, tables, lcov, places in SARIF."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.results import AuditResult, read_result
from tests.commands.running import exit_of

PROMISED = Path(__file__).parent.parent / "trust" / "promised"
COUNT = """
import boto3

def _put(s3, key, body, **condition):
    return s3.put_object(Bucket="b", Key=key, Body=body, **condition)

def _get(s3, key):
    return s3.get_object(Bucket="b", Key=key)

def count(s3):
    found = _get(s3, "n")
    total = int(found["Body"].read()) + 1
    if total > 100:
        _put(s3, "full", b"")
    _put(s3, "n", str(total).encode())

def begin(s3):
    _put(s3, "n", b"0")

def two(world):
    world.boto3_bucket("b")
    begin(world.boto3_client("s3"))
    for name in ("ann", "bob"):
        world.spawn(count, world.boto3_client("s3"), name=name, restart=False)

import dataclasses

@dataclasses.dataclass
class Shown:
    total: int
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(PROMISED))
    for name in ("naive_queue", "half_queue", "careful_queue"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "count.py").write_text(COUNT)
    return tmp_path


def result_of(file: Path) -> AuditResult:
    found = read_result(file).result
    assert isinstance(found, AuditResult)
    return found


def test_a_promise_is_judged_and_replayed(files: Path) -> None:
    words = ["audit", "count.py:two", "--faults", "none", "--promise", "register=n"]
    assert exit_of(*words, "--json", "found.json") == 1
    [violation] = result_of(files / "found.json").violations
    assert violation.property == "register=n"
    assert exit_of(*words, "--quiet", "--replay", violation.token) == 1


def test_without_a_property_promises_are_suspicions(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, a program without a property holds, and nothing says how little that is."""
    assert exit_of("audit", "count.py:two", "--faults", "none", "--json", "found.json") == 0
    found = result_of(files / "found.json")
    assert [one.property for one in found.suspicions] == ["register"]
    assert found.suspicions[0].steps
    shown = " ".join(capsys.readouterr().out.split())
    assert "no property is declared" in shown
    assert "--promise register makes it binding" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--promise", "lick=k"], "no promise is called 'lick'"),
        (["--promise", "register", "--promise", "register"], "promised twice"),
        (["--promise", "register", "--store", "memory://"], "--store runs for real"),
    ],
)
def test_a_promise_that_makes_no_sense_is_refused(
    words: list[str], message: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_of("audit", "count.py:two", *words) == 2
    captured = capsys.readouterr()
    assert message in captured.err + captured.out


def test_the_kinds_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_of("audit", "--promises") == 0
    shown = capsys.readouterr().out
    assert "queue=TARGET" in shown
    assert ",ttl=" in shown


def test_outcomes_have_a_denominator_by_line_of_the_caller(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lines of `_put` and `_get` stand for nothing; what the budget excludes is no part of the share."""
    options = ("--faults", "none,reply_lost=1", "--coverage", "out.lcov", "--json", "found.json", "-v")
    assert exit_of("audit", "count.py:two", *options) == 0
    covered = result_of(files / "found.json").coverage
    rows = {(row.line, row.kind): row for row in covered.requests}
    assert set(rows) == {(8, "get"), (15, "put")}
    assert set(rows[15, "put"].outcomes) == {"200", "lost after"}
    assert all(rows[15, "put"].outcomes.values())
    assert rows[8, "get"].outcomes["404"] == 0
    assert rows[8, "get"].then["200"] == ("put (line 5)",)
    assert {"503", "late", "lost before"} <= set(rows[15, "put"].untried)
    others = [file for file in covered.executed if "dataclasses.py" in file or "/examples/zoo/" in file]
    assert not others, "lines of a library or of our examples count as the user's"
    assert covered.executed["count.py"]["14"] == 0
    assert covered.executed["count.py"]["15"] == 1
    shown = capsys.readouterr().out
    met = sum(1 for row in rows.values() for count in row.outcomes.values() if count)
    assert f"{met} of 5 outcomes met at 2 request lines; " in shown
    assert "never executed: count.py:14" in shown
    lines = (files / "out.lcov").read_text().splitlines()
    assert "SF:count.py" in lines
    assert "DA:14,0" in lines
    assert "BRDA:8,0,1,0" in lines
    assert lines[-1] == "end_of_record"


def test_only_modules_that_the_program_names_have_lines(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an audit in a session of pytest compiles every test, counts its lines as not executed,
    or what a program imports inside of a function, by a text or from its package is missing.
    """
    (files / "parts").mkdir()
    for name in (
        "beside",
        "imported_late",
        "by_text",
        "parts/__init__",
        "parts/one",
        "parts/two",
        "parts/not",
    ):
        (files / f"{name}.py").write_text(f"def f():\n    return {name!r}\n")
    (files / "parts/one.py").write_text("from . import two\n\ndef f():\n    from .two import f\n    f()\n")
    names = ("beside", "imported_late", "by_text", "parts", "parts.one", "parts.two", "parts.not")
    monkeypatch.syspath_prepend(str(files))
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.import_module(name)
    added = """
def late():
    import imported_late, parts.one
    importlib = __import__("importlib")
    importlib.import_module("by_text").f()
    imported_late.f()
"""
    (files / "count.py").write_text(COUNT.replace("def begin(s3):\n", "def begin(s3):\n    late()\n") + added)
    options = ("--faults", "none", "--coverage", "out.lcov", "--json", "found.json")
    assert exit_of("audit", "count.py:two", *options) == 0
    executed = result_of(files / "found.json").coverage.executed
    assert {*executed} == {
        "count.py",
        "imported_late.py",
        "by_text.py",
        "parts/__init__.py",
        "parts/one.py",
        "parts/two.py",
    }
    assert executed["by_text.py"]["2"] == executed["imported_late.py"]["2"] == 1
    assert executed["parts/two.py"]["2"] == 0


def test_jobs_and_one_process_count_the_same_outcomes(files: Path) -> None:
    """If this fails, what other processes of the search met is missing in the table."""
    for jobs in ("1", "2"):
        assert exit_of("audit", "count.py:two", "--jobs", jobs, "--json", f"{jobs}.json", "--quiet") == 0
    one, two = (
        [(row.line, row.kind, [*row.outcomes]) for row in result_of(files / f"{jobs}.json").coverage.requests]
        for jobs in "12"
    )
    assert one == two


def test_sarif_points_at_the_line_of_the_caller(files: Path) -> None:
    """If this fails, every finding of a program with a helper `_put` points at the helper."""
    program = f"{PROMISED / 'queue_program.py'}:given_up"
    options = ("--faults", "none", "--promise", "queue=jobs/", "--json", "out/found.json", "--quiet")
    (files / "out").mkdir()
    assert exit_of("audit", program, *options) == 1
    assert exit_of("report", "out", "--sarif", "found.sarif", "--annotations", "found.txt") == 1
    [run] = json.loads((files / "found.sarif").read_text())["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    source = (PROMISED / "half_queue.py").read_text().splitlines()
    assert place["artifactLocation"]["uri"].endswith("half_queue.py")
    line = source[place["region"]["startLine"] - 1].strip()
    assert line.startswith(("if self._put(key, {", 'self._put(f"dead'))
    stack = result_of(files / "out/found.json").violations[0].steps[-1].stack
    assert stack[-1].endswith("in _put")
    assert "botocore" not in "".join(stack)
    assert "half_queue.py" in (files / "found.txt").read_text()


def test_sarif_points_at_the_changed_line(files: Path) -> None:
    """If this fails, the finding of a pull request is shown outside of its diff."""

    def git(*words: str) -> None:
        who = ("-c", "user.name=A", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *words], check=True, capture_output=True)

    source = (PROMISED / "half_queue.py").read_text()
    before = source.replace('            self._put(f"dead/{job}", {"attempts": held["attempt"]})\n', "")
    assert before != source
    (files / "half_queue.py").write_text(before)
    (files / "program.py").write_text((PROMISED / "queue_program.py").read_text())
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "before")
    (files / "half_queue.py").write_text(source)
    options = ("--faults", "none", "--promise", "queue=jobs/", "--json", "out/found.json", "--quiet")
    (files / "out").mkdir()
    assert exit_of("audit", "program.py:given_up", *options) == 1
    assert exit_of("report", "out", "--sarif", "found.sarif", "--base", "HEAD") == 1
    [run] = json.loads((files / "found.sarif").read_text())["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "half_queue.py"
    assert 'self._put(f"dead' in source.splitlines()[place["region"]["startLine"] - 1]
    assert exit_of("report", "out", "--base", "no-such-revision") == 2
