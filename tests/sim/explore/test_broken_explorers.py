"""Explorers that are broken on purpose: the comparison with the sound one must notice each of them.

A comparison that no mistake can fail proves nothing. Every mistake here is one that was tempting: a
dependency left out, a sleeper that never wakes, a state merged too eagerly.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.reduction import Node, RaceTracker, SleepSets
from fencepost.sim.explore.runs import Setting, final_state
from fencepost.sim.explore.states import Memory, StateCache
from fencepost.sim.world import NO_FAULTS, Budget, Footprints, World
from fencepost.sim.world.executor import Executor
from fencepost.sim.world.footprints import EVERY_STEP, LOCAL
from fencepost.sim.world.monitor import Monitor
from fencepost.sim.world.operations import ReadClock
from fencepost.sim.world.properties import Property
from fencepost.sim.world.record import StepRecord
from fencepost.sim.world.scheduler import Scheduler
from fencepost.sim.world.stamps import STAMPED
from tests.sim.explore.programs import Code, program_of, random_codes

RUNS_MAX = 4_000


class Eager(ReducedSearch):
    """Keeps every state, so that mistakes in merging show."""

    def reset(self, footprints: Footprints) -> None:
        super().reset(footprints)
        self._states.worth_keeping = lambda *_: True  # type: ignore[method-assign]  # for this search only


BUDGETS = [
    NO_FAULTS,
    Budget(crash=1, reply_lost=0, request_lost=0, pause=0),
    Budget(crash=0, reply_lost=0, request_lost=0, pause=1),
    Budget(crash=0, reply_lost=1, request_lost=1, pause=0),
    Budget(crash=0, reply_lost=0, request_lost=0, late=1, pause=0),
]


def setting_of(seed: int) -> Setting:
    draw = random.Random(seed)
    codes = random_codes(draw)
    watch = draw.choice(["nothing", "two keys", "listing", "notes", "ends"])
    return Setting(program_of(codes, watch), draw.choice(BUDGETS))


def by_hand(codes: list[Code], budget: Budget) -> Setting:
    """A program in which no time passes: the clock would order steps that have nothing else in common."""
    program = program_of(codes, "nothing")

    def timeless(world: World) -> None:
        world.configure(ticks=0)
        program(world)

    return Setting(timeless, budget)


HALF_OF_A_PARALLEL_STEP = by_hand(
    [[("get", "b"), ("both", "a/x")]], Budget(crash=1, reply_lost=0, request_lost=0, pause=0)
)
"""The second life must find `b` and no `a/x`: the later request of the parallel step landed alone."""


def endings(search: ReducedSearch) -> Any:
    """All that was seen; None when it was too much."""
    found: set[Any] = set()
    search._observe = lambda world: found.add(final_state(world))
    search.explore(lambda s: s.runs > RUNS_MAX)
    return (found, {str(failure.violation) for failure in search.failures}) if search.exhausted else None


def seen_soundly(case: int | Setting) -> Any:
    return endings(ReducedSearch(_setting(case), first_only=False, merge=False, timed=STAMPED))


def seen_eagerly(case: int | Setting) -> Any:
    return endings(Eager(_setting(case), first_only=False, timed=STAMPED))


def _setting(case: int | Setting) -> Setting:
    return setting_of(case) if isinstance(case, int) else case


def no_races(monkeypatch: Any) -> None:
    monkeypatch.setattr(RaceTracker, "_schedule", lambda *_: None)


def sleepers_never_wake(monkeypatch: Any) -> None:
    def sleepers(self: SleepSets) -> Any:
        return {**self._stack[-1].sleep, **self._stack[-1].done} if self._stack else {}

    monkeypatch.setattr(SleepSets, "sleepers", sleepers)


def listings_ignored(monkeypatch: Any) -> None:
    monkeypatch.setattr(Footprints, "_listed", lambda *_: 0)
    monkeypatch.setattr(Footprints, "widen", lambda _self, written: written)


def refused_writes_ignored(monkeypatch: Any) -> None:
    sound = Footprints._keyed_write
    monkeypatch.setattr(
        Footprints,
        "_keyed_write",
        lambda self, request, reply: sound(self, request, reply) if reply.done else LOCAL,
    )


def writes_commute(monkeypatch: Any) -> None:
    sound = Footprints._keyed_write

    def blind(self: Footprints, request: Any, reply: Any) -> Any:
        r, w = sound(self, request, reply)
        return (EVERY_STEP, w) if w else (r, w)

    monkeypatch.setattr(Footprints, "_keyed_write", blind)


def properties_see_nothing(monkeypatch: Any) -> None:
    def judge(self: Monitor, _record: StepRecord, promise: Property, _judge: Any) -> None:
        error = promise.judge(self._views.now)
        promise.bit = 0
        if error is not None:
            self._run.report_violation(promise.name, error)

    monkeypatch.setattr(Monitor, "_judge_one", judge)


def races_below_forgotten(monkeypatch: Any) -> None:
    monkeypatch.setattr(StateCache, "_race_below", lambda *_: None)


def first_below_forgotten(monkeypatch: Any) -> None:
    monkeypatch.setattr(StateCache, "_hand_up", lambda *_: None)


def sleep_ignored_when_merging(monkeypatch: Any) -> None:
    sound = StateCache.store

    def store(self: StateCache, node: Node, runs: int) -> None:
        sound(self, node, runs)
        if node.key in self._known:
            self._known[node.key] = (frozenset(), *self._known[node.key][1:])

    monkeypatch.setattr(StateCache, "store", store)


def memory_lost(monkeypatch: Any) -> None:
    monkeypatch.setattr(Memory, "_number", lambda *_: 1)


def clock_not_read(monkeypatch: Any) -> None:
    sound = Executor._read_clock

    def read(self: Executor, record: StepRecord, *args: Any) -> None:
        sound(self, record, *args)
        record.read = EVERY_STEP

    monkeypatch.setitem(Executor._handlers, ReadClock, read)


def time_never_passes_alone(monkeypatch: Any) -> None:
    monkeypatch.setattr("fencepost.sim.explore.reduced.CLOCK", 0)


def rivals_forgotten(monkeypatch: Any) -> None:
    monkeypatch.setattr(Scheduler, "rivals", lambda *_: [])


def half_asleep_relied_on(monkeypatch: Any) -> None:
    def choose(self: SleepSets, node: Node) -> bool:
        for actor in node.alternatives:
            if self._enter(node, actor):
                node.backtrack.add(actor)
                return True
        return False

    monkeypatch.setattr(SleepSets, "choose_first", choose)


MISTAKES: list[tuple[Callable[[Any], None], tuple[int | Setting, ...]]] = [
    (no_races, (1, 2)),
    (sleepers_never_wake, (0, 1)),
    (half_asleep_relied_on, (2135,)),
    (rivals_forgotten, (HALF_OF_A_PARALLEL_STEP,)),
    (listings_ignored, (7, 28)),
    (refused_writes_ignored, (11, 23)),
    (writes_commute, (1, 6)),
    (properties_see_nothing, (6, 32)),
    (races_below_forgotten, (38, 40)),
    (first_below_forgotten, (38, 40)),
    (memory_lost, (1, 6)),
    (clock_not_read, (12, 37)),
    (time_never_passes_alone, (12, 37)),
]
"""Each mistake with programs on which it shows: random ones by their seeds, and ones made for it."""


@pytest.mark.parametrize(("mistake", "cases"), MISTAKES, ids=lambda case: getattr(case, "__name__", ""))
def test_a_broken_explorer_is_noticed(mistake: Any, cases: tuple[Any, ...], monkeypatch: Any) -> None:
    sound = [seen_soundly(case) for case in cases]
    assert None not in sound
    assert [seen_eagerly(case) for case in cases] == sound
    mistake(monkeypatch)
    assert [seen_eagerly(case) for case in cases] != sound
