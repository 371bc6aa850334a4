"""Replies whose times of modification and sizes report a look, see `stamps` and `sizes`."""

import sys
from operator import attrgetter
from typing import Any

from fencepost.impl.store.requests import ObjectInfo, UploadInfo, VersionInfo
from fencepost.sim.world import sizes, times
from fencepost.sim.world.stamps import look

_SIZE = "size"


def _watched(base: Any, name: str) -> tuple[Any, Any]:
    """Return a subclass of `base` that reports reads of `name` and `size`, and how to read `name` without."""
    raw = vars(base)[name].__get__
    set_raw = vars(base)[name].__set__
    others = attrgetter(*(field for field in base.__dataclass_fields__ if field not in (name, _SIZE)))
    has_size = _SIZE in base.__dataclass_fields__
    raw_size: Any = vars(base)[_SIZE].__get__ if has_size else lambda _: None

    def read(self: Any) -> int:
        look()
        return times.stamp(raw(self))

    def read_size(self: Any) -> int:
        sizes.look(sizes.ALL, sys._getframe(1))  # noqa: SLF001 - the function that reads it
        return int(raw_size(self))

    class Watched(base):  # type: ignore[misc]  # the base is a parameter
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            if self is other:
                return True
            if other.__class__ is not self.__class__:
                return NotImplemented
            return bool(
                raw(self) == raw(other)
                and raw_size(self) == raw_size(other)
                and others(self) == others(other)
            )

        def __hash__(self) -> int:
            return hash((raw(self), *others(self)[:2]))

    setattr(Watched, name, property(read, set_raw))
    if has_size:
        setattr(Watched, _SIZE, property(read_size, vars(base)[_SIZE].__set__))
    Watched.__name__ = Watched.__qualname__ = base.__name__
    return Watched, raw


WatchedObject, modified_ns = _watched(ObjectInfo, "modified_ns")
WatchedVersion, version_modified_ns = _watched(VersionInfo, "modified_ns")
WatchedUpload, started_ns = _watched(UploadInfo, "started_ns")


def size_of(info: Any) -> int:
    """Return the size of an object or a version; reading it here is no look."""
    base = VersionInfo if isinstance(info, VersionInfo) else ObjectInfo
    size: int = vars(base)[_SIZE].__get__(info)
    return size
