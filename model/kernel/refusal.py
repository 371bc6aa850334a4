"""Why a label cannot happen: the guard that no state passes, as it stands in the machine's own text."""

import linecache
import traceback
from dataclasses import dataclass
from pathlib import Path

_OURS = (Path(__file__).parent, Path(__file__).parent.parent / "store")


@dataclass(frozen=True)
class Refusal:
    """The guard at which the last states fell out."""

    file: str
    line: int
    text: str
    """The statement, on one line."""
    row: int
    """The first of the states that came as far as this guard."""

    def __str__(self) -> str:
        return f"{self.text} ({self.file}:{self.line})"


def locate(stopped: BaseException, row: int) -> Refusal:
    """The place in the author's text where `stopped` was raised from."""
    entries = [
        entry
        for entry in traceback.extract_tb(stopped.__traceback__)
        if Path(entry.filename).parent not in _OURS
    ]
    if not entries:
        return Refusal("", 0, "a condition of the kernel's own", row)
    last = entries[-1]
    first = last.lineno or 0
    lines = linecache.getlines(last.filename)[first - 1 : last.end_lineno or first]
    return Refusal(Path(last.filename).name, first, " ".join(" ".join(lines).split()), row)
