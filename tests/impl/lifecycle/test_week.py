"""Days with faults of every kind: nothing is deleted early, and nothing that is due is forgotten.

`nox -s bench -- lifecycle-week` has the same week, with a plot.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fencepost.impl.lifecycle.safeguards import STANDARD

from .history import Violation
from .week import HOUR_S, KINDS, Week

SHORT: dict[str, Any] = {"day_s": 4 * HOUR_S, "tick_s": HOUR_S // 2, "acts": 2.0}


def test_two_short_days_with_every_fault_equal_the_oracle() -> None:
    week = Week(1, **SHORT)
    week.run(days=2)
    assert {kind for kind, _, _ in week.spans} == {*KINDS}
    assert week.crashes > 0
    assert sum(life.deletions for life in week.lives.values()) > 40
    assert sum(one.requests.get("delete", 0) for one in week.samples) > 40
    assert max(one.lag_s.get("ages", 0) for one in week.samples) > HOUR_S / 2, "no fault held a sweep up"


MISTAKES: dict[str, Callable[..., Any]] = {
    "delay_back": lambda _: 0,
    "wait_until_due": lambda _: False,
    "loss_degrades": lambda _: False,
    "lock": lambda _: False,
}


def with_mistake(name: str, days: float) -> None:
    # A fault that has buckets walked hides that events were passed.
    faults = ("log",) if name == "loss_degrades" else ("workers", "endpoints", "clocks")
    Week(1, **SHORT, faults=faults, safeguards=replace(STANDARD, **{name: MISTAKES[name]})).run(days)


def test_a_mistake_in_where_cursors_begin_is_found() -> None:
    with pytest.raises(Violation):
        with_mistake("delay_back", 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
def test_other_mistakes_are_found_in_a_short_week(name: str) -> None:
    with pytest.raises(Violation):
        with_mistake(name, 7)


@pytest.mark.slow
def test_a_week_with_every_fault_equals_the_oracle() -> None:
    week = Week(7)
    week.run(days=7)
    assert sum(life.deletions for life in week.lives.values()) > 1000
