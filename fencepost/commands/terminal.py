"""Where people read: a terminal as wide as it is, a file or a pipe wide enough for one line a row."""

import sys

from rich.console import Console

PLAIN_WIDTH = 160


def console(*, stderr: bool, wrapped: bool = False) -> Console:
    """For what people read. Unless `wrapped`, no line is broken: what is pasted must stay whole.

    The stream is fixed now: what a program prints may be sent elsewhere while it is explored.
    """
    stream = sys.stderr if stderr else sys.stdout
    made = Console(file=stream, soft_wrap=not wrapped, highlight=False)
    if not made.is_terminal:
        made.width = PLAIN_WIDTH
    return made
