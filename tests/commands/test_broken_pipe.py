"""`fencepost ... | head -1` ends quietly, whatever is printed: nobody is there to read an explanation."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from fencepost.commands.entry import SUMMARIES, group
from fencepost.commands.exit_codes import Exit
from tests.commands.running import exit_of

OTHERS = (["--help"], ["check", "peterson"], ["check", "peterson", "--json", "-"], ["zoo", "two-phase"])


def listings() -> list[list[str]]:
    """Every command that has --list, with what it needs besides."""
    found = []
    for name in SUMMARIES:
        command = group.get_command(click.Context(group), name)
        if command is not None and any("--list" in parameter.opts for parameter in command.params):
            found.append([name, "--list"])
    return [words for words in found if words[0] != "report"]  # it needs a folder of results


@contextlib.contextmanager
def closed_pipe() -> Iterator[None]:
    """Standard output whose reader went away. It stands within a test: pytest replaces it between phases."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", buffering=1) as output, pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.stdout", output)
        yield


@pytest.mark.parametrize("words", [*listings(), *OTHERS], ids=" ".join)
def test_a_reader_that_goes_away_is_no_error(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    with closed_pipe():
        assert exit_of(*words) == Exit.UNDECIDED
    assert "fencepost:" not in capfd.readouterr().err


@pytest.mark.server
def test_the_interpreter_ends_quietly_too() -> None:
    """What is still buffered fails when the interpreter closes its streams."""
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [sys.executable, "-m", "fencepost", "check", "--list"],
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert ended.stderr == b""
    assert ended.returncode == Exit.UNDECIDED
