"""Programs that never get anywhere: the loop is found and shown, not a bound that is hit."""

import itertools
import time
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING, Matches
from fencepost.sim.explore import AuditRequest, Setting, audit
from fencepost.sim.explore.liveness import Fair, _Turns, follow_fair
from fencepost.sim.explore.reporting import run_audit, run_token
from fencepost.sim.explore.runs import run
from fencepost.sim.world import NO_FAULTS, World


def open_log(world: World, store: Any, name: str, *, give_up: int = 0, backoff: bool = False) -> None:
    """Fence the process that opened before, then write as the owner of the epoch; start again when fenced."""
    attempt = 0
    while True:
        attempt += 1
        found = store.get("epoch")
        epoch = int(found.body or b"0") + 1
        when = Matches(found.info.etag) if found.info else ABSENT
        if not store.put("epoch", str(epoch).encode(), when=when).done:
            continue
        store.head("log")
        if int(store.get("epoch").body) == epoch:
            store.put(f"log/{epoch}", name.encode(), when=ANYTHING)
            world.note("opened", name)
            return
        if attempt == give_up:
            world.note("opened", "nobody")
            return
        if backoff:
            store.env.sleep(attempt)


def rivals(**how: Any) -> Any:
    def program(world: World) -> None:
        for name in ("ann", "bob"):
            world.spawn(open_log, world, world.store(), name, name=name, **how)
        world.eventually("somebody opens", lambda view: bool(view.notes("opened")))

    return program


def test_two_that_fence_each_other_for_ever_are_a_lasso() -> None:
    result = audit(rivals(), budget=NO_FAULTS)
    assert result.verdict == "violated"
    (found,) = result.counterexamples
    assert found.property == "somebody opens"
    assert "repeat for ever" in found.reason
    assert found.back_to is not None
    loop = found.lines[found.back_to - 1 :]
    assert {line.process for line in loop} == {"ann", "bob"}
    assert sum(line.kind == "put" and "done" in line.outcome for line in loop) >= 2, "each fences the other"
    assert f"... and again from step {found.back_to}" in "\n".join(found.text())
    assert len(found.lines) < 30


def test_its_token_repeats_it() -> None:
    request = AuditRequest(rivals(), budget=NO_FAULTS)
    token = run_audit(request).counterexamples[0].token
    again = run_token(request, token)
    assert again.verdict == "violated"
    assert run_token(AuditRequest(rivals(give_up=3), budget=NO_FAULTS), token).verdict == "holds"


def test_one_that_gives_up_after_many_attempts_is_no_lasso() -> None:
    """It goes on longer than the limit of steps, and ends."""
    result = audit(rivals(give_up=100), budget=NO_FAULTS, schedules=50)
    assert result.verdict == "undecided"


def test_waiting_for_what_never_comes_is_a_lasso() -> None:
    def program(world: World) -> None:
        store = world.store()

        def wait() -> None:
            while not store.head("go").done:
                store.env.sleep(1)
            world.note("went")

        world.spawn(wait, name="waits")
        world.spawn(store.put, "gone", b"", when=ANYTHING, name="writes")
        world.eventually("it goes", lambda view: bool(view.notes("went")))

    assert "repeat for ever" in audit(program, budget=NO_FAULTS).counterexamples[0].reason


def test_waiting_for_what_comes_is_none() -> None:
    def program(world: World) -> None:
        store = world.store()

        def wait() -> None:
            while not store.head("go").done:
                store.env.sleep(1)
            world.note("went")

        world.spawn(wait, name="waits")
        world.spawn(store.put, "go", b"", when=ANYTHING, name="writes")
        world.eventually("it goes", lambda view: bool(view.notes("went")))

    assert audit(program, budget=NO_FAULTS).verdict == "holds"


@pytest.mark.parametrize("beside", ["nobody", "a reader"])
@pytest.mark.parametrize("poll_s", [1, 0.5])
@pytest.mark.parametrize("limit_s", [900, 30 * 86_400, None])
def test_a_wait_with_a_far_deadline_is_no_lasso(limit_s: int | None, poll_s: float, beside: str) -> None:
    """A run cannot take as many rounds as such a wait does: it waits for an hour, and looks every second."""

    def program(world: World) -> None:
        store = world.store()

        def wait() -> None:
            begun = time.time()
            while not store.head("go").done and (time.time() - begun < limit_s if limit_s else True):
                time.sleep(poll_s)
                time.time()
            world.note("went on")

        def read() -> None:
            while True:
                store.head("other")
                time.sleep(1)

        world.spawn(wait, name="waits")
        if beside == "a reader":
            world.spawn(read, name="reads")
        world.eventually("it goes on", lambda view: bool(view.notes("went on")))

    found = follow_fair(Setting(program, NO_FAULTS), Fair(1, 1, 0))
    assert (found is None) == (limit_s is not None)


def test_a_far_deadline_beside_a_loop_with_effects_counts_as_a_lasso() -> None:
    """A known limit: time does not jump in a loop with effects, and the wait takes more steps than a run."""

    def program(world: World) -> None:
        store = world.store()

        def wait() -> None:
            until = time.time() + 3600
            while not store.head("go").done and time.time() < until:
                time.sleep(1)
            world.note("went on")

        def beat() -> None:
            while True:
                store.put("beat", b"", when=ANYTHING)
                time.sleep(1)

        world.spawn(wait, name="waits")
        world.spawn(beat, name="beats")
        world.eventually("it goes on", lambda view: bool(view.notes("went on")))

    assert follow_fair(Setting(program, NO_FAULTS), Fair(1, 1, 0)) is not None


def test_two_that_compare_the_time_and_fence_each_other_are_a_lasso() -> None:
    """Far in the future the lease would be over: the loop has effects, so time does not jump in it."""

    def program(world: World) -> None:
        store = world.store()

        def renew() -> None:
            while True:
                store.put("lease", b"%d" % (time.time_ns() + 10 * 10**9), when=ANYTHING)
                time.sleep(1)

        def take_over() -> None:
            while True:
                found = store.get("lease")
                if found.done and time.time_ns() > int(found.body):
                    world.note("took over")
                    return
                time.sleep(1)

        world.spawn(renew, name="renews")
        world.spawn(take_over, name="waits")
        world.eventually("it is taken over", lambda view: bool(view.notes("took over")))

    assert follow_fair(Setting(program, NO_FAULTS), Fair(1, 1, 0)) is not None


@pytest.mark.parametrize("quantum", [1, 2, 3, 6])
@pytest.mark.parametrize("lead", [0, 1, 4])
def test_a_turn_has_the_stated_number_of_steps(quantum: int, lead: int) -> None:
    """Every other number of steps is another schedule: a loop may exist at one of them alone."""

    def program(world: World) -> None:
        store = world.store()

        def read(name: str) -> None:
            for number in itertools.count():
                store.head(f"{name}/{number}")

        for name in ("ann", "bob"):
            world.spawn(read, name, name=name)

    world = Setting(program, NO_FAULTS).world()
    try:
        run(world, program, _Turns(Fair(quantum, 1, lead)), 60)
        taken = [step[2].index for step in world.trace if step[2] is not None]
    finally:
        world.close()
    turns = [len(list(steps)) for _, steps in itertools.groupby(taken)]
    assert turns[:2] == [lead or quantum] * 2
    assert set(turns[2:-1]) == {quantum}
