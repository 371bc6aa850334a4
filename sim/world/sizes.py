"""Sizes of objects in replies, and whether the user's code compares them.

Most programs never look at the size of what they read, and a counterexample that showed it at every step
would hide what matters. So the sizes that the SDK hands out are numbers that report when a function of the
user compares them or calculates with them. To copy, print or pass one on is no look. In the store interface,
where a size is an attribute of a reply, reading it is. Libraries look for themselves: the SDK plans a copy by
the size of its source.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from fencepost.sim.world.present import here, is_users

LIST, HEAD, GET = "list", "head", "get"
ALL = frozenset({LIST, HEAD, GET})
_ONE = {kind: frozenset({kind}) for kind in ALL}


def look(kinds: frozenset[str], frame: FrameType) -> None:
    """Record that the code of `frame` looks at a size that a reply of one of these kinds has shown."""
    run = here()
    if run is None or run.running is None or kinds <= run.sizes_compared:
        return
    if is_users(sys.modules.get(frame.f_globals.get("__name__", ""))):
        run.compare_sizes(kinds)


class Size(int):
    """A size in a reply of the SDK, which reports when it is compared."""

    __slots__ = ()
    kinds = ALL


class ListedSize(Size):
    """`Size` in a listing."""

    __slots__ = ()
    kinds = _ONE[LIST]


class HeadSize(Size):
    """`ContentLength` of a reply without a body."""

    __slots__ = ()
    kinds = _ONE[HEAD]


class ReadSize(Size):
    """`ContentLength` of a reply with a body."""

    __slots__ = ()
    kinds = _ONE[GET]


def _looking(name: str) -> Callable[..., Any]:
    plain = getattr(int, name)

    def method(self: Size, *others: Any) -> Any:
        look(self.kinds, sys._getframe(1))  # noqa: SLF001 - the function that compares
        return plain(self, *others)

    method.__name__ = name
    return method


_BOTH_SIDES = ("add", "sub", "mul", "floordiv", "truediv", "mod", "divmod")
for _name in (
    *("eq", "ne", "lt", "le", "gt", "ge", "bool", "int", "float", "neg", "abs"),
    *_BOTH_SIDES,
    *(f"r{_name}" for _name in _BOTH_SIDES),
):
    setattr(Size, f"__{_name}__", _looking(f"__{_name}__"))


def watch(parsed: dict[str, Any]) -> None:
    """Have the sizes in a reply of the SDK report looks."""
    length = parsed.get("ContentLength")
    if length is not None:
        parsed["ContentLength"] = (ReadSize if "Body" in parsed else HeadSize)(length)
    for name in ("Contents", "Versions"):
        for entry in parsed.get(name, ()):
            if "Size" in entry:
                entry["Size"] = ListedSize(entry["Size"])
