"""Schedules like a recorded one: a race that a trace has is run again, and what does not fit is left out."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.impl.store.events import Event
from fencepost.sim.explore.audit import AuditOutcome, AuditRequest, search
from fencepost.sim.explore.like import Like, RecordedStep
from fencepost.sim.explore.recorded import NoSteps, recorded_steps
from fencepost.sim.explore.runs import Setting
from fencepost.sim.explore.sampling import Sampled
from fencepost.sim.trace import table_of, write_parquet
from fencepost.sim.world import Budget, View, World
from fencepost.sim.world.budget import NO_FAULTS
from fencepost.sim.world.trace import events
from tests.sim.world.test_observations import Compared, Program


def program(world: World) -> None:
    """Three processes add one to a counter without a condition; only one pair races in a given order."""
    store = world.store()
    store.put("counter/n", b"0", when=ANYTHING)

    def add() -> None:
        for _ in range(2):
            found = store.get("counter/n")
            store.put("counter/n", b"%d" % (int(found.body) + 1), when=ANYTHING)

    for name in ("ann", "bob", "cho"):
        world.spawn(add, name=name, restart=False)

    def few_are_lost(view: View) -> None:
        assert int(view.get("counter/n") or b"0") > 1, "all but one update were lost"

    world.finally_("few are lost", few_are_lost)


def steps(*words: str) -> tuple[RecordedStep, ...]:
    """`process kind`, in the order in which they took effect."""
    found = []
    for place, word in enumerate(words):
        process, kind = word.split()
        condition = "anything" if kind == "put" else ""
        found.append(RecordedStep(process, kind, "counter", condition, "done", 2 * place, 2 * place + 1))
    return tuple(found)


RACE = steps(
    *("p get", "q get", "r get", "q put", "r put", "q get", "q put", "r get", "r put", "p put", "p get"),
    "p put",
)
WORST = steps(
    *("p get", "q get", "r get", "q put", "q get", "q put", "r put", "r get", "r put", "p put"),
)


def like(recorded: tuple[RecordedStep, ...], schedules: int) -> AuditOutcome:
    request = AuditRequest(
        program, strategy="like", like=recorded, schedules=schedules, budget=NO_FAULTS, minimise_seconds=0.1
    )
    return search(request)


def test_no_schedule_breaks_what_holds() -> None:
    """The last process always adds one to what it reads at its second turn."""
    assert like(RACE, 4).verdict == "undecided"


def test_a_recorded_race_is_run_again_at_once() -> None:
    def strict(world: World) -> None:
        program(world)
        world.finally_("none is lost", lambda view: view.get("counter/n") == b"6")

    request = AuditRequest(
        strict, strategy="like", like=WORST, schedules=4, budget=NO_FAULTS, minimise_seconds=0.1
    )
    found = search(request)
    assert found.verdict == "violated"
    assert found.schedules == 1


def test_what_does_not_fit_is_left_out() -> None:
    strange = steps("p delete", "x list", "p get", "p put")
    found = like(strange, 6)
    assert found.verdict == "undecided"
    assert "of 4 recorded requests were followed at most" in found.bound


def counted(world: World) -> None:
    """A process adds one, and marks that it did; lives that end in between add one again."""
    store = world.store()

    def add() -> None:
        if store.get("marks/done").done:
            return
        found = store.get("counter/n")
        store.put("counter/n", b"%d" % (int(found.body or b"0") + 1), when=ANYTHING)
        store.put("marks/done", b"", when=ANYTHING)

    world.spawn(add, name="ann")
    world.finally_("once", lambda view: view.get("counter/n") in (None, b"1"))


def test_a_process_that_was_killed_crashes_there() -> None:
    lives = [*steps("p get", "p put"), *steps("p get", "p put", "p put")]
    lives[1] = replace(lives[1], killed=True)
    recorded = tuple(replace(one, begin=2 * at, end=2 * at + 1) for at, one in enumerate(lives))
    request = AuditRequest(
        counted,
        strategy="like",
        like=recorded,
        schedules=1,
        budget=NO_FAULTS.but(crash=1),
        minimise_seconds=0.1,
    )
    assert search(request).verdict == "violated"


def test_a_request_with_another_condition_is_not_the_recorded_one() -> None:
    """The recorded write comes first; the one before it is not in the trace."""

    def twice(world: World) -> None:
        store = world.store()

        def write() -> None:
            store.put("counter/begun", b"", when=ABSENT)
            store.put("counter/n", b"", when=ANYTHING)

        def look() -> None:
            if store.get("counter/begun").done and not store.get("counter/n").done:
                world.note("between")

        world.spawn(write, name="ann", restart=False)
        world.spawn(look, name="bob", restart=False)
        world.finally_("never between", lambda view: not view.notes("between"))

    recorded = steps("ann put", "bob get", "bob get")
    request = AuditRequest(
        twice, strategy="like", like=recorded, schedules=1, budget=NO_FAULTS, minimise_seconds=0.1
    )
    assert search(request).verdict == "undecided"


def test_schedules_around_a_recorded_one_end_with_the_first_violation() -> None:
    """Nothing went wrong in the recorded run, in which the processes took turns."""

    def strict(world: World) -> None:
        program(world)
        world.finally_("none is lost", lambda view: view.get("counter/n") == b"6")

    calm = steps(*(f"{name} {kind}" for name in 2 * ("ann", "bob", "cho") for kind in ("get", "put")))
    request = AuditRequest(
        strict, strategy="like", like=calm, schedules=400, budget=NO_FAULTS, minimise_seconds=0.1
    )
    found = search(request)
    assert found.verdict == "violated"
    assert 4 < found.schedules < 400


class Recorded(Compared):
    """Random schedules, of which each is kept with the final contents of the bucket."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.runs: list[tuple[list[Event], Any]] = []

    def _after(self, world: World, ended: bool) -> None:
        super()._after(world, ended)
        own = (event for event in events(world, "r") if event.process != "setup" and event.phase != "landed")
        self.runs.append(([replace(event, seq=seq) for seq, event in enumerate(own)], left_by(self, world)))


class Repeated(Like):
    """Schedules like a recorded one, and what they leave."""

    def _after(self, world: World, ended: bool) -> None:
        super()._after(world, ended)
        self.left = [*getattr(self, "left", []), left_by(self, world)]


def left_by(search: Sampled, world: World) -> Any:
    """The contents of the bucket, and the answers that each process got in its last life."""
    program = search.setting.program
    assert isinstance(program, Program)
    return dict(world.bucket.bodies("")), [lives[-1] for lives in program.own.values()]


@pytest.mark.parametrize("seed", range(8))
def test_a_recorded_run_is_run_again_with_its_faults(seed: int, tmp_path: Path) -> None:
    """If this fails, a lost reply or a refusal of a trace is elsewhere, or an order is wrong."""
    budget = Budget(crash=0, reply_lost=1, request_lost=0, throttled=1, pause=0)
    setting = Setting(Program(seed), budget, seed=seed)
    found = Recorded(setting)
    found.explore(lambda at: at.schedules >= 12)
    for number, (seen, left) in enumerate(found.runs):
        path = tmp_path / f"{number}.parquet"
        write_parquet(path, table_of(seen))
        again = Repeated(setting, recorded_steps([path], "", print))
        again.explore(lambda at: at.schedules >= 4)
        assert left in again.left, (seed, number)


def test_the_steps_of_a_trace(tmp_path: Path) -> None:
    """Of the keys that were named; a process that begins another life was killed."""
    seen = [
        Event("r", 0, 1, "p", 0, 0, "request", "put", "jobs/1", condition="absent"),
        Event("r", 1, 2, "p", 0, 0, "response", "put", "jobs/1", outcome="done"),
        Event("r", 2, 3, "p", 0, 1, "request", "put", "jobs/1"),
        Event("r", 3, 4, "p", 0, 2, "request", "get", "other/1"),
        Event("r", 4, 5, "p", 1, 0, "request", "get", "jobs/1"),
        Event("r", 5, 6, "p", 1, 0, "response", "get", "jobs/1", outcome="done"),
    ]
    path = tmp_path / "trace.parquet"
    write_parquet(path, table_of(seen))
    found = recorded_steps([path], "^jobs/", print)
    assert [(one.kind, one.condition, one.outcome, one.killed) for one in found] == [
        ("put", "absent", "done", False),
        ("put", "", "", True),
        ("get", "", "done", False),
    ]
    with pytest.raises(NoSteps, match="no request"):
        recorded_steps([path], "nothing", print)
    with pytest.raises(NoSteps, match="no pattern"):
        recorded_steps([path], "(", print)
