"""Times that remember where they come from.

Theory. A program decides by times: it compares a reading of a clock with a stamp of the store, an age with a
limit, a date with another one. Such a comparison turns when time passes before one of the readings, or when a
clock is wrong by enough. So while pauses or skewed clocks are explored, a reading and a stamp are values that
remember their *sources*: the moments at which they were read or written, each with a factor. They keep them
through additions, differences, changes of the unit, rounding, formatting and parsing, whatever operand comes
first. A comparison teaches `deadlines` how much time, or how wrong a clock, would turn it.

A quantity in nanoseconds is a constant plus the sum of `factor * moment` over its sources. Time that passes
before a source moves this source and all later ones. So the distance to the limit, divided by the sum of the
factors of the last sources, is the time that has to pass. Sources of one moment may come in any order, and
each of them may be the last. An error of a clock moves all readings of this clock alike.

Text, structures of time and numbers made by code written in C lose the sources. A value that is made of
them again gets a source back if it equals a moment that the process has read, to the second, the minute, the
hour or the day.

A value that is cut off to a minute, an hour or a day may be the name of a folder. So showing it teaches how
long it takes until it is another one.

`int` and `float` make plain numbers. In the modules of the user these names are bound to classes that keep
the sources, see `conversions`. Elsewhere the trail ends there, and the numbers that the calling function
names are taken for lengths: its constants, its arguments, the globals and attributes in its code.

Not seen: a comparison in a library written in C; a float on the left of an integer, which compares without
calling it. For the second, floats that the function names which subtracts times are taken for lengths.
"""

import datetime as dt
import operator
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from fencepost.sim.world.present import here
from fencepost.sim.world.stamps import CLOCKED, look

if TYPE_CHECKING:
    from fencepost.sim.world.run import RunState

_SECOND_NS = 1_000_000_000
_DAY_NS = 86_400 * _SECOND_NS
_GRAINS_S = (1, 60, 3600, 86_400)
"""Lengths in seconds to which a moment may be cut off before it is parsed again."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_real_datetime, _real_date = dt.datetime, dt.date


_STEADY = "steady"
"""Identity of the clocks without a date, which are never wrong."""


class Source:
    """A moment at which a clock was read, or at which the store stamped a write."""

    __slots__ = ("at_ns", "clock", "skew_ns")

    def __init__(self, at_ns: int, clock: Any = None, skew_ns: int = 0) -> None:
        self.at_ns = at_ns
        """True time, in nanoseconds."""
        self.clock = clock
        """Identity of the clock that may be wrong; None for the store's."""
        self.skew_ns = skew_ns
        """Error of the clock, in nanoseconds; the value contains it."""


Terms = tuple[tuple[Source, float], ...]
"""Sources with their factors."""


def tracking() -> "RunState | None":
    """Return the run if values have to remember their sources now; else None."""
    run = here()
    return run if run is not None and run.deadlines is not None and run.running is not None else None


def reading(run: "RunState", value: float, unit_ns: float, *, wall: bool) -> Any:
    """Return a reading of a clock in units of `unit_ns` nanoseconds, with its source."""
    if run.deadlines is None or run.running is None:
        return value
    source = _source_of_reading(run, wall)
    return tracked(value, unit_ns, ((source, 1.0),))


def moment(run: "RunState", value: dt.datetime) -> dt.datetime:
    """Return a datetime that was read from the wall clock, with its source."""
    if run.deadlines is None or run.running is None:
        return value
    made: dt.datetime = tracked(value, 1.0, ((_source_of_reading(run, wall=True), 1.0),))
    return made


def note_reading(run: "RunState") -> None:
    """Record that the running process has read the wall clock in a form that keeps no source."""
    if run.deadlines is not None and run.running is not None:
        _source_of_reading(run, wall=True)


def _source_of_reading(run: "RunState", wall: bool) -> Source:
    process = run.running
    assert process is not None, "a process reads the clock"
    at_ns = run.start_ns + run.clock_ns
    if not wall:
        return Source(at_ns, _STEADY)
    skew_ns = process.machine.skew_ns
    run.remember_instant(at_ns + skew_ns, (at_ns, skew_ns, True))
    return Source(at_ns, process.machine.index, skew_ns)


def stamp(value: int) -> int:
    """Return a time of modification in nanoseconds since 1970, with its source."""
    run = tracking()
    if run is None:
        return value
    run.remember_instant(value, (value, 0, False))
    made: int = tracked(value, 1.0, ((Source(value), 1.0),))
    return made


def note_stamp(value: dt.datetime) -> None:
    """Record that the running process receives this time of modification as text."""
    run = tracking()
    if run is not None:
        ns = round((value - _EPOCH).total_seconds()) * _SECOND_NS
        run.remember_instant(ns, (ns, 0, False))


def _recovered(run: "RunState", second: float) -> Terms:
    """Return sources for a moment that a process knew before, by its value; none for any other moment."""
    found = run.instants.get(int(second))
    if found is None:
        return ()
    at_ns, skew_ns, wall = found
    # Several moments may have been cut off to this value, so nothing cancels out: it is a clock of its own.
    return ((Source(at_ns, object() if wall else None, skew_ns), 1.0),)


def parsed(value: Any) -> Any:
    """Return a datetime that code has put together, with a source if it equals a moment that was read."""
    run = tracking()
    if run is None or type(value) is not _real_datetime or not run.instants:
        return value
    seconds = [(value - _EPOCH).total_seconds()] if value.tzinfo else _as_utc_and_local(value)
    for second in seconds:
        if terms := _recovered(run, second):
            return tracked(value, 1.0, terms, _grain_of(second))
    return value


def parsed_day(value: Any) -> Any:
    """Return a date that code has put together, with a source if it is the day of a moment that was read."""
    run = tracking()
    if run is None or type(value) is not _real_date or not run.instants:
        return value
    terms = _recovered(run, (value.toordinal() - _EPOCH.toordinal()) * 86_400)
    return tracked(value, 1.0, terms, float(_DAY_NS))


def of_timestamp(number: Any, made: Any) -> Any:
    """Return a datetime that was made of a number of seconds, with the sources of the number."""
    if isinstance(number, Tracked):
        return tracked(made, 1.0, number.terms, number.grain_ns)
    return parsed(made)


def of_text(shown: Any, made: Any) -> Any:
    """Return a datetime that was made of a text, with the sources of the text."""
    if isinstance(shown, _Text):
        return tracked(made, 1.0, shown.of.terms, max(shown.of.grain_ns, _grain_of_form(shown.form)))
    return parsed(made)


def converted(value: "Tracked", kind: type) -> Any:
    """Return a value as a number of this type, `int` or `float`, with its sources."""
    if isinstance(value, _Text):
        return parsed_number(kind(value._plain()))  # noqa: SLF001 - of this module
    number = kind(value._plain())  # noqa: SLF001 - of this module
    return value._like(number, grain_ns=value.unit_ns if kind is int else 0.0)  # noqa: SLF001 - as above


def _as_utc_and_local(value: dt.datetime) -> list[float]:
    """Return the seconds since 1970 of a datetime without a zone, read in either way."""
    try:
        return [(value.replace(tzinfo=dt.UTC) - _EPOCH).total_seconds(), value.timestamp()]
    except (OverflowError, ValueError):  # before the year 1 or after the year 9999 in one of the zones
        return []


def parsed_number(value: Any) -> Any:
    """Return a number that was made of a text or a structure of time, with a source if it is known."""
    run = tracking()
    if run is None or type(value) not in (int, float) or not run.instants or not 1e8 < value < 1e20:
        return value
    for unit_ns in (1_000_000_000, 1_000_000, 1_000, 1):
        second = value * unit_ns / _SECOND_NS
        if second < 1e8:
            break
        if terms := _recovered(run, second):
            return tracked(value, unit_ns, terms, unit_ns if type(value) is int and unit_ns > 1 else 0)
    return value


def _grain_of(second: float) -> float:
    whole = int(second)
    return max((grain for grain in _GRAINS_S if whole % grain == 0), default=0) * float(_SECOND_NS)


# Lessons.


def _teach(away_ns: float, terms: Terms, grain_ns: float, frame: FrameType | None) -> None:
    """Learn from a comparison of two quantities that are `away_ns` apart, the left one minus the right."""
    run = tracking()
    if run is None or not terms or frame is None:
        return
    assert run.deadlines is not None, "checked"
    site = _site(frame)
    settings, budget = run.settings, run.settings.budget
    if budget.pause and not settings.pause_fixed:
        found = max((-away_ns / factor for factor in _movable(terms)), default=0.0)
        if len(terms) == 1 and terms[0][0].clock is None and not found > 0:
            found = abs(away_ns / terms[0][1])  # the other side may be a clock whose source was lost
        beyond = found + grain_ns if found > 0 or (found == 0 and grain_ns >= _COARSE_NS) else 0.0
        for number, distance in enumerate(dict.fromkeys((found, beyond))):
            if distance > 0:
                run.depend_on_time(CLOCKED)
                run.deadlines.learn((*site, number), round(distance))
    if budget.skew:
        right_ns = away_ns - sum(
            source.skew_ns * factor for source, factor in terms if source.clock is not None
        )
        for factor in _of_clocks(terms):
            distance = round(abs(right_ns / factor))
            if distance:
                run.deadlines.learn_skew((*site, 0), distance + round(grain_ns))


_COARSE_NS = 60e9
"""Values cut off to this length or a longer one may be equal until it has passed."""
_NEARLY_ZERO = 1e-9
"""Factors are sums of quotients of units, so they may miss 0 by a rounding error."""


def _of_clocks(terms: Terms) -> list[float]:
    """Return by how much the quantity grows with the error of each clock that has one."""
    found: dict[Any, float] = {}
    for source, factor in terms:
        if source.clock not in (None, _STEADY):
            found[source.clock] = found.get(source.clock, 0.0) + factor
    return [factor for factor in found.values() if abs(factor) > _NEARLY_ZERO]


def _movable(terms: Terms) -> list[float]:
    """Return by how much the quantity grows with the time that passes before each source and all later ones.

    Sources of one moment may have any order.
    """
    found: list[float] = []
    later = 0.0
    by_moment: dict[int, list[float]] = {}
    for source, factor in terms:
        by_moment.setdefault(source.at_ns, []).append(factor)
    for at_ns in sorted(by_moment, reverse=True):
        found += [later + factor for factor in by_moment[at_ns]]
        later += sum(by_moment[at_ns])
        found.append(later)
    return [factor for factor in found if abs(factor) > _NEARLY_ZERO]


def _site(frame: FrameType) -> tuple[str, int, int, int]:
    """Return the place that compares, and the line that called its function: helpers compare for many."""
    caller = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno, frame.f_lasti, 0 if caller is None else caller.f_lineno


def _learn_numbers(
    frame: FrameType, unit_ns: float, terms: Terms, kinds: tuple[type, ...] = (int, float)
) -> None:
    """Take the numbers that the function in `frame` names for lengths of time, in seconds or in units."""
    run = tracking()
    if run is None:
        return
    assert run.deadlines is not None, "checked"
    budget = run.settings.budget
    for number, length_ns in enumerate(_lengths_ns(frame, unit_ns, kinds), 1):
        site = (*_site(frame), number)
        if budget.pause and not run.settings.pause_fixed:
            run.depend_on_time(CLOCKED)
            run.deadlines.learn(site, length_ns)
        if budget.skew and _of_clocks(terms):
            run.deadlines.learn_skew(site, length_ns)


def _lengths_ns(frame: FrameType, unit_ns: float, kinds: tuple[type, ...]) -> list[int]:
    """Return the lengths of time that the numbers in a function may be, in nanoseconds."""
    code = frame.f_code
    named = [frame.f_globals.get(name) for name in code.co_names]
    named += [getattr(frame.f_locals.get("self"), name, None) for name in code.co_names]
    named += [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
    found: list[int] = []
    for value in (*code.co_consts, *named):
        if type(value) is dt.timedelta and float in kinds:
            found.append(round(value.total_seconds() * 1e9))
        elif type(value) in kinds and 1 < value < 1e18 and value not in _POWERS:
            if int in kinds and value * _SECOND_NS < _TOO_LONG_NS:
                found.append(round(value * _SECOND_NS))
            if (unit_ns != _SECOND_NS or int not in kinds) and value * unit_ns >= _SECOND_NS:
                found.append(round(value * unit_ns))
    return found


_TOO_LONG_NS = 1_000 * _DAY_NS
_POWERS = frozenset(10**power for power in range(3, 19))
"""Numbers that change the unit."""


# Values.


class Tracked:
    """A value that came from a clock or from a stamp."""

    unit_ns: float
    """Nanoseconds by which the quantity grows with 1 more (datetimes and lengths of time: with 1 ns)."""
    terms: Terms
    grain_ns: float
    """Length to which the value was cut off, in nanoseconds."""

    @classmethod
    def _copy(cls, value: Any) -> Any:
        return cls(value)  # type: ignore[call-arg]  # the other base takes it

    def _plain(self) -> Any:
        """Return the value itself, without the memory."""
        raise NotImplementedError

    def _used(self) -> None:
        """Called when the value is compared, computed with, or shown."""

    def _like(self, value: Any, scale: float = 1.0, grain_ns: float = 0.0) -> Any:
        """Return a value that grows with the same sources, in units `scale` times as long."""
        return tracked(value, self.unit_ns * scale, self.terms, max(self.grain_ns, grain_ns))

    def __repr__(self) -> str:
        self._used()
        return repr(self._plain())

    def __reduce_ex__(self, protocol: Any) -> Any:
        self._used()
        return self._plain().__reduce_ex__(protocol)


def plain(value: Any) -> Any:
    """Return a value without its sources."""
    return value._plain() if isinstance(value, Tracked) else value  # noqa: SLF001 - of this module


def tracked(value: Any, unit_ns: float, terms: Terms, grain_ns: float = 0.0) -> Any:
    """Return `value` with these sources, if it is a time or a number."""
    kind = _KINDS.get(type(value))
    if kind is None or not terms:
        return value
    made = kind._copy(value)  # noqa: SLF001 - of this module
    made.unit_ns, made.terms, made.grain_ns = unit_ns, terms, grain_ns
    return made


def _in_ns(value: Any, unit_ns: float) -> float:
    """Return a number or a length of time in nanoseconds."""
    return value.total_seconds() * 1e9 if isinstance(value, dt.timedelta) else float(value * unit_ns)


def _terms_of(value: Any) -> Terms:
    return value.terms if isinstance(value, Tracked) else ()


def _sum(one: Terms, factor: float, other: Terms, other_factor: float) -> Terms:
    """Return the sources of a sum of two quantities."""
    found: dict[Source, float] = {}
    for terms, by in ((one, factor), (other, other_factor)):
        for source, each in terms:
            found[source] = found.get(source, 0.0) + each * by
    return tuple((source, each) for source, each in found.items() if each)


class _Number(Tracked):
    """A number, which may be shown as a part of a name."""

    def __repr__(self) -> str:
        _learn_change(self, self.grain_ns)
        return repr(self._plain())

    __str__ = __repr__

    def __format__(self, form: str) -> str:
        _learn_change(self, self.grain_ns)
        return format(self._plain(), form)


class _Float(_Number, float):
    def _plain(self) -> float:
        return float.__pos__(self)

    def __round__(self, digits: Any = None) -> Any:
        return self._like(round(self._plain(), digits), grain_ns=self.unit_ns)

    def __floor__(self) -> Any:
        return self._like(self._plain().__floor__(), grain_ns=self.unit_ns)

    def __ceil__(self) -> Any:
        return self._like(self._plain().__ceil__(), grain_ns=self.unit_ns)

    def __trunc__(self) -> Any:
        return self._like(self._plain().__trunc__(), grain_ns=self.unit_ns)

    def __int__(self) -> int:
        _learn_numbers(sys._getframe(1), self.unit_ns, self.terms)  # noqa: SLF001 - the function that converts
        return int(self._plain())

    def __float__(self) -> float:
        _learn_numbers(sys._getframe(1), self.unit_ns, self.terms)  # noqa: SLF001 - the function that converts
        return self._plain()


class _Int(_Number, int):
    def _plain(self) -> int:
        return int.__pos__(self)

    def __round__(self, digits: Any = None) -> Any:
        return self._like(round(self._plain(), digits))

    def __floor__(self) -> Any:
        return self

    __ceil__ = __trunc__ = __floor__

    def __int__(self) -> int:
        _learn_numbers(sys._getframe(1), self.unit_ns, self.terms)  # noqa: SLF001 - the function that converts
        return self._plain()

    def __float__(self) -> float:
        _learn_numbers(sys._getframe(1), self.unit_ns, self.terms)  # noqa: SLF001 - the function that converts
        return float(self._plain())


_days = dt.timedelta.days.__get__
_seconds = dt.timedelta.seconds.__get__
_microseconds = dt.timedelta.microseconds.__get__


class _Delta(Tracked, dt.timedelta):
    @classmethod
    def _copy(cls, value: dt.timedelta) -> Any:
        return cls(value.days, value.seconds, value.microseconds)

    def _plain(self) -> dt.timedelta:
        return dt.timedelta(_days(self), _seconds(self), _microseconds(self))

    def total_seconds(self) -> Any:
        return self._like(self._plain().total_seconds(), 1e9)

    @property
    def days(self) -> Any:
        return self._like(_days(self), float(_DAY_NS), float(_DAY_NS))

    @property
    def seconds(self) -> Any:
        # The rest of a day: it is followed as far as the end of the day.
        return self._like(_seconds(self), 1e9, 1e9)


class _Text(Tracked, str):
    """A moment that was formatted. It is compared as the moment."""

    of: Any
    """The moment, with its sources."""
    form: str
    """Format of `strftime`; empty for ISO 8601."""

    def _plain(self) -> str:
        return str.__str__(self)

    def __str__(self) -> str:
        return self

    def __hash__(self) -> int:
        return str.__hash__(self)

    def _cut(self, value: str) -> str:
        return text(value, self.of, self.form)


def text(value: str, of: Any, form: str = "") -> str:
    """Return a text that shows the moment `of`."""
    if tracking() is None or type(value) is not str or not isinstance(of, Tracked):
        return value
    _learn_change(of, _grain_of_form(form) if form else _GRAINS_OF_LENGTHS_NS.get(len(value), 0.0))
    made = _Text(value)
    made.of, made.form, made.unit_ns, made.terms, made.grain_ns = of, form, 1.0, (), 0.0
    return made


_GRAINS_OF_LENGTHS_NS = {10: float(_DAY_NS), 13: 3600e9, 16: 60e9}
"""Lengths to which a text of ISO 8601 cuts a moment off, by its characters: `2023-11-14`, `2023-11-14T22`."""


def _learn_change(of: Any, grain_ns: float) -> None:
    """Learn after how long a moment that is cut off to so much shows another value: another day, for example.

    Such a value decides without a comparison, as the name of a folder does.
    """
    if grain_ns < _COARSE_NS or len(of.terms) != 1:
        return
    shown = of._plain()  # noqa: SLF001 - of this module
    [(source, _)] = of.terms
    if isinstance(shown, _real_datetime):
        since_ns = (shown - shown.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds() * 1e9
    else:
        since_ns = source.at_ns + source.skew_ns
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the line that shows it
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    _teach(since_ns % grain_ns - grain_ns, of.terms, 0.0, frame)


def note_text(value: dt.datetime, form: str) -> None:
    """Record that the running process has read the wall clock as a text of this format."""
    run = tracking()
    if run is not None:
        _learn_change(moment(run, value), _grain_of_form(form))


def _read_text(value: Any, form: str) -> Any:
    """Return the moment in a text that was compared with a formatted one; None if there is none."""
    if isinstance(value, _Text):
        return value.of
    try:
        return _real_datetime.strptime(value, form) if form else _real_datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None


def _in_one_zone(one: Any, other: Any) -> tuple[Any, Any]:
    """Return two moments so that they can be subtracted, although only one of them names its zone."""
    one, other = plain(one), plain(other)
    if type(one) is not type(other):
        one, other = (_real_datetime(x.year, x.month, x.day, tzinfo=dt.UTC) for x in (one, other))
    elif type(one) is _real_datetime:
        one, other = (x if x.tzinfo else x.replace(tzinfo=dt.UTC) for x in (one, other))
    return one, other


def _comparing_text(name: str) -> Callable[[Any, Any], Any]:
    real = getattr(str, name)
    equality = name in ("__eq__", "__ne__")

    def compare(self: Any, other: Any) -> Any:
        found = real(self, other)
        grain_ns = max(self.of.grain_ns, _grain_of_form(self.form))
        if found is NotImplemented or (equality and grain_ns < _COARSE_NS):
            return found
        moment = _read_text(other, self.form)
        if moment is not None:
            one, another = _in_one_zone(self.of, moment)
            terms = _sum(self.of.terms, 1.0, _terms_of(moment), -1.0)
            _teach(_in_ns(one - another, 1.0), terms, grain_ns, sys._getframe(1))  # noqa: SLF001 - who compares
        return found

    return compare


def _grain_of_form(form: str) -> float:
    """Return the length to which a format cuts a moment off, in nanoseconds."""
    if not form or any(part in form for part in ("%S", "%T", "%X", "%c", "%s", "%f")):
        return 0.0
    if any(part in form for part in ("%M", "%R")):
        return 60e9
    return 3600e9 if any(part in form for part in ("%H", "%I")) else float(_DAY_NS)


class _Day(Tracked, dt.date):
    @classmethod
    def _copy(cls, value: dt.date) -> Any:
        return cls(value.year, value.month, value.day)

    def _plain(self) -> dt.date:
        return _real_date.fromordinal(_real_date.toordinal(self))

    def toordinal(self) -> Any:
        return self._like(_real_date.toordinal(self), float(_DAY_NS), float(_DAY_NS))

    def replace(self, *args: Any, **kwargs: Any) -> Any:
        return self._like(self._plain().replace(*args, **kwargs))

    def isoformat(self) -> str:
        return text(self._plain().isoformat(), self)

    def __str__(self) -> str:
        return self.isoformat()

    def strftime(self, form: str) -> str:
        return text(self._plain().strftime(form), self, form)

    def __format__(self, form: str) -> str:
        return self.strftime(form) if form else self.isoformat()


_tzinfo = dt.datetime.tzinfo.__get__


class Moment(Tracked, dt.datetime):
    """A datetime with sources."""

    @classmethod
    def _copy(cls, value: dt.datetime) -> Any:
        return cls.combine(value.date(), value.timetz())

    def _plain(self) -> Any:
        return _real_datetime.combine(_real_datetime.date(self), _real_datetime.timetz(self))

    def timestamp(self) -> Any:
        self._used()
        return self._like(self._plain().timestamp(), 1e9)

    def replace(self, *args: Any, **kwargs: Any) -> Any:
        self._used()
        return self._like(self._plain().replace(*args, **kwargs))

    def astimezone(self, tz: dt.tzinfo | None = None) -> Any:
        self._used()
        return self._like(self._plain().astimezone(tz))

    def date(self) -> Any:
        self._used()
        return self._like(self._plain().date(), grain_ns=float(_DAY_NS))

    def toordinal(self) -> Any:
        self._used()
        return self._like(self._plain().toordinal(), float(_DAY_NS), float(_DAY_NS))

    def isoformat(self, *args: Any, **kwargs: Any) -> str:
        self._used()
        return text(self._plain().isoformat(*args, **kwargs), self._seen())

    def strftime(self, form: str) -> str:
        self._used()
        return text(self._plain().strftime(form), self._seen(), form)

    def ctime(self) -> str:
        self._used()
        return text(self._plain().ctime(), self._seen(), "%a %b %d %H:%M:%S %Y")

    def __str__(self) -> str:
        self._used()
        return text(str(self._plain()), self._seen())

    def __format__(self, form: str) -> str:
        return self.strftime(form) if form else str(self)

    def _seen(self) -> Any:
        return self._like(self._plain())


class Stamp(Moment):
    """A time of modification that a reply carried. Parsing it is no look; using it is one."""

    def _used(self) -> None:
        look()
        run = tracking()
        if run is not None:
            at_ns = self.terms[0][0].at_ns
            run.remember_instant(at_ns, (at_ns, 0, False))


def stamp_moment(value: dt.datetime) -> Any:
    """Return a time of modification that the SDK has parsed."""
    made: Any = Stamp._copy(value)  # noqa: SLF001 - of this module
    source = Source(round((value - _EPOCH).total_seconds() * 1e6) * 1000)
    made.unit_ns, made.terms, made.grain_ns = 1.0, ((source, 1.0),), 0.0
    return made


_KINDS: dict[type, Any] = {
    float: _Float,
    int: _Int,
    dt.timedelta: _Delta,
    _real_date: _Day,
    _real_datetime: Moment,
}


def _use(self: Any, other: Any) -> None:
    self._used()
    if isinstance(other, Tracked):
        other._used()  # noqa: SLF001 - of this module


def _comparing(name: str) -> Callable[[Any, Any], Any]:
    equality = name in ("__eq__", "__ne__")
    real = getattr(operator, name)

    def compare(self: Any, other: Any) -> Any:
        try:
            found = real(self._plain(), plain(other))
        except TypeError:
            return NotImplemented
        _use(self, other)
        if equality and self.grain_ns < _COARSE_NS:
            return found  # no length of time makes two moments equal for longer than a moment
        try:
            away_ns = _apart_ns(self, other)
        except TypeError:  # equality of what cannot be subtracted
            return found
        terms = _sum(self.terms, 1.0, _terms_of(other), -_in_unit_of(self, other))
        grain_ns = max(self.grain_ns, getattr(other, "grain_ns", 0.0))
        _teach(away_ns, terms, grain_ns, sys._getframe(1))  # noqa: SLF001 - the line that compares
        return found

    return compare


def _apart_ns(one: Any, other: Any) -> float:
    """Return the left quantity minus the right one, in nanoseconds."""
    a, b = plain(one), plain(other)
    if isinstance(a, dt.date | dt.timedelta):
        return _in_ns(a - b, 1.0)
    return float((a - b) * one.unit_ns)


def _in_unit_of(one: Any, other: Any) -> float:
    """Return the factor by which the sources of `other` count in a sum with `one`.

    The numbers are added, whatever their units, and the sum has the unit of `one`.
    """
    return one.unit_ns / other.unit_ns if isinstance(other, Tracked) and other.unit_ns else 1.0


def _moving(real: Callable[[Any, Any], Any], sign: int, other_sign: int) -> Callable[[Any, Any], Any]:
    """Addition and subtraction, with the signs of the two operands in the result."""

    def move(self: Any, other: Any) -> Any:
        try:
            found = real(self._plain(), plain(other))
        except TypeError:
            return NotImplemented
        _use(self, other)
        terms = _sum(self.terms, sign, _terms_of(other), other_sign * _in_unit_of(self, other))
        if type(found) is int and sign != other_sign:
            # A float on the left of a comparison compares by itself, and does not call the integer.
            _learn_numbers(sys._getframe(1), self.unit_ns, terms, (float,))  # noqa: SLF001 - who subtracts
        return tracked(found, self.unit_ns, terms, max(self.grain_ns, getattr(other, "grain_ns", 0.0)))

    return move


def _scaling(
    real: Callable[[Any, Any], Any], *, divides: bool, cuts: bool = False
) -> Callable[[Any, Any], Any]:
    """Multiplication and division by a constant: another unit."""

    def multiply(self: Any, other: Any) -> Any:
        try:
            found = real(self._plain(), plain(other))
        except TypeError:
            return NotImplemented
        if isinstance(other, Tracked) or not other:
            return found
        self._used()
        if isinstance(self, dt.timedelta):
            return _scaled_length(self, other, found, divides=divides, cuts=cuts)
        by = float(other) if divides else 1.0 / float(other)
        return self._like(found, by, abs(self.unit_ns * by) if cuts else 0.0)

    return multiply


def _scaled_length(self: Any, other: Any, found: Any, *, divides: bool, cuts: bool) -> Any:
    """Scale a length of time: by a number it stays one, by another length it is a number."""
    if isinstance(other, dt.timedelta):
        unit = _in_ns(other, 1.0)
        return self._like(found, unit, abs(unit) if cuts else 0.0)
    by = 1.0 / float(other) if divides else float(other)
    terms = tuple((source, factor * by) for source, factor in self.terms)
    return tracked(found, 1.0, terms, self.grain_ns)


def _signed(real: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Negation and the absolute value."""

    def change(self: Any) -> Any:
        value = self._plain()
        found = real(value)
        if found == value:
            return self._like(found)
        terms = tuple((source, -factor) for source, factor in self.terms)
        return tracked(found, self.unit_ns, terms, self.grain_ns)

    return change


def _divide(self: Any, other: Any) -> Any:
    try:
        _, rest = divmod(self._plain(), plain(other))
    except TypeError:
        return NotImplemented
    return self // other, rest


_GRAINS_OF_PARTS_NS = {"day": float(_DAY_NS), "hour": 3600e9}


def _showing(real: Callable[..., Any], grain_ns: float = 0.0) -> Callable[..., Any]:
    """A method that shows a part of the value as plain data."""

    def show(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._used()
        _learn_change(self, grain_ns)
        return real(self._plain(), *args, **kwargs)

    return show


def _turned(real: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda self, other: real(other, self)


def _define() -> None:
    for base, kind in _KINDS.items():
        for name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
            setattr(kind, name, _comparing(name))
        kind.__hash__ = _showing(base.__hash__)
        kind.__add__, kind.__radd__ = _moving(operator.add, 1, 1), _moving(_turned(operator.add), 1, 1)
        kind.__sub__, kind.__rsub__ = _moving(operator.sub, 1, -1), _moving(_turned(operator.sub), -1, 1)
    for base in (float, int, dt.timedelta):
        kind = _KINDS[base]
        kind.__mul__ = kind.__rmul__ = _scaling(operator.mul, divides=False)
        kind.__truediv__ = _scaling(operator.truediv, divides=True)
        kind.__floordiv__ = _scaling(operator.floordiv, divides=True, cuts=True)
        kind.__divmod__ = _divide
        kind.__abs__, kind.__neg__ = _signed(base.__abs__), _signed(base.__neg__)
    for name in ("timetuple", "utctimetuple", "time", "timetz", "weekday", "isoweekday", "isocalendar"):
        setattr(Moment, name, _showing(getattr(_real_datetime, name)))
    for name in ("year", "month", "day", "hour", "minute", "second", "microsecond"):
        part = getattr(_real_datetime, name).__get__
        setattr(Moment, name, property(_showing(part, _GRAINS_OF_PARTS_NS.get(name, 0.0))))
    for name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
        setattr(_Text, name, _comparing_text(name))
    for name in ("__getitem__", "__add__", "replace", "strip", "rstrip", "lstrip", "lower", "upper"):
        setattr(_Text, name, _cutting(getattr(str, name)))
    for shown, name in ((Moment, "datetime"), (Stamp, "datetime"), (_Day, "date"), (_Delta, "timedelta")):
        shown.__name__ = shown.__qualname__ = name
        shown.__module__ = "datetime"


def _cutting(real: Callable[..., Any]) -> Callable[..., Any]:
    def cut(self: Any, *args: Any) -> Any:
        found = real(self, *args)
        return found if found is NotImplemented else self._cut(found)

    return cut


_define()
