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
    assert "3 of 4 mutants found, election.py:election as it is: holds" in shown
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


def test_time_that_is_over_leaves_mutants_undecided(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_of("audit", "election.py:election", "--mutate", "--budget", "0.000001") == 3
    assert "UNDECIDED" in capsys.readouterr().out


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
