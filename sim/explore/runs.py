"""Common parts of all searches: settings, running a program once, costs and coverage."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from typing import Any, TypeVar

from fencepost.sim.explore.outcome_coverage import OutcomeCoverage
from fencepost.sim.explore.result import AuditCoverage
from fencepost.sim.faults import ALTERNATIVES, CLOCK, FILES, PAUSE, SKEWS, TIME, kind_of, pause_ns, skew_ns
from fencepost.sim.threads.lines import PASSES_MAX
from fencepost.sim.threads.sharing import Sharing
from fencepost.sim.world import POWER_ACTOR, Budget, Footprints, Program, Violation, World
from fencepost.sim.world.costs import AtMost, Spent, ended_since, spent
from fencepost.sim.world.deadlines import Deadlines
from fencepost.sim.world.footprints import FLIGHTS_FROM
from fencepost.sim.world.loops import IN_VAIN_MAX, WAIT_ROUNDS, Loops
from fencepost.sim.world.operations import Delivery
from fencepost.sim.world.process import Recall
from fencepost.sim.world.record import StepRecord
from fencepost.sim.world.run import RunState
from fencepost.sim.world.scheduler import category_of
from fencepost.sim.world.scheduling import Scheduling
from fencepost.sim.world.sites import Sites
from fencepost.sim.world.stamps import STAMPED
from fencepost.sim.world.variables import OwnVariables

_HARMLESS = frozenset(name for name, found in ALTERNATIVES.items() if found.harmless)
_PASSING = frozenset(name for name, found in ALTERNATIVES.items() if found.passes_time)
Choice = tuple[int, str]
"""An actor and the alternative of its step."""


@dataclass(frozen=True)
class Setting:
    """Subject of a search: a program, the faults that it may meet, and the longest run."""

    program: Program
    budget: Budget = field(default_factory=Budget)
    seed: int = 0
    steps_max: int = 400
    """A run longer than this is cut and reported: some process is spinning."""
    faults_max: int | None = None
    """Faults of one run, of any kind; None: the budget alone limits them."""
    muted: frozenset[str] = frozenset()
    """Properties that are not judged: a violation of each is known, and others are looked for."""
    exact_costs: bool = False
    """Have the highest cost of each operation found, also where runs differ in nothing else."""
    lines: frozenset[str] = frozenset()
    """Names of shared memory: threads pause before each line of code that has one."""
    deadlines: Deadlines = field(default_factory=Deadlines, compare=False, repr=False)
    """Times that the runs so far compared with the clock."""
    loops: Loops = field(default_factory=Loops, compare=False, repr=False)
    """Endless loops that the runs so far showed."""
    wait_rounds: int = WAIT_ROUNDS
    """Rounds in vain after which a waiting process is held back."""

    kept: OwnVariables | None = field(default=None, compare=False, repr=False)
    sites: Sites | None = field(default=None, compare=False, repr=False)
    """Places of requests in the user's code, if outcomes are to be counted by line."""

    def __post_init__(self) -> None:
        # A setting that is made of this one has the same variables.
        object.__setattr__(self, "kept", self.kept or OwnVariables(self.program))

    @property
    def variables(self) -> OwnVariables:
        """Variables of which each process has its own, as the runs so far showed."""
        assert self.kept is not None, "set when the setting was made"
        return self.kept

    @cached_property
    def sharing(self) -> Sharing:
        """Threads that share memory, as the runs so far showed."""
        return Sharing(self.program)

    def adopt(self) -> bool:
        """Take up from the next run on what was learnt; return True if anything is new."""
        return self.deadlines.adopt() | self.sharing.adopt() | self.loops.adopt()

    def learnt(self) -> list[Any]:
        """Return as plain data what decides which steps a run offers and which conflict, besides the code."""
        timed = self.budget.pause or self.budget.skew
        endless, starving = self.loops.held()
        return [
            [[*self.deadlines.tried], [*self.deadlines.skews], self.deadlines.is_shown] if timed else [],
            sorted(map(list, self.sharing.writers)),
            [sorted(endless), sorted(map(list, starving))],
        ]

    def world(
        self,
        footprints: Footprints | None = None,
        *,
        timed: int = STAMPED,
        budget: Budget | None = None,
        recall: Recall | None = None,
        sharing: bool = False,
        watched: bool = False,
    ) -> World:
        """Return a new run.

        `watched`: find out which variables its processes change. `sharing`: find out which threads share
        memory; without, all steps of threads of one process conflict.
        """
        world = World(
            footprints,
            budget or self.budget,
            seed=self.seed,
            timed=timed,
            recall=recall,
            deadlines=self.deadlines if self.budget.pause or self.budget.skew else None,
            muted=self.muted,
            sharing=self.sharing if sharing else None,
            loops=self.loops,
            wait_rounds=self.wait_rounds,
            lines=self.lines,
            faults_max=self.faults_max if budget is None else None,
        )
        if budget is None and not self.deadlines.is_shown:
            world.run.forbid(("pause",))
        world.run.keep_apart(self.variables, watched=watched)
        if self.sites is not None:
            world.run.keep_sites(self.sites)
        return world


@dataclass
class Failure:
    """A run that broke a property."""

    violation: Violation
    choices: tuple[Choice, ...]
    timed: int
    steps: Sequence[Any] = ()
    """The names of the steps, when the choices mean nothing here: another process found it."""


UNITS = ("requests", "hops")
GOING_ON = 30
"""Steps at the end of a run that was cut, which show the processes that never end."""

Row = dict[str, Any]


@dataclass
class Costs:
    """Costs of the operations that ended: the frequency of each cost, the highest, and the bounds.

    The highest is exact where everything was explored, see `sim.world.costs`: runs that were given up at a
    known state count too, for what ended before. It is not where states were known to which another way
    led, with other costs: then it is the highest of the runs that were tried, as that of bytes always is. A
    search for exact costs distinguishes these states (`Setting.exact_costs`, or bounds). The median is over
    complete runs.
    """

    ended: Counter[Spent] = field(default_factory=Counter)
    """Number of operations by cost, in runs to their end; 0 for a cost that only other runs showed."""
    bounds: set[AtMost] = field(default_factory=set)
    is_exact: bool = True
    """False if states with other costs so far were taken for the same."""

    def look(self, world: World) -> None:
        """Take up a run that came to its end."""
        self.ended.update(spent(world.run))
        self.bounds.update(world.judge.bounds)

    def look_since(self, world: World, place: int) -> None:
        """Take up a run that was given up; what ended before `place` other runs have shown."""
        if ended_since(world.run, place):
            for one in spent(world.run):
                self.ended.setdefault(one, 0)

    def add(self, other: "Costs") -> None:
        self.ended.update(other.ended)
        self.bounds |= other.bounds
        self.is_exact = self.is_exact and other.is_exact

    def findings(self) -> list[str]:
        """Bounds that held nothing."""
        ended = {one.name for one in self.ended}
        return [
            f"{bound.property}: no process and no operation of this name ever came to its end"
            for bound in sorted(self.bounds, key=str)
            if bound.name not in ended
        ]

    def table(self) -> dict[str, Row]:
        """By operation: the most of all, the bounds, and both by the number of faults."""
        return {name: self._row(name) for name in sorted({one.name for one in self.ended})}

    def _row(self, name: str) -> Row:
        mine = {one: count for one, count in self.ended.items() if one.name == name}
        row = {unit: max(getattr(one, unit) for one in mine) for unit in (*UNITS, "bytes")}
        if not self.is_exact:
            row["exact"] = False
        return {**row, **self._promised(name, None), "faults": list(self._by_faults(name, mine))}

    def _by_faults(self, name: str, mine: dict[Spent, int]) -> Iterator[Row]:
        for faults in sorted({one.faults for one in mine}):
            row: Row = {"faults": faults, "ended": sum(n for one, n in mine.items() if one.faults == faults)}
            for unit in UNITS:
                row[unit] = max(getattr(one, unit) for one in mine if one.faults <= faults)
                row[f"{unit}_median"] = _median(
                    Counter({one: n for one, n in mine.items() if one.faults == faults}), unit
                )
            yield {**row, **self._promised(name, faults)}

    def _promised(self, name: str, faults: int | None) -> Row:
        """Return the lowest bounds for runs with so many faults; None: with any number."""
        found: Row = {}
        for unit in UNITS:
            stated = [
                most
                for bound in self.bounds
                if bound.name == name
                and (most := getattr(bound, unit)) is not None
                and (bound.faults is None or (faults is not None and faults <= bound.faults))
            ]
            if stated:
                found[f"{unit}_max"] = min(stated)
        return found

    def packed(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "ended": [[*one, count] for one, count in self.ended.items()],
            "bounds": [list(bound) for bound in self.bounds],
            "is_exact": self.is_exact,
        }

    @classmethod
    def unpacked(cls, data: dict[str, Any]) -> "Costs":
        ended = Counter({Spent(*one): count for *one, count in data["ended"]})
        return cls(ended, {AtMost(*bound) for bound in data["bounds"]}, data["is_exact"])


def _median(ended: Counter[Spent], unit: str) -> int:
    """Return the lower one, where two are in the middle."""
    counts = ended if ended.total() else Counter(ended.keys())
    left = (counts.total() + 1) // 2
    for one in sorted(counts, key=lambda one: getattr(one, unit)):
        left -= counts[one]
        if left <= 0:
            return int(getattr(one, unit))
    raise AssertionError("something ended")


@dataclass
class Coverage:
    """Events that the runs met. A count says how many explored steps, not how many replays of them."""

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
    """Parts of the schedules that were left out, as clauses of the bound."""
    pauses: set[int] = field(default_factory=set)
    """The lengths of pauses, in nanoseconds."""
    skews: set[int] = field(default_factory=set)
    """The errors of skewed clocks, in nanoseconds."""
    met_by_faults: set[int] = field(default_factory=set)
    """Categories of steps that the runs took, which say what faults can strike them, see `sim.faults`."""
    measured: dict[str, int] = field(default_factory=dict)
    """The largest numbers that any run's measures gave."""
    costs: Costs = field(default_factory=Costs)
    processes: int = 0
    """Number of processes that the program spawned."""
    cut: Counter[str] = field(default_factory=Counter)
    """By process that went on at the end of a run that was cut: how many such runs."""
    tested: Counter[str] = field(default_factory=Counter)
    """By property: how often it was judged where its condition (`when`) was met."""
    unjudged: set[str] = field(default_factory=set)
    """The properties that runs that were cut leave undecided."""
    threaded: bool = False
    """True if a process had several threads."""
    reports: tuple[Callable[[], Any], ...] = ()
    """Those of the last run; not handed on from one operating-system process to another."""
    by_line: OutcomeCoverage = field(default_factory=OutcomeCoverage)
    """Outcomes by the line of the user's code, if the setting keeps places."""
    touched: dict[int, tuple[int, int]] = field(default_factory=dict, repr=False)
    """By process: what it read and wrote in the present run."""

    def step(self, world: World, place: int = -1) -> None:
        """Count the step at `place` of the run: the one that was just taken."""
        run = world.run
        _, alternative, process, _, _, op, answer, _ = run.trace[place]
        if process is not None:
            self.steps[process.name] += 1
            self.met_by_faults.add(category_of(op))
        if alternative not in _HARMLESS:
            self.faults[kind_of(alternative) if not alternative.startswith("pick") else "pick"] += 1
            self._limit(alternative, world)
        if run.rested and run.has_daemons:
            self.limits.add(f"a daemon takes {world.settings.daemon_steps} steps while others can go on")
        if run.loops is not None and run.loops.has_starving:
            self.limits.add(
                f"a loop that never ends takes {run.settings.wait_rounds} rounds while others can go on"
            )
        if run.held_back:
            rounds = world.settings.wait_rounds
            self.limits.add(
                f"a loop that waits is held back after {rounds} rounds, until a change or its end"
            )
            if run.loops is not None and (names := run.loops.unfollowed):
                self.limits.add(
                    f"a loop of {names} had no end within {IN_VAIN_MAX} steps: it waits for a change"
                )
        outcome = getattr(answer, "outcome", None)
        if outcome is not None:
            self.outcomes[op.kind, outcome._value_] += 1
        if run.sites is not None:
            self.by_line.step(run, place)

    def _limit(self, alternative: str, world: World) -> None:
        """Add what this alternative leaves out: time is a number, and only a few are tried."""
        settings = world.settings
        found = ALTERNATIVES.get(alternative)
        if alternative.startswith(PAUSE):
            self.pauses.add(pause_ns(alternative) or settings.pause_ns)
        elif kind_of(alternative) in SKEWS:
            self.skews.add(skew_ns(alternative) or settings.skew_ns)
        elif found is not None and found.limit:
            ticks = "once" if settings.ticks == 1 else f"{settings.ticks} times"
            self.limits.add(found.limit.format(ticks=ticks, tick_s=settings.tick_ns / 1e9))

    def leave_off(self, world: World) -> None:
        """Take up a run that was cut."""
        self.processes = max(self.processes, len(world.processes))
        going = {step[2].name for step in world.trace[-GOING_ON:] if step[2] is not None and step[2].index}
        self.cut.update(going)
        self.unjudged.update(promise.name for promise in world.properties if promise.is_open)

    def judge(self, world: World, before: Sequence[int] = ()) -> None:
        """Take up how often properties were tested in a run, however it ended, beyond what was before."""
        for promise, counted in zip(world.properties, before or repeat(0), strict=False):
            if promise.tested or promise.when is not None:
                self.tested[promise.name] += promise.tested - counted

    def meet(self, run: RunState, record: StepRecord) -> None:
        """Count the step as a conflict when another process touched the same before, in this run."""
        trace, touched = run.trace, self.touched
        if len(trace) == 1:
            touched.clear()
        r, w = record.read & ~1, record.written
        if not r and not w:
            return
        step = trace[-1]
        actor = step[0]
        if step[2] is None:
            return  # time passes: that is the step of no process
        owner = run.footprints.owner(actor) if actor >= FLIGHTS_FROM else actor
        old_r = old_w = 0
        for other, (other_r, other_w) in touched.items():
            if other == owner:
                old_r, old_w = other_r, other_w
            elif w & other_r or r & other_w:
                self.conflicts += 1
        touched[owner] = (old_r | r, old_w | w)

    def end(self, world: World) -> None:
        """Take up what a complete run showed."""
        self.processes = max(self.processes, len(world.processes))
        for promise in world.properties:
            if promise.is_wanted:
                self.wanted.add(promise.name)
                if promise.met:
                    self.met.add(promise.name)
        if world.run.readings:
            self.met_by_faults |= {CLOCK, TIME}
        if world.run.time_mattered:
            self.met_by_faults.add(TIME)
        if world.run.files is not None:
            self.met_by_faults.add(FILES)
        if world.run.lines_left_out:
            self.limits.add(f"a thread pauses at most {PASSES_MAX} times before the same line")
        if world.run.rounds_left_whole:
            self.limits.add("one round of an event loop is one step")
        self.threaded = self.threaded or world.run.has_threads
        for kind in world.forbidden:
            self.limits.add(f"the program forbids {kind} in some runs")
        for measure in world.measures:
            self._keep(measure(world))
        self.costs.look(world)
        self.by_line.end(world.run)
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
        self.pauses |= other.pauses
        self.skews |= other.skews
        self.met_by_faults |= other.met_by_faults
        self.processes = max(self.processes, other.processes)
        self.threaded = self.threaded or other.threaded
        self.cut.update(other.cut)
        self.tested.update(other.tested)
        self.unjudged |= other.unjudged
        self._keep(other.measured)
        self.costs.add(other.costs)
        self.by_line.add(other.by_line)
        self.reports = other.reports or self.reports

    def clauses(self) -> list[str]:
        """Return the parts of the schedules that were left out, as clauses of the bound."""
        found = [*self.limits]
        if self.pauses:
            found.append(f"a pause lasts {_lengths(self.pauses)} s, and no other time")
        if self.skews:
            found.append(f"a skewed clock is {_lengths(self.skews)} s off, and no other time")
        return sorted(found)

    def covers_nothing(self) -> bool:
        """Return True if the runs met neither a conflict nor a fault, so that no order could matter."""
        return not self.conflicts and not self.faults.keys() - {"pick", *_PASSING}

    def summary(self, budget: Budget | None = None) -> AuditCoverage:
        """Return the coverage as a result has it."""
        return AuditCoverage(
            requests=self.by_line.table(budget or Budget()),
            executed={
                file: {str(line): int((file, line) in self.by_line.ran) for line in sorted(lines)}
                for file, lines in sorted(self.by_line.lines.items())
            },
            outcomes={f"{kind} {outcome}": n for (kind, outcome), n in sorted(self.outcomes.items())},
            faults=dict(sorted(self.faults.items())),
            steps=dict(sorted(self.steps.items())),
            conflicts=self.conflicts,
            sometimes={name: name in self.met for name in sorted(self.wanted)},
            tested=dict(sorted(self.tested.items())),
        )

    def findings(self) -> list[str]:
        """Return the findings that make a pass worth little."""
        found = [
            f"sometimes {name!r}: it never happened in any run" for name in sorted(self.wanted - self.met)
        ]
        found += [
            f"{name}: it was never tested, because its condition (when=) was never met"
            for name, count in sorted(self.tested.items())
            if not count
        ]
        found += self.costs.findings()
        if self.covers_nothing():
            found.append(
                "nothing was covered: no two steps of different processes ever conflicted and no fault "
                "landed, so no order could matter"
            )
        return found


def _lengths(found: set[int]) -> str:
    """Return lengths of time in seconds, as words of a sentence."""
    *most, longest = [f"{ns / 1e9:.10g}" for ns in sorted(found)]
    return f"{', '.join(most)} or {longest}" if most else longest


W = TypeVar("W", bound=Scheduling)


def run(
    world: W, program: Program, choose: Callable[[W, Sequence[int]], Choice], steps_max: float = math.inf
) -> bool:
    """Run to the end with `choose`; return False if the run was cut after `steps_max` steps."""
    world.start(program)
    steps = 0
    while world.violation is None:
        enabled = world.enabled()
        if not enabled:
            world.complete()
            return True
        if steps >= steps_max:
            return False
        world.step(*choose(world, enabled))
        steps += 1
    return True


def divergence(world: World, actor: int, op: Any) -> str:
    now = world.pending(actor) if actor in world.enabled() else None
    name = name_of(world, actor)
    issued = "nothing" if now is None else f"{describe(now)}"
    return (
        f"step {len(world.trace) + 1}: {name} issued {describe(op)} in one run and {issued} in "
        "another with the same choices. Something outside the world decides: a clock, randomness, an "
        "identifier, the order of a set, or a variable that outlives a run; time, randomness and identifiers "
        "of the world come from store.env"
    )


def describe(op: Any) -> str:
    if type(op) is Delivery:
        return f"delivery of {describe(op.op)}"
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
    """Return the process an actor belongs to."""
    if actor == 0:
        return "setup"
    if actor <= len(world.processes):
        return world.processes[actor - 1].name
    if actor < FLIGHTS_FROM:
        return "power" if actor == POWER_ACTOR else "clock"
    if actor in world.run.threads:
        return world.run.threads[actor].name
    return world.processes[world.footprints.owner(actor) - 1].name


def final_state(world: World) -> Any:
    """Return the final state of a complete run, comparable between runs."""
    return (
        tuple(sorted(world.bucket.contents().items())),
        tuple(
            (process.name, process.state, repr(process.result), repr(process.error))
            for process in world.processes
        ),
        tuple((topic, tuple(map(repr, notes))) for topic, notes in sorted(world.noted.items())),
        () if world.run.files is None else tuple(sorted(world.run.files.bodies("")[0].items())),
    )
