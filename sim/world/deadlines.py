"""Lengths of pauses, learnt from comparisons with the clock.

Theory. A pause matters when it changes a comparison: `time.time() > expires`, `now - modified > older_than`.
Which length changes it is known at the moment of the comparison. So while pauses are explored, a clock
reading is a number (or a datetime) that remembers that it came from the clock, through additions,
subtractions and changes of the unit. A comparison with it teaches the time after which the comparison would
turn: its *deadline*. For every deadline a pause that ends just before it and one that ends just after it are
tried.

Deadlines are kept by line of code, the longest of each: a loop that compares again and again is one line, and
comes nearer to its deadline in every round. A search that learns a new length starts over.

`int(time.time())` ends the trail, because `int` makes plain numbers. Then the numbers that the calling
function names are taken for lengths: its constants, its arguments, the globals and attributes in its code.

Not seen: a reading that is formatted and parsed again before it is compared, where both sides are; a
comparison in a library written in C.
"""

import datetime as dt
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from fencepost.sim.faults import pause_named
from fencepost.sim.world.present import here
from fencepost.sim.world.run import RunState
from fencepost.sim.world.stamps import CLOCKED

SITES_MAX = 8
"""Lines of code whose deadlines are tried."""
GROWTHS_MAX = 3
"""Number of times that the deadline of one line may grow."""
MARGIN_NS = 1_000_000
"""Time between a deadline and the end of a pause before or after it, in nanoseconds."""
ALIKE = 0.01
"""Deadlines that differ by a smaller part are one: time passed between two comparisons with it."""
_LONGEST_NS = 100 * 365 * 86_400 * 10**9

Site = tuple[str, int, int]


class Deadlines:
    """The deadlines that a search has met, and the pauses that follow from them."""

    def __init__(self) -> None:
        self._found: dict[Site, tuple[int, int]] = {}
        """By line of code: how far away the deadline was, and how often that grew."""
        self.left_out = 0
        """Lines beyond `SITES_MAX`."""
        self.tried: tuple[str, ...] = ()
        """The alternatives that pauses have in runs that begin now, besides the usual one."""

    def learn(self, site: Site, distance_ns: int) -> None:
        """A comparison at this line would turn out otherwise after `distance_ns`."""
        if not MARGIN_NS < distance_ns < _LONGEST_NS:
            return
        before, grown = self._found.get(site, (0, -1))
        if distance_ns <= before * (1 + ALIKE) or grown >= GROWTHS_MAX:
            return
        if not before and len(self._found) >= SITES_MAX:
            self.left_out += 1
            return
        self._found[site] = (distance_ns, grown + 1)

    def adopt(self) -> bool:
        """Try what was learnt from the next run on; whether that is news."""
        if not self._found and not self.tried:
            return False
        found: list[int] = []
        ends: list[int] = []
        for distance in sorted({distance for distance, _ in self._found.values()}):
            if ends and distance <= ends[-1] * (1 + ALIKE):
                ends[-1] = distance
            else:
                found.append(distance)
                ends.append(distance)
        around = [(first - MARGIN_NS, last + MARGIN_NS) for first, last in zip(found, ends, strict=True)]
        before, self.tried = self.tried, tuple(pause_named(ns) for pair in around for ns in pair)
        return self.tried != before

    def packed(self) -> list[Any]:
        """As plain data."""
        return [[*site, *found] for site, found in self._found.items()]

    def add(self, data: list[Any]) -> None:
        """Take up what another process learnt."""
        for file, line, number, distance, grown in data:
            if distance > self._found.get((file, line, number), (0, 0))[0]:
                self._found[file, line, number] = (distance, grown)


def read(run: RunState, value: float, unit_ns: float) -> Any:
    """Return a reading of the clock in units of so many nanoseconds, for code that may compare it."""
    if run.deadlines is None or run.running is None:
        return value
    return _tracked(value, unit_ns, run.count_tracked())


def moment(run: RunState, value: dt.datetime) -> dt.datetime:
    """Return the same for a datetime."""
    if run.deadlines is None or run.running is None:
        return value
    made: dt.datetime = _tracked(value, 1, run.count_tracked())
    return made


def _learn(distance_ns: float, frame: FrameType, number: int = 0) -> None:
    run = here()
    if run is not None and run.deadlines is not None and run.running is not None and distance_ns > 0:
        run.depend_on_time(CLOCKED)
        run.deadlines.learn((frame.f_code.co_filename, frame.f_lineno, number), round(distance_ns))


class _Tracked:
    """A value that came from the clock."""

    unit_ns: float
    """Nanoseconds after which the value is greater by 1 (a duration or a datetime: by 1 ns); negative for
    what shrinks.
    """
    reading: int
    """The newest reading in it, by number: what an older one contributes does not change any more."""

    @classmethod
    def made(cls, value: Any, unit_ns: float, reading: int) -> Any:
        made = cls._copy(value)
        made.unit_ns, made.reading = unit_ns, reading
        return made

    @classmethod
    def _copy(cls, value: Any) -> Any:
        return cls(value)  # type: ignore[call-arg]  # the other base takes it

    def _plain(self) -> Any:
        """Itself, without the memory."""
        raise NotImplementedError

    def away_ns(self, other: Any) -> float:
        """Nanoseconds until the value reaches `other`."""
        between = _in_ns(_plain(other) - self._plain())
        if isinstance(other, _Tracked) and other.reading > self.reading:
            return float(-between * other.unit_ns)
        return float(between * self.unit_ns)

    def __repr__(self) -> str:
        return repr(self._plain())

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._plain().__reduce_ex__(protocol)


def _plain(value: Any) -> Any:
    return value._plain() if isinstance(value, _Tracked) else value  # noqa: SLF001 - of this module


def _in_ns(value: Any) -> Any:
    """Return a duration as a number."""
    return value.total_seconds() * 1e9 if isinstance(value, dt.timedelta) else value


def _tracked(value: Any, unit_ns: float, reading: int) -> Any:
    kind = _KINDS.get(type(value))
    return value if kind is None else kind.made(value, unit_ns, reading)


class _Float(_Tracked, float):
    def _plain(self) -> float:
        return float.__pos__(self)

    def __round__(self, digits: Any = None) -> Any:
        return _tracked(round(self._plain(), digits), self.unit_ns, self.reading)

    def __neg__(self) -> Any:
        return _tracked(-self._plain(), -self.unit_ns, self.reading)


class _Int(_Tracked, int):
    def _plain(self) -> int:
        return int.__pos__(self)

    def __neg__(self) -> Any:
        return _tracked(-self._plain(), -self.unit_ns, self.reading)


class _Delta(_Tracked, dt.timedelta):
    @classmethod
    def _copy(cls, value: dt.timedelta) -> Any:
        return cls(value.days, value.seconds, value.microseconds)

    def _plain(self) -> dt.timedelta:
        return dt.timedelta(self.days, self.seconds, self.microseconds)

    def total_seconds(self) -> Any:
        return _tracked(self._plain().total_seconds(), self.unit_ns * 1e9, self.reading)


class _Moment(_Tracked, dt.datetime):
    @classmethod
    def _copy(cls, value: dt.datetime) -> Any:
        return cls.combine(value.date(), value.timetz())

    def _plain(self) -> Any:
        return _real_datetime.combine(self.date(), self.timetz())

    def timestamp(self) -> Any:
        return _tracked(self._plain().timestamp(), self.unit_ns * 1e9, self.reading)

    def replace(self, *args: Any, **kwargs: Any) -> Any:
        return _tracked(self._plain().replace(*args, **kwargs), self.unit_ns, self.reading)

    def astimezone(self, tz: dt.tzinfo | None = None) -> Any:
        return _tracked(self._plain().astimezone(tz), self.unit_ns, self.reading)


_real_datetime = dt.datetime
_KINDS: dict[type, Any] = {
    float: _Float,
    int: _Int,
    dt.timedelta: _Delta,
    _real_datetime: _Moment,
}


def _comparing(real: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compare(self: Any, other: Any) -> Any:
        found = real(self._plain(), _plain(other))
        if found is not NotImplemented:
            _learn(self.away_ns(other), sys._getframe(1))  # noqa: SLF001 - the line that compares
        return found

    return compare


def _moving(real: Callable[[Any, Any], Any], sign: int, other_sign: int) -> Callable[[Any, Any], Any]:
    """Addition and subtraction, with the signs of the two operands in the result."""

    def move(self: Any, other: Any) -> Any:
        found = real(self._plain(), _plain(other))
        if isinstance(other, _Tracked) and other.reading > self.reading:
            return _tracked(found, other_sign * other.unit_ns, other.reading)
        return _tracked(found, sign * self.unit_ns, self.reading)

    return move


def _scaling(
    real: Callable[[Any, Any], Any], scale: Callable[[float, Any], float]
) -> Callable[[Any, Any], Any]:
    """Multiplication and division by a constant: another unit."""

    def multiply(self: Any, other: Any) -> Any:
        found = real(self._plain(), _plain(other))
        if isinstance(other, _Tracked) or not other:
            return found
        return _tracked(found, scale(self.unit_ns, other), self.reading)

    return multiply


def _ending(real: Callable[..., Any]) -> Callable[..., Any]:
    """Replace a conversion to a plain number, whose comparisons are not seen."""

    def convert(self: Any) -> Any:
        _learn_numbers(sys._getframe(1))  # noqa: SLF001 - the function that converts
        return real(self._plain())

    return convert


def _learn_numbers(frame: FrameType) -> None:
    """Take the numbers that the function in `frame` names for lengths of time in seconds."""
    code = frame.f_code
    named = [frame.f_globals.get(name) for name in code.co_names]
    named += [getattr(frame.f_locals.get("self"), name, None) for name in code.co_names]
    named += [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
    for number, value in enumerate([*code.co_consts, *named], 1):
        if type(value) in (int, float) and value > 1:
            _learn(value * 1e9, frame, number)


def _define() -> None:
    for base, kind in _KINDS.items():
        for name in ("__lt__", "__le__", "__gt__", "__ge__"):
            setattr(kind, name, _comparing(getattr(base, name)))
        for name, *signs in (("add", 1, 1), ("radd", 1, 1), ("sub", 1, -1), ("rsub", -1, 1)):
            if hasattr(base, f"__{name}__"):
                setattr(kind, f"__{name}__", _moving(getattr(base, f"__{name}__"), *signs))
    for number in (float, int):
        kind = _KINDS[number]
        for name in ("mul", "rmul"):
            setattr(kind, f"__{name}__", _scaling(number.__mul__, lambda unit, by: unit / by))
        for name in ("truediv", "floordiv"):
            real = getattr(number, f"__{name}__")
            setattr(kind, f"__{name}__", _scaling(real, lambda unit, by: unit * by))
    for name in ("__int__", "__floor__", "__ceil__", "__float__"):
        setattr(_Float, name, _ending(getattr(float, name)))


_define()
