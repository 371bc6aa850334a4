"""A process has one clock: all of its threads read it with the same error, over all of its lives.

If this fails, an audit with `skew=1` blames a process for two of its threads that disagree about the time,
or leaves out the error of a clock that another thread, or an earlier life, read first.
"""

import threading
from dataclasses import replace
from typing import Any

from fencepost.impl.store import ANYTHING
from fencepost.sim.explore import Setting, audit
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.world import NO_FAULTS, World
from tests.sim.explore.test_reduced_against_plain import compare_settings

SKEW = replace(NO_FAULTS, skew=1)
SECOND_NS = 1_000_000_000


def clocks(world: World, processes: int) -> None:
    """Two threads of every process note the time; the clock itself does not move."""
    world.configure(ticks=0)
    store = world.store()

    def note() -> None:
        world.note("time", store.env.now_ns())

    def work() -> None:
        other = threading.Thread(target=note)
        other.start()
        note()
        other.join()

    for number in range(processes):
        world.spawn(work, name=f"p{number}")


def agree(world: World) -> None:
    world.always("one time", lambda view: len(set(view.notes("time"))) < 2)


def one_process(world: World) -> None:
    clocks(world, 1)
    agree(world)


def two_processes(world: World) -> None:
    clocks(world, 2)
    agree(world)


def test_threads_of_one_process_agree_about_the_time() -> None:
    assert audit(one_process, budget=SKEW).verdict == "holds"
    assert audit(two_processes, budget=SKEW, minimise_seconds=0.1).verdict == "violated"


def test_every_error_is_tried_whichever_thread_reads_first() -> None:
    """The first reading decides for all threads, so the order of two first readings matters."""
    seen: set[Any] = set()

    def observe(world: World) -> None:
        readings = [step[2].index for step in world.trace if step[5].kind == "clock"]
        errors = [round((now - world.start_ns) / 1e9) for _, now in world.noted["time"]]
        seen.add((readings[0] == 1, *errors))

    search = ReducedSearch(Setting(one_process, SKEW), first_only=False, observe=observe)
    search.explore()
    assert seen == {(first, error, error) for first in (False, True) for error in (0, 30, -30)}


def test_an_error_that_is_not_decided_yet_is_not_an_error_of_zero() -> None:
    """Two lives end with the same objects, and one of them has read the clock: both are continued."""

    def program(world: World) -> None:
        world.configure(ticks=0)
        store = world.store()

        def work() -> Any:
            if store.get("seen").done:
                return store.env.now_ns()
            store.put("seen", b"", when=ANYTHING)
            store.env.now_ns()
            store.put("seen", b"", when=ANYTHING)
            return None

        world.spawn(work, name="p", restart=True)

    assert compare_settings(Setting(program, replace(SKEW, crash=1, restart=1)))[1]
