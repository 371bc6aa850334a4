"""Stand-ins for `time` and `datetime`: the world's clock for code of the world, the real one for all others.

`time.time()` in a process is `world.env.now_ns()` in other words: a reading that the scheduler may delay,
on a clock that moves only when everybody waits. `time.sleep` waits on the same clock.

A class cannot be patched where it is written in C, so the name `datetime.datetime` is bound to a subclass
whose `now` asks the world; everything it makes is a plain `datetime`, and every `datetime` is an instance
of it. Pickling a datetime while a process runs fails, because pickle insists on the name.
"""

import datetime
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from fencepost.sim.boto.present import REAL, SILENT, controlled, here, kind_of

_real_datetime = datetime.datetime
_real_date = datetime.date
_UTC = datetime.UTC


def _wall(world: Any, kind: int) -> int:
    if kind == SILENT:
        process = world.running
        return int(world.start_ns + world.clock_ns + (process.skew_ns if process is not None else 0))
    return int(world.env.now_ns())


def _steady(world: Any, kind: int) -> int:
    return int(world.clock_ns if kind == SILENT else world.env.monotonic_ns())


def _reader(real: Callable[[], Any], read: Callable[[Any, int], int], scale: bool) -> Callable[[], Any]:
    """A stand-in for a clock that is called without arguments."""

    def stand_in() -> Any:
        world = here()
        if world is None:
            return real()
        kind = kind_of(sys._getframe(1))
        if kind == REAL:
            return real()
        found = read(world, kind)
        return found / 1e9 if scale else found

    return stand_in


def _moment(real: Callable[..., Any]) -> Callable[..., Any]:
    """A stand-in for a function of a moment that is now when none is given."""

    def stand_in(seconds: float | None = None) -> Any:
        world = here()
        if seconds is None and world is not None:
            kind = kind_of(sys._getframe(1))
            if kind != REAL:
                return real(_wall(world, kind) / 1e9)
        return real(seconds)

    return stand_in


def _sleep(seconds: float) -> None:
    world = controlled()
    if world is None or kind_of(sys._getframe(1)) == REAL:
        _real["sleep"](seconds)
        return
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    world.env.sleep(seconds)


def _clock_gettime_ns(clock: int) -> int:
    return _chosen(clock, sys._getframe(1))


def _clock_gettime(clock: int) -> float:
    return _chosen(clock, sys._getframe(1)) / 1e9


def _chosen(clock: int, frame: FrameType) -> int:
    world = here()
    kind = REAL if world is None else kind_of(frame)
    if kind == REAL or clock in (time.CLOCK_PROCESS_CPUTIME_ID, time.CLOCK_THREAD_CPUTIME_ID):
        return int(_real["clock_gettime_ns"](clock))
    return _wall(world, kind) if clock == time.CLOCK_REALTIME else _steady(world, kind)


def _strftime(form: str, *given: Any) -> str:
    world = here()
    if given or world is None:
        return str(_real["strftime"](form, *given))
    kind = kind_of(sys._getframe(1))
    moment = None if kind == REAL else _wall(world, kind) / 1e9
    return str(_real["strftime"](form, _real["localtime"](moment)))


class _Same(type):
    """A class whose instances are those of the class it stands for."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.__mro__[1])

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.__mro__[1])


class _Datetime(_real_datetime, metaclass=_Same):
    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return _real_datetime.__new__(_real_datetime if cls is _Datetime else cls, *args, **kwargs)

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return _now(sys._getframe(1), tz)

    @classmethod
    def today(cls) -> Any:
        return _now(sys._getframe(1), None)

    @classmethod
    def utcnow(cls) -> Any:
        return _now(sys._getframe(1), _UTC).replace(tzinfo=None)


class _Date(_real_date, metaclass=_Same):
    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return _real_date.__new__(_real_date if cls is _Date else cls, *args, **kwargs)

    @classmethod
    def today(cls) -> Any:
        return _now(sys._getframe(1), None).date()


def _now(frame: Any, tz: datetime.tzinfo | None) -> Any:
    world = here()
    kind = REAL if world is None else kind_of(frame)
    if kind == REAL:
        return _real_datetime.now(tz)
    return _real_datetime.fromtimestamp(_wall(world, kind) / 1e9, tz)


for _made, _name in ((_Datetime, "datetime"), (_Date, "date")):
    _made.__name__ = _made.__qualname__ = _name
    _made.__module__ = "datetime"

_real: dict[str, Any] = dict(vars(time))


def stand_ins() -> Iterator[tuple[Any, str, Any]]:
    """Where each belongs: module, name, and what stands in."""
    for name in ("time", "time_ns"):
        yield time, name, _reader(_real[name], _wall, scale=name == "time")
    for name in ("monotonic", "perf_counter"):
        yield time, name, _reader(_real[name], _steady, scale=True)
        yield time, f"{name}_ns", _reader(_real[f"{name}_ns"], _steady, scale=False)
    for name in ("gmtime", "localtime", "ctime"):
        yield time, name, _moment(_real[name])
    yield time, "strftime", _strftime
    yield time, "sleep", _sleep
    yield time, "clock_gettime", _clock_gettime
    yield time, "clock_gettime_ns", _clock_gettime_ns
    yield datetime, "datetime", _Datetime
    yield datetime, "date", _Date
