"""Tables on a terminal that is narrower than they are."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table

WIDE = 10_000


@dataclass(frozen=True)
class Uncut:
    """A table that is never narrower than it can be read; the terminal then breaks its lines.

    Otherwise figures lose digits to an ellipsis, and `13,...` reads like another number. Where sentences
    may be `folded`, columns shrink down to their longest word. To be printed with `crop=False`.
    """

    table: Table
    folded: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        measured = Measurement.get(console, options.update(max_width=WIDE), self.table)
        needed = measured.minimum if self.folded else measured.maximum
        yield from console.render(self.table, options.update(width=max(options.max_width, needed)))
