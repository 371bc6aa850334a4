"""A deadline is learnt and stamps are explored in whatever form a program compares a stamp with a clock.

If this fails, an audit says "holds" for a cleaner that deletes what a slow writer still needs, because of the
way in which the cleaner writes its comparison.
"""

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from functools import partial
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
    """The program is broken, and its mended version is not."""
    assert verdict_of(program) == "violated"
    assert verdict_of(partial(program, mended=True)) == "holds"


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


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("form", forms.MOMENTS)
def test_a_moment_is_followed_through_its_form(form: str, side: str) -> None:
    base = forms.MOMENTS["without its zone" if form == "without its zone" else "as it is"]
    test = of_side(forms.MOMENTS[form], side, lambda m, n, s: m < n - dt.timedelta(seconds=s), base)
    check(partial(forms.on_boto3, test=test))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("form", forms.NUMBERS)
def test_a_number_of_seconds_is_followed(form: str, side: str) -> None:
    test = of_side(forms.NUMBERS[form], side, lambda m, n, s: n - m > s, forms.NUMBERS["timestamp"])
    check(partial(forms.on_boto3, test=test))


@pytest.mark.parametrize("comparison", forms.COMPARISONS)
def test_moments_may_be_compared_in_any_way(comparison: str) -> None:
    check(partial(forms.on_boto3, test=forms.old(as_is, as_is, forms.COMPARISONS[comparison], HOUR_S)))


@pytest.mark.parametrize("comparison", forms.OF_NUMBERS)
def test_numbers_may_be_compared_in_any_way(comparison: str) -> None:
    number = forms.NUMBERS["int"]
    check(partial(forms.on_boto3, test=forms.old(number, number, forms.OF_NUMBERS[comparison], HOUR_S)))


@pytest.mark.parametrize("comparison", forms.OF_DAYS)
def test_days_may_be_compared(comparison: str) -> None:
    check(partial(forms.on_boto3, test=forms.old(as_is, as_is, forms.OF_DAYS[comparison], 7 * DAY_S)))


@pytest.mark.parametrize("find", forms.ON_BOTO3)
@pytest.mark.parametrize("clock", forms.CLOCKS)
def test_every_stamp_and_every_clock_of_boto3_programs(find: str, clock: str) -> None:
    test = forms.old(as_is, as_is, forms.COMPARISONS["not stamp > clock - limit"], HOUR_S)
    program = partial(
        forms.on_boto3, test=test, find=forms.ON_BOTO3[find], now=forms.CLOCKS[clock], clock_first=True
    )
    assert verdict_of(program) == "violated"


@pytest.mark.parametrize("comparison", ["stamp < clock - limit", "clock - stamp > limit", "abs"])
def test_the_store_interface_and_files_have_stamps_too(comparison: str) -> None:
    test = forms.old(as_is, as_is, forms.COMPARISONS[comparison], HOUR_S)
    check(partial(forms.on_store, test=test, lists=True))
    check(partial(forms.on_store, test=test, lists=False))
    check(partial(forms.on_files, test=test))
