"""`--watch`: run a command again whenever one of the user's Python files changes, until Ctrl-C."""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.messages import say
from fencepost.impl.environment import SystemEnvironment

POLL_S = 0.5
FILES_MAX = 5000
"""Files that are watched; a folder with more holds something else than a program."""


def watch_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the option `--watch`, which takes over before the command itself runs."""
    return click.option(
        "--watch",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_take_over,
        help="Run again whenever a file of the program changes; Ctrl-C ends it.",
    )(command)


def _take_over(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    from fencepost.commands.entry import WORDS

    words = [word for word in context.meta[WORDS] if word != "--watch"]
    context.exit(watch(folder_of(words), lambda: _run(words)))


def folder_of(words: Sequence[str]) -> Path:
    """The folder of the user's file, which is named as `path/to/file.py:name`."""
    for word in words:
        file, colon, _ = word.rpartition(":")
        if colon and file.endswith(".py"):
            return Path(file).parent
    raise BadRequest(
        "--watch needs a file of yours, as in path/to/file.py:name; what is shipped does not change"
    )


def watch(folder: Path, run: Callable[[], int], *, wait: Callable[[float], object] | None = None) -> int:
    """Run, and run again after each change, until Ctrl-C. The exit code is that of the last run."""
    wait = wait or SystemEnvironment().sleep
    code = int(Exit.UNDECIDED)
    try:
        while True:
            before = changed_at(folder)
            code = run()
            say(f"watching {folder}; Ctrl-C ends", err=True)
            while changed_at(folder) == before:
                wait(POLL_S)
    except KeyboardInterrupt:
        return code


def changed_at(folder: Path) -> Mapping[str, int]:
    """When each Python file in the folder was last changed."""
    found: dict[str, int] = {}
    for file in folder.rglob("*.py"):
        try:
            found[str(file)] = file.stat().st_mtime_ns
        except OSError:
            continue  # it was removed meanwhile
        if len(found) == FILES_MAX:
            break
    return found


def _run(words: Sequence[str]) -> int:
    """In a process of its own: every run imports the files anew."""
    ended = subprocess.run([sys.executable, "-m", "fencepost", *words], check=False)  # noqa: S603 - this command
    return ended.returncode
