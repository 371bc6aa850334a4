"""A deadline is learnt and stamps are explored in whatever form a program compares a stamp with a clock.

If this fails, an audit says "holds" for a cleaner that deletes what a slow writer still needs, because of the
way in which the cleaner writes its comparison.
"""

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest

from fencepost.sim.explore import audit
from fencepost.sim.world import NO_FAULTS, World
from tests.trust import time_forms as forms

PAUSE = replace(NO_FAULTS, pause=1)
HOUR_S = 3600.0
DAY_S = 86_400.0
START = dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)

Test = Callable[[Any, Any], bool]


def verdict_of(program: Callable[[World], None]) -> str:
    return audit(program, budget=PAUSE, minimise_seconds=0.0, others=False).verdict


def check(program: Callable[..., None]) -> None:
    """Assert that the program is violated and that the version with `fixed` holds."""
    assert verdict_of(program) == "violated"
    assert verdict_of(partial(program, fixed=True)) == "holds"


def as_is(value: Any) -> Any:
    return value


SIDES: dict[str, Callable[[forms.Change], tuple[forms.Change, forms.Change]]] = {
    "stamp": lambda change: (change, as_is),
    "clock": lambda change: (as_is, change),
    "both": lambda change: (change, change),
}


def of_side(change: forms.Change, side: str, compare: forms.Compare, base: forms.Change) -> Test:
    """Return the test in which the changes of one side go through a form, and the other through `base`."""
    stamp, clock = SIDES[side](change)
    return forms.old(base if stamp is as_is else stamp, base if clock is as_is else clock, compare, HOUR_S)


def of_moment(form: str, side: str) -> Test:
    base = forms.MOMENTS["without its zone" if form == "without its zone" else "as it is"]
    return of_side(forms.MOMENTS[form], side, lambda m, n, s: m < n - dt.timedelta(seconds=s), base)


def of_number(form: str, side: str) -> Test:
    return of_side(forms.NUMBERS[form], side, lambda m, n, s: n - m > s, forms.NUMBERS["timestamp"])


@pytest.mark.parametrize("form", forms.MOMENTS)
def test_a_moment_is_followed_through_its_form(form: str) -> None:
    assert verdict_of(partial(forms.on_boto3, test=of_moment(form, "both"))) == "violated"


@pytest.mark.parametrize("form", forms.NUMBERS)
def test_a_number_of_seconds_is_followed(form: str) -> None:
    assert verdict_of(partial(forms.on_boto3, test=of_number(form, "both"))) == "violated"


@pytest.mark.slow
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("form", [*forms.MOMENTS, *forms.NUMBERS])
def test_a_form_is_followed_on_every_side(form: str, side: str) -> None:
    of_form = of_moment if form in forms.MOMENTS else of_number
    check(partial(forms.on_boto3, test=of_form(form, side)))


@pytest.mark.parametrize("comparison", forms.COMPARISONS)
def test_moments_may_be_compared_in_any_way(comparison: str) -> None:
    check(partial(forms.on_boto3, test=forms.old(as_is, as_is, forms.COMPARISONS[comparison], HOUR_S)))


@pytest.mark.slow
@pytest.mark.parametrize("comparison", forms.OF_NUMBERS)
@pytest.mark.parametrize("form", ["int", "timestamp"])
def test_numbers_may_be_compared_in_any_way(form: str, comparison: str) -> None:
    number = forms.NUMBERS[form]
    check(partial(forms.on_boto3, test=forms.old(number, number, forms.OF_NUMBERS[comparison], HOUR_S)))


@pytest.mark.parametrize("comparison", forms.OF_DAYS)
def test_days_may_be_compared(comparison: str) -> None:
    test = forms.old(as_is, as_is, forms.OF_DAYS[comparison], 7 * DAY_S)
    assert verdict_of(partial(forms.on_boto3, test=test)) == "violated"


@pytest.mark.slow
@pytest.mark.parametrize("find", forms.ON_BOTO3)
@pytest.mark.parametrize("clock", forms.CLOCKS)
def test_every_stamp_and_every_clock_of_boto3_programs(find: str, clock: str) -> None:
    test = forms.old(as_is, as_is, forms.COMPARISONS["not stamp > clock - limit"], HOUR_S)
    program = partial(
        forms.on_boto3, test=test, find=forms.ON_BOTO3[find], now=forms.CLOCKS[clock], clock_first=True
    )
    assert verdict_of(program) == "violated"


@pytest.mark.parametrize("comparison", ["stamp < clock - limit", "abs"])
def test_the_store_interface_and_files_have_stamps_too(comparison: str) -> None:
    test = forms.old(as_is, as_is, forms.COMPARISONS[comparison], HOUR_S)
    check(partial(forms.on_store, test=test, lists=True))
    check(partial(forms.on_store, test=test, lists=False))
    check(partial(forms.on_files, test=test))


# Random forms, and an oracle that evaluates them on plain datetimes.


def in_turn(changes: list[forms.Change]) -> forms.Change:
    """Return the changes one after another; a moment that lost its zone gets it back."""

    def change(moment: Any) -> Any:
        for each in changes:
            moment = each(moment)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
        return moment

    return change


def random_form(draw: Random) -> tuple[str, Test, float]:
    """Return a form with its name and its limit."""
    names: list[str] = []
    limit_s = float(draw.choice([90, 600, 3600, 5400, DAY_S, 3 * DAY_S]))

    def side(last: str) -> forms.Change:
        chosen = [draw.choice(list(forms.MOMENTS)) for _ in range(draw.randint(0, 3))]
        names.append(" > ".join([*chosen, last] if last else chosen))
        moment = in_turn([forms.MOMENTS[name] for name in chosen])
        return (lambda t: forms.NUMBERS[last](moment(t))) if last else moment

    table = draw.choice([forms.COMPARISONS, forms.OF_NUMBERS])
    lasts = [draw.choice(list(forms.NUMBERS)) if table is forms.OF_NUMBERS else "" for _ in range(2)]
    stamp, clock = (side(last) for last in lasts)
    name = draw.choice(list(table))
    return (
        f"{name} of ({names[0]}) and ({names[1]}), {limit_s} s",
        forms.old(stamp, clock, table[name], limit_s),
        limit_s,
    )


def check_random(seed: int) -> None:
    name, test, limit_s = random_form(Random(seed))
    later = START + dt.timedelta(seconds=limit_s + 61)
    turns = not test(START, START) and test(START, later)
    assert turns, f"seed {seed}: the form {name} decides nothing"
    clock_first = seed % 2 == 1
    program = partial(forms.on_boto3, test=test, clock_first=clock_first)
    assert verdict_of(program) == "violated", f"seed {seed}: {name}"


@pytest.mark.parametrize("seed", range(6))
def test_random_forms(seed: int) -> None:
    check_random(seed)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 1400, 20))
def test_many_random_forms(start: int) -> None:
    for seed in range(start, start + 20):
        check_random(seed)
