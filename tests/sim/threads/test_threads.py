"""Threads of audited code: the classic mistakes are found, their fixes hold, and nothing is left out.

If this fails, an audit of threaded code says "holds" of code that loses updates, or refuses what runs.
"""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.impl.store import ANYTHING
from fencepost.sim.explore import Setting, audit, replay
from fencepost.sim.threads.sharing import Sharing
from fencepost.sim.world import NO_FAULTS, Budget, World
from tests.sim.explore.test_reduced_against_plain import compare_settings
from tests.sim.threads import programs

QUICK: dict[str, Any] = {"minimise_seconds": 0.5, "others": False}
CRASH = Budget(crash=1, reply_lost=0, request_lost=0, pause=0, restart=0)


def alone(work: Callable[[Any], Any], *, expected: Any = None) -> Callable[[World], None]:
    """A program of one process."""

    def program(world: World) -> None:
        world.configure(ticks=0)
        world.store().put("value", b"1", when=ANYTHING)
        world.spawn(work, world.store(), name="ann")
        if expected is not None:
            world.finally_("as expected", lambda view: view.results().get("ann", expected) == expected)

    return program


@pytest.mark.parametrize(
    ("mistake", "expected", "schedules"),
    [
        (programs.lost_update, 2, 400),
        (programs.loaded_twice, 1, 400),
        (programs.cancelled_too_late, True, 100),
    ],
)
def test_a_classic_mistake_is_found(mistake: Any, expected: Any, schedules: int) -> None:
    found = audit(alone(mistake, expected=expected), budget=NO_FAULTS, schedules=schedules, **QUICK)
    assert found.verdict == "violated"
    assert found.counterexamples[0].property == "as expected"
    again = replay(alone(mistake, expected=expected), found.counterexamples[0].token)
    assert again.violation is not None
    assert not again.misfit


@pytest.mark.parametrize(
    ("fixed", "expected"), [(programs.loaded_once, 1), (programs.cancelled_and_checked, True)]
)
def test_its_fix_holds_in_every_schedule(fixed: Any, expected: Any) -> None:
    found = audit(alone(fixed, expected=expected), budget=NO_FAULTS)
    assert found.verdict == "holds", found


@pytest.mark.slow
def test_the_locked_pool_holds_in_every_schedule() -> None:
    found = audit(alone(programs.no_lost_update, expected=2), budget=NO_FAULTS)
    assert found.verdict == "holds", found


@pytest.mark.parametrize("work", programs.ALL, ids=lambda work: work.__name__)
def test_every_ending_of_threads_is_seen(work: Any) -> None:
    """The search sees what plain enumeration sees."""
    assert compare_settings(Setting(alone(work), NO_FAULTS), most=5_000)[0]


def test_what_lies_in_a_queue_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the step that changes it would be taken for independent of the one that takes it out."""
    learnt: set[Any] = set()
    adopt = Sharing.adopt
    monkeypatch.setattr(Sharing, "adopt", lambda self: (learnt.update(self.found), adopt(self))[1])
    audit(alone(programs.handed_over), budget=NO_FAULTS)
    assert ("ann/Thread-1 (give)", "put", "a") in learnt


def test_a_crash_takes_all_threads() -> None:
    assert compare_settings(Setting(alone(programs.two_writers), CRASH))[0]


def test_a_deadlock_names_who_waits_for_what() -> None:
    found = audit(alone(programs.deadlock), budget=NO_FAULTS, **QUICK).counterexamples[0]
    assert found.property == "no process waits for ever"
    assert "ann waits for Lock-2 at" in found.reason
    assert "which ann/other holds" in found.reason
    assert "tests/sim/threads/programs.py" in found.reason


def test_a_thread_that_fails_is_a_violation() -> None:
    def work(store: Any) -> None:
        def fail() -> None:
            raise ValueError("broken")

        threading.Thread(target=fail, name="worker").start()

    found = audit(alone(work), budget=NO_FAULTS, **QUICK).counterexamples[0]
    assert (found.property, found.reason) == ("ann/worker ends well", "it raised ValueError: broken")


@pytest.mark.parametrize(("count", "broken"), [(1, True), (2, False)])
def test_notify_wakes_as_many_as_it_is_given(count: int, broken: bool) -> None:
    def work(store: Any) -> None:
        ready, waiting = threading.Condition(), threading.Semaphore(0)

        def wait() -> None:
            with ready:
                waiting.release()
                ready.wait()

        for _ in range(2):
            threading.Thread(target=wait).start()
        for _ in range(2):
            waiting.acquire()
        with ready:
            ready.notify(count)

    found = audit(alone(work), budget=NO_FAULTS, schedules=20, minimise_seconds=0, others=False)
    assert bool(found.counterexamples) == broken


def test_a_search_starts_over_when_it_learns_of_a_place_that_changes_memory() -> None:
    learnt = Sharing(None)
    learnt.add({"places": [["ann", "put", "a"]]})
    assert learnt.adopt()
    assert learnt.writers == {("ann", "put", "a")}
    assert not learnt.adopt()
