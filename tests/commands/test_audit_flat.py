"""`fencepost audit --flat NAME=A,B`: what costs more with more of something is found, with its
counterexample."""

import json
from pathlib import Path

import pytest

from fencepost.commands.entry import group, run
from fencepost.commands.exit_codes import Exit

PROGRAM = """
from fencepost.impl.store import ABSENT


def read_newest(world):
    world.store().get("newest")


def read_all(world):
    world.store().list("record/")
    for name in [found.key for found in world.store().list("record/").objects]:
        world.store().get(name)


def start(world, read, depth):
    for number in range(depth):
        world.store().put(f"record/{number}", b"", when=ABSENT)
    world.spawn(read, world, name="reader")
    world.spawn(lambda: world.store().put("newest", b"", when=ABSENT) and None, name="writer")


def flat(world, depth=0):
    start(world, read_newest, depth)


def grows(world, depth=0):
    start(world, read_all, depth)


def broken(world, depth=0):
    start(world, read_newest, depth)
    world.always("nothing is written", lambda view: view.get("newest") is None)
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "program.py").write_text(PROGRAM)
    return str(tmp_path / "program.py")


def ends(*words: str) -> int:
    return run(lambda: group.main(["audit", *words], standalone_mode=False))


def test_what_does_not_grow_is_flat(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.json"
    assert ends(f"{program}:flat", "--flat", "depth=1,5,9", "--json", str(file)) == Exit.HOLDS
    assert (
        capsys.readouterr()
        .out.splitlines()[0]
        .endswith("; no operation costs more with depth=5 or depth=9 than with depth=1")
    )
    result = json.loads(file.read_text())
    assert result["flat"] == {"parameter": "depth", "values": [1, 5, 9]}
    assert {name: row["flat"] for name, row in result["cost"].items()} == {"reader": True, "writer": True}


def test_what_grows_is_violated_with_a_counterexample_that_can_be_replayed(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(f"{program}:grows", "--flat", "depth=1,3") == Exit.VIOLATED
    output = capsys.readouterr().out
    error = (
        "it took 5 requests and 5 serial hops without faults, and may take 3 requests and 3 serial hops "
        "without faults, as with depth=1"
    )
    assert f"cost of reader is violated: {error}" in output
    assert "depth=3 (portfolio)" in output
    command = output.splitlines()[-1].split()
    assert command[:6] == ["fencepost", "audit", f"{program}:grows", "--flat", "depth=1,3", "--replay"]
    assert ends(*command[2:]) == Exit.VIOLATED
    again = capsys.readouterr().out
    assert f"=> cost of reader: {error}" in again
    assert "interleavings" not in again, "one schedule is run of the size that was too dear"


@pytest.mark.parametrize("size", ["depth=0,3", "tables=0,3"])
def test_publish_is_flat(size: str) -> None:
    """In its history, and in the tables beside those that a plan touches."""
    words = ("--set", "scenario=skew", "--set", "coverage=off", "--faults", "none")
    assert ends("publish", *words, "--flat", size) == Exit.HOLDS


def test_without_the_first_verdict_nothing_is_reported_of_flatness(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was not explored to its end has no most that another size could exceed."""
    assert ends(f"{program}:broken", "--flat", "depth=1,3") == Exit.VIOLATED
    assert "nothing is written is violated" in capsys.readouterr().out
    assert ends(f"{program}:grows", "--flat", "depth=1,3", "--strategy", "pct") == Exit.UNDECIDED
    assert "finding: whether costs grow with depth was not looked at" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--flat", "depth"), "--flat depth must read NAME=A,B"),
        (("--flat", "depth=1"), "--flat depth=1 must read NAME=A,B"),
        (("--flat", "height=1,2"), "takes no height; it takes: depth"),
        (("--flat", "depth=1,x"), "'x' is not a whole number"),
        (("--flat", "depth=1,2", "--set", "depth=3"), "gives depth twice"),
        (("--flat", "depth=1,2", "--resume", "f"), "--flat audits several sizes, and --resume is about one"),
        (("--flat", "depth=1,2", "--trace", "f"), "--flat audits several sizes, and --trace is about one"),
        (("--flat", "depth=1,2", "--store", "memory://"), "--flat is about runs under control"),
    ],
)
def test_an_invalid_request_is_reported(
    words: tuple[str, ...], says: str, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(f"{program}:flat", *words) == Exit.BAD_REQUEST
    assert says in capsys.readouterr().err
