"""Places in the machine's own text: the guard that no state passes, and the line that cannot be meant."""

import linecache
import re
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from fencepost.model.kernel.errors import FieldOverflow, ModellingMistake

_OURS = (Path(__file__).parent, Path(__file__).parent.parent / "store")
"""Where the text is ours; a mistake is shown in the last line that is the author's."""

_COLUMNS = re.compile("'(Match|Truth|Number|Choice|Members|Array|Sequence|Bound|_?[A-Za-z]*View)'")
_NOUNS = {
    "Match": "a truth column",
    "Truth": "a truth column",
    "Number": "a number column",
    "Choice": "a name column",
    "Members": "a set column",
    "Array": "an array",
    "Sequence": "a sequence",
    "Bound": "a method",
}


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
    found = _place(stopped)
    if found is None:
        return Refusal("", 0, "a condition of the kernel's own", row)
    return Refusal(*found, row)


def locate_mistake(error: Exception, where: str) -> NoReturn:
    """Raise a mistake again with its place in the machine's own text, unless it already says the action.

    What Python itself refused, a `len` of a column for example, is the author's mistake as well.
    """
    if isinstance(error, FieldOverflow):
        raise error
    found = _place(error)
    place = f" ({found[0]}:{found[1]}: `{found[2]}`)" if found is not None and found[2] else ""
    said = str(error) if isinstance(error, ModellingMistake) else _by_python(error)
    raise ModellingMistake(f"in {where}{place}: {said}") from error


def author_place() -> str:
    """The line of the author's text that is being run."""
    entry = next(e for e in reversed(traceback.extract_stack()) if Path(e.filename).parent not in _OURS)
    return f"{Path(entry.filename).name}:{entry.lineno}"


def _place(error: BaseException) -> tuple[str, int, str] | None:
    """File, line and statement, on one line."""
    entries = [
        entry
        for entry in traceback.extract_tb(error.__traceback__)
        if Path(entry.filename).parent not in _OURS
    ]
    if not entries:
        return None
    last = entries[-1]
    first = last.lineno or 0
    lines = linecache.getlines(last.filename)[first - 1 : last.end_lineno or first]
    return Path(last.filename).name, first, " ".join(" ".join(lines).split())


def _by_python(error: Exception) -> str:
    said = _COLUMNS.sub(lambda name: _NOUNS.get(name[1], "a view of the store"), str(error))
    said = " ".join(said.split())
    return f"Python cannot do this ({type(error).__name__}: {said})"
