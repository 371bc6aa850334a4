"""`fencepost audit FILE:FUNCTION --mutate`: which protective steps of the user's code nothing needs."""

import json
import sys
from pathlib import Path

import pytest

from tests.commands.running import exit_of

CLAIM = """
from fencepost.impl.store import ABSENT, Outcome

def claim(world, store, name):
    while store.put("leader", name.encode(), when=ABSENT).outcome is Outcome.UNKNOWN:
        pass
    leader = store.get("leader")
    while not leader.done:
        leader = store.get("leader")
    if leader.body == name.encode():
        world.note("leads", name)
"""
ELECTION = """
from claiming import claim

def one_leader(view):
    assert len(set(view.notes("leads"))) < 0 + 1 + 1

def election(world):
    for name in ("ann", "bob"):
        world.spawn(claim, world, world.store(), name, name=name)
    world.always("one leader", one_leader)
    world.finally_("somebody leads", lambda view: bool(view.notes("leads")))
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "claiming", raising=False)
    (tmp_path / "claiming.py").write_text(CLAIM)
    (tmp_path / "election.py").write_text(ELECTION)
    return tmp_path


def test_survivors_are_listed_with_file_and_line(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The loop is not needed while only one message of a run is lost; everything else is."""
    assert exit_of("audit", "election.py:election", "--mutate", "--json", "found.json") == 1
    found = json.loads((files / "found.json").read_text())
    rows = {row["safeguard"]: (row["verdict"], row["line"], Path(row["file"]).name) for row in found["rows"]}
    assert rows == {
        "claiming.py:5:condition": ("violated", 5, "claiming.py"),
        "claiming.py:5:retry": ("holds", 5, "claiming.py"),
        "claiming.py:10:read-back-true": ("violated", 10, "claiming.py"),
        "claiming.py:10:read-back-false": ("violated", 10, "claiming.py"),
        "": ("holds", 0, ""),
    }
    shown = capsys.readouterr().out
    assert "3 of 4 mutants found, 1 survives, election.py:election as it is: holds" in shown
    assert "without claiming.py:5:retry" in shown
    assert {path.name for path in files.iterdir()} - {"__pycache__"} == {
        "claiming.py",
        "election.py",
        "found.json",
    }


TAUTOLOGY = """
    world.always("nothing led or something did", lambda view: view.notes("leads") == view.notes("leads"))
"""


def test_a_property_that_no_mutant_breaks_is_listed(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, a tautology passes for a property; or a property that a mutant breaks is called one."""
    (files / "election.py").write_text(ELECTION.rstrip() + TAUTOLOGY)
    assert exit_of("audit", "election.py:election", "--mutate", "--json", "found.json") == 1
    found = json.loads((files / "found.json").read_text())
    assert "one leader" in {name for row in found["rows"] for name in row["broken"]}
    assert "nothing led or something did" in found["unbroken"]
    assert "one leader" not in found["unbroken"]
    assert "nothing led or something did: no mutant breaks this property" in capsys.readouterr().out


def test_nothing_is_called_unbroken_before_every_mutant_was_audited(files: Path) -> None:
    (files / "election.py").write_text(ELECTION.rstrip() + TAUTOLOGY)
    assert (
        exit_of("audit", "election.py:election", "--mutate", "--budget", "0.000001", "--json", "f.json") == 3
    )
    assert json.loads((files / "f.json").read_text())["unbroken"] == []


def test_a_mutant_is_replayed_by_its_name(files: Path) -> None:
    program = ["audit", "election.py:election", "--faults", "none"]
    assert exit_of(*program, "--quiet") == 0
    assert exit_of(*program, "--mutant", "claiming.py:5:condition", "--quiet") == 1


@pytest.mark.parametrize(
    ("change", "options", "ended", "verdict"),
    [
        (("", ""), ("--budget", "0.000001"), 3, "undecided"),
        (("when=ABSENT", "when=__import__('fencepost.impl.store').impl.store.ANYTHING"), (), 1, "violated"),
    ],
    ids=["no time", "broken"],
)
def test_no_mutant_is_tried_before_the_program_holds(
    files: Path,
    capsys: pytest.CaptureFixture[str],
    change: tuple[str, str],
    options: tuple[str, ...],
    ended: int,
    verdict: str,
) -> None:
    """If this fails, mutants of a broken program count as found."""
    (files / "claiming.py").write_text(CLAIM.replace(*change) if change[0] else CLAIM)
    assert exit_of("audit", "election.py:election", "--mutate", *options, "--json", "found.json") == ended
    shown = capsys.readouterr().out
    assert "no mutant is tried before it holds" in " ".join(shown.split())
    found = json.loads((files / "found.json").read_text())
    assert (found["verdict"], len(found["rows"])) == (verdict, 1)


GUARDED = """
from botocore.exceptions import ClientError

def claim(s3, name):
    try:
        s3.put_object(Bucket="jobs", Key="leader", Body=name.encode(), IfNoneMatch="*")
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("PreconditionFailed", "ConditionalRequestConflict"):
            raise
        if name == "nobody":
            s3.put_object(Bucket="jobs", Key="other", Body=b"", IfNoneMatch="*")

def one_leader(view):
    return view.get("jobs/leader") in (b"ann", b"bob")

def stays(before, after):
    return before.get("jobs/leader") in (None, after.get("jobs/leader"))

def election(world):
    world.boto3_bucket("jobs")
    for name in ("ann", "bob"):
        world.spawn(claim, world.boto3_client("s3"), name, name=name)
    world.finally_("somebody leads", one_leader)
    world.step_property("the leader stays", stays)
"""


def test_what_no_schedule_executes_is_listed_and_not_tried(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, a guard of an error code that the world never answers is called unneeded."""
    (files / "guarded.py").write_text(GUARDED)
    assert exit_of("audit", "guarded.py:election", "--mutate", "--faults", "none", "--json", "f.json") == 0
    rows = {row["safeguard"]: row for row in json.loads((files / "f.json").read_text())["rows"]}
    assert {name: (row["tried"], row["found"]) for name, row in rows.items()} == {
        "guarded.py:6:condition": (True, True),
        "guarded.py:8:guard": (False, False),
        "guarded.py:11:condition": (False, False),
        "": (True, False),
    }
    assert "2 not tried" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["election", "--mutate"], "--mutate changes code of your own"),
        (["election.py:election", "--mutate", "--replay", "x"], "--mutate audits many programs"),
        (["election.py:election", "--mutant", "nonsense"], "has no mutant 'nonsense'"),
    ],
)
def test_what_cannot_be_mutated(
    words: list[str], message: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_of("audit", *words) == 2
    captured = capsys.readouterr()
    assert message in captured.err + captured.out
