"""The places in the user's code from which requests come, kept while a search runs.

A place is the chain of the user's frames, outermost first. Requests are remembered from run to run by the
processes that issued them, so the place is found once, when the code really runs, and kept by the request
itself. Of frames of libraries nothing is kept.
"""

import sys
from types import CodeType, FrameType
from typing import Any

from fencepost.sim.world.located import CodeLine, is_shown, relative

KEPT_MAX = 300_000
"""Requests whose place is kept."""

Chain = tuple[CodeLine, ...]


class Sites:
    """Places of the requests of a search."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[Any, Chain]] = {}
        self._shown: dict[CodeType, bool] = {}
        self._lines: dict[tuple[CodeType, int], CodeLine] = {}
        self.ran: set[tuple[str, int]] = set()
        """Lines that ran, if they are recorded."""
        self.lines: dict[str, dict[int, str]] = {}
        """By file: the lines that could run, each with its function."""

    def note(self, op: Any) -> None:
        """Keep the place of the code that issues a request now."""
        if len(self._of) < KEPT_MAX:
            self._of[id(op)] = (op, self._chain(sys._getframe(2)))  # noqa: SLF001  as in `located`

    def of(self, op: Any) -> Chain:
        """Return the place of a request; empty if it is not known."""
        found = self._of.get(id(op))
        return found[1] if found is not None and found[0] is op else ()

    def _chain(self, frame: FrameType | None) -> Chain:
        shown, lines = self._shown, self._lines
        found: list[CodeLine] = []
        while frame is not None:
            code = frame.f_code
            wanted = shown.get(code)
            if wanted is None:
                name = str(frame.f_globals.get("__name__", ""))
                wanted = shown[code] = is_shown(name, code.co_filename)
            if wanted:
                at = (code, frame.f_lasti)
                line = lines.get(at)
                if line is None:
                    line = lines[at] = CodeLine(relative(code.co_filename), frame.f_lineno, code.co_name)
                found.append(line)
            frame = frame.f_back
        return tuple(reversed(found))
