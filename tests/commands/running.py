"""Commands, run in this process as their users run them."""

from collections.abc import Callable

from fencepost.commands import entry

Run = Callable[..., tuple[int, str, str]]
"""Takes the words behind `fencepost`; the exit code, standard output, standard error."""


def exit_of(*words: str) -> int:
    """The exit code of `fencepost WORDS`."""
    return entry.run(lambda: entry.group.main(list(words), standalone_mode=False))
