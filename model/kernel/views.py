"""What arrays and sequences have in common inside an action: a view onto cells, not a value of its own.

A view is what a list is to Python: whoever keeps it sees what is written to its elements later. But a name
for the old list survives when another one is assigned in its place, and a view cannot: the old cells are
gone. Then `s.left, s.right = s.right, s.left` would make both alike, without a word. So a view that is older
than such an assignment refuses to be read.
"""

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from fencepost.model.kernel.columns import ONE_TRUTH, describe
from fencepost.model.kernel.errors import ModellingMistake
from fencepost.model.kernel.kinds import IntKind
from fencepost.model.kernel.numbers import Number
from fencepost.model.kernel.refusing import Refusing

if TYPE_CHECKING:
    from fencepost.model.kernel.access import Index
    from fencepost.model.kernel.frame import Frame

Replaced = tuple[Any, Any]
"""What was assigned as a whole: its access, and its flat number."""


class Live(Refusing):
    """A place in the rows at hand."""

    __slots__ = ("_access", "_flat", "_frame", "_since")
    noun = "an array"

    def __init__(self, frame: "Frame", access: Any, flat: "Index") -> None:
        self._frame = frame
        self._access = access
        self._flat = flat
        self._since = len(frame.replaced)

    def __bool__(self) -> NoReturn:
        raise ModellingMistake(ONE_TRUTH)

    def no_value(self) -> str:
        return f"`{self._access.name}` is {self.noun}, one for each state: it is no text"

    def __repr__(self) -> str:
        return f"<{self.noun}, `{self._access.name}`>"

    def _now(self) -> "Frame":
        """The rows, while this still is the way to them."""
        frame = self._frame
        if frame.replaced:
            for access, flat in frame.replaced[self._since :]:
                if _covers(access, flat, self._access, self._flat):
                    raise ModellingMistake(
                        f"`{self._access.name}` was read before another value was assigned to it, and the "
                        "old one is gone: read what you need of it, element by element, before the assignment"
                    )
        return frame


def _covers(access: Any, flat: "Index", other: Any, at: "Index") -> bool:
    """Whether the cells of `other` are among those of `access`."""
    if access is other:
        return not (isinstance(flat, int) and isinstance(at, int)) or flat == at
    while (access := getattr(access, "element", None)) is not None:
        if access is other:
            return True
    return False


def check_place(frame: "Frame", name: str, index: Any, extent: int, what: str) -> None:
    """Refuse an index that is no place of `name`, in any row."""
    if type(index) is int and 0 <= index < extent:
        return
    if isinstance(index, Number):
        _check_column(frame, name, index, extent, what)
    elif isinstance(index, bool) or not isinstance(index, int):
        raise ModellingMistake(f"`{name}` is indexed by numbers 0..{extent - 1}, not by {describe(index)}")
    elif not 0 <= index < extent:
        raise ModellingMistake(
            f"{frame.doing()} reaches for `{name}[{index}]`; its {what} are 0..{extent - 1}"
        )


def _check_column(frame: "Frame", name: str, index: Number, extent: int, what: str) -> None:
    if isinstance(index.kind, IntKind) and index.kind.least >= 0 and index.kind.most < extent:
        return
    values = np.atleast_1d(index.values())
    error = (values < 0) | (values >= extent)
    if error.any():
        row = int(np.flatnonzero(error)[0])
        raise ModellingMistake(
            f"{frame.doing()} reaches for `{name}[{int(values[row])}]` in state "
            f"{frame.state_before(row)}; its {what} are 0..{extent - 1}: "
            "narrow the rows with s.require(...) before indexing"
        )
