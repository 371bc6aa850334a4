"""A counterexample without a fault is easier to follow than one with; and searches of several processes."""

import os
import signal
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.impl.store import ANYTHING, Outcome
from fencepost.sim.explore import Setting, audit, counterexample, deepening, pieces, replay, watchdog
from fencepost.sim.explore.deepening import Deepening
from fencepost.sim.explore.minimise import minimise
from fencepost.sim.world import NO_FAULTS, View, World, places

LOST = replace(NO_FAULTS, reply_lost=1)


def seen(world: World) -> None:
    """`ann` notes that somebody wrote: because bob did, or because the reply of her own look is lost."""
    store = world.store()

    def look() -> None:
        if store.head("k").outcome is not Outcome.MISSING:
            world.note("seen")

    world.spawn(look, name="ann")
    world.spawn(store.put, "k", b"", when=ANYTHING, name="bob")
    world.always("unseen", lambda view: not view.notes("seen"))


def test_a_fault_becomes_a_plain_switch() -> None:
    """The lost reply was shown: one step less, and it suggests that the code must survive lost replies."""
    (found,) = audit(seen, budget=LOST).counterexamples
    assert (found.faults, found.switches) == (0, 1)
    assert [line.process for line in found.lines] == ["bob", "ann", "ann"]


def test_a_fault_that_is_needed_stays() -> None:
    def program(world: World) -> None:
        seen(world)
        del world.processes[1]

    (found,) = audit(program, budget=LOST).counterexamples
    assert found.faults == 1


def test_minimising_says_when_it_ran_out_of_time() -> None:
    result = audit(seen, budget=LOST, minimise_seconds=0.0)
    assert "unseen may have a shorter counterexample: minimising it ran out of time" in result.findings
    assert not audit(seen, budget=LOST, minimise_seconds=60).findings


def test_time_in_which_other_programs_run_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a counterexample is another one on a busy machine."""
    now = 0.0

    def reading() -> float:
        nonlocal now
        now += 1.0
        return now

    def is_shortest(minimise_s: float, budget_s: float | None = None) -> bool:
        nonlocal now
        now = 0.0
        result = audit(seen, budget=LOST, seconds=budget_s, minimise_seconds=minimise_s, others=False)
        return result.counterexamples[0].minimised

    clocks = SimpleNamespace(process_time=lambda: 0.0, perf_counter=reading, thread_time=lambda: 0.0)
    monkeypatch.setattr(watchdog, "time", clocks)
    assert is_shortest(1e9)
    needed_s = now
    assert is_shortest(1e9, 1e9)
    searching_s = now - needed_s
    assert is_shortest(needed_s / 2)
    assert is_shortest(needed_s / 2, searching_s + 2 * needed_s)
    assert not is_shortest(needed_s / 2, searching_s + needed_s), "the limit of an audit is real time"
    assert not is_shortest(needed_s / 8), "a run may wait for what never comes"


def endless(world: World) -> None:
    """A server that never ends, beside one that does."""
    store = world.store()

    def serve() -> None:
        count = 0
        while True:
            store.put("beat", b"%d" % (count := count + 1), when=ANYTHING)

    world.spawn(serve, name="server")
    world.spawn(lambda: [store.get("beat") for _ in range(3)], name="ann")


def test_several_processes_search_with_limits_that_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one process did; several went on and on near the limit of steps."""
    monkeypatch.setattr(pieces, "RUNS_FIRST", 1)
    monkeypatch.setattr(pieces, "RUNS_MAX", 1)
    monkeypatch.setattr(deepening, "RUNS_EACH", 20)
    limits: list[int] = []

    def stop(search: Any) -> bool:
        limits.append(search.setting.steps_max)
        return len(limits) > 300 or 48 in limits

    with places.held(endless):
        Deepening(Setting(endless, NO_FAULTS, steps_max=100), jobs=2).explore(stop)
    assert list(dict.fromkeys(limits)) == [100, 12, 24, 48]


def faulty(world: World, act: Any) -> None:
    store = world.store()
    for name in ("ann", "bob"):
        world.spawn(store.put, "k", name.encode(), when=ANYTHING, name=name)

    def check(view: View) -> None:
        if view.get("k") == b"bob" and os.getpid() != AUDITOR:
            act()

    world.finally_("checks", check)


AUDITOR = os.getpid()


def test_an_error_in_a_worker_is_an_error_of_the_audit() -> None:
    """It was a traceback with an EOFError."""

    def act() -> None:
        raise LookupError("no such thing")

    result = audit(lambda world: faulty(world, act), budget=NO_FAULTS, jobs=2, strategy="exhaustive")
    assert result.verdict == "error"
    assert "raised LookupError: no such thing" in result.bound
    assert result.error_at is not None
    assert result.error_at.function == "act"


@pytest.mark.parametrize("signal_number", [signal.SIGKILL])
def test_a_worker_that_is_killed_is_an_error_of_the_audit(signal_number: int) -> None:
    def act() -> None:
        os.kill(os.getpid(), signal_number)

    result = audit(lambda world: faulty(world, act), budget=NO_FAULTS, jobs=2, strategy="exhaustive")
    assert result.verdict == "error"
    assert "a worker ended without a result (exit code -9)" in result.bound


def test_a_process_that_hangs_while_minimising_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search came to the violation without the schedule that hangs; else the tool would hang with it."""
    minimising: list[int] = []

    def program(world: World) -> None:
        def work(name: str) -> None:
            world.store().put(name, b"", when=ANYTHING)
            while minimising:
                pass

        for name in ("a", "b"):
            world.spawn(work, name, name=name)
        world.finally_("nothing is there", lambda view: not view.keys(""))

    def hanging(*given: Any) -> Any:
        minimising.append(1)
        try:
            return minimise(*given)
        finally:
            minimising.clear()

    monkeypatch.setattr(counterexample, "minimise", hanging)
    found = audit(program, budget=NO_FAULTS, minimise_seconds=0.1, others=False)
    assert found.verdict == "violated"
    assert not found.counterexamples[0].minimised
    assert replay(program, found.counterexamples[0].token).violation is not None
