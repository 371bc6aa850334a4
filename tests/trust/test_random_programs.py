"""Random programs that keep state in odd places: an audit refuses them, or they are as good as without it.

Each program has a few processes of a few requests. What a request writes may depend on a variable that
outlives a run or a crash, or that another process changes. The generator knows whether it does: it runs the
program with new variables for every process and life, in plain Python without a world.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.impl.store import ANYTHING
from fencepost.sim.explore import Diverged, audit
from fencepost.sim.world import Budget, World

FEW, MANY = 15, 400


class Odd:
    """Where a program keeps its state. Each place has a way to count up, and one to start again."""

    def __init__(self) -> None:
        self.cells: dict[str, Any] = {}
        self.listed: list[int] = []
        self.number = 0

        def count(known: list[int] = []) -> int:  # noqa: B006  # that is the odd place
            known.append(1)
            return len(known)

        total = 0

        def closed() -> int:
            nonlocal total
            total += 1
            return total

        class Kept:
            total = 0

        self.kept, self.count, self.closed = Kept, count, closed

    def up(self, place: str) -> int:
        if place == "default":
            return self.count()
        if place == "closure":
            return self.closed()
        if place == "class":
            self.kept.total += 1
            return self.kept.total
        if place == "list":
            self.listed.append(1)
            return len(self.listed)
        if place == "dictionary":
            self.cells["n"] = self.cells.get("n", 0) + 1
            return int(self.cells["n"])
        self.number += 1
        return self.number


PLACES = ("default", "closure", "class", "list", "dictionary", "attribute")

Line = tuple[str, str, str]
"""A key to write, how its body depends on the count (not at all, from a number on, always), and a place."""


def programs(draw: random.Random) -> list[list[Line]]:
    """By process, what it writes."""
    return [
        [
            (draw.choice("kl"), draw.choice(["no", "no", "later", "value"]), draw.choice(PLACES))
            for _ in range(draw.randint(1, 3))
        ]
        for _ in range(draw.randint(1, 2))
    ]


def body(dependence: str, count: int) -> bytes:
    return {"no": b"x", "later": b"y" if count > 4 else b"x", "value": str(count).encode()}[dependence]


def shared_bodies(lines: list[list[Line]], *, again: bool) -> list[list[bytes]]:
    """What the processes write one after another with shared variables; `again`: the first lives twice."""
    odd = Odd()
    lives = [lines[0], *lines] if again else lines
    return [[body(how, odd.up(place)) for _, how, place in process] for process in lives]


def own_bodies(lines: list[list[Line]], *, again: bool) -> list[list[bytes]]:
    lives = [lines[0], *lines] if again else lines
    return [[body(how, odd.up(place)) for _, how, place in process] for process in lives if (odd := Odd())]


def must_be_refused(lines: list[list[Line]]) -> bool:
    """Whether a schedule without interleaving shows that variables are shared."""
    return any(shared_bodies(lines, again=again) != own_bodies(lines, again=again) for again in (False, True))


def program_of(lines: list[list[Line]], new: Callable[[], Odd]) -> Callable[[World], None]:
    """`new` gives the variables of a life of a process."""

    def program(world: World) -> None:
        store = world.store()

        def work(mine: list[Line]) -> None:
            odd = new()
            for key, how, place in mine:
                store.put(key, body(how, odd.up(place)), when=ANYTHING)

        for number, mine in enumerate(lines):
            world.spawn(work, mine, name=f"p{number}")

    return program


BUDGET = Budget(crash=1, reply_lost=0, request_lost=0, pause=0)


def check(seed: int) -> bool:
    """Whether the program of this seed is refused."""
    lines = programs(random.Random(seed))
    own = audit(program_of(lines, Odd), budget=BUDGET)
    assert own.complete, "variables of a process's own are never refused"
    shared = Odd()
    try:
        found = audit(program_of(lines, lambda: shared), budget=BUDGET)
    except Diverged:
        return True
    assert not must_be_refused(lines), lines
    assert (found.verdict, found.schedules) == (own.verdict, own.schedules)
    return False


@pytest.mark.parametrize("seed", range(FEW))
def test_state_in_odd_places_is_refused_or_harmless(seed: int) -> None:
    check(seed)


def test_the_generator_makes_both_kinds() -> None:
    found = [must_be_refused(programs(random.Random(seed))) for seed in range(MANY)]
    assert found.count(True) > 50
    assert found.count(False) > 50


@pytest.mark.slow  # minutes
def test_state_in_odd_places_is_refused_or_harmless_at_length() -> None:
    refused = [check(seed) for seed in range(FEW, MANY)]
    assert refused.count(True) > 50
    assert refused.count(False) > 50
