"""Names that code draws for its files: in a world they repeat themselves from run to run.

The module also replaces the file store's numbers of openings, and its compiled call, which would write past
the other replacements.
"""

import errno
import tempfile
from typing import Any

from fencepost.impl.store.files import together, writing
from fencepost.sim.filesystem.handles import is_ours
from fencepost.sim.world import present
from fencepost.sim.world.replacements import stream


class _Names:
    """Random names for temporary files: drawn from the stream of the process."""

    _LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789_"

    def __iter__(self) -> "_Names":
        return self

    def __next__(self) -> str:
        return "".join(stream().choices(self._LETTERS, k=8))


_names = _Names()
_real_names = tempfile._get_candidate_names  # type: ignore[attr-defined]  # where tempfile draws names


def candidates() -> Any:
    return _real_names() if present.controlled() is None else _names


class Openings:
    """Numbers the openings of stores; in a world from the beginning, since a run repeats itself."""

    _real = writing._OPENINGS

    def __next__(self) -> int:
        run = present.controlled()
        if run is None:
            return next(self._real)
        kept = present.memory(run)
        kept["files", "openings"] = number = kept.get(("files", "openings"), -1) + 1
        return int(number)


REAL_CREATE = together.create


def create(drafts_fd: int, *args: Any) -> Any:
    """The compiled call writes past the replacements; the answer makes the store go step by step."""
    if is_ours(drafts_fd):
        return together.DRAFT, errno.ENOSYS, 0, ""
    assert REAL_CREATE is not None, "it is put in place where there is one"
    return REAL_CREATE(drafts_fd, *args)
