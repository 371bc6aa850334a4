"""Times of modification, and whether a program looks at them.

Every object carries the time at which it landed, and most programs never look. For them a write of one key
and a write of another commute; for a program that compares times of modification they do not, because time
may pass between them. So a search begins without, and starts over when a process reads the time of
modification of an object, a version or an upload. Only the attribute counts as a look, not the comparison or
the hash of the whole reply, which the search itself needs.

The level of time that is explored is one of these numbers:

    UNTIMED  no process sleeps, and the clock is read at most once: time does not pass.
    CLOCKED  clock readings are steps, and time may pass before each.
    STAMPED  so are writes, because code reads when they landed.
    WATCHED  a check looks at the present time, so time may pass before every step.
"""

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from fencepost.impl.store.requests import ObjectInfo, UploadInfo, VersionInfo

if TYPE_CHECKING:
    from fencepost.sim.world.run import RunState

UNTIMED, CLOCKED, STAMPED, WATCHED = 0, 1, 2, 3

_run: list["RunState | None"] = [None]
"""The world that started last."""


def watch(run: "RunState") -> None:
    """From now on, looks of processes count for `world`."""
    _run[0] = run


def look() -> None:
    """The code that runs looks at a time of modification."""
    run = _run[0]
    if run is not None and run.running is not None and run.settings.stamped:
        run.depend_on_time(STAMPED)


def matter() -> None:
    """A check looks at a time of modification."""
    run = _run[0]
    if run is not None and run.settings.stamped:
        run.depend_on_time(STAMPED)


def pass_time() -> None:
    """A check looks at the time."""
    run = _run[0]
    if run is not None:
        run.depend_on_time(WATCHED)


def _watched(base: Any, name: str) -> tuple[Any, Any]:
    """Return a subclass of `base` that reports when `name` is read, and how to read it without."""
    raw = vars(base)[name].__get__
    set_raw = vars(base)[name].__set__
    others = attrgetter(*(field for field in base.__dataclass_fields__ if field != name))

    def read(self: Any) -> int:
        look()
        found: int = raw(self)
        return found

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
