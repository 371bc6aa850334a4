"""The ready workflow files name commands and options that exist."""

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from fencepost.commands.entry import EXTRAS, group

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


ROOT = Path(__file__).parent.parent.parent


def test_the_templates_name_versions_that_are_supported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = int(re.fullmatch(r">=3\.(\d+)", project["requires-python"])[1])  # type: ignore[index]
    texts = [*FILES, ROOT / "Containerfile"]
    named = {int(minor) for file in texts for minor in re.findall(r"\b3\.(\d\d)\b", file.read_text())}
    assert named
    assert min(named) >= oldest


def test_the_hooks_run_commands_that_exist_with_what_they_need() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert {hook["entry"] for hook in hooks} == {"fencepost check", "fencepost audit"}
    for hook in hooks:
        assert set(hook["additional_dependencies"]) == set(EXTRAS["harness"])


def test_the_editor_finds_the_place_of_an_annotation() -> None:
    matcher = json.loads((ROOT / "docs/ci/vscode-tasks.json").read_text())["tasks"][0]["problemMatcher"][
        "pattern"
    ]
    line = "::error file=src/mine.py,line=7,title=audit src/mine.py%3Af%3A one leads::both lead"
    found = re.match(matcher["regexp"], line)
    assert found is not None
    values = [found[matcher[name]] for name in ("severity", "file", "line", "message")]
    assert values == ["error", "src/mine.py", "7", "both lead"]


def test_there_is_a_file_for_each_common_host() -> None:
    assert [file.stem for file in FILES] == ["github", "gitlab"]
