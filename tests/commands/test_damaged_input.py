"""Files that a command reads again: damaged in any place, or no files at all.

The answer is one line and exit code 2. Code 1 would say that a program is broken, and 0 that it is right.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.commands.exit_codes import Exit
from fencepost.sim.explore.checkpoint import digest_of_checkpoint
from tests.commands.running import Run, exit_of

PROGRAM = """
from fencepost.impl.store import ABSENT, Outcome

def fixed(world, processes=3):
    def claim(store, name):
        if store.head("leader").outcome is Outcome.MISSING:
            store.put("leader", name.encode(), when=ABSENT)
    for name in ("ann", "bob", "cid")[:processes]:
        world.spawn(claim, world.store(), name, name=name)
    world.finally_("somebody leads", lambda view: view.get("leader") is not None)
"""
"""A search of some hundred schedules, so that a checkpoint has a path with choices left to try."""


@pytest.fixture
def program(tmp_path: Path) -> str:
    file = tmp_path / "mine.py"
    file.write_text(PROGRAM)
    return f"{file}:fixed"


@pytest.fixture
def checkpoint(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    file = tmp_path / "search.json"
    words = ("audit", program, "--faults", "none", "--max-schedules", "3", "--resume", str(file))
    assert exit_of(*words) == Exit.UNDECIDED
    capsys.readouterr()
    return file


def values(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The place of every value in parsed JSON."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(found for key, part in inside for found in values(part, (*place, key)))]


def changed(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = changed(value[place[0]], place[1:], new)
    return copy


OTHERS: tuple[Any, ...] = (None, True, -1, 10**30, 1.5, "", "x", [], [[]], {}, {"x": 1})


def refused(words: list[str], run: Callable[..., tuple[int, str, str]]) -> str:
    code, out, err = run(*words)
    assert code == Exit.BAD_REQUEST, (code, out, err)
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("fencepost: ")
    return err


def test_a_checkpoint_in_which_anything_was_changed_is_refused(
    ran: Run, program: str, checkpoint: Path
) -> None:
    """Each value of the file becomes another one. A path with nothing left to try would say "holds"."""
    whole = json.loads(checkpoint.read_text())
    words = ["audit", program, "--faults", "none", "--resume", str(checkpoint)]
    places = values(whole)
    assert len(places) > 200, "a checkpoint with something in it"
    for at, place in enumerate(places[:: max(1, len(places) // 150)]):
        damaged = changed(whole, place, OTHERS[at % len(OTHERS)])
        checkpoint.write_text(json.dumps(damaged))
        if damaged != whole:
            refused(words, ran)
    checkpoint.write_text(json.dumps(whole))
    assert ran(*words)[0] == Exit.HOLDS


def test_a_checkpoint_with_a_digest_that_fits_but_nonsense_inside(
    ran: Run, program: str, checkpoint: Path
) -> None:
    """A forged file is refused too, where it makes no sense."""
    whole = json.loads(checkpoint.read_text())
    whole.pop("digest")
    for name in set(whole) - {"sources"}:
        for new in OTHERS[:1] + OTHERS[6:7]:
            forged = {**whole, name: new}
            checkpoint.write_text(json.dumps(forged | {"digest": digest_of_checkpoint(forged)}))
            code, _, err = ran("audit", program, "--faults", "none", "--resume", str(checkpoint))
            assert code in {Exit.BAD_REQUEST, Exit.HOLDS}
            assert "Traceback" not in err


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(cut=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_a_checkpoint_with_a_damaged_byte(
    program: str, checkpoint: Path, cut: int, flip: int, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = checkpoint.read_bytes()
    at = cut % len(whole)
    try:
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :]):
            checkpoint.write_bytes(damaged)
            capsys.readouterr()

            def run(*words: str) -> tuple[int, str, str]:
                return exit_of(*words), *capsys.readouterr()

            refused(["audit", program, "--faults", "none", "--resume", str(checkpoint)], run)
    finally:
        checkpoint.write_bytes(whole)


READERS = {
    "checkpoint": ["audit", "PROGRAM", "--resume", "FILE"],
    "trace": ["replay", "FILE", "--model", "publish"],
    "access log": ["replay", "FILE", "--from", "access-log", "--layout", "publish"],
    "layout": ["replay", "TRACE", "--from", "access-log", "--layout", "FILE"],
    "scenario": ["simulate", "FILE"],
    "program": ["audit", "FILE:fixed"],
    "model": ["check", "FILE:Model"],
    "results": ["report", "FILE"],
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ["pipe", "device", "socket"])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(
    ran: Run, program: str, tmp_path: Path, reader: str, kind: str
) -> None:
    place = Path("/dev/zero") if kind == "device" else tmp_path / "other.toml"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "socket":
        os.mknod(place, 0o140600)
    trace = tmp_path / "t.jsonl"
    trace.write_text("{}\n")
    given = {"PROGRAM": program, "FILE": str(place), "FILE:fixed": f"{place}:fixed", "TRACE": str(trace)}
    words = [given.get(word, word).replace("FILE:Model", f"{place}:Model") for word in READERS[reader]]
    refused(words, ran)
