"""Shared parts of the text reports: numbers, verdicts, tables, and the limit of one screen."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

COLOURS = {
    "holds": "green",
    "safe": "green",
    "error": "bold red",
    "violated": "bold red",
    "unsafe": "bold red",
    "undecided": "yellow",
    "unsupported": "yellow",
}
SCREEN = 15
"""Lines of a command's default output when nothing is violated."""
SHOWN = 4
"""Warnings and findings in the default output."""
WIDTH = 104
WIDE = 10_000


def verdict_line(verdict: str, text: str) -> Text:
    """The first line of every report."""
    return Text.assemble((verdict, COLOURS[verdict]), f": {text}")


def first(lines: Iterable[str], *, verbose: bool, style: str = "", shown: int = SHOWN) -> Iterator[Text]:
    """All lines when `verbose`, else the first few and the number of the others."""
    every = list(lines)
    kept = every if verbose else every[:shown]
    yield from (Text(line, style) for line in kept)
    if len(every) > len(kept):
        yield Text(f"... and {len(every) - len(kept):,} more; -v shows them", style)


def reproduce(command: str, why: str = "to reproduce") -> list[RenderableType]:
    """The command that repeats a failure, alone on the last line so that it can be copied."""
    return [Text(f"{why}:"), Text(command)] if command else []


def wrapped(label: str, parts: Iterable[str], *, width: int = 10) -> Iterator[str]:
    """The parts after their label, broken between parts and never inside one."""
    start = f"  {label:<{width}}  "
    line = start
    for part in parts:
        if len(line) > len(start) and len(line) + len(part) + 2 > WIDTH:
            yield line.rstrip()
            line = " " * len(start)
        line += ("" if line.endswith("  ") else ", ") + part
    yield line.rstrip()


def settings(parameters: Iterable[tuple[str, object]]) -> str:
    """` name=value name=value`, to be put behind a name."""
    return "".join(f" {name}={value}" for name, value in parameters)


def plural(count: int, noun: str) -> str:
    """`1 run`, `1,200 runs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def table(heads: Sequence[str], *, numbers: bool = False) -> Table:
    """A plain table; with `numbers`, every column but the first is aligned to the right."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for at, head in enumerate(heads):
        made.add_column(head, justify="right" if numbers and at else "left", no_wrap=not numbers)
    return made


def amount(number: float) -> str:
    """`10,340,352`; three significant digits of what is no whole number."""
    if number == int(number):
        return f"{int(number):,}"
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


@dataclass(frozen=True)
class Uncut:
    """A table that is never narrower than its content; a narrow terminal then breaks its lines.

    Otherwise an ellipsis would cut digits off, and `13,...` reads like another number. With `folded`, columns
    of sentences shrink to their longest word. Print it with `crop=False`.
    """

    table: Table
    folded: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        measured = Measurement.get(console, options.update(max_width=WIDE), self.table)
        needed = measured.minimum if self.folded else measured.maximum
        yield from console.render(self.table, options.update(width=max(options.max_width, needed)))
