"""How far a search has come, on one line that is gone when it is over."""

import sys
from typing import Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn


class StatusLine:
    """On a terminal only. What programs print meanwhile is left alone."""

    def __init__(self, console: Console) -> None:
        self._line = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not (console.is_terminal and sys.stderr.isatty()),
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

    def say(self, text: str) -> None:
        self._line.update(self._task, description=text)
