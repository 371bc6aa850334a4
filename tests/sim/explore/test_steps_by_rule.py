"""Steps that no race on a path requires, and that are tried all the same.

A reversed race shows most of what else can happen. These programs need more: a step that never came in the
run, a request that a crash would have dropped, and time that passes while another holds a lock.
"""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.impl.store import requests as req
from fencepost.sim.explore.pieces import adopt, knowledge_of
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Setting
from fencepost.sim.world import NO_FAULTS, Budget, World
from fencepost.sim.world.stamps import STAMPED
from tests.sim.explore.test_broken_explorers import Eager

SEARCHES: list[Callable[..., ReducedSearch]] = [ReducedSearch, Eager]


def notes_seen(setting: Setting, search: Callable[..., ReducedSearch] = ReducedSearch) -> set[Any]:
    """Return what the processes of each complete run noted as `saw`."""
    seen: set[Any] = set()

    def observe(world: World) -> None:
        seen.add(tuple(value for _, value in world.noted.get("saw", ())))

    search(setting, first_only=False, observe=observe).explore()
    return seen


class Shared:
    """A lock, and an event that says that the other thread has begun."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.begun = threading.Event()


def threads(
    world: World, *works: Callable[[Any, int], None], make: Callable[[], Any] = threading.Lock
) -> None:
    """One process whose threads do this, each with the same lock or what `make` returns, and its number."""

    def process() -> None:
        lock = make()
        others = [
            threading.Thread(target=work, args=(lock, number), daemon=True)
            for number, work in enumerate(works[1:], 1)
        ]
        for other in others:
            other.start()
        works[0](lock, 0)
        for other in others:
            other.join()

    world.configure(ticks=0)
    world.spawn(process, name="p")


@pytest.mark.parametrize("search", SEARCHES)
def test_a_lock_that_is_never_released_could_have_been_taken_by_another(
    search: Callable[..., ReducedSearch],
) -> None:
    """The one that waits for ever takes no step, so no race shows that it could have been first."""

    def program(world: World) -> None:
        def keep(lock: Any, me: int) -> None:
            lock.acquire()
            world.note("saw", me)

        threads(world, keep, keep)

    assert notes_seen(Setting(program, NO_FAULTS), search) == {(0,), (1,)}


def test_each_request_of_a_parallel_step_may_land_alone() -> None:
    """Its sender crashes, and the other requests are never sent; the next life looks for both."""

    def program(world: World) -> None:
        world.configure(ticks=0)
        store = world.store()

        def work() -> None:
            world.note("saw", tuple(key for key in "xy" if store.get(key).done))
            store.send_all([req.Put(key, b"", ABSENT) for key in "xy"])

        world.spawn(work, name="p", restart=True)

    crash = Budget(crash=1, reply_lost=0, request_lost=0, pause=0)
    second = {seen[1] for seen in notes_seen(Setting(program, crash)) if len(seen) > 1}
    assert second == {(), ("x",), ("y",), ("x", "y")}


@pytest.mark.parametrize("search", SEARCHES)
def test_a_thread_gives_up_while_another_holds_what_it_waits_for(
    search: Callable[..., ReducedSearch],
) -> None:
    """Nothing that the holder does races with the time."""

    def program(world: World) -> None:
        def hold(shared: Any, _me: int) -> None:
            shared.begun.wait()
            with shared.lock:
                pass

        def wait(shared: Any, _me: int) -> None:
            shared.begun.set()
            world.note("saw", shared.lock.acquire(timeout=1))

        threads(world, hold, wait, make=Shared)

    assert notes_seen(Setting(program, NO_FAULTS), search) == {(True,), (False,)}


def test_a_step_that_a_power_loss_does_not_notice_races_with_others() -> None:
    """A read leaves nothing behind, and yet what it finds depends on its place."""

    def program(world: World) -> None:
        world.configure(ticks=0)
        world.filesystem()
        store = world.store()
        world.spawn(lambda: world.note("saw", store.get("k").done), name="reader", restart=False)
        world.spawn(lambda: store.put("k", b"", when=ABSENT), name="writer", restart=False)

    power = Budget(crash=0, reply_lost=0, request_lost=0, pause=0, power_loss=1, restart=0)
    assert notes_seen(Setting(program, power)) == {(), (False,), (True,)}


@pytest.mark.parametrize("search", SEARCHES)
def test_a_listing_that_was_met_after_a_state_was_kept_races_with_what_follows_the_state(
    search: Callable[..., ReducedSearch],
) -> None:
    """The state is met first by a process that lists nothing, and notes the same as one that finds nothing.

    The step that comes after the state was taken there before anything was listed.
    """

    def program(world: World) -> None:
        world.configure(ticks=0)
        store = world.store()

        def look() -> None:
            count = 0
            if store.get("flag").done:
                count = len(store.list("a/").objects)
            world.note("saw", count)
            store.get("z")

        def show() -> None:
            store.put("flag", b"", when=ABSENT)
            store.put("z", b"", when=ABSENT)

        world.spawn(look, name="b", restart=False)
        world.spawn(show, name="c", restart=False)
        world.spawn(lambda: store.put("a/x", b"", when=ABSENT), name="d", restart=False)

    assert notes_seen(Setting(program, NO_FAULTS), search) == {(0,), (1,)}


def test_a_search_that_goes_on_takes_up_what_another_learnt_meanwhile() -> None:
    """The nodes of its path lack the pauses that are known by then."""

    def program(world: World) -> None:
        store = world.store()

        def write() -> None:
            if store.get("b").done:
                began = store.env.monotonic_ns()
                store.put("a", b"", when=ANYTHING)
                world.note("late", store.env.monotonic_ns() - began > 3_600 * 10**9)

        world.spawn(write, name="ann", restart=False)
        world.spawn(lambda: store.put("b", b"", when=ANYTHING), name="bob", restart=False)

    pause = Budget(crash=0, reply_lost=0, request_lost=0, pause=1)
    first = Setting(program, pause)
    ReducedSearch(first).explore()
    counts = []
    for runs in (0, 1):
        setting = Setting(program, pause)
        search = ReducedSearch(setting, timed=STAMPED)
        if runs:
            search.explore(lambda at: at.runs == 1)
            assert not search.exhausted
        adopt(setting, knowledge_of(first))
        search.explore()
        assert search.exhausted
        assert not search.is_behind
        counts.append((search.schedules, search.runs, search.steps))
    assert counts[0] == counts[1]
