"""Files that a command writes at the end. A file that cannot be written is refused before the work starts."""

import errno
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.provenance import provenance
from fencepost.results import to_json
from fencepost.sim.whole_files import write_whole


class Target(click.ParamType[str]):
    """Type of an option that names an output file: `type=TARGET`. `-` is standard output."""

    name = "file"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        error = obstacle(value, makes_folders=ctx is not None and _makes_folders(ctx.command))
        if error:
            option = param.opts[0] if param is not None else "--json"
            raise BadRequest(f"cannot write {value or repr(value)}: {error}; give {option} another file")
        return value


TARGET = Target()


def _makes_folders(command: click.Command) -> bool:
    """Return True if the command creates a folder for its results; it may be the folder of the file."""
    return any(option.name == "out" for option in command.params)


def obstacle(target: str, *, makes_folders: bool = False) -> str:
    """Why `target` cannot be written, tested without leaving a file; empty when it can."""
    if target == "-":
        return ""
    if not target or "\0" in target:
        return os.strerror(errno.EINVAL)
    folder = Path(target).parent
    try:
        if Path(target).is_dir():
            return os.strerror(errno.EISDIR)
        if Path(target).exists() and not Path(target).is_file():
            return ""  # a pipe or a device is written directly; its folder need not be writable
        if makes_folders and not folder.exists():
            return ""
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return str(error.strerror)


json_option = click.option(
    "--json",
    "json_file",
    type=TARGET,
    metavar="FILE",
    help="Write the result as JSON; - is standard output.",
)


def write_result(result: Any, target: str) -> None:
    """Write a command's result, a dataclass or plain data, and its provenance to `target`, atomically."""
    write_json({**to_json(result), "provenance": to_json(provenance())}, target)


def write_json(result: Mapping[str, Any], target: str) -> None:
    """Write `result` to the file `target`, atomically; `-` is standard output."""
    text = json.dumps(result, indent=2, sort_keys=False, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    write_file(Path(target), text.encode(), "--json")


def write_file(path: Path, body: bytes, option: str) -> None:
    """Write the file of `option`, atomically."""
    try:
        write_whole(path, body)
    except OSError as error:
        raise BadRequest(f"cannot write {path}: {error.strerror}; give {option} another file") from error
