"""The console that commands print to, and the status line of a running search."""

import sys
from typing import Self

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

PLAIN_WIDTH = 160
"""Of a file or a pipe: wide enough for one table row a line."""


def console(*, stderr: bool, wrapped: bool = False) -> Console:
    """A console for people. Unless `wrapped`, it breaks no line, so that commands can be pasted.

    The stream is fixed here: while a program is explored, its own output may be redirected.
    """
    stream = sys.stderr if stderr else sys.stdout
    made = Console(file=stream, soft_wrap=not wrapped, highlight=False)
    if not made.is_terminal:
        made.width = PLAIN_WIDTH
    return made


verbose_option = click.option("-v", "--verbose", is_flag=True, help="Print everything that was found.")


class StatusLine:
    """One line of progress on standard error, shown on a terminal only and removed at the end.

    It does not capture what programs print meanwhile.
    """

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._line = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not console.is_terminal,
        )
        self._task = self._line.add_task("exploring")

    def __enter__(self) -> Self:
        self._line.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._line.stop()

    @property
    def hidden(self) -> bool:
        return bool(self._line.disable)

    def show_text(self, text: str) -> None:
        self._line.update(self._task, description=text)
