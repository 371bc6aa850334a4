"""Processes have a memory of their own, and runs repeat: where they do not, an audit refuses to judge."""

import array
import functools
import itertools
import random
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.sim.explore import Diverged, audit
from fencepost.sim.explore.rehearsal import Variables
from fencepost.sim.world import NO_FAULTS, Budget, World
from fencepost.sim.world.reachable import reachable

CACHE: dict[str, Any] = {}
SEEN: set[str] = set()
COUNT = 0
NUMBERS = itertools.count()
DRAWN = random.Random(1)
METRICS_OF: defaultdict[str, int] = defaultdict(int)
ORDERED: OrderedDict[str, int] = OrderedDict()
NUMBERED = array.array("q")
METRICS: defaultdict[str, int] = defaultdict(int)


class Registry:
    known: ClassVar[list[str]] = []
    loaded = False


class Table(dict[str, int]):
    pass


TABLE = Table()


class Client:
    def __init__(self) -> None:
        self.token = ""


CLIENT = Client()


def in_a_global(store: Any, key: str) -> bool:
    global COUNT
    COUNT += 1
    return COUNT == 1


def in_a_default(store: Any, key: str, known: list[str] = []) -> bool:  # noqa: B006  # that is the mistake
    known.append(key)
    return len(known) == 1


def in_an_attribute_of_a_function(store: Any, key: str) -> bool:
    first = not getattr(in_an_attribute_of_a_function, "done", False)
    vars(in_an_attribute_of_a_function)["done"] = True
    return first


@functools.cache
def _read(store: Any) -> Any:
    return store.get("config").outcome


@functools.lru_cache(maxsize=2)
def _listed(key: str) -> list[str]:
    return []


def in_a_result_of_a_cache(store: Any, key: str) -> bool:
    _listed("other")
    _listed(key).append(key)
    return len(_listed(key)) == 1


def in_a_cache(store: Any, key: str) -> bool:
    before = _read.cache_info().currsize
    _read(store)
    return before == 0


def _once() -> Callable[[Any, str], bool]:
    done = False

    def once(store: Any, key: str) -> bool:
        nonlocal done
        first, done = not done, True
        return first

    return once


def _first(holder: Any, name: str, value: Any) -> bool:
    first = not getattr(holder, name)
    setattr(holder, name, value)
    return first


PLACES: dict[str, Callable[[Any, str], bool]] = {
    "a dictionary": lambda store, key: not CACHE and not CACHE.update(first=key),  # type: ignore[func-returns-value]  # None
    "a set": lambda store, key: key not in SEEN and not SEEN.add(key),  # type: ignore[func-returns-value]  # None
    "a global": in_a_global,
    "a default argument": in_a_default,
    "an attribute of a function": in_an_attribute_of_a_function,
    "a cached function": in_a_cache,
    "a result that a cache keeps": in_a_result_of_a_cache,
    "a defaultdict": lambda store, key: METRICS_OF[key] == 0 and not METRICS_OF.update({key: 1}),  # type: ignore[func-returns-value]  # None
    "an ordered dictionary": lambda store, key: not ORDERED and not ORDERED.update({key: 1}),  # type: ignore[func-returns-value]  # None
    "a dictionary of the user's class": lambda store, key: not TABLE and not TABLE.update({key: 1}),  # type: ignore[func-returns-value]  # None
    "an array": lambda store, key: not NUMBERED and not NUMBERED.append(1),  # type: ignore[func-returns-value]  # None
    "a closure": _once(),
    "a list of a class": lambda store, key: not Registry.known.append(key) and len(Registry.known) == 1,  # type: ignore[func-returns-value]  # None
    "a class": lambda store, key: _first(Registry, "loaded", True),
    "an object": lambda store, key: _first(CLIENT, "token", key),
    "an iterator": lambda store, key: next(NUMBERS) == 0,
    "a generator of numbers": lambda store, key: DRAWN.random() < 0.5,
}


@pytest.fixture(autouse=True)
def empty() -> None:
    _read.cache_clear()


@pytest.mark.parametrize("place", PLACES)
def test_a_variable_that_outlives_a_run_is_refused(place: str) -> None:
    """ann initialises once, and remembers it where no new process would find it."""

    def program(world: World) -> None:
        store = world.store()

        def work() -> None:
            if PLACES[place](store, "k"):
                store.put("initialised", b"", when=ANYTHING)
            store.get("k")

        for name in ("ann", "bob"):
            world.spawn(work, name=name)

    with pytest.raises(Diverged, match=r"variable"):
        audit(program)


RESET = [place for place in PLACES if place not in ("an iterator", "a generator of numbers")]


@pytest.mark.parametrize("place", RESET)
def test_a_variable_that_survives_a_crash_is_refused(place: str) -> None:
    """The program clears the variable at the start of every run, so runs repeat; a crash clears nothing."""

    def program(world: World) -> None:
        store = world.store()
        variables.put_back(fresh)

        def work() -> None:
            if PLACES[place](store, "k"):
                store.put("leader", b"", when=ABSENT)
            store.get("k")

        world.spawn(work, name="ann")

    variables = Variables(PLACES[place])
    fresh = variables.copy()
    named = {"a dictionary": r"test_memory\.CACHE", "an object": r"CLIENT|Client|token"}.get(place, "")
    with pytest.raises(Diverged, match=f"{named}.*does not clear it"):
        audit(program, budget=Budget(crash=1, reply_lost=0, request_lost=0, pause=0))


@pytest.mark.parametrize("place", RESET)
def test_a_variable_that_processes_share_is_refused(place: str) -> None:
    def program(world: World) -> None:
        store = world.store()
        variables.put_back(fresh)

        def work() -> None:
            store.get("k")
            if PLACES[place](store, "k"):
                store.put("leader", b"", when=ANYTHING)

        for name in ("ann", "bob"):
            world.spawn(work, name=name)

    variables = Variables(PLACES[place])
    fresh = variables.copy()
    with pytest.raises(Diverged, match="share such a variable"):
        audit(program, budget=NO_FAULTS)


@functools.cache
def square(number: int) -> int:
    return number * number


def test_a_cache_that_changes_nothing_is_accepted() -> None:
    """A counter for metrics and a cache of a pure function are module variables too."""

    def program(world: World) -> None:
        store = world.store()

        def work() -> None:
            METRICS["runs"] += 1
            store.put("k", str(square(3)).encode(), when=ANYTHING)

        for name in ("ann", "bob"):
            world.spawn(work, name=name)
        world.always("nine", lambda view: view.get("k") in (None, b"9"))

    METRICS.clear()
    assert audit(program).verdict == "holds"


def test_a_file_that_outlives_a_run_is_refused(tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    def program(world: World) -> None:
        store = world.store()

        def work() -> None:
            if not mark.exists():
                mark.touch()
                store.put("first", b"", when=ANYTHING)

        world.spawn(work, name="ann")

    with pytest.raises(Diverged):
        audit(program)


def test_a_noted_value_does_not_change_later() -> None:
    """Else a property sees what is true later in the place of what was true when it was noted."""

    def program(world: World) -> None:
        def work() -> None:
            held = ["lock"]
            world.note("held", held)
            world.note("held", {"inner": held})
            held.clear()
            world.store().put("k", b"", when=ANYTHING)

        def check(view: Any) -> bool:
            found = view.notes("held")
            if found:
                found[0].append("by the check")
            return found[:2] in (
                [],
                [["lock", "by the check"]],
                [["lock", "by the check"], {"inner": ["lock"]}],
            )

        world.spawn(work, name="ann")
        world.always("held", check)

    result = audit(program, budget=NO_FAULTS)
    assert not result.counterexamples, result


def test_a_posted_message_does_not_change_later() -> None:
    def program(world: World) -> None:
        def send() -> None:
            message = ["new"]
            world.post("inbox", message)
            message.clear()

        def receive() -> None:
            found = world.receive("inbox")
            assert found in (None, ["new"])

        world.spawn(send, name="ann")
        world.spawn(receive, name="bob")

    assert not audit(program, budget=NO_FAULTS).counterexamples


def test_what_loaded_a_module_is_not_a_variable_of_it() -> None:
    """pytest loads a test's module, and its loader leads to every test there is: seconds for each audit."""
    found = reachable(in_a_global)
    assert any(one is SEEN for one in found)
    assert not any(one is __loader__ for one in found)
