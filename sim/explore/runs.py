"""Running a program once, and what every way of exploring shares: settings, outcomes of a run, coverage."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.sim.explore.costs import Costs
from fencepost.sim.faults import PASSING_TIME
from fencepost.sim.world import Budget, Footprints, Program, Violation, World
from fencepost.sim.world.footprints import FLIGHTS_FROM
from fencepost.sim.world.monitor import SOMETIMES
from fencepost.sim.world.operations import same
from fencepost.sim.world.recall import Diverged, Recall
from fencepost.sim.world.scheduler import SPINS

Choice = tuple[int, str]
"""An actor and the alternative of its step."""


@dataclass(frozen=True)
class Setting:
    """What is explored: a program, what the adversary may do, and how long a run may get."""

    program: Program
    budget: Budget = field(default_factory=Budget)
    seed: int = 0
    steps_max: int = 400
    """A run longer than this is cut and reported: some process is spinning."""

    def world(
        self,
        footprints: Footprints | None = None,
        *,
        timed: bool = True,
        budget: Budget | None = None,
        recall: Recall | None = None,
    ) -> World:
        return World(footprints, budget or self.budget, seed=self.seed, timed=timed, recall=recall)


@dataclass
class Failure:
    """A run that broke a property."""

    violation: Violation
    choices: tuple[Choice, ...]
    timed: bool
    steps: Sequence[Any] = ()
    """The names of the steps, when the choices mean nothing here: another process found it."""


@dataclass
class Coverage:
    """What the runs met. A count says how many explored steps, not how many replays of them."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By kind of request and outcome."""
    faults: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    """By process."""
    conflicts: int = 0
    """Pairs of steps of different processes whose order mattered."""
    met: set[str] = field(default_factory=set)
    """The `sometimes` properties that came true in some run."""
    wanted: set[str] = field(default_factory=set)
    limits: set[str] = field(default_factory=set)
    """What was met of which only a part is explored, as clauses of the bound."""
    measured: dict[str, int] = field(default_factory=dict)
    """The largest numbers that any run's measures gave."""
    costs: Costs = field(default_factory=Costs)
    reports: tuple[Callable[[], Any], ...] = ()
    """Those of the last run; not handed on from one operating-system process to another."""
    touched: dict[int, tuple[int, int]] = field(default_factory=dict, repr=False)
    """By process: what it read and wrote in the present run."""

    def step(self, world: World, place: int = -1) -> None:
        """Count the step at `place` of the run: the one that was just taken."""
        _, alternative, process, _, _, op, answer, _ = world.trace[place]
        if process is not None:
            self.steps[process.name] += 1
        if alternative not in ("ok", "land", "advance"):
            self.faults[alternative if not alternative.startswith("pick") else "pick"] += 1
            self._limit(alternative, world)
        if world.held_back:
            self.limits.add(f"who asks {SPINS} times again and is told the same waits for a change")
        outcome = getattr(answer, "outcome", None)
        if outcome is not None:
            self.outcomes[op.kind, outcome.value] += 1

    def _limit(self, alternative: str, world: World) -> None:
        """Time is a number, and of numbers only a few are tried."""
        if alternative in PASSING_TIME:
            pause = f"{world.pause_ns / 1e9:g} s"
            self.limits.add(f"a pause lasts until the next sleep ends, or {pause}, and no other time")
        elif alternative in ("skew+", "skew-"):
            self.limits.add(f"a skewed clock is {world.skew_ns / 1e9:g} s off, and no other time")

    def meet(self, world: World) -> None:
        """Count the step as a conflict when another process touched the same before, in this run."""
        actor = world.trace[-1][0]
        owner = world.footprints.owner(actor) if actor >= FLIGHTS_FROM else actor
        r, w = world.r & ~1, world.w
        if len(world.trace) == 1:
            self.touched.clear()
        if world.trace[-1][2] is None:
            return  # time passes: that is nobody's step
        for other, (other_r, other_w) in self.touched.items():
            if other != owner and (w & other_r or r & other_w):
                self.conflicts += 1
        old_r, old_w = self.touched.get(owner, (0, 0))
        self.touched[owner] = (old_r | r, old_w | w)

    def end(self, world: World) -> None:
        """Take up what a complete run showed."""
        for promise in world.properties:
            if promise.kind == SOMETIMES:
                self.wanted.add(promise.name)
                if promise.met:
                    self.met.add(promise.name)
        for measure in world.measures:
            self._keep(measure(world))
        self.costs.look(world)
        self.reports = tuple(world.reports)

    def _keep(self, measured: Mapping[str, int]) -> None:
        for name, number in measured.items():
            self.measured[name] = max(number, self.measured.get(name, 0))

    def add(self, other: "Coverage") -> None:
        self.outcomes.update(other.outcomes)
        self.faults.update(other.faults)
        self.steps.update(other.steps)
        self.conflicts += other.conflicts
        self.met |= other.met
        self.wanted |= other.wanted
        self.limits |= other.limits
        self._keep(other.measured)
        self.costs.add(other.costs)
        self.reports = other.reports or self.reports

    def covers_nothing(self) -> bool:
        """Whether the runs met neither a conflict nor a fault, so that no order could matter."""
        return not self.conflicts and not self.faults.keys() - {"pick", *PASSING_TIME}

    def to_json(self) -> dict[str, Any]:
        """As plain data, for results."""
        return {
            "outcomes": {f"{kind} {outcome}": n for (kind, outcome), n in sorted(self.outcomes.items())},
            "faults": dict(sorted(self.faults.items())),
            "steps": dict(sorted(self.steps.items())),
            "conflicts": self.conflicts,
            "sometimes": {name: name in self.met for name in sorted(self.wanted)},
        }

    def findings(self) -> list[str]:
        """What makes a pass worth little."""
        found = [
            f"sometimes {name!r}: it never happened in any run" for name in sorted(self.wanted - self.met)
        ]
        found += self.costs.findings()
        if self.covers_nothing():
            found.append(
                "nothing was covered: no two steps of different processes ever conflicted and no fault "
                "landed, so no order could matter"
            )
        return found


def run(
    world: World, program: Program, choose: Callable[[World, Sequence[int]], Choice], steps_max: int
) -> bool:
    """Run to the end with `choose`. False when the run was cut at `steps_max`."""
    world.start(program)
    while world.violation is None:
        enabled = world.enabled()
        if not enabled:
            world.complete()
            return True
        if len(world.trace) >= steps_max:
            return False
        world.step(*choose(world, enabled))
    return True


def check_repeated(world: World, actor: int, op: Any) -> None:
    """Raise unless the actor is about to do what it did the last time."""
    if actor not in world.enabled() or not same(op, world.pending(actor)):
        raise Diverged(divergence(world, actor, op))


def divergence(world: World, actor: int, op: Any) -> str:
    now = world.pending(actor) if actor in world.enabled() else None
    name = name_of(world, actor)
    asked = "nothing" if now is None else f"{describe(now)}"
    return (
        f"step {len(world.trace) + 1}: {name} asked for {describe(op)} in one run and for {asked} in "
        "another with the same choices. Something outside the world decides: a clock, randomness, an "
        "identifier, the order of a set, or a variable that outlives a run"
    )


def describe(op: Any) -> str:
    when = getattr(op, "when", None)
    body = getattr(op, "body", None)
    parts = [op.kind, op.subject]
    if when is not None:
        etag = getattr(when, "etag", "")
        parts.append(f"if {type(when).__name__.lower()}{' ' + etag[:8] if etag else ''}")
    if body is not None:
        parts.append(repr(body[:32]))
    return " ".join(part for part in parts if part)


def name_of(world: World, actor: int) -> str:
    """The process an actor belongs to."""
    if actor == 0:
        return "setup"
    if actor <= len(world.processes):
        return world.processes[actor - 1].name
    if actor < FLIGHTS_FROM:
        return "clock"
    return world.processes[world.footprints.owner(actor) - 1].name


def final_state(world: World) -> Any:
    """What a complete run left behind, comparable between runs."""
    return (
        tuple(sorted(world.bucket.contents().items())),
        tuple(
            (process.name, process.state, repr(process.result), repr(process.error))
            for process in world.processes
        ),
        tuple((topic, tuple(map(repr, notes))) for topic, notes in sorted(world.noted.items())),
    )


def without_faults(budget: Budget) -> Budget:
    return dataclasses.replace(
        budget, **{f.name: 0 for f in dataclasses.fields(budget) if f.name != "restart"}
    )
