"""What a shell offers to complete, asked in the way the shells ask."""

import os
import shutil
import subprocess
import sys

import pytest

from fencepost.commands.completion import SHELLS, VARIABLE
from fencepost.commands.entry import SUMMARIES
from fencepost.commands.exit_codes import Exit
from tests.commands.running import exit_of


def offered(*words: str) -> list[str]:
    """In bash: the candidates for the last of the words."""
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.argv = ['fencepost']; from fencepost.commands import main; main()",
        ],
        env={
            **os.environ,
            VARIABLE: "bash_complete",
            "COMP_WORDS": " ".join(["fencepost", *words]),
            "COMP_CWORD": str(len(words)),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.partition(",")[2] for line in ran.stdout.splitlines()]


def test_commands_options_and_names_are_offered() -> None:
    assert offered("ch") == ["check"]
    assert set(SUMMARIES) <= set(offered(""))
    assert "two-phase" in offered("check", "two")
    assert "peterson" in offered("zoo", "")
    assert offered("audit", "elec") == ["election"]
    assert "--mutant" in offered("audit", "--mu")
    assert set(offered("completion", "")) == set(SHELLS)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_one_the_shell_can_read(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_of("completion", shell) == Exit.HOLDS
    script = capsys.readouterr().out
    assert VARIABLE in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_another_shell_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_of("completion", "cmd") == Exit.BAD_REQUEST
    assert capsys.readouterr().err.count("\n") == 1
