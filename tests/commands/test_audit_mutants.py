"""`fencepost audit SYSTEM --mutants`: what is broken must be found, what is fixed must hold."""

import io
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from fencepost.commands import systems
from fencepost.commands.audit import mutant_row
from fencepost.commands.exit_codes import Exit
from fencepost.commands.systems import mutants_of
from fencepost.reports.audit_text import LONG, mutant_text
from tests.commands.elections import ELECTION, package
from tests.commands.running import exit_of

PROGRAMS = f"""{ELECTION}
def mutant_create_if_absent(world):
    start(world, badly)

def mutant_in_name_only(world):
    start(world, well)

def fixed(world):
    start(world, well)
"""


ends = partial(exit_of, "audit")


@pytest.fixture
def elections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only system that ships: one with a mutant that is none."""
    file = package("ballot", PROGRAMS, tmp_path, monkeypatch)
    monkeypatch.setattr(systems, "FOLDERS", (file.parent.name,))
    return file


def test_every_mutant_is_a_row_and_the_system_the_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "r.json"
    assert ends("election", "--mutants", "-v", "--json", str(target)) == Exit.HOLDS
    found = json.loads(target.read_text())
    assert [(row["safeguard"], row["kind"], row["found"], row["unexpected"]) for row in found["rows"]] == [
        ("check-then-create", "broken", True, False),
        ("own-write-taken-as-a-loss", "broken", True, False),
        ("", "fixed", False, False),
    ]
    worst = found["rows"][0]
    assert (worst["property"], worst["length"], worst.get("model")) == ("at most one leads", 6, None)
    assert worst["schedules"] > 0
    assert worst["counterexample"][-1].startswith("  => at most one leads")
    output = capsys.readouterr().out.splitlines()
    assert output[0] == "holds: 2 of 2 mutants found, election as it is: holds"
    assert output[1].startswith(
        "  without check-then-create                breaks at most one leads in 6 lines"
    )
    # The second line of a row is a command that shows the counterexample.
    words = output[2].split()
    assert words[:2] == ["fencepost", "audit"]
    assert ends(*words[2:]) == Exit.VIOLATED


def test_a_mutant_that_is_not_found_is_reported_and_fails(
    elections: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A safeguard that can be left out of the code without anything breaking protects nothing."""
    assert ends("ballot", "--mutants") == Exit.VIOLATED
    output = capsys.readouterr().out
    assert "without in-name-only                     NOT FOUND: every schedule holds" in output
    assert output.splitlines()[0] == "violated: 1 of 2 mutants found, 1 survives, ballot as it is: holds"


def test_a_system_that_does_not_hold_shows_nothing(
    elections: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = elections.read_text().replace("def fixed(world):\n    start(world, well)", "fixed = mutant_x")
    elections.write_text(text.replace("def mutant_in_name_only", "def mutant_x").replace("well)", "badly)"))
    assert ends("ballot", "--mutants") == Exit.VIOLATED
    output = capsys.readouterr().out.splitlines()
    assert output[0] == "violated: 2 of 2 mutants found, ballot as it is: violated"


def test_too_little_is_undecided(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends("election", "--mutants", "--max-schedules", "1") == Exit.UNDECIDED
    output = capsys.readouterr().out
    assert "UNDECIDED: a limit was hit first" in output
    assert output.splitlines()[0].endswith("election as it is: undecided")


def test_it_works_on_plain_boto3_as_well() -> None:
    assert mutants_of("self-412-boto3") == ["broken"]


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["election", "--mutants", "--mutant", "x"], "--mutants audits them all, and --mutant is about one"),
        (["election", "--mutants", "--replay", "default"], "and --replay is about one"),
        (["election", "--mutants", "--base", "HEAD"], "--mutants audits them all, and --base is about"),
        (["file.py:function", "--mutants"], "--mutants is for the systems of --list"),
        (["elektion", "--mutants"], "no system is called 'elektion'"),
    ],
)
def test_what_makes_no_sense(words: list[str], output: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(*words) == Exit.BAD_REQUEST
    captured = capsys.readouterr()
    assert output in captured.out + captured.err


def test_the_counterexample_of_the_model_stands_beside() -> None:
    row = mutant_row("publish", "inbound-check-on-removal")
    assert row.model == {"model": "publish", "property": "referential_integrity", "length": 8}
    assert (row.moves, row.times, row.long) == (3, 0.38, False)


def test_a_long_counterexample_is_called_so() -> None:
    row = mutant_row("publish", "inbound-check-on-removal")
    long = replace(row, moves=14, times=round(14 / 8, 2), long=LONG < 14 / 8)
    console = Console(width=200, file=io.StringIO())
    console.print(mutant_text(long))
    assert isinstance(console.file, io.StringIO)
    output = console.file.getvalue()
    assert "in 14 steps (model 8, referential_integrity, 1.75 times as many: LONG)" in output


@pytest.mark.slow
@pytest.mark.parametrize("mutant", mutants_of("publish"))
def test_the_code_breaks_about_as_soon_as_the_model(mutant: str) -> None:
    """Every safeguard of publish, left out of the code: found, and at most half as many steps again.

    A claim of the model makes the second manifest in one step; the scenario publishes once more.
    """
    row = mutant_row("publish", mutant)
    assert row.found
    assert row.model is not None
    assert row.long == (mutant == "manifests-held-for-plans"), row
