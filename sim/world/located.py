"""The lines of the user's code that issued an operation, for the one run that is shown to people.

Walking the frames at every request would cost more than the request, so a search does not; the run of a
counterexample is repeated with it.
"""

import sys
from pathlib import Path
from typing import NamedTuple

from fencepost.sim.world.present import is_library_file

FRAMES_MAX = 8
"""Of one operation: the innermost."""
_OURS = ("fencepost.sim.", "fencepost.impl.store.", "fencepost.testing")
_SHOWN = ("fencepost.impl.", "fencepost.examples.", "fencepost.sim.systems.")
"""Our own packages that are audited like a user's."""


class CodeLine(NamedTuple):
    """A line of a program."""

    file: str
    """Relative to the working directory, if it lies below it."""
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def users_lines() -> tuple[CodeLine, ...]:
    """The calling lines of the user's code, innermost last."""
    found: list[CodeLine] = []
    frame = sys._getframe(1)  # noqa: SLF001 - as `inspect` does, which also reads the source files
    while frame is not None and len(found) < FRAMES_MAX:
        module, code = frame.f_globals.get("__name__", ""), frame.f_code
        if _is_shown(module, code.co_filename):
            found.append(CodeLine(_relative(code.co_filename), frame.f_lineno, code.co_name))
        frame = frame.f_back  # type: ignore[assignment]  # the outermost has none
    return tuple(reversed(found))


def _is_shown(module: str, file: str) -> bool:
    if module.startswith(_OURS) and not module.startswith("fencepost.sim.systems."):
        return False
    return module.startswith(_SHOWN) or not (module.startswith("fencepost.") or is_library_file(file))


def _relative(file: str) -> str:
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file
