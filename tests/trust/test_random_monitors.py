"""Random monitors, step properties and invariants are decided as a naive enumeration decides them.

The enumeration runs tiny programs on a dictionary, in every order, and folds along. If this fails, runs with
different memories are merged, or an order of two events that a monitor sees is left out.
"""

from random import Random
from typing import Any

import pytest

from fencepost.impl.store import ANYTHING
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Setting
from fencepost.sim.world import NO_FAULTS, MonitorEvent, Violated, World

KEYS = "abc"
STATES = 3
BROKEN = STATES
Op = tuple[str, str, str]
"""Verb, key or topic, value."""
Table = dict[tuple[int, str, str], int]
"""From state, key or topic, and value, to the next state."""
Condition = list[tuple[str, str | None]]
"""Keys with their values; None where there is no such key."""


def random_programs(draw: Random) -> list[list[Op]]:
    def op() -> Op:
        verb = draw.choice(["put", "put", "put", "get", "note"])
        return (verb, draw.choice(KEYS), draw.choice("12"))

    return [[op() for _ in range(draw.randint(1, 3))] for _ in range(draw.choice([2, 3]))]


def random_table(draw: Random) -> Table:
    """Mostly staying where it is; a few moves; seldom a violation."""
    return {
        (state, key, value): draw.choice([state, state, draw.randrange(STATES), draw.randrange(STATES + 1)])
        for state in range(STATES)
        for key in KEYS
        for value in "12"
    }


def random_steps(draw: Random) -> set[tuple[str, str, str, str]]:
    """The forbidden steps: two keys, the value of the first before and of the second after."""
    return {
        (draw.choice(KEYS), draw.choice("12"), draw.choice(KEYS), draw.choice("12"))
        for _ in range(draw.randint(1, 2))
    }


def random_condition(draw: Random) -> Condition:
    """What must not be true at once; later keys are only read where the earlier ones have their values."""
    return [(key, draw.choice([None, "1", "2"])) for key in draw.sample(KEYS, draw.randint(2, 3))]


def live(world: World, code: list[Op]) -> None:
    store = world.store()
    for verb, name, value in code:
        match verb:
            case "put":
                store.put(name, value.encode(), when=ANYTHING)
            case "get":
                store.get(name)
            case "note":
                world.note(name, value)


def is_broken(program: Any) -> bool:
    """Whether the search finds a violation."""
    search = ReducedSearch(Setting(program, NO_FAULTS))
    search.explore()
    return bool(search.failures)


def by_search(
    codes: list[list[Op]], table: Table, sees: Any, forbidden: Any, never: Condition
) -> tuple[bool, bool, bool]:
    """Return true for the monitor, the step property and the invariant if some order breaks it."""

    def spawn(world: World) -> None:
        for number, code in enumerate(codes):
            world.spawn(live, world, code, name=f"p{number}")

    def monitored(world: World) -> None:
        spawn(world)

        def step(state: int, event: MonitorEvent) -> Any:
            value = event.value.decode() if event.kind == "put" else event.value
            after = table[state, event.key, value]
            return Violated("broken") if after == BROKEN else after

        world.monitor("m", 0, step, notes=sees[0], keys=sees[1])

    def stepped(world: World) -> None:
        spawn(world)

        def check(before: Any, after: Any) -> bool:
            return not any(
                before.get(one) == before_value.encode()
                and after.get(one) != before.get(one)
                and after.get(other) == after_value.encode()
                for one, before_value, other, after_value in forbidden
            )

        world.step_property("s", check)

    def invariant(world: World) -> None:
        spawn(world)

        def check(view: Any) -> bool:
            return not all(view.get(key) == (value and value.encode()) for key, value in never)

        world.always("i", check)

    return is_broken(monitored), is_broken(stepped), is_broken(invariant)


def by_enumeration(
    codes: list[list[Op]], table: Table, sees: Any, forbidden: Any, never: Condition
) -> tuple[bool, bool, bool]:
    monitor = step = False
    met_never = all(value is None for _, value in never)
    start = (tuple(0 for _ in codes), (), 0)
    met, waiting = {start}, [start]
    while waiting:
        places, contents, state = waiting.pop()
        for at, place in enumerate(places):
            if place == len(codes[at]):
                continue
            verb, name, value = codes[at][place]
            before = dict(contents)
            after = {**before, name: value} if verb == "put" else before
            for one, before_value, other, after_value in forbidden:
                step = step or (
                    before.get(one) == before_value
                    and after.get(one) != before_value
                    and after.get(other) == after_value
                )
            met_never = met_never or all(after.get(key) == value for key, value in never)
            following = state
            seen = name in sees[0] if verb == "note" else verb == "put" and name in sees[1]
            if seen and state != BROKEN:
                following = table[state, name, value]
                monitor = monitor or following == BROKEN
            found = (
                (*places[:at], place + 1, *places[at + 1 :]),
                tuple(sorted(after.items())),
                following,
            )
            if found not in met:
                met.add(found)
                waiting.append(found)
    return monitor, step, met_never


def check(seed: int) -> tuple[bool, bool, bool]:
    draw = Random(seed)
    codes, table, forbidden = random_programs(draw), random_table(draw), random_steps(draw)
    sees = (
        sorted(draw.sample(KEYS, draw.randint(0, 3))),
        sorted(draw.sample(KEYS, draw.randint(1, 3))),
    )
    never = random_condition(draw)
    expected = by_enumeration(codes, table, sees, forbidden, never)
    found = by_search(codes, table, sees, forbidden, never)
    assert found == expected, (seed, codes, sees, forbidden, never)
    return expected


def test_random_monitors_are_decided_as_enumeration_decides_them() -> None:
    verdicts = [check(seed) for seed in range(32)]
    for one in (0, 1, 2):
        # Both verdicts occur, or the comparison shows nothing.
        assert {verdict[one] for verdict in verdicts} == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 5000, 200))
def test_many_random_monitors_are_decided_as_enumeration_decides_them(start: int) -> None:
    for seed in range(start, start + 200):
        check(seed)
