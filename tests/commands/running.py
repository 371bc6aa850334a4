"""Commands, run in this process as their users run them."""

from collections.abc import Callable

from holdfast.commands import entry

Run = Callable[..., tuple[int, str, str]]
"""Takes the words behind `holdfast`; the exit code, what was printed, what was said of errors."""


def exit_of(*words: str) -> int:
    """The exit code of `holdfast WORDS`."""
    return entry.run(lambda: entry.group.main(list(words), standalone_mode=False))
