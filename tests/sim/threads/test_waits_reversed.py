"""Threads that wait for one another are explored in every order in which they may get what they wait for.

A thread that waits cannot step until another has released what it waits for, so no race of the two shows that
it could have come first. If this fails, orders of lock holders are missing.
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from fencepost.impl.store import ANYTHING
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Setting
from fencepost.sim.world import NO_FAULTS, World
from tests.sim.explore.test_broken_explorers import Eager

Use = Callable[[Any, Any, list[Any], int], None]
Search = Callable[..., ReducedSearch]
SEARCHES = [ReducedSearch, partial(ReducedSearch, merge=False), Eager]
"""As usual, without merging, and with every state kept."""


def hold(lock: Any, store: Any, order: list[Any], me: int) -> None:
    with lock:
        store.put("k", b"", when=ANYTHING)
        order.append(me)


def hold_for_a_while(lock: Any, store: Any, order: list[Any], me: int) -> None:
    if not lock.acquire(timeout=1):
        order.append(-me)
        return
    store.put("k", b"", when=ANYTHING)
    order.append(me)
    lock.release()


def orders(make: Callable[[], Any], uses: tuple[Use, ...], *, search: Search) -> set[tuple[int, ...]]:
    """Return the orders in which the main thread, which is 0, and the others had the lock; -n gave up."""

    def process(store: Any) -> tuple[int, ...]:
        lock, order = make(), list[Any]()
        threads = [
            threading.Thread(target=use, args=(lock, store, order, number))
            for number, use in enumerate(uses[1:], 1)
        ]
        for thread in threads:
            thread.start()
        uses[0](lock, store, order, 0)
        for thread in threads:
            thread.join()
        return tuple(order)

    def program(world: World) -> None:
        world.configure(ticks=0)
        world.spawn(process, world.store(), name="p")

    found: set[tuple[int, ...]] = set()

    def observe(world: World) -> None:
        found.add(world.processes[0].result)

    done = search(Setting(program, NO_FAULTS), first_only=False, observe=observe)
    done.explore()
    assert not done.failures
    return found


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("make", [threading.Lock, threading.RLock, threading.Semaphore, threading.Condition])
def test_both_orders_of_two_holders_are_explored(make: Callable[[], Any], search: Search) -> None:
    assert orders(make, (hold, hold), search=search) == {(0, 1), (1, 0)}


@pytest.mark.slow  # seconds
def test_a_holder_comes_before_every_earlier_one() -> None:
    """Not only before the last that had the lock."""
    found = orders(threading.Lock, (hold, hold, hold), search=ReducedSearch)
    assert found == {(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)}


def hold_and_look_at_the_clock(lock: Any, store: Any, order: list[Any], me: int) -> None:
    """Every step of the holder depends on the time, as the wait does."""
    store.env.monotonic_ns()
    with lock:
        store.put("k", b"", when=ANYTHING)
        store.env.monotonic_ns()
        order.append(me)
    store.env.monotonic_ns()


@pytest.mark.parametrize("holds", [hold, hold_and_look_at_the_clock])
@pytest.mark.parametrize("search", SEARCHES)
def test_a_thread_that_waits_for_a_while_gets_the_lock_or_gives_up(search: Search, holds: Use) -> None:
    assert orders(threading.Lock, (holds, hold_for_a_while), search=search) == {
        (0, 1),
        (1, 0),
        (-1, 0),
        (0, -1),
    }


@pytest.mark.parametrize("search", SEARCHES)
def test_a_wait_below_a_state_met_again_is_reversed_with_the_path_that_met_it(search: Search) -> None:
    """Two puts of the same content leave one state in both orders, so what follows is explored once.

    Where the thread came first, the process writes something else, and the order of the puts matters. Only
    the thread's wait, in the summary of that state, has it tried before the lock on the second path.
    """

    def process(store: Any) -> bool:
        lock, came = threading.Lock(), list[int]()

        def come() -> None:
            with lock:
                came.append(1)

        thread = threading.Thread(target=come)
        thread.start()
        with lock:
            first = not came
            store.put("k", b"same" if first else b"late", when=ANYTHING)
        thread.join()
        return first

    def put(store: Any, key: str) -> None:
        store.put(key, b"same", when=ANYTHING)

    def program(world: World) -> None:
        world.configure(ticks=0)
        store = world.store()
        world.spawn(put, store, "k", name="a", restart=False)
        world.spawn(put, store, "other", name="b", restart=False)
        world.spawn(process, store, name="p")

    found = set[tuple[bool, bytes]]()

    def observe(world: World) -> None:
        found.add((world.processes[2].result, world.run.bucket.body("k")))

    search(Setting(program, NO_FAULTS), first_only=False, observe=observe).explore()
    assert found == {(True, b"same"), (False, b"late"), (False, b"same")}
