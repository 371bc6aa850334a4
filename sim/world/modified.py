"""Replies whose times of modification report a look, see `stamps`."""

from operator import attrgetter
from typing import Any

from fencepost.impl.store.requests import ObjectInfo, UploadInfo, VersionInfo
from fencepost.sim.world import times
from fencepost.sim.world.stamps import look


def _watched(base: Any, name: str) -> tuple[Any, Any]:
    """Return a subclass of `base` that reports when `name` is read, and how to read it without."""
    raw = vars(base)[name].__get__
    set_raw = vars(base)[name].__set__
    others = attrgetter(*(field for field in base.__dataclass_fields__ if field != name))

    def read(self: Any) -> int:
        look()
        return times.stamp(raw(self))

    class Watched(base):  # type: ignore[misc]  # the base is a parameter
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            if self is other:
                return True
            if other.__class__ is not self.__class__:
                return NotImplemented
            return bool(raw(self) == raw(other) and others(self) == others(other))

        def __hash__(self) -> int:
            return hash((raw(self), *others(self)[:2]))

    setattr(Watched, name, property(read, set_raw))
    Watched.__name__ = Watched.__qualname__ = base.__name__
    return Watched, raw


WatchedObject, modified_ns = _watched(ObjectInfo, "modified_ns")
WatchedVersion, version_modified_ns = _watched(VersionInfo, "modified_ns")
WatchedUpload, started_ns = _watched(UploadInfo, "started_ns")
