"""Programs that never get anywhere: the loop is found and shown, not a bound that is hit."""

import itertools
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING, Matches
from fencepost.sim.explore import AuditRequest, Setting, audit
from fencepost.sim.explore.liveness import Fair, _Turns
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
