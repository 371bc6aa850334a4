"""Defaults of options from `[tool.fencepost.COMMAND]` in the nearest pyproject.toml.

    [tool.fencepost.audit]
    budget = 60
    set = ["processes=3"]

A key is the name of an option without its dashes. Options on the command line win. A key that is no option
of the command is refused, so that a spelling mistake does not pass for a setting.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from fencepost.commands.exit_codes import BadRequest
from fencepost.sim.whole_files import read_text

FILE = "pyproject.toml"


def defaults(name: str, command: click.Command, folder: Path) -> Mapping[str, Any]:
    """The defaults of a command, by the names of its parameters."""
    file, table = table_near(folder)
    given = table.get(name, {})
    if not isinstance(given, dict):
        raise BadRequest(f"{file}: [tool.fencepost] {name} is no table; write [tool.fencepost.{name}]")
    options = {
        option.removeprefix("--"): parameter
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and parameter.name
    }
    found = {}
    for key, value in given.items():
        if key not in options:
            raise BadRequest(f"{file}: [tool.fencepost.{name}] {key}: fencepost {name} has no option --{key}")
        found[str(options[key].name)] = value
    return found


def table_near(folder: Path) -> tuple[Path, Mapping[str, Any]]:
    """Return `[tool.fencepost]` of the nearest pyproject.toml that has one, and that file."""
    for place in (folder, *folder.parents):
        file = place / FILE
        try:
            text = read_text(file)
        except (OSError, UnicodeDecodeError):
            continue
        if "tool.fencepost" not in text:
            continue
        try:
            whole = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a plain ValueError
            raise BadRequest(f"{file}: {error}") from None
        match whole:
            case {"tool": {"fencepost": dict(table)}}:
                return file, table
        return file, {}
    return folder / FILE, {}
