"""Files that a command writes in the end: what cannot be written is refused before the work, not after it."""

import errno
import os
import tempfile
from pathlib import Path

import click

from fencepost.commands.ending import BadRequest


class Target(click.ParamType):
    """The type of such an option: `type=TARGET`. `-` is standard output, and always there."""

    name = "file"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        error = obstacle(value, makes_folders=ctx is not None and _makes_folders(ctx.command))
        if error:
            option = param.opts[0] if param is not None else "--json"
            raise BadRequest(f"cannot write {value or repr(value)}: {error}; give {option} another file")
        return value


TARGET = Target()


def _makes_folders(command: click.Command) -> bool:
    """Whether the command makes a folder for its results, in which the file may be meant to lie."""
    return any(option.name == "out" for option in command.params)


def obstacle(target: str, *, makes_folders: bool = False) -> str:
    """What is in the way of writing `target`, tried without leaving anything; empty when nothing is."""
    if target == "-":
        return ""
    if not target or "\0" in target:
        return os.strerror(errno.EINVAL)
    folder = Path(target).parent
    try:
        if Path(target).is_dir():
            return os.strerror(errno.EISDIR)
        if Path(target).exists() and not Path(target).is_file():
            return ""  # a pipe or a device is written to, whatever may be made beside it
        if makes_folders and not folder.exists():
            return ""
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return str(error.strerror)
