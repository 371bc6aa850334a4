"""Continuity of objects: exactly what an independent search over all orders allows, and no false alarm.

If this fails, `fencepost replay` accepts a trace of a store that lost or invented data, or refuses one of a
store that did nothing wrong.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from fencepost.impl.store.events import Event
from fencepost.sim.replay.continuity import Claims, Continuity, continuity
from fencepost.sim.replay.parts import in_order
from fencepost.sim.trace import table_of
from fencepost.sim.trace.columns import events as columns
from tests.trust.registers import Call, as_code, drawn, events, possible, stored


def judged(
    made: Iterable[Event], *, all_writers: bool = True, starts_empty: bool = False, as_recorded: bool = True
) -> Continuity:
    table = in_order(table_of(made))
    return continuity(columns(table), table, Claims(all_writers, starts_empty), as_recorded=as_recorded)


def refused(runs: Mapping[int, list[Event]], **options: bool) -> dict[int, dict[str, Any]]:
    """The findings by the number of their run, of many runs with one object each."""
    rows = [replace(event, run=f"{seed:06d}") for seed, made in runs.items() for event in made]
    found = judged(rows, **options)
    assert found.undecided <= len(runs) // 100
    assert found.found == len(found.findings), "not more than are listed"
    return {int(one["run"]): one for one in found.findings}


def compare(seeds: range, most: int) -> int:
    """Compare drawn histories with the search over all orders; the number of those that are possible."""
    cases: dict[tuple[bool, bool], dict[int, list[Call]]] = {}
    for seed in seeds:
        dice = Random(seed)
        calls = drawn(dice, 2 + seed % most, 1 + seed % 4)
        cases.setdefault((dice.random() < 0.5, dice.random() < 0.6), {})[seed] = calls
    count = 0
    for (empty, one_order), histories in cases.items():
        runs = {seed: events(calls) for seed, calls in histories.items()}
        found = refused(runs, starts_empty=empty, as_recorded=one_order)
        for seed, calls in histories.items():
            expected = possible(calls, empty=empty, one_order=one_order)
            assert (seed not in found) == expected, (seed, empty, one_order, found.get(seed), as_code(calls))
            count += expected
    return count


def test_drawn_histories_are_judged_as_by_trying_every_order() -> None:
    assert 150 < compare(range(800), 5) < 650, "both verdicts occur"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 40_000, 1000))
def test_more_drawn_histories_are_judged_as_by_trying_every_order(first: int) -> None:
    assert 50 < compare(range(first, first + 1000), 7) < 900


def accept(seeds: range, most: int) -> None:
    """Judge histories of an honest store: no finding."""
    cases: dict[tuple[bool, bool], dict[int, list[Call]]] = {}
    for seed in seeds:
        dice = Random(seed)
        empty, one_counter = dice.random() < 0.5, dice.random() < 0.5
        calls = stored(dice, 3 + seed % most, 1 + seed % 6, empty=empty)
        cases.setdefault((empty, one_counter), {})[seed] = calls
    for (empty, one_counter), histories in cases.items():
        runs = {seed: events(calls, one_counter=one_counter) for seed, calls in histories.items()}
        for seed, one in refused(runs, starts_empty=empty).items():
            pytest.fail(f"{seed} {empty} {one_counter} {one} {as_code(histories[seed])}")


def test_histories_of_an_honest_store_are_accepted() -> None:
    accept(range(150), 40)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 4000, 500))
def test_more_histories_of_an_honest_store_are_accepted(first: int) -> None:
    accept(range(first, first + 500), 200)
