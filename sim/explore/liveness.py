"""Runs that go round for ever while something that was promised has not happened.

Theory. `eventually` is violated by an infinite fair run in which the good thing never happens, and no search
of finite runs shows one. Such a run is a *lasso*: a beginning, and a loop that can be repeated without end.
It is looked for directly, among schedules that are fair by construction: all processes take turns of a few
steps each, from several beginnings. These are the schedules under which processes that undo each other's work
(two owners that fence each other, two writers that abort each other) keep on doing so.

Real code repeats itself if the same processes issue the same operations on the same keys with the same
outcomes in the same order. Numbers and identifiers may differ, because epochs and versions grow. To tell a
loop that the code ends after a few attempts from one without end, the loop is followed: a run counts when it
still repeats after `FOLLOWED` times the limit of steps. A loop that only waits may end at a deadline that is
farther away than this. So it is followed far into the future. A loop with effects is not: a lease that is
renewed in it would end.

After a fault. Where a search comes to a run that does not end, the same schedules are tried with one fault
at each of their steps, and none after it. Loops in which nothing takes effect need no such attempt: see
`endless`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fencepost.sim.explore.counterexample import Counterexample, has_effect
from fencepost.sim.explore.endless import FAR_NS
from fencepost.sim.explore.runs import Choice, Setting, run
from fencepost.sim.explore.steps import Objects, lines_of
from fencepost.sim.explore.tokens import HARMLESS
from fencepost.sim.world import CLOCK_ACTOR, POWER_ACTOR, World
from fencepost.sim.world.footprints import FLIGHTS_FROM
from fencepost.sim.world.trace import events

QUANTA = (0, 1, 2, 3, 4, 5, 6)
"""Steps of a turn; 0: until a write takes effect, which is when one process undoes the work of another."""
LEADS = (0, 1, 2, 3)
"""Steps of the first turn of each process; 0: like the others."""
TURN_MAX = 40
"""Steps of a turn in which nothing takes effect."""
FOLLOWED = 10
ROUNDS = 8
"""Number of repetitions after which a loop is followed."""
QUANTA_AFTER_FAULT = (1, 0, 3)
FAULTS_MAX = 300
"""Schedules with a fault that are tried."""
TOKEN = re.compile(r"fair=(\d+)\.(\d+)\.(\d+)(?:\.(\d+)=([a-z_+-]+))?")
_NAMES = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f-]{32,36}|\d+")


@dataclass(frozen=True)
class Fair:
    """A schedule in which all processes take turns."""

    quantum: int
    first: int
    lead: int
    place: int = -1
    """Step that has the fault; -1: none has."""
    fault: str = ""

    @property
    def token(self) -> str:
        text = f"fair={self.quantum}.{self.first}.{self.lead}"
        return f"{text}.{self.place}={self.fault}" if self.fault else text


class _Turns:
    """The choices of one run."""

    def __init__(self, fair: Fair, far_from: int | None = None) -> None:
        """`far_from`: the step from which the time is far in the future."""
        self._fair = fair
        self._far_from = far_from
        self._owner = fair.first
        self._turns = 0
        self._taken = 0
        self.faults: list[tuple[int, str]] | None = None
        """Faults that the steps so far could have had, if they are collected."""

    def __call__(self, world: World, enabled: Sequence[int]) -> Choice:
        ready: dict[int, int] = {}
        for actor in enabled:
            # Time passes when a sleep can end; a moment that passes by itself is not needed.
            if actor == POWER_ACTOR and len(enabled) > 1:
                continue
            if world.scheduler.gives_up(actor) and not all(map(world.scheduler.gives_up, enabled)):
                continue  # it waits
            if actor != CLOCK_ACTOR or world.alternatives(actor)[0] == "advance" or len(enabled) == 1:
                ready.setdefault(_owner(world, actor), actor)
        if self._is_over(world) or self._owner not in ready:
            later = [owner for owner in sorted(ready) if owner > self._owner]
            self._owner = later[0] if later else min(ready)
            self._turns += 1
            self._taken = 0
        self._taken += 1
        actor = ready[self._owner]
        if self._far_from is not None and len(world.trace) >= self._far_from and actor != CLOCK_ACTOR:
            self._far_from = None
            world.run.advance_to(world.run.clock_ns + FAR_NS)
        offered = world.alternatives(actor)
        if len(world.trace) == self._fair.place and self._fair.fault in offered:
            return actor, self._fair.fault
        if self.faults is not None and actor != CLOCK_ACTOR:
            self.faults += [(len(world.trace), one) for one in offered if one not in HARMLESS]
        return actor, offered[0]

    def _is_over(self, world: World) -> bool:
        """Return True if the present turn is."""
        steps = self._fair.lead if self._turns < len(world.processes) else 0
        steps = steps or self._fair.quantum
        if steps:
            return self._taken >= steps
        wrote = bool(world.trace) and has_effect(world, len(world.trace) - 1)
        return self._taken >= TURN_MAX or (wrote and self._taken > 0)


def _owner(world: World, actor: int) -> int:
    return actor if actor < FLIGHTS_FROM or actor in world.run.threads else world.footprints.owner(actor)


def lasso(setting: Setting) -> Counterexample | None:
    """Return the first fair schedule that goes round for ever without what was promised."""
    processes = _promising(setting)
    for quantum in QUANTA if processes else ():
        for first in range(1, processes + 1):
            for lead in LEADS:
                found = follow_fair(setting, Fair(quantum, first, lead))
                if found is not None:
                    return found
    return None


def lasso_after_fault(setting: Setting) -> Counterexample | None:
    """Return the first schedule that is fair after one fault and goes round without what was promised."""
    processes = _promising(setting)
    left = FAULTS_MAX
    for quantum in QUANTA_AFTER_FAULT if processes else ():
        for first in range(1, processes + 1):
            for place, fault in _possible_faults(setting, Fair(quantum, first, 0)):
                if not left:
                    return None
                left -= 1
                found = follow_fair(setting, Fair(quantum, first, 0, place, fault))
                if found is not None:
                    return found
    return None


def _possible_faults(setting: Setting, fair: Fair) -> list[tuple[int, str]]:
    """Return the faults that a schedule without faults could have, with their places."""
    turns = _Turns(fair)
    turns.faults = []
    world = setting.world()
    try:
        run(world, setting.program, turns, setting.steps_max)
        return [(place, name) for place, name in turns.faults if not name.startswith("pick")]
    finally:
        world.close()


def parse(token: str) -> Fair | None:
    """Return the schedule that a token names; None when it is a token of another kind."""
    found = TOKEN.fullmatch(token.strip())
    if not found:
        return None
    quantum, first, lead, place, fault = found.groups()
    return Fair(int(quantum), int(first), int(lead), -1 if place is None else int(place), fault or "")


def _promising(setting: Setting) -> int:
    """Return the number of processes of a program that declares an `eventually`; else 0."""
    world = setting.world()
    try:
        world.start(setting.program)
        return len(world.processes) if any(p.is_liveness for p in world.properties) else 0
    finally:
        world.close()


def follow_fair(setting: Setting, fair: Fair) -> Counterexample | None:
    """Return the counterexample, if this schedule never ends and an `eventually` never happens."""
    loop = _loop(setting, fair, setting.steps_max)
    if loop is None:
        return None
    far_from = setting.steps_max if loop.only_waits else None
    longer = _loop(setting, fair, setting.steps_max * FOLLOWED, far_from)
    if longer is None or longer.period != loop.period:
        return None
    rounds = (setting.steps_max * FOLLOWED - longer.begin) // longer.period
    return _counterexample(setting, fair, longer, rounds)


@dataclass(frozen=True)
class _Loop:
    begin: int
    period: int
    missed: str
    """The property that stays open."""
    only_waits: bool
    """True if nothing in it has an effect."""


def _loop(setting: Setting, fair: Fair, steps: int, far_from: int | None = None) -> _Loop | None:
    """Return the loop at the end of a run of so many steps."""
    world = setting.world()
    try:
        ended = run(world, setting.program, _Turns(fair, far_from), steps)
        if setting.loops.adopt():
            return _loop(setting, fair, steps, far_from)
        if ended or world.violation is not None:
            return None
        open_ = [p.name for p in world.properties if p.is_missed]
        names = [_name(step) for step in world.trace]
        going = {process.index for process in world.processes if process.pending is not None}
        for period in range(1, len(names) // ROUNDS + 1 if open_ else 1):
            begin = _begin(names, period)
            if len(names) - begin < max(ROUNDS * period, len(names) // 2):
                continue
            taking = {step[2].index for step in world.trace[-period:] if step[2] is not None}
            if not going <= taking | _waiting(world):
                return None
            places = range(len(names) - period, len(names))
            only_waits = not any(has_effect(world, place) for place in places)
            return _Loop(begin, period, open_[0], only_waits)
        return None
    finally:
        world.close()


def _waiting(world: World) -> set[int]:
    """Processes that cannot go on although it is their turn, or wait for a change."""
    return {process.index for process in world.processes if process.spins}


def _begin(names: Sequence[Any], period: int) -> int:
    """Where the last stretch begins in which everything repeats after `period` steps."""
    at = len(names) - period
    while at > 0 and names[at - 1] == names[at - 1 + period]:
        at -= 1
    return at


def _name(step: Any) -> Any:
    """Return a step without numbers and identifiers."""
    actor, alternative, process, incarnation, _, op, answer, _ = step
    outcome = getattr(getattr(answer, "outcome", None), "value", "")
    who = actor if process is None else process.index
    return (who, incarnation, alternative, op.kind, _NAMES.sub("#", op.subject), outcome)


def _counterexample(setting: Setting, fair: Fair, loop: _Loop, rounds: int) -> Counterexample:
    """Return the beginning of the run, and the loop once."""
    world = setting.world()
    world.run.keep_lines()
    objects = Objects()
    turns = _Turns(fair)

    def choose(at: World, enabled: Sequence[int]) -> Choice:
        objects.look(at)
        return turns(at, enabled)

    try:
        run(world, setting.program, choose, loop.begin + loop.period)
        objects.look(world)
        lines = tuple(lines_of(world.run, objects))
        first = len(lines_of(world.run, steps=loop.begin)) + 1
    finally:
        world.close()
    going = sorted({line.process for line in lines[first - 1 :]} - {"clock"})
    return Counterexample(
        loop.missed,
        f"it never happens: steps {first} to {len(lines)} repeat for ever, but for numbers (followed for "
        f"{rounds} rounds), and {' and '.join(going)} take turns",
        lines,
        fair.token,
        switches=sum(1 for _ in _switches(lines)),
        faults=1 if fair.fault else 0,
        processes=len(world.processes),
        events=tuple(events(world)),
        back_to=first,
    )


def _switches(lines: Sequence[Any]) -> Iterator[int]:
    for number, (one, other) in enumerate(pairwise(lines)):
        if one.process != other.process:
            yield number
