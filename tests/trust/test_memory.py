"""Each process of each run has the variables of its modules as they were when these were loaded.

If this fails, processes share what no processes share, or a mistake of a cache is never found.
"""

import array
import functools
import itertools
import random
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.sim.explore import Diverged, audit
from fencepost.sim.world import NO_FAULTS, Budget, World
from fencepost.sim.world.reachable import reachable
from fencepost.sim.world.variables import OwnVariables, Variables

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


def judged(place: str, *, spawned: tuple[str, ...], budget: Budget, clear: bool) -> Any:
    """Audit processes that each find out whether they are the first to use a variable of the module."""

    def program(world: World) -> None:
        store = world.store()
        if clear:
            variables.put_back(fresh)

        def work() -> bool:
            store.get("k")
            first = PLACES[place](store, "k")
            store.put("initialised" if first else "found", b"", when=ANYTHING)
            return first and not any(PLACES[place](store, "k") for _ in range(2))

        for name in spawned:
            world.spawn(work, name=name)
        world.finally_("each life is the first", lambda view: all(map(view.result, spawned)))
        world.always("none finds the variable", lambda view: view.get("found") is None)

    variables = Variables(PLACES[place])
    fresh = variables.copy()
    return audit(program, budget=budget)


CRASH = Budget(crash=1, reply_lost=0, request_lost=0, pause=0)
FIRST = [place for place in PLACES if place != "a generator of numbers"]


@pytest.mark.parametrize("clear", [False, True], ids=["kept", "cleared by the program"])
@pytest.mark.parametrize("place", FIRST)
def test_each_process_of_each_run_has_its_own(place: str, clear: bool) -> None:
    found = judged(place, spawned=("ann", "bob"), budget=NO_FAULTS, clear=clear)
    assert found.complete
    assert not found.counterexamples


@pytest.mark.parametrize("place", FIRST)
def test_a_crash_clears_a_variable(place: str) -> None:
    found = judged(place, spawned=("ann",), budget=CRASH, clear=False)
    assert found.verdict == "holds"


@pytest.mark.parametrize("place", [place for place in FIRST if place != "an iterator"])
def test_a_variable_is_after_an_audit_as_it_was_before(place: str) -> None:
    variables = Variables(PLACES[place])
    before = [content for _, content in variables.copy()]
    judged(place, spawned=("ann",), budget=CRASH, clear=False)
    assert [content for _, content in variables.copy()] == before


def test_a_generator_of_numbers_begins_anew_in_each_life() -> None:
    def program(world: World) -> None:
        for name in ("ann", "bob"):
            world.spawn(lambda: (world.store().get("k"), DRAWN.random())[1], name=name)
        world.finally_("the same", lambda view: view.result("ann") == view.result("bob"))

    found = audit(program, budget=NO_FAULTS)
    assert found.complete
    assert not found.counterexamples


def test_threads_of_a_process_share_its_variables() -> None:
    def program(world: World) -> None:
        def count() -> None:
            world.store().get("k")
            METRICS["threads"] += 1

        def work() -> int:
            threads = [threading.Thread(target=count) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return METRICS["threads"]

        for name in ("ann", "bob"):
            world.spawn(work, name=name)
        world.finally_("two each", lambda view: (view.result("ann"), view.result("bob")) == (2, 2))

    found = audit(program, budget=NO_FAULTS, schedules=200)
    assert not found.counterexamples
    assert METRICS["threads"] == 0


def test_a_race_of_threads_for_a_variable_is_found() -> None:
    """Both find the cache empty, since each of them waits for the store before it fills it."""

    def program(world: World) -> None:
        def load() -> None:
            if "value" not in CACHE:
                body = world.store().get("k").outcome
                if "value" in CACHE:
                    world.note("loaded twice")
                CACHE["value"] = body

        def work() -> None:
            thread = threading.Thread(target=load)
            thread.start()
            load()
            thread.join()

        world.spawn(work, name="ann")
        world.always("loaded once", lambda view: not view.notes("loaded twice"))

    assert audit(program, budget=NO_FAULTS).verdict == "violated"


def test_what_the_set_up_put_into_a_module_is_copied_for_each_process() -> None:
    """Also a list in a dictionary that the set-up made."""

    def program(world: World) -> None:
        CACHE.clear()
        CACHE["seen"] = []
        store = world.store()

        def work() -> int:
            store.get("k")
            CACHE["seen"].append(1)
            CACHE["n"] = len(CACHE["seen"])
            return len(CACHE["seen"])

        for name in ("ann", "bob"):
            world.spawn(work, name=name)
        world.finally_("one each", lambda view: (view.result("ann"), view.result("bob")) == (1, 1))

    found = audit(program, budget=NO_FAULTS)
    assert found.complete
    assert not found.counterexamples


def test_a_set_that_is_empty_again_at_the_end_is_kept_apart() -> None:
    """Marks of work in progress: no run changes the set for good, and yet processes must not share it."""

    def program(world: World) -> None:
        store = world.store()

        def work() -> None:
            if "job" in SEEN:
                return
            SEEN.add("job")
            done = store.put("job", b"", when=ABSENT).done
            world.note("done" if done else "refused")
            SEEN.discard("job")

        for name in ("ann", "bob"):
            world.spawn(work, name=name)
        world.sometimes("refused", lambda view: bool(view.notes("refused")))
        world.finally_("both try", lambda view: bool(view.notes("done") and view.notes("refused")))

    found = audit(program, budget=NO_FAULTS)
    assert not found.counterexamples
    assert found.verdict == "holds"


@pytest.mark.parametrize("changes_back", [True, False])
def test_a_variable_that_only_a_rare_schedule_changes_is_kept_apart(
    monkeypatch: pytest.MonkeyPatch, changes_back: bool
) -> None:
    """Two lost creates come together in runs that are not watched; some are given up before the end."""

    monkeypatch.setattr(OwnVariables, "_is_sampled", lambda _: False)

    def program(world: World) -> None:
        store = world.store()

        def work() -> None:
            lost = [store.put(key, b"", when=ABSENT).outcome.value for key in ("k", "l")]
            if lost == ["unknown", "unknown"]:
                SEEN.add("k")
                store.put("m", b"", when=ANYTHING)
                if changes_back:
                    SEEN.discard("k")
                world.note("back")
            elif SEEN:
                store.put("n", b"", when=ANYTHING)

        world.spawn(work, name="ann")
        world.spawn(work, name="bob")
        world.always("not shared", lambda view: view.get("n") is None or not view.notes("back"))

    found = audit(program, budget=Budget(crash=0, reply_lost=2, request_lost=0, pause=0))
    assert found.verdict == "holds"


def letters() -> Iterator[str]:
    yield from "abc"


LETTERS = letters()


def test_what_cannot_be_restored_is_named_with_its_line() -> None:
    def program(world: World) -> None:
        world.spawn(lambda: world.store().put(next(LETTERS, "z"), b"", when=ANYTHING), name="ann")

    line = Path(__file__).read_text().split("\n").index("LETTERS = letters()") + 1
    with pytest.raises(
        Diverged, match=rf"cannot be restored: .*test_memory\.LETTERS .*test_memory\.py:{line}\)"
    ):
        audit(program)


def test_a_check_that_reads_what_processes_change_is_refused_by_name() -> None:
    """It would see the variables of the set-up, and hold whatever the processes do."""

    def program(world: World) -> None:
        def work() -> None:
            world.store().get("k")
            SEEN.add("leader")

        for name in ("ann", "bob"):
            world.spawn(work, name=name)
        world.always("one leader", lambda view: _leaders() <= 1)

    line = Path(__file__).read_text().split("\n").index("SEEN: set[str] = set()") + 1
    with pytest.raises(Diverged, match=rf"'one leader' reads .*test_memory\.SEEN .*test_memory\.py:{line}\)"):
        audit(program, budget=NO_FAULTS)


def _leaders() -> int:
    return len(SEEN)


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
