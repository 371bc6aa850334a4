"""The console that commands print to, how they end, and the status line of a running search."""

import sys
from collections.abc import Callable, Iterable
from typing import Any, Self, TextIO

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.segment import Segment

from fencepost.commands.exit_codes import VERDICT_EXITS, Exit
from fencepost.commands.output_files import write_result
from fencepost.reports.media import one_line, printable

PLAIN_WIDTH = 160
"""Of a file or a pipe: wide enough for one table row a line."""


class PipeConsole(Console):
    """A console that obeys no text, and that reports a reader that went away as any other write does.

    The text of a report can come from the audited program. Its control characters are written out, on a
    terminal as in a file. Rich's own styles are not text and stay.
    On a broken pipe Rich alone would end the program.
    """

    def __init__(self, *, file: TextIO, soft_wrap: bool = False, width: int | None = None) -> None:
        super().__init__(
            file=file, soft_wrap=soft_wrap, width=width, markup=False, emoji=False, highlight=False
        )

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


def console(*, stderr: bool, wrapped: bool = False) -> Console:
    """A console for people. Unless `wrapped`, it breaks no line, so that commands can be pasted.

    The stream is fixed here: while a program is explored, its own output may be redirected.
    """
    stream = sys.stderr if stderr else sys.stdout
    made = PipeConsole(file=stream, soft_wrap=not wrapped)
    if not made.is_terminal:
        made.width = PLAIN_WIDTH
    return made


def finish(
    result: Any,
    report: RenderableType,
    json_file: str | None,
    *,
    wrapped: bool = False,
    crop: bool = True,
    passes: bool = False,
    stderr: bool = False,
) -> int:
    """Print the report, write --json, and return the exit code of the verdict, or 0 if it `passes`.

    The report goes to standard error where something else takes standard output.
    """
    console(stderr=stderr or json_file == "-", wrapped=wrapped).print(report, crop=crop)
    if json_file:
        write_result(result, json_file)
    return Exit.HOLDS if passes else VERDICT_EXITS[result.verdict]


def engine_option(help_text: str, *more: str) -> Callable[[Any], Any]:
    """`--engine`, of commands that can also run on Spark; some have more engines."""
    kinds = click.Choice(["local", *more, "spark"])
    return click.option("--engine", type=kinds, default="local", show_default=True, help=help_text)


verbose_option = click.option("-v", "--verbose", is_flag=True, help="Print everything that was found.")


class StatusLine:
    """One line of progress on standard error, shown on a terminal only and removed at the end.

    It does not capture what programs print meanwhile.
    """

    def __init__(self) -> None:
        console = PipeConsole(file=sys.stderr)
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
        self._line.update(self._task, description=one_line(text))
