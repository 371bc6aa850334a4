"""The ready workflow files name commands and options that exist."""

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from fencepost.commands.entry import group

FILES = sorted((Path(__file__).parent.parent.parent / "docs" / "ci").glob("*.yml"))


def strings(value: Any) -> list[str]:
    """Every text in a document, however deep."""
    if isinstance(value, dict):
        return [text for inner in value.values() for text in strings(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in strings(inner)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_workflow_runs_commands_that_exist(file: Path) -> None:
    """A copied file that fails at an option it made up is the last one somebody copies."""
    document = yaml.safe_load(file.read_text())
    lines = [line.strip() for text in strings(document) for line in text.splitlines()]
    commands = [line for line in lines if line.startswith("fencepost ")]
    assert {shlex.split(line)[1] for line in commands} == {"audit", "report"}
    for line in commands:
        _, name, *words = shlex.split(re.sub(r"\|\| true$", "", line))
        command = group.get_command(click.Context(group), name)
        assert command is not None
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known


def test_there_is_a_file_for_each_common_host() -> None:
    assert [file.stem for file in FILES] == ["github", "gitlab"]
