"""Locks and their relatives that were made before the run are the world's while it runs.

If this fails, an audit hangs, or says "holds" of code whose threads it never let meet.
"""

import threading
import weakref
from functools import partial
from typing import Any

import pytest

from fencepost.impl.store.errors import Misuse
from fencepost.sim.explore import audit
from fencepost.sim.world import NO_FAULTS
from tests.sim.threads import loaded_programs as programs
from tests.sim.threads.test_threads import alone


def audited(work: Any, expected: Any = None) -> Any:
    return audit(
        alone(work, expected=expected), budget=NO_FAULTS, schedules=2_000, minimise_seconds=0, others=False
    )


@pytest.mark.parametrize("guard", programs.GUARDS.values(), ids=programs.GUARDS)
def test_a_guard_excludes_wherever_it_lies(guard: Any) -> None:
    before = guard()
    assert audited(partial(programs.excluded, guard), 2).verdict == "holds"
    assert audited(partial(programs.joined_inside, guard)).verdict == "violated"
    assert guard() is before


def test_a_lock_of_a_field_excludes() -> None:
    assert audited(programs.default_factory, 2).verdict == "holds"


def test_a_deadlock_names_the_lock_of_the_module() -> None:
    found = audited(partial(programs.joined_inside, programs.GUARDS["Lock"])).counterexamples[0]
    assert "waits for _lock at" in found.reason
    assert ", which ann holds" in found.reason


@pytest.mark.parametrize(
    ("fixed", "mutant", "expected"),
    [
        (programs.event, partial(programs.event, early=True), True),
        (programs.from_queue, partial(programs.from_queue, ends=False), ["a"]),
        (programs.from_simple_queue, partial(programs.from_simple_queue, ends=False), ["loaded", "a"]),
        (partial(programs.excluded, programs.GUARDS["Lock"]), programs.pooled, 2),
    ],
)
def test_a_mutant_is_found_and_what_it_breaks_holds(fixed: Any, mutant: Any, expected: Any) -> None:
    assert audited(fixed, expected).verdict == "holds"
    assert audited(mutant, expected).verdict == "violated"


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (programs.own, (None, "loaded")),
        (programs.own_of_subclass, ["numbered", 2, ["number"], 5]),
        (programs.own_made_by_the_run, ["numbered", 2, ["number"], 1]),
    ],
)
def test_each_thread_has_attributes_of_its_own(work: Any, expected: Any) -> None:
    assert audited(work, expected).verdict == "holds"
    assert (programs._own.value, programs._numbered.number) == ("loaded", 5)
    assert not {"__new__", "__getattribute__"} & vars(programs.Numbered).keys()


def test_a_subclass_that_the_run_defines_keeps_threads_apart() -> None:
    def work(store: Any) -> Any:
        class Mine(threading.local):
            def __init__(self) -> None:
                self.number = 1

        it = Mine()
        it.number = 2
        seen: list[int] = []
        thread = threading.Thread(target=lambda: seen.append(it.number))
        thread.start()
        thread.join()
        return seen, it.number

    assert audited(work, ([1], 2)).verdict == "holds"


def test_a_pool_that_one_run_shuts_is_open_in_the_next() -> None:
    for _ in range(2):
        assert not audited(programs.shuts_its_pool, True).counterexamples


def test_a_lock_that_the_set_up_makes_excludes() -> None:
    def program(world: Any) -> None:
        lock = threading.Lock()
        alone(partial(programs.excluded, lambda: lock), expected=2)(world)

    assert audit(program, budget=NO_FAULTS).verdict == "holds"


def test_a_lock_that_cannot_be_replaced_is_refused_with_its_place() -> None:
    pair = programs.Pair("pair", threading.Lock())
    with pytest.raises(Misuse, match=r"a Pair of .* has a lock .*cannot be replaced there"):
        audited(partial(programs.excluded, lambda: pair.lock))


def test_a_wait_for_a_hidden_lock_ends_with_the_time() -> None:
    """The program does not lead to the lock, so it stays the interpreter's, and a thread hangs in it."""
    lock = threading.Lock()
    program = alone(partial(programs.excluded, weakref.ref(lock)))
    assert audit(program, budget=NO_FAULTS, seconds=1).verdict == "undecided"
