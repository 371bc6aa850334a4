"""Safeguards and assumptions of every machine that ships: each is consulted, and each is needed.

A declared name that nothing reads would be switched off without effect, and its test would pass for
ever: a check that cannot fail.
"""

import functools
import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import fencepost.model
from fencepost.model import FieldOverflow, Machine, Model, Size, check
from fencepost.model.kernel.report.vacuity import unchanged
from fencepost.model.kernel.search.explore import Bounds, Explorer, Search
from fencepost.model.textbook.bounded_queue import BoundedQueue

STATES = (500, 5_000, 60_000, 2_000_000)
"""As far as the two spaces are compared: most switches show at once, a few only far into a large one."""


def shipped() -> list[type[Machine]]:
    """Every machine of the model layer, but for the kernel and the pieces that machines are made of."""
    folder = Path(fencepost.model.__file__).parent
    files = [file.relative_to(folder).with_suffix("") for file in sorted(folder.rglob("*.py"))]
    names = [".".join(file.parts) for file in files if file.parts[0] not in ("kernel", "store", "__init__")]
    modules = [importlib.import_module(f"fencepost.model.{name}") for name in names]
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Machine) and value.__module__ == module.__name__
    ]


CONSULTED_AT = {
    ("Publish", "bounded-landing"): {"writers": 1},
    ("Ingest", "cursor-overlap"): {"contents": 1, "scanning": 1, "collectors": 1, "horizons": 2},
}
"""Sizes at which a switch matters within fewer states than where its machine shows it."""
SWITCHES = [(machine, name) for machine in shipped() for name in (*machine.safeguards, *machine.assumptions)]


def explored(model: Model, states: int) -> Search | None:
    """The space, up to a bound; None if a field overflows."""
    try:
        return Explorer(model, properties=(), bounds=Bounds(max_states=states), deadlocks=False).run()
    except FieldOverflow:
        return None


@functools.lru_cache(len(STATES))
def as_it_is(machine: type[Machine], sizes: tuple[tuple[str, int], ...], states: int) -> Search | None:
    """With every switch on: for each switch of the machine the same."""
    return explored(Model(machine, dict(sizes)), states)


def differs(machine: type[Machine], sizes: Mapping[str, int] | None, name: str) -> bool:
    """Whether without the switch other states are reached, or otherwise, or judged otherwise."""
    model, other = Model(machine, sizes), Model(machine, sizes, without=[name])
    for states in STATES:
        one, two = as_it_is(machine, tuple((sizes or {}).items()), states), explored(other, states)
        if one is None or two is None:
            return one is not two
        levels = min(len(one.levels), len(two.levels))
        pairs = zip(one.levels[:levels], two.levels[:levels], strict=True)
        if not all(np.array_equal(mine, others) for mine, others in pairs):
            return True
        if one.complete and two.complete:
            return one.fired != two.fired or verdicts(model) != verdicts(other)
    return False


def verdicts(model: Model) -> dict[str, str]:
    """By property. A switch may change no state, and still what a property makes of them."""
    return {found.name: found.verdict for found in check(model, keep_going=True).properties}


@pytest.mark.parametrize(("machine", "name"), SWITCHES)
def test_every_declared_switch_is_consulted(machine: type[Machine], name: str) -> None:
    sizes = CONSULTED_AT.get((machine.__name__, name), machine.shown_at.get(name))  # where it matters
    assert differs(machine, sizes, name), f"{name} has no effect"


def test_a_switch_without_effect_is_detected() -> None:
    class Vain(BoundedQueue):
        safeguards = {**BoundedQueue.safeguards, "vain": "is declared, and that is all"}

    assert not differs(Vain, None, "vain")
    assert differs(Vain, None, "wait-when-full")


SMALLER = {"collectors": 1, "troubles": 0, "epochs": 2}
"""Sizes at which that is seen sooner, where a machine has them."""
LATE_CREATION = {"lives": 1, "epochs": 1}
"""The same for a creation that lands late, which is one of the troubles."""


def declared(machine: type[Machine], where: Mapping[str, int] | str) -> tuple[list[str], dict[str, int]]:
    """Switches that are off, and sizes."""
    smaller = {name: size for name, size in SMALLER.items() if isinstance(getattr(machine, name, None), Size)}
    if where == "bounded-landing" and "lives" in vars(machine):
        return [where], LATE_CREATION
    if isinstance(where, str):
        return [where], smaller
    return [], {**smaller, **where}


class Covered(NamedTuple):
    """What a search covers, and what it does not."""

    fired: set[str]
    """Actions that happen."""
    unchanged: list[str]
    """Fields that are the same in all states."""


@functools.cache
def covered(
    machine: type[Machine], sizes: tuple[tuple[str, int], ...], without: tuple[str, ...], states: int | None
) -> Covered:
    """The coverage of a search, which several cases need; `check` would decide the properties as well."""
    model = Model(machine, dict(sizes), without=without)
    bounds = Bounds(max_states=states)
    search = Explorer(model, properties=(), bounds=bounds, deadlocks=False).run()
    assert search.complete or states
    fired = {label.action for label, count in zip(model.labels, search.fired, strict=True) if count}
    return Covered(fired, unchanged(search))


def coverage(machine: type[Machine], sizes: Mapping[str, int], without: list[str]) -> Iterator[Covered]:
    """Search ever farther: what a part of the space shows, the whole space shows too."""
    for states in (*STATES, None):
        yield covered(machine, tuple(sizes.items()), tuple(without), states)


@pytest.mark.parametrize(
    ("machine", "action"), [(machine, action) for machine in shipped() for action in machine.fires_at]
)
def test_an_action_fires_where_its_machine_declares_it(machine: type[Machine], action: str) -> None:
    """Elsewhere it need not fire."""
    without, sizes = declared(machine, machine.fires_at[action])
    assert any(action in found.fired for found in coverage(machine, sizes, without))
    assert Model(machine, sizes, without=without).must_fire(action)
    assert not Model(machine).must_fire(action)


@pytest.mark.parametrize(
    ("machine", "field"), [(machine, field) for machine in shipped() for field in machine.changes_at]
)
def test_a_field_changes_where_its_machine_declares_it(machine: type[Machine], field: str) -> None:
    """Elsewhere it need not change."""
    without, sizes = declared(machine, machine.changes_at[field])
    assert any(field not in found.unchanged for found in coverage(machine, sizes, without))
    assert Model(machine, sizes, without=without).must_change(field)
    assert not Model(machine).must_change(field)


def test_every_machine_that_ships_is_seen() -> None:
    names = {machine.__name__ for machine in shipped()}
    assert {"TwoPhase", "Peterson", "BoundedQueue", "Philosophers"} <= names
    assert {"CreateOnlyLock", "SwapCounter", "FencedLease"} <= names


def test_a_producer_that_does_not_wait_overwrites_unread_items() -> None:
    result = check(BoundedQueue, {"places": 2}, without=["wait-when-full"])
    assert result["in_order"].counterexample.lines() == [
        "0. start  place: [0, 0], written: 0, read: 0",
        "1. put()  written: 0 -> 1",
        "2. put()  place[1]: 0 -> 1, written: 1 -> 2",
        "3. put()  place[0]: 0 -> 2, written: 2 -> 3",
    ]
