"""Replacements for clocks, randomness and identities, which `places` puts in place while worlds run.

Clocks. `time.time()` in a process is `world.env.now_ns()`: a reading that the scheduler may delay, on a clock
that moves only when all processes wait. `time.sleep` waits on the same clock. A class written in C cannot be
patched in place, so the name `datetime.datetime` is bound to a subclass whose `now` reads the world's clock;
everything it makes is a plain `datetime`, and every `datetime` is an instance of it. Pickling a datetime
while a process runs fails, because pickle insists on the name.

Randomness and identifiers. Each process draws from a stream of its own, made from the seed of the run, the
process's name and the number of its restarts. So what it draws depends on nothing that another process does,
and a restarted process does not draw the same again. `secrets`, `uuid.uuid4` and `random.SystemRandom` all
end at `os.urandom`. A `random.Random()` without a seed takes one from the operating system, below Python;
here it takes it from the stream.

Identity. Each process has a pid, a host name and a hardware address of its own; the pid is another one after
a restart.
"""

import calendar
import datetime
import hashlib
import os
import platform
import random
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from dateutil.parser import parser  # type: ignore[import-untyped]  # it has no stubs

from fencepost.sim.world import times
from fencepost.sim.world.present import REAL, SILENT, STEP, controlled, here, is_sdk, kind_of
from fencepost.sim.world.run import RunState

_real_datetime = datetime.datetime
_real_date = datetime.date
_UTC = datetime.UTC


def _wall(run: RunState, kind: int) -> int:
    if kind == SILENT:
        process = run.running
        return int(run.start_ns + run.clock_ns + (process.machine.skew_ns if process is not None else 0))
    now_ns: int = times.plain(run.env.now_ns())
    return now_ns


def _steady(run: RunState, kind: int) -> int:
    now_ns: int = run.clock_ns if kind == SILENT else times.plain(run.env.monotonic_ns())
    return now_ns


def _reader(real: Callable[[], Any], read: Callable[[Any, int], int], scale: bool) -> Callable[[], Any]:
    """Return a replacement for a clock that is called without arguments."""

    def replacement() -> Any:
        run = here()
        if run is None:
            return real()
        kind = kind_of(sys._getframe(1))
        if kind == REAL:
            return real()
        found = read(run, kind)
        if kind == SILENT:
            return found / 1e9 if scale else found
        return times.reading(run, found / 1e9 if scale else found, 1e9 if scale else 1, wall=read is _wall)

    return replacement


def _moment(real: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement for a function whose argument defaults to now."""

    def replacement(seconds: float | None = None) -> Any:
        run = here()
        if seconds is None and run is not None:
            kind = kind_of(sys._getframe(1))
            if kind != REAL:
                now_ns = _wall(run, kind)
                if kind != SILENT:
                    times.note_reading(run)
                return real(now_ns / 1e9)
        return real(seconds)

    return replacement


def _made_number(real: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a replacement for a function that makes a number of a structure of time."""

    def replacement(parts: Any) -> Any:
        return times.parsed_number(real(parts))

    return replacement


_real_parse = parser.parse


def _parse(self: Any, *args: Any, **kwargs: Any) -> Any:
    return times.parsed(_real_parse(self, *args, **kwargs))


def _sleep(seconds: float) -> None:
    run = controlled()
    if run is None or kind_of(sys._getframe(1)) == REAL:
        _real["sleep"](seconds)
        return
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    run.env.sleep(seconds)


def _clock_gettime_ns(clock: int) -> Any:
    return _read_chosen(clock, sys._getframe(1), 1)


def _clock_gettime(clock: int) -> Any:
    return _read_chosen(clock, sys._getframe(1), 1_000_000_000)


def _read_chosen(clock: int, frame: FrameType, unit_ns: int) -> Any:
    run = here()
    found: float = _chosen(clock, frame)
    if unit_ns != 1:
        found /= unit_ns
    if run is None or kind_of(frame) != STEP or clock in _OF_CPU:
        return found
    return times.reading(run, found, unit_ns, wall=clock == time.CLOCK_REALTIME)


_OF_CPU = (time.CLOCK_PROCESS_CPUTIME_ID, time.CLOCK_THREAD_CPUTIME_ID)


def _chosen(clock: int, frame: FrameType) -> int:
    run = here()
    kind = REAL if run is None else kind_of(frame)
    if run is None or kind == REAL or clock in _OF_CPU:
        return int(_real["clock_gettime_ns"](clock))
    return _wall(run, kind) if clock == time.CLOCK_REALTIME else _steady(run, kind)


def _strftime(form: str, *given: Any) -> str:
    run = here()
    if given or run is None:
        return str(_real["strftime"](form, *given))
    kind = kind_of(sys._getframe(1))
    moment = None if kind == REAL else _wall(run, kind) / 1e9
    if moment is not None and kind == STEP:
        times.note_text(_real_datetime.fromtimestamp(moment, datetime.UTC).astimezone(), form)
    return str(_real["strftime"](form, _real["localtime"](moment)))


class _Same(type):
    """A class whose instances are those of the class that it replaces."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.__mro__[1])

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.__mro__[1])


class _Datetime(_real_datetime, metaclass=_Same):
    __slots__ = ()  # the size that extension modules expect

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made = _real_datetime.__new__(_real_datetime if cls is _Datetime else cls, *args, **kwargs)
        return times.parsed(made)

    @classmethod
    def fromtimestamp(cls, timestamp: Any, tz: datetime.tzinfo | None = None) -> Any:
        return times.of_timestamp(timestamp, _real_datetime.fromtimestamp(times.plain(timestamp), tz))

    @classmethod
    def utcfromtimestamp(cls, timestamp: Any) -> Any:
        made = _real_datetime.fromtimestamp(times.plain(timestamp), _UTC).replace(tzinfo=None)
        return times.of_timestamp(timestamp, made)

    @classmethod
    def fromordinal(cls, ordinal: Any) -> Any:
        return times.parsed(_real_datetime.fromordinal(times.plain(ordinal)))

    @classmethod
    def fromisoformat(cls, shown: str) -> Any:
        return times.of_text(shown, _real_datetime.fromisoformat(times.plain(shown)))

    @classmethod
    def strptime(cls, shown: str, form: str) -> Any:
        return times.of_text(shown, _real_datetime.strptime(times.plain(shown), form))

    @classmethod
    def combine(cls, date: Any, *args: Any, **kwargs: Any) -> Any:
        return times.parsed(_real_datetime.combine(times.plain(date), *args, **kwargs))

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
    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return times.parsed_day(_real_date.__new__(_real_date if cls is _Date else cls, *args, **kwargs))

    @classmethod
    def today(cls) -> Any:
        return _now(sys._getframe(1), None).date()

    @classmethod
    def fromtimestamp(cls, timestamp: Any) -> Any:
        return times.of_timestamp(timestamp, _real_datetime.fromtimestamp(times.plain(timestamp))).date()

    @classmethod
    def fromordinal(cls, ordinal: Any) -> Any:
        return times.parsed_day(_real_date.fromordinal(times.plain(ordinal)))

    @classmethod
    def fromisoformat(cls, shown: str) -> Any:
        return times.parsed_day(_real_date.fromisoformat(times.plain(shown)))


def _now(frame: Any, tz: datetime.tzinfo | None) -> Any:
    run = here()
    kind = REAL if run is None else kind_of(frame)
    if run is None or kind == REAL:
        return _real_datetime.now(tz)
    found = _real_datetime.fromtimestamp(_wall(run, kind) / 1e9, tz)
    return found if kind == SILENT else times.moment(run, found)


for _made, _name in ((_Datetime, "datetime"), (_Date, "date")):
    _made.__name__ = _made.__qualname__ = _name
    _made.__module__ = "datetime"

_real: dict[str, Any] = dict(vars(time))


def _clocks() -> Iterator[tuple[Any, str, Any]]:
    """Yield the replacements with their places: module and name."""
    for name in ("time", "time_ns"):
        yield time, name, _reader(_real[name], _wall, scale=name == "time")
    for name in ("monotonic", "perf_counter"):
        yield time, name, _reader(_real[name], _steady, scale=True)
        yield time, f"{name}_ns", _reader(_real[f"{name}_ns"], _steady, scale=False)
    for name in ("gmtime", "localtime", "ctime"):
        yield time, name, _moment(_real[name])
    yield time, "strftime", _strftime
    yield time, "mktime", _made_number(_real["mktime"])
    yield calendar, "timegm", _made_number(calendar.timegm)
    yield time, "sleep", _sleep
    yield time, "clock_gettime", _clock_gettime
    yield time, "clock_gettime_ns", _clock_gettime_ns
    yield parser, "parse", _parse
    yield datetime, "datetime", _Datetime
    yield datetime, "date", _Date


_FUNCTIONS = (
    "random uniform triangular randint choice randrange sample shuffle choices normalvariate lognormvariate "
    "expovariate vonmisesvariate gammavariate gauss betavariate paretovariate weibullvariate binomialvariate "
    "getstate setstate getrandbits randbytes seed"
).split()
_real_seed = random.Random.seed
_real_urandom = os.urandom
_real_getrandom = getattr(os, "getrandom", None)
_real_uuid1 = uuid.uuid1


def stream() -> Any:
    """Return the stream of the running process."""
    run = controlled()
    assert run is not None, "a world is in control"
    return run.env.stream("python.random")


def _drawing(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(*args: Any, **kwargs: Any) -> Any:
        if controlled() is None or kind_of(sys._getframe(1)) == REAL:
            return real(*args, **kwargs)
        return getattr(stream(), name)(*args, **kwargs)

    return replacement


def _seed(self: Any, a: Any = None, version: int = 2) -> None:
    if a is None and controlled() is not None:
        a = stream().getrandbits(128)
    _real_seed(self, a, version)


def _urandom(size: int, /) -> bytes:
    run, frame = controlled(), sys._getframe(1)
    if run is None or kind_of(frame) == REAL:
        return _real_urandom(size)
    above = frame.f_back if frame.f_globals.get("__name__") == "uuid" else None
    if above is not None and is_sdk(above.f_globals.get("__name__", "")):
        return _name_of_call(run, size)
    return bytes(stream().randbytes(size))


def _name_of_call(run: RunState, size: int) -> bytes:
    """Return the name that the SDK gives to a call.

    It takes nothing from the stream: the SDK does not make calls again that are remembered, see `boto.calls`.
    """
    process = run.running
    who = f"setup/{run.tickets}" if process is None else f"{process.name}/{process.ops}"
    return hashlib.sha256(f"{run.settings.seed}/{who}".encode()).digest()[:size]


def _getrandom(size: int, flags: int = 0) -> bytes:
    if controlled() is None or kind_of(sys._getframe(1)) == REAL:
        assert _real_getrandom is not None
        return bytes(_real_getrandom(size, flags))
    return bytes(stream().randbytes(size))


def _uuid1(node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
    if controlled() is None or kind_of(sys._getframe(1)) == REAL:
        return _real_uuid1(node, clock_seq)
    # The clock is left out: reading it would be a step.
    return uuid.UUID(int=stream().getrandbits(128), version=1)


def _randomness() -> Iterator[tuple[Any, str, Any]]:
    """Yield the replacements with their places: module or class, and name."""
    for name in _FUNCTIONS:
        if hasattr(random, name):
            yield random, name, _drawing(name, getattr(random, name))
    yield random.Random, "seed", _seed
    yield random, "_urandom", _urandom
    yield os, "urandom", _urandom
    if _real_getrandom is not None:
        yield os, "getrandom", _getrandom
    yield uuid, "uuid1", _uuid1


# Identity of processes.


def _named(real: Callable[..., Any], name: Callable[[int, int], Any]) -> Callable[..., Any]:
    """Replace a function that identifies the process: by its index and its number of restarts."""

    def replacement(*args: Any) -> Any:
        run = controlled()
        if run is None or kind_of(sys._getframe(1)) == REAL:
            return real(*args)
        process = run.running
        return name(0, 0) if process is None else name(process.machine.index, process.incarnation)

    return replacement


def _host(index: int, _restarts: int) -> str:
    return f"host-{index}"


def _uname(index: int, _restarts: int) -> os.uname_result:
    found = _real_uname()
    return os.uname_result((found.sysname, _host(index, 0), found.release, found.version, found.machine))


_real_uname = os.uname


def process_id(index: int, restarts: int = 0) -> int:
    """Return the number that the system gives to a process of the world."""
    return 1000 * (index + 1) + restarts


def _identities() -> Iterator[tuple[Any, str, Any]]:
    yield os, "getpid", _named(os.getpid, process_id)
    yield os, "uname", _named(os.uname, _uname)
    yield socket, "gethostname", _named(socket.gethostname, _host)
    yield socket, "getfqdn", _named(socket.getfqdn, _host)
    yield platform, "node", _named(platform.node, _host)
    yield uuid, "getnode", _named(uuid.getnode, lambda index, _: 0x02_00_00_00_00_00 + index)


SOURCES = (_clocks, _randomness, _identities)

_METHODS = {
    **{(id(_real_datetime), name): getattr(_Datetime, name) for name in ("now", "today", "utcnow")},
    (id(_real_date), "today"): _Date.today,
}


def of_method(owner: Any, name: str) -> Any:
    """Return the replacement of a method that is bound to a real class; None when it has none."""
    return _METHODS.get((id(owner), name))
