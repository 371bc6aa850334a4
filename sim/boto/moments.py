"""The times of modification and sizes that the SDK hands out: they report when somebody looks at them.

The SDK parses the time of every object it lists or reads, so parsing is no look. Comparing is one, and so is
everything that turns the time into a number, a text or another time. See `sim.world.stamps`. A reply shows
the time once more, as text among its headers. Reading that header is a look too.
"""

import functools
import sys
from collections.abc import Iterator
from typing import Any

from botocore.utils import parse_timestamp

from fencepost.sim.world import sizes, times
from fencepost.sim.world.stamps import look

SECOND_NS = 1_000_000_000
_HEADER, _LENGTH = "last-modified", "content-length"
_SHOWN = frozenset({sizes.HEAD, sizes.GET})
"""Kinds of replies whose headers show the size of an object."""


def to_second(ns: int) -> int:
    """Return a time to the second, which is S3's resolution."""
    return ns // SECOND_NS * SECOND_NS


_parsed = functools.lru_cache(4096)(parse_timestamp)


def parse(value: Any) -> Any:
    """Parse a time of a response of the SDK."""
    return times.stamp_moment(times.plain(_parsed(value)))


class Headers(dict[str, str]):
    """Headers of a reply. Reading when the object was modified is a look."""

    def _look(self) -> None:
        if _HEADER in self.keys():
            look()
            times.note_stamp(times.plain(_parsed(dict.__getitem__(self, _HEADER))))

    def __getitem__(self, name: str) -> str:
        if name == _HEADER:
            self._look()
        elif name == _LENGTH:
            sizes.look(_SHOWN, sys._getframe(1))
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        if name == _HEADER:
            self._look()
        elif name == _LENGTH:
            sizes.look(_SHOWN, sys._getframe(1))
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        if name == _HEADER:
            self._look()
        return super().pop(name, *default)

    def __iter__(self) -> Iterator[str]:  # with it, `dict(headers)` reads item by item
        return super().__iter__()

    def items(self) -> Any:
        self._look()
        return super().items()

    def values(self) -> Any:
        self._look()
        return super().values()

    def copy(self) -> "Headers":
        return Headers(zip(self.keys(), super().values(), strict=True))

    def __eq__(self, other: object) -> bool:
        self._look()
        return super().__eq__(other)

    __hash__ = None

    def __repr__(self) -> str:
        self._look()
        return super().__repr__()


def watch_reply(parsed: Any, **_: Any) -> None:
    """Have the headers and sizes of a reply report looks; called by the SDK after every call."""
    if not isinstance(parsed, dict):
        return
    sizes.watch(parsed)
    about = parsed.get("ResponseMetadata", {})
    if _HEADER in about.get("HTTPHeaders", {}):
        about["HTTPHeaders"] = Headers(about["HTTPHeaders"])
