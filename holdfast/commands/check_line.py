"""One line in the terminal that says how far a search has come."""

import sys
from typing import Self

from rich.console import Console
from rich.progress import Progress as ProgressLine
from rich.progress import SpinnerColumn, TextColumn

from holdfast.model import Progress
from holdfast.reports.quantities import amount, byte_size


class Line:
    """One line that says how far the search has come, on a terminal only."""

    def __init__(self, console: Console) -> None:
        self._line = ProgressLine(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
            disable=not (console.is_terminal and sys.stderr.isatty()),
        )
        self._task = self._line.add_task("exploring")
        self.last = Progress(0, 0, 0, 0, 0.0, 0)

    def __enter__(self) -> Self:
        self._line.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._line.stop()

    def show(self, at: Progress) -> None:
        self.last = at
        rate = at.distinct / at.seconds if at.seconds else 0
        self._line.update(
            self._task,
            description=f"depth {at.depth}, frontier {amount(at.frontier)}, distinct {amount(at.distinct)}, "
            f"generated {amount(at.generated)}, {amount(round(rate))}/s, {byte_size(at.held_bytes)}",
        )
