"""What a shell offers to complete, asked in the way the shells ask."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.shell_completion import ShellComplete

from fencepost.commands.completion import SHELLS, VARIABLE
from fencepost.commands.entry import SUMMARIES, group
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
    assert offered("ch") == answers("ch") == ["check"]
    assert offered("audit", "elec") == answers("audit", "elec") == ["election"]
    assert set(SUMMARIES) <= set(answers(""))
    assert "two-phase" in answers("check", "two")
    assert "peterson" in answers("zoo", "")
    assert "--mutant" in answers("audit", "--mu")
    assert set(answers("completion", "")) == set(SHELLS)


def answers(*words: str) -> list[str]:
    """As `offered`, in this process."""
    shell = ShellComplete(group, {}, "fencepost", VARIABLE)
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


def completed(name: str, option: str, given: dict[str, str], incomplete: str) -> list[str]:
    """What one option offers, without a shell: a process for each question would be slow."""
    command = group.get_command(click.Context(group), name)
    assert command is not None
    context = click.Context(command)
    context.params.update(given)
    parameter = next(one for one in command.params if option in (*one.opts, one.name))
    return [
        item.type if item.type != "plain" else item.value
        for item in parameter.shell_complete(context, incomplete)
    ]


def test_safeguards_mutants_scenarios_and_files_are_offered() -> None:
    assert completed("check", "--without", {"model_name": "two-phase"}, "all") == ["all-prepared"]
    assert completed("check", "--without", {"model_name": "nothing"}, "") == []
    assert "check-then-create" in completed("audit", "--mutant", {"system": "election"}, "check")
    assert completed("simulate", "scenario", {}, "cap-t") == ["cap-tail"]
    assert completed("simulate", "scenario", {}, "mine/") == ["file"]
    assert completed("report", "folder", {}, "ou") == ["dir"]
    assert completed("replay", "traces", {}, "") == ["file"]


def every_command(
    command: click.Command, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), name)
            assert inner is not None
            yield from every_command(inner, (*words, name))


def test_every_help_has_an_example_that_the_command_takes() -> None:
    """And names values of one kind alike, so that who learned one command knows the others."""
    commands = [(words, command) for words, command in every_command(group) if words]
    for words, command in commands:
        epilog = " ".join((command.epilog or "").split())
        found = re.search(rf"Examples?:.*?fencepost ({' '.join(words)}\b.*?)(?:;|\.?$)", epilog)
        assert found is not None, words
        given = shlex.split(found[1])
        known = {option for one in command.params for option in one.opts}
        if not isinstance(command, click.Group):
            assert {word.partition("=")[0] for word in given if word.startswith("--")} <= known, words
    for words, command in commands:
        for one in command.params:
            if isinstance(one, click.Option) and not one.is_flag and "integer" in one.type.name:
                assert one.metavar, (words, one.name)


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
