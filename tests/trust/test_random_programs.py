"""Random programs that keep state in odd places: an audit judges them as if each life had a new place.

Each process has a few requests. The body of a request may depend on a variable that outlives a run or a
crash, or that another process changes. The oracle needs no world: it gives every life of every process new
variables, and runs the code in plain Python. If this fails, a mistake that a cache hides is never found, or
code is blamed for variables that no other process has.
"""

import random
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.impl.store import ANYTHING
from fencepost.sim.explore import audit
from fencepost.sim.world import Budget, World

FEW, MANY = 25, 400


def new_module() -> types.ModuleType:
    """Return a module that keeps counts in every kind of place."""
    made = types.ModuleType("odd_places")
    exec(compile(SOURCE, __file__, "exec"), vars(made))
    return made


SOURCE = """
import collections, functools, itertools

number = 0
cells = {}
listed = []
marks = set()
queued = collections.deque(maxlen=50)
sums = collections.defaultdict(int)
counted = collections.Counter()
ordered = collections.OrderedDict()
nested = {"inner": {"deep": []}}
numbers = itertools.count(1)


class Kept:
    total = 0
    names = []


class Thing:
    def __init__(self):
        self.total = 0


class Slotted:
    __slots__ = ("total",)


thing, slotted = Thing(), Slotted()
slotted.total = 0


def count_default(known=[]):
    known.append(1)
    return len(known)


def count_keyword(*, known={}):
    known[len(known)] = 1
    return len(known)


def count_attribute():
    count_attribute.total = getattr(count_attribute, "total", 0) + 1
    return count_attribute.total


def _closed():
    total = 0

    def count():
        nonlocal total
        total += 1
        return total

    return count


count_closure = _closed()


@functools.cache
def cached():
    return []


@functools.lru_cache(maxsize=3)
def bounded(name):
    return [name]


def up(place):
    global number
    if place == "global":
        number += 1
        return number
    if place == "dictionary":
        cells["n"] = cells.get("n", 0) + 1
        return cells["n"]
    if place == "rebound":
        globals()["cells"] = {**cells, "r": cells.get("r", 0) + 1}
        return cells["r"]
    if place == "list":
        listed.append(1)
        return len(listed)
    if place == "set":
        marks.add(len(marks))
        return len(marks)
    if place == "deque":
        queued.append(1)
        return len(queued)
    if place == "defaultdict":
        sums["n"] += 1
        return sums["n"]
    if place == "counter":
        counted["n"] += 1
        return counted["n"]
    if place == "ordered":
        ordered[len(ordered)] = 1
        return len(ordered)
    if place == "nested":
        nested["inner"]["deep"].append(1)
        return len(nested["inner"]["deep"])
    if place == "made later":
        nested.setdefault("later", {}).setdefault("n", []).append(1)
        return len(nested["later"]["n"])
    if place == "class":
        Kept.total += 1
        return Kept.total
    if place == "list of a class":
        Kept.names.append(1)
        return len(Kept.names)
    if place == "object":
        thing.total += 1
        return thing.total
    if place == "slots":
        slotted.total += 1
        return slotted.total
    if place == "cache":
        cached().append(1)
        return len(cached())
    if place == "bounded cache":
        bounded("x").append(1)
        return len(bounded("x")) - 1
    if place == "iterator":
        return next(numbers)
    if place == "put back":
        marks.add("busy")
        found = len(marks)
        marks.discard("busy")
        return found
    return {
        "default": count_default,
        "keyword": count_keyword,
        "attribute": count_attribute,
        "closure": count_closure,
    }[place]()
"""
PLACES = [
    *(
        "global",
        "dictionary",
        "rebound",
        "list",
        "set",
        "deque",
        "defaultdict",
        "counter",
        "ordered",
        "nested",
    ),
    *("made later", "class", "list of a class", "object", "slots", "cache", "bounded cache", "iterator"),
    *("default", "keyword", "attribute", "closure", "put back"),
]

Line = tuple[str, str, str]
"""A key to write, how its body depends on the count (not at all, from a number on, always), and a place."""


def programs(draw: random.Random) -> list[list[Line]]:
    """By process, what it writes."""
    places = draw.sample(PLACES, 2)
    return [
        [
            (draw.choice("kl"), draw.choice(["no", "later", "value", "value"]), draw.choice(places))
            for _ in range(draw.randint(1, 3))
        ]
        for _ in range(draw.randint(1, 2))
    ]


def body(dependence: str, count: int) -> bytes:
    return {"no": b"x", "later": b"y" if count > 4 else b"x", "value": str(count).encode()}[dependence]


def bodies(lines: list[list[Line]], *, apart: bool) -> list[list[bytes]]:
    """Return the bodies that the processes write, one after another and the first of them twice."""
    shared = new_module()
    return [
        [body(how, module.up(place)) for _, how, place in process]
        for process in [lines[0], *lines]
        if (module := new_module() if apart else shared)
    ]


def program_of(lines: list[list[Line]], module: Callable[[], Any]) -> Callable[[World], None]:
    """Return a program; `module` gives the module of a life of a process."""

    def program(world: World) -> None:
        store = world.store()

        def work(mine: list[Line]) -> tuple[bytes, ...]:
            odd, written = module(), []
            for key, how, place in mine:
                written.append(body(how, odd.up(place)))
                store.put(key, written[-1], when=ANYTHING)
            return tuple(written)

        for number, mine in enumerate(lines):
            world.spawn(work, mine, name=f"p{number}")
        world.finally_(
            "as alone", lambda view: all(view.result(f"p{n}") == one for n, one in enumerate(alone))
        )

    alone = [tuple(one) for one in bodies(lines, apart=True)[1:]]
    return program


BUDGET = Budget(crash=1, reply_lost=0, request_lost=0, pause=0)


@pytest.fixture(name="odd")
def _odd(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module of the user, which all processes of all runs find."""
    module = new_module()
    module.__file__ = __file__
    monkeypatch.setitem(sys.modules, "odd_places", module)
    return module


def check(seed: int, odd: types.ModuleType) -> None:
    lines = programs(random.Random(seed))
    own = audit(program_of(lines, new_module), budget=BUDGET)
    found = audit(program_of(lines, lambda: odd), budget=BUDGET)
    assert own.complete, "variables of a process's own are never refused"
    assert not found.counterexamples, lines
    assert (found.verdict, found.schedules) == (own.verdict, own.schedules), lines


@pytest.mark.parametrize("seed", range(FEW))
def test_state_in_odd_places_belongs_to_a_life(seed: int, odd: types.ModuleType) -> None:
    check(seed, odd)


@pytest.mark.parametrize("place", PLACES)
def test_state_in_each_odd_place_belongs_to_a_life(place: str, odd: types.ModuleType) -> None:
    lines = [[("k", "value", place), ("l", "value", place)], [("k", "value", place)]]
    found = audit(program_of(lines, lambda: odd), budget=BUDGET)
    assert found.complete
    assert not found.counterexamples


def test_the_generator_makes_programs_that_share_something() -> None:
    every = [programs(random.Random(seed)) for seed in range(MANY)]
    assert sum(bodies(lines, apart=False) != bodies(lines, apart=True) for lines in every) > 50


@pytest.mark.slow  # minutes
@pytest.mark.parametrize("seed", range(FEW, MANY))
def test_state_in_odd_places_belongs_to_a_life_at_length(seed: int, odd: types.ModuleType) -> None:
    check(seed, odd)
