"""The bound says what of the promised schedules was left out."""

from functools import partial
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.sim.explore import audit
from fencepost.sim.world import NO_FAULTS, Budget

POLLS = "; a loop that waits is held back after 5 rounds, until a change or its end"
PAUSES = "; a pause lasts {} s, and no other time"
TICKS = "; time moves on by itself once, by 1 s"
SKEWS = "; a skewed clock is {} s off, and no other time"


def bound_of(result: Any) -> str:
    """Return the bound up to the kinds of faults that were not tried."""
    bound, _, _ = result.bound.partition("; not tried: ")
    return bound


def waiting(world: Any, times: int) -> None:
    """One writes; the other polls for it, at most so often."""
    store = world.store()

    def poll() -> None:
        for _ in range(times):
            if store.get("k").done:
                return

    world.spawn(lambda: store.put("k", b"", when=ABSENT), name="writes")
    world.spawn(poll, name="polls")


@pytest.mark.parametrize(("times", "limits"), [(6, ""), (7, POLLS), (20, POLLS)])
def test_the_bound_names_polls_that_were_not_followed(times: int, limits: str) -> None:
    result = audit(lambda world: waiting(world, times), budget=NO_FAULTS)
    if result.verdict == "holds":
        assert bound_of(result) == f"every schedule of 2 processes with no faults{limits}"
    else:
        pytest.fail(f"{result.verdict}: {result.bound}")


def clocks(world: Any) -> None:
    store = world.store()

    def look() -> int:
        store.env.sleep(7)
        store.put("k", b"%d" % store.env.now_ns(), when=ABSENT)
        return store.env.now_ns()

    for name in ("ann", "bob"):
        world.spawn(look, name=name)


@pytest.mark.parametrize(
    ("faults", "limits"),
    [
        (Budget(crash=0, reply_lost=0, request_lost=0, pause=1), PAUSES.format(60) + TICKS),
        (Budget(crash=0, reply_lost=0, request_lost=0, pause=0, skew=1), SKEWS.format(30) + TICKS),
        (NO_FAULTS, TICKS),
    ],
)
def test_the_bound_names_the_lengths_of_time_that_were_tried(faults: Budget, limits: str) -> None:
    result = audit(clocks, budget=faults)
    assert result.verdict == "holds"
    assert bound_of(result) == f"every schedule of 2 processes with {faults.sentence()}{limits}"


def test_the_lengths_are_those_the_program_set() -> None:
    def program(world: Any) -> None:
        world.configure(pause_s=90)
        clocks(world)

    assert (
        PAUSES.format(90)
        in audit(program, budget=Budget(crash=0, reply_lost=0, request_lost=0, pause=1)).bound
    )


def test_the_bound_names_restarts_that_run_out() -> None:
    assert Budget(crash=2, restart=1).sentence().endswith(", 1 restart")
    assert "restart" not in Budget(crash=2).sentence()


def untried(program: Any, **faults: int) -> str:
    """Return the kinds of faults that the bound names as not tried."""
    result = audit(program, budget=NO_FAULTS.but(**faults))
    assert result.verdict == "holds", result
    return result.bound.partition("; not tried: ")[2]


MESSAGES = "crash, lost reply, lost request, late landing, 503, retry by the SDK"


def puts(world: Any, *, conditional: bool) -> None:
    for name in "ab":
        world.spawn(world.store().put, "k", b"", when=ABSENT if conditional else ANYTHING, name=name)


def reads(world: Any) -> None:
    world.spawn(world.store().put, "k", b"", when=ANYTHING, name="writes")
    world.spawn(world.store().get, "k", name="reads")


def posts(world: Any) -> None:
    world.spawn(world.post, "c", 1, name="sends")
    world.spawn(world.receive, "c", name="receives")


def saves(world: Any) -> None:
    folder = world.filesystem()
    for name in "ab":
        world.spawn((folder / "f").write_bytes, b"", name=name)


def test_the_bound_names_the_faults_that_the_program_could_meet() -> None:
    with_409 = MESSAGES.replace("503", "409, 503")
    assert untried(partial(puts, conditional=False)) == MESSAGES
    assert untried(partial(puts, conditional=True)) == with_409
    assert untried(reads) == MESSAGES
    assert untried(posts) == "crash, delayed notification"
    assert untried(saves) == "crash, power loss"
    assert untried(clocks) == f"{with_409}, skewed clock, pause"


def test_the_bound_names_no_fault_that_was_tried() -> None:
    once = {"crash": 1, "reply_lost": 1, "request_lost": 1, "late": 1, "throttled": 1, "duplicated": 1}
    assert untried(reads, **once) == ""
    assert untried(reads, **{**once, "late": 0}) == "late landing"
    assert "not tried" not in audit(reads, budget=NO_FAULTS.but(**once)).bound
