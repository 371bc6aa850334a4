"""`fencepost audit --store`: the program for real; it breaks, or nothing is decided."""

import json
from pathlib import Path
from typing import Any

import pytest

from fencepost.commands.exit_codes import Exit
from tests.commands.running import exit_of

ALONE = """
from fencepost.impl.store import ANYTHING

def fine(world, size=1):
    world.spawn(lambda: world.store().put("k", b"x" * size, when=ANYTHING), name="p")
    world.finally_("it is there", lambda view: len(view.get("k") or b"") == size)

def broken(world):
    fine(world)
    world.finally_("it is gone", lambda view: view.get("k") is None)
"""


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Any:
    def tell(*words: object) -> tuple[int, str, str]:
        code = exit_of("audit", *map(str, words))
        return code, *capsys.readouterr()

    return tell


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(ALONE)
    return path


def test_nothing_broken_is_not_decided(shown: Any, program: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    code, out, _ = shown(
        f"{program}:fine", "--store", place.as_uri(), "--rounds", 2, "--json", tmp_path / "r.json"
    )
    assert code == Exit.UNDECIDED
    assert out.splitlines()[1] == (
        "undecided: nothing broke in 2 real rounds, which proves nothing: "
        "orders that did not happen were not tried"
    )
    assert not place.exists(), "it left its directory behind"
    result = json.loads((tmp_path / "r.json").read_text())
    assert (result["strategy"], result["verdict"], result["schedules"]) == ("plain", "undecided", 2)
    assert result["coverage"]["outcomes"] == {"put done": 2}
    assert result["violations"] == []


def test_what_breaks_is_violated_and_reported_last(shown: Any, program: Path) -> None:
    code, out, _ = shown(f"{program}:broken", "--store", "memory://")
    assert code == Exit.VIOLATED
    lines = out.splitlines()
    assert lines[1] == "violated: it broke for real, in round 1"
    assert lines[-1].strip().startswith("=> it is gone: ")


def test_parameters_reach_the_program(shown: Any, program: Path) -> None:
    code, out, _ = shown(f"{program}:fine", "--store", "memory://", "--set", "size=7", "--rounds", 1)
    assert code == Exit.UNDECIDED
    assert "size=7 (for real): 1 round of 1 thread, 1 request" in out


@pytest.mark.parametrize(
    "other",
    [
        ("--strategy", "pct"), ("--faults", "crash=1"), ("--max-schedules", 3), ("--depth", 2),
        ("--max-steps", 9), ("--jobs", 2), ("--resume", "f"), ("--replay", "t"), ("--base", "HEAD"),
        ("--trace", "f"), ("--mutants",), ("--wait-rounds", 3),
    ],
)  # fmt: skip
def test_what_is_about_runs_under_control_is_refused(
    shown: Any, program: Path, other: tuple[Any, ...]
) -> None:
    code, _, err = shown(f"{program}:fine", "--store", "memory://", *other)
    assert code == Exit.BAD_REQUEST
    assert f"{other[0]} is about runs under control" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (("counter", "--rounds", 3), "--rounds counts the rounds of a real run"),
        (("boto3-counter", "--store", "memory://"), "written on boto3"),
        (("counter", "--store", "nowhere://"), "no scheme we know"),
        (("counter", "--store", "file:///proc/nothing/here"), "cannot"),
    ],
)
def test_what_makes_no_sense_is_one_line(shown: Any, words: tuple[Any, ...], output: str) -> None:
    code, _, err = shown(*words)
    assert code == Exit.BAD_REQUEST
    assert output in err
    assert len(err.splitlines()) == 1
