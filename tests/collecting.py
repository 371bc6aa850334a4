"""Values that a test takes out of the processes of an audited program.

Variables that processes change are as at the start again in every run, also a list of the test. A weak
reference is no variable of the program: what is behind it stays.
"""

import weakref
from collections.abc import Callable
from typing import Any


class Collected(list[Any]):
    """A list that can be referred to weakly."""


def collecting() -> tuple[Callable[[Any], None], Collected]:
    """Return a function that processes may call with a value, and the list of the values.

    The list must not be named by the program itself.
    """
    found = Collected()
    place = weakref.ref(found)

    def keep(value: Any) -> None:
        kept = place()
        assert kept is not None, "the test holds the list"
        kept.append(value)

    return keep, found
