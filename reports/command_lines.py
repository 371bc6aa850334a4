"""Command lines of results: without some options, or with the token of one schedule."""

import shlex
from collections.abc import Collection, Iterable

SEARCHING = (
    "--like",
    "--like-keys",
    *("--json", "--trace", "--strategy", "--budget", "--max-schedules", "--max-steps"),
    *("--depth", "--jobs", "--resume", "--replay", "--base", "--coverage"),
    *("--markdown", "--enough"),
)
"""Options of an audit's search, each with a value: they do not go with --replay."""
PRINTING = ("--quiet", "--gaps", "-v", "--verbose")
"""Flags that change only what is printed."""


def with_token(command: str, token: str) -> str:
    """Return the command that runs the one schedule of a token."""
    return f"{command} --replay {shlex.quote(token)}"


def drop_options(words: Iterable[str], valued: Collection[str], flags: Collection[str] = ()) -> str:
    """Return a command line without the options in `valued`, each with its value, and without `flags`."""
    kept: list[str] = []
    skipping = False
    for word in words:
        option, equals, _ = word.partition("=")
        if skipping:
            skipping = False
        elif option in valued:
            skipping = not equals
        elif option not in flags:
            kept.append(word)
    return shlex.join(kept)
