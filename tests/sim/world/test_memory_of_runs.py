"""A search makes thousands of runs a second: what a run leaves behind must not fill the memory."""

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.impl.store import ANYTHING
from fencepost.impl.store.errors import Misuse
from fencepost.sim.explore import Plain, Setting
from fencepost.sim.world import Budget, World, finalizers
from fencepost.sim.world.run import RunState

RUNS = 100


def alive_after(program: Callable[[World], None], budget: Budget | None = None) -> int:
    """Return how many runs are still in memory after a search of `RUNS` runs."""
    before = sum(type(one) is RunState for one in gc.get_objects())
    search = Plain(Setting(program, budget or Budget()))
    search.explore(lambda search: search.schedules >= RUNS)
    assert search.schedules == RUNS
    return sum(type(one) is RunState for one in gc.get_objects()) - before


def put_twice(store: Any, name: str) -> None:
    store.put(name, b"1", when=ANYTHING)
    store.put("shared", store.get(name).body, when=ANYTHING)


def plain(world: World) -> None:
    for name in ("ann", "bob"):
        world.spawn(put_twice, world.store(), name, name=name)
    world.always("fine", lambda view: True)


def nested(world: World) -> None:
    store = world.store()

    def work() -> None:
        put_twice(store, world.me)
        world.note("done", world.env.new_id())

    for name in ("ann", "bob"):
        world.spawn(work, name=name)


def threaded(world: World) -> None:
    store = world.store()

    def work() -> None:
        lock = threading.Lock()

        def locked(name: str) -> None:
            with lock:
                put_twice(store, name)

        other = threading.Thread(target=locked, args=("other",))
        other.start()
        locked("own")
        other.join()

    world.spawn(work, name="ann")


@pytest.mark.parametrize("program", [plain, nested, threaded])
def test_a_run_that_is_over_is_freed_without_the_garbage_collector(program: Callable[[World], None]) -> None:
    gc.collect()
    gc.disable()
    try:
        assert alive_after(program) <= 3, "the last ones"
    finally:
        gc.enable()


def test_a_world_whose_run_is_over_cannot_be_used() -> None:
    """A program that keeps one would send requests that are no steps of the run that goes on."""
    kept: list[World] = []

    def program(world: World) -> None:
        kept.append(world)
        plain(world)

    alive_after(program)
    with pytest.raises(Misuse, match="this world's run is over"):
        kept[0].store()
    with pytest.raises(Misuse, match="this world's run is over"):
        _ = kept[0].env


def cyclic(world: World) -> None:
    plain(world)
    world.always("the world is there", lambda view: world.me != "")


def test_a_run_that_the_program_keeps_in_a_cycle_is_freed_after_some_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The collection at the end of a run looks at the objects of that run, which its world still keeps."""
    monkeypatch.setattr(finalizers, "OLDER_RUNS", 16)
    gc.collect()
    assert alive_after(cyclic) <= 2 * 16


def test_all_objects_are_collected_ever_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that the collection of older objects found alive is among the oldest from then on."""
    seen: list[int] = []
    real = gc.collect
    monkeypatch.setattr(finalizers, "OLDER_RUNS", 4)
    monkeypatch.setattr(finalizers, "ALL_RUNS", 16)
    monkeypatch.setattr(finalizers, "_runs", 0)
    monkeypatch.setattr(gc, "collect", lambda generation=2: (seen.append(generation), real(generation))[1])
    alive_after(plain)
    older = [generation for generation in seen if generation]
    assert len(seen) - len(older) == RUNS
    assert older == [1, 1, 1, 2, 1, 1, 1, 2, *[1] * 7, 2, *[1] * 9]
