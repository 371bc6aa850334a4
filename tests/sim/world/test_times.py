"""A comparison teaches the time, or the error of a clock, that turns it.

The oracle evaluates the same expression on plain numbers. If this fails, an audit tries pauses and errors of
clocks that change nothing, and says "holds" for a program that another length breaks.
"""

import datetime as dt
import os
import time
from collections.abc import Callable, Iterator
from random import Random
from types import MethodType, SimpleNamespace
from typing import Any

import pytest

from fencepost.sim.world import NO_FAULTS, times
from fencepost.sim.world.run import RunState

START_NS = 1_700_000_000 * 10**9
SKEW_NS = 37 * 10**9
MARGIN = 0.01
"""Part by which a distance is changed to find on which side of the limit it is."""


class Lessons:
    """Deadlines that keep every lesson."""

    def __init__(self) -> None:
        self.pauses: dict[Any, int] = {}
        self.skews: list[int] = []

    def learn(self, site: Any, distance_ns: int) -> None:
        self.pauses[site] = distance_ns

    def learn_skew(self, site: Any, distance_ns: int) -> None:
        self.skews.append(distance_ns)


@pytest.fixture
def lessons(monkeypatch: pytest.MonkeyPatch) -> Lessons:
    """Have a process with a skewed clock compare times; return what the comparisons teach."""
    found = Lessons()
    run = SimpleNamespace(
        deadlines=found,
        running=SimpleNamespace(machine=SimpleNamespace(skew_ns=SKEW_NS, index=1)),
        settings=SimpleNamespace(budget=NO_FAULTS.but(pause=1, skew=1), pause_fixed=False),
        depend_on_time=lambda level: None,
        instants={},
        start_ns=START_NS,
        clock_ns=0,
    )
    run.remember_instant = MethodType(RunState.remember_instant, run)
    monkeypatch.setattr(times, "here", lambda: run)
    return found


class Reading:
    """One reading of a clock, in units of `unit_ns`."""

    def __init__(self, draw: Random, number: int) -> None:
        self.at_ns = START_NS + number * 10**9 + draw.randrange(10**9)
        self.clock = draw.choice("ab")
        self.skew_ns = {"a": 0, "b": SKEW_NS}[self.clock]
        self.unit_ns = 1e9

    def tracked(self) -> Any:
        source = times.Source(self.at_ns, self.clock, self.skew_ns)
        return times.tracked(self.plain(skew_ns=self.skew_ns), self.unit_ns, ((source, 1.0),))

    def plain(self, moved_ns: float = 0, skew_ns: float = 0) -> float:
        return (self.at_ns - START_NS + moved_ns + skew_ns) / self.unit_ns


Expression = Callable[[list[Any]], Any]


def drawn(draw: Random, readings: int, depth: int = 3) -> Expression:
    """Return an expression of sums, differences, multiples and parts of readings."""
    kind = draw.randrange(5) if depth else 4
    if kind < 2:
        one, other = drawn(draw, readings, depth - 1), drawn(draw, readings, depth - 1)
        return (lambda at: one(at) + other(at)) if kind else lambda at: one(at) - other(at)
    if kind < 4:
        one, by = drawn(draw, readings, depth - 1), draw.choice([0.25, 0.5, 2, 3, -1])
        return (lambda at: one(at) * by) if kind == 2 else lambda at: one(at) / by
    number = draw.randrange(readings)
    return lambda at: at[number]


def comparison(draw: Random, readings: int) -> Expression:
    """Return a comparison of two expressions, or of one with a limit, on either side."""
    one, limit_s = drawn(draw, readings), draw.choice([-3600.0, -90.0, 0.7, 90.0, 3600.0])
    other: Expression = drawn(draw, readings) if draw.random() < 0.5 else lambda at: limit_s
    return draw.choice(
        [
            lambda at: one(at) < other(at) + limit_s,
            lambda at: one(at) + limit_s >= other(at),
            lambda at: other(at) > one(at) - limit_s,
            lambda at: other(at) <= one(at),
        ]
    )


SEEDS = range(300)


def test_time_that_passes_turns_a_comparison_where_it_is_learnt(lessons: Lessons) -> None:
    taught = 0
    for seed in SEEDS:
        draw = Random(seed)
        readings = [Reading(draw, number) for number in range(3)]
        compare = comparison(draw, len(readings))
        lessons.pauses.clear()
        before = compare([one.tracked() for one in readings])

        def later(since: int, moved_ns: float) -> bool:
            """Compare after time has passed before the reading `since`."""
            moved = [
                one.plain(moved_ns if number >= since else 0, one.skew_ns)
                for number, one in enumerate(readings)  # noqa: B023 - called in this round
            ]
            return bool(compare(moved))  # noqa: B023 - called in this round

        assert later(0, 0) == before
        for found in lessons.pauses.values():
            taught += 1
            assert any(
                later(since, found * (1 - MARGIN)) == before != later(since, found * (1 + MARGIN))
                for since in range(3)
            ), f"seed {seed}: {found} ns turn nothing"
        if not lessons.pauses:
            assert all(
                later(since, s * 1e9) == before for since in range(3) for s in (1, 100, 10_000, 1e6)
            ), f"seed {seed}: nothing was learnt"
    assert taught > len(SEEDS) // 3


def test_an_error_of_a_clock_turns_a_comparison_where_it_is_learnt(lessons: Lessons) -> None:
    """The error that a clock already has does not count, and neither does one of a clock that cancels out."""
    taught = 0
    for seed in SEEDS:
        draw = Random(seed)
        readings = [Reading(draw, number) for number in range(3)]
        compare = comparison(draw, len(readings))
        lessons.skews.clear()
        compare([one.tracked() for one in readings])

        def skewed(clock: str, skew_ns: float) -> bool:
            """Compare with one clock that is skewed by so much, and one that is right."""
            return bool(compare([one.plain(0, skew_ns if one.clock == clock else 0) for one in readings]))  # noqa: B023 - called in this round

        right = skewed("a", 0)
        for found in dict.fromkeys(lessons.skews):
            taught += 1
            before, beyond = found * (1 - MARGIN), found * (1 + MARGIN)
            ways = [(clock, sign) for clock in "ab" for sign in (1, -1)]
            assert any(
                skewed(clock, sign * before) == right != skewed(clock, sign * beyond) for clock, sign in ways
            ), f"seed {seed}: {found} ns turn nothing"
        if not lessons.skews:
            assert all(skewed(clock, s * 1e9) == right for clock in "ab" for s in (1e6, -1e6)), f"seed {seed}"
    assert taught > len(SEEDS) // 3


@pytest.mark.parametrize("age_s", [-3600, 3600])
@pytest.mark.parametrize("turned", [True, False])
def test_a_stamp_beside_a_time_of_unknown_source(age_s: int, turned: bool, lessons: Lessons) -> None:
    """The other side may be a clock: code written in C loses its source."""
    stamp = times.stamp(START_NS)
    limit = START_NS + age_s * 10**9
    assert (limit < stamp if turned else stamp > limit) == (age_s < 0)
    assert list(lessons.pauses.values()) == [3600 * 10**9]


def expired(age: Any, limit_s: float) -> bool:
    return bool(age > limit_s)


def test_a_helper_that_compares_for_several_lines_has_a_deadline_for_each(lessons: Lessons) -> None:
    """If the line of the caller is left out, the longest of the deadlines is tried alone."""
    reading = Reading(Random(0), 0)
    age = reading.tracked() - reading.plain(skew_ns=reading.skew_ns)
    expired(age, 60)
    expired(age, 3600)
    for limit_s in (90, 7200):
        expired(age, limit_s)
    assert sorted(lessons.pauses.values()) == [60 * 10**9, 3600 * 10**9, 7200 * 10**9]


def test_a_time_in_a_text_is_the_one_that_a_skewed_clock_showed(lessons: Lessons) -> None:
    """It is found again by what the process saw, and its source is the true time with the error."""
    run = times.tracking()
    assert run is not None
    times.note_reading(run)
    shown_s = (START_NS + SKEW_NS) // 10**9
    [(source, factor)] = times.parsed_number(shown_s).terms
    assert (source.at_ns, source.skew_ns, factor) == (START_NS, SKEW_NS, 1.0)
    assert not isinstance(times.parsed_number(START_NS // 10**9), times.Tracked)


@pytest.fixture
def far_west(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set a local zone that is never that of UTC."""
    with monkeypatch.context() as patch:
        patch.setitem(os.environ, "TZ", "XST+07:30")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("zone", [dt.UTC, None])
def test_a_moment_without_its_zone_is_local_or_of_utc(
    zone: dt.tzinfo | None, far_west: None, lessons: Lessons
) -> None:
    run = times.tracking()
    assert run is not None
    times.note_reading(run)
    shown = dt.datetime.fromtimestamp((START_NS + SKEW_NS) // 10**9, zone).replace(tzinfo=None)
    made = times.parsed(dt.datetime.fromisoformat(shown.isoformat()))
    assert [source.at_ns for source, _ in made.terms] == [START_NS]
