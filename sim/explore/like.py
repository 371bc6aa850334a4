"""Schedules like a recorded one: the code of an audit is steered along the requests of a trace.

    RecordedStep(process="worker-1", kind="put", folder="claims", condition="matches", ...)

A trace has real processes, keys and times; an audit has processes and keys of its own. So each process of
the audit plays a recorded one (the same name, or else every assignment is tried), and a request of the audit
is the recorded one if kind, condition and first folder of the key agree. The step that comes next in the
trace is taken when its process is about to send such a request; what is not recorded (clocks, notes, sleeps)
is taken on the way. A lost reply is lost again, a refusal for load is given again, and a process that was
killed there crashes there, as far as the budget of faults goes.

The order in which requests of different processes took effect is not recorded: each did so between its
request and its answer. So several orders are followed: by answers, by requests, and writes and reads apart.
If none breaks a property, schedules around them follow: the same, and here and there a choice of its own.

Recorded steps that do not fit are left out, so a run always goes to its end; `followed` says how much of a
trace was taken.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store.requests import Request
from fencepost.sim.explore.runs import Choice, Setting
from fencepost.sim.explore.sampling import Sampled, Stop, any_choice
from fencepost.sim.explore.tokens import by_rule
from fencepost.sim.world import CLOCK_ACTOR, World

ASSIGNMENTS_MAX = 120
"""Assignments of recorded processes that are tried."""
AHEAD_MAX = 12
"""Recorded steps of a process that may be left out, to find the one that it takes."""
DEVIATES = 0.12
"""Share of the steps at which a schedule around a recorded one makes a choice of its own."""
FATES = {"unknown": "reply_lost", "": "reply_lost", "throttled": "throttled", "conflict": "conflict"}
WRITES = frozenset({"put", "delete", "complete-upload", "copy"})


@dataclass(frozen=True)
class RecordedStep:
    """One request of a trace."""

    process: str
    kind: str
    folder: str
    condition: str
    outcome: str
    begin: int
    """The place of its request among all events."""
    end: int
    """The place of its answer; that of its request if there is none."""
    killed: bool = False
    """The process was killed after it."""


Order = Callable[[RecordedStep], int]
ORDERS: tuple[Order, ...] = (
    lambda step: step.end,
    lambda step: step.begin,
    lambda step: step.begin if step.kind in WRITES else step.end,
    lambda step: step.end if step.kind in WRITES else step.begin,
)


class Like(Sampled):
    """First the recorded orders, with every assignment of processes; then schedules around them."""

    def __init__(self, setting: Setting, recorded: Sequence[RecordedStep]) -> None:
        super().__init__(setting)
        self.recorded = recorded
        self.followed = 0
        """The most recorded requests that one schedule took."""

    def explore(self, stop: Stop) -> None:
        plays = list(itertools.islice(self._assignments(), ASSIGNMENTS_MAX))
        for assigned in plays:
            for order in ORDERS:
                if self.failures or stop(self):
                    return
                self._follow(_Guide(self._steps(order), assigned))
        draw = SeededEnvironment(self.setting.seed).stream("like")
        while not self.failures and not stop(self):
            guide = _Guide(self._steps(draw.choice(ORDERS)), draw.choice(plays))
            self._follow(_Around(guide, draw))

    def guarantee(self) -> str:
        return f"{self.followed} of {len(self.recorded)} recorded requests were followed at most"

    def _follow(self, choose: "_Guide | _Around") -> None:
        self.one(choose)
        self.followed = max(self.followed, choose.taken)

    def _steps(self, order: Order) -> list[RecordedStep]:
        return sorted(self.recorded, key=lambda step: (order(step), step.begin))

    def _assignments(self) -> Iterator[dict[str, str]]:
        """For each process of the audit the recorded one that it plays, likely ones first."""
        names = self._names()
        known = list(dict.fromkeys(step.process for step in self.recorded))
        same = {name: name for name in names if name in known}
        free = [name for name in names if name not in same]
        left = [name for name in known if name not in same]
        # Processes that write most have the most to do with what went wrong.
        busy = sorted(
            left, key=lambda name: -sum(s.process == name and s.kind in WRITES for s in self.recorded)
        )
        played = min(len(free), len(busy))
        for chosen in itertools.permutations(busy, played):
            yield same | dict(zip(free, chosen, strict=False))

    def _names(self) -> list[str]:
        world = self.setting.world(self.footprints)
        try:
            world.start(self.setting.program)
            return [process.name for process in world.processes]
        finally:
            world.close()


class _Guide:
    """Chooses the recorded step that comes next."""

    def __init__(self, steps: Sequence[RecordedStep], assigned: dict[str, str]) -> None:
        played = {recorded: name for name, recorded in assigned.items()}
        self._left = [(played[step.process], step) for step in steps if step.process in played]
        self.taken = 0
        self._dying: set[str] = set()

    def __call__(self, world: World, enabled: Sequence[int]) -> Choice:
        numbers = {process.name: number for number, process in enumerate(world.processes, start=1)}
        for name in list(self._dying):
            actor = numbers.get(name, -1)
            if actor in enabled and "crash" in world.alternatives(actor):
                self._dying.discard(name)
                return actor, "crash"
        while self._left:
            name, step = self._left[0]
            actor = numbers.get(name, -1)
            if actor < 0 or world.processes[actor - 1].pending is None:
                self._left.pop(0)  # it has ended
                continue
            if actor not in enabled:
                return _wait(world, enabled)
            op = world.processes[actor - 1].pending
            if not isinstance(op, Request):
                return actor, world.alternatives(actor)[0]
            place = self._place(name, op)
            if place is None:
                return actor, world.alternatives(actor)[0]  # a request that the trace does not have
            _, step = self._left.pop(place)
            self._left = [one for at, one in enumerate(self._left) if at >= place or one[0] != name]
            self.taken += 1
            if step.killed:
                self._dying.add(name)
            return actor, _fate(world, actor, step)
        return by_rule(world, enabled, _last(world))

    def _place(self, name: str, op: Request[Any]) -> int | None:
        """Where the recorded step is that this request is."""
        mine = [at for at, (whose, _) in enumerate(self._left) if whose == name]
        return next((at for at in mine[:AHEAD_MAX] if _fits(op, self._left[at][1])), None)


class _Around:
    """A recorded schedule that is left here and there."""

    def __init__(self, guide: _Guide, draw: Any) -> None:
        self._guide, self._draw = guide, draw

    @property
    def taken(self) -> int:
        return self._guide.taken

    def __call__(self, world: World, enabled: Sequence[int]) -> Choice:
        if self._draw.random() < DEVIATES:
            return any_choice(self._draw, world, enabled)
        return self._guide(world, enabled)


def _fits(op: Request[Any], step: RecordedStep) -> bool:
    when = getattr(op, "when", None)
    condition = "" if when is None else type(when).__name__.lower()
    kind = "put" if op.kind == "copy" else op.kind
    same_condition = condition == step.condition or not condition or not step.condition
    # Where an audit has several buckets, its keys begin with theirs.
    same_folder = step.folder in (folder_of(op.subject), folder_of(op.subject.partition("/")[2]))
    return kind == step.kind and same_folder and same_condition


def folder_of(key: str) -> str:
    """The first folder of a key, by which keys of a trace and of an audit are compared."""
    return key.partition("/")[0]


def _fate(world: World, actor: int, step: RecordedStep) -> str:
    offered = world.alternatives(actor)
    wanted = FATES.get(step.outcome)
    return wanted if wanted in offered else offered[0]


def _wait(world: World, enabled: Sequence[int]) -> Choice:
    """Let time pass until the process that comes next can go on."""
    if CLOCK_ACTOR in enabled:
        return CLOCK_ACTOR, world.alternatives(CLOCK_ACTOR)[0]
    return by_rule(world, enabled, _last(world))


def _last(world: World) -> int:
    return int(world.trace[-1][0]) if world.trace else -1
