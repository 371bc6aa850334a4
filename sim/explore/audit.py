"""Audit a program: explore its runs under a fault budget, and say what that proved.

    def program(world):
        store = world.store()
        for name in ("a", "b"):
            world.spawn(elect, store, name, name=name)
        world.always("one leader", lambda view: len(view.notes("leader")) <= 1)

    result = audit(program, budget=Budget(crash=1, reply_lost=1, request_lost=1))
    print(result)

Three verdicts. `holds`: every schedule within the budget was explored, up to swaps nobody can notice.
`violated`: here is the shortest counterexample found, and the token that repeats it. `undecided`: time or
bounds
ran out first, or only samples were taken, or everything was explored and nothing was covered by it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fencepost.sim.explore import tokens
from fencepost.sim.explore.checkpoint import load, save
from fencepost.sim.explore.counterexample import Counterexample, tell
from fencepost.sim.explore.jobs import Together
from fencepost.sim.explore.minimise import minimise as make_minimal
from fencepost.sim.explore.plain import Plain
from fencepost.sim.explore.reduced import Reduced
from fencepost.sim.explore.runs import Coverage, Diverged, Failure, Setting
from fencepost.sim.explore.sampling import ByHypothesis, Pct, Random, stop_after
from fencepost.sim.world import Budget, Program

STRATEGIES = ("exhaustive", "plain", "random", "pct", "hypothesis")
SAMPLES = 2_000
"""Schedules a sampling strategy tries when nothing else limits it."""


@dataclass
class Audit:
    """What an audit found out."""

    verdict: str
    bound: str
    """What was proven, or how far it came, in one sentence."""
    strategy: str
    schedules: int
    pruned: int
    """Runs given up early: they could only repeat another, or met a known state."""
    seconds: float
    counterexamples: list[Counterexample]
    findings: list[str]
    coverage: Coverage
    still_to_run: int | None = None
    complete: bool = False
    """Whether every schedule was explored: what cost at most so much costs at most so much."""
    details: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [
            f"{self.verdict}: {self.bound}",
            f"{self.schedules} schedules ({self.pruned} given up early) in {self.seconds:.2f} s",
        ]
        for counterexample in self.counterexamples:
            lines += ["", *counterexample.text(), "", f"replay token: {counterexample.token}"]
        lines += [f"finding: {finding}" for finding in self.findings]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The keys scripts may rely on, as far as this part knows them."""
        return {
            "strategy": self.strategy,
            "verdict": self.verdict,
            "bound": self.bound,
            "schedules": self.schedules,
            "pruned": self.pruned,
            "seconds": self.seconds,
            "violations": [
                {"property": s.property, "reason": s.reason, "counterexample": s.text(), "token": s.token}
                for s in self.counterexamples
            ],
            "findings": self.findings,
            "coverage": {
                "outcomes": {f"{k} {o}": n for (k, o), n in sorted(self.coverage.outcomes.items())},
                "faults": dict(sorted(self.coverage.faults.items())),
                "steps": dict(sorted(self.coverage.steps.items())),
                "conflicts": self.coverage.conflicts,
                "sometimes": {name: name in self.coverage.met for name in sorted(self.coverage.wanted)},
            },
            **({"cost": cost} if (cost := self.cost()) else {}),
            "complete": self.complete,
            **{key: value for report in self.coverage.reports for key, value in report().items()},
            **self.details,
        }

    def cost(self) -> dict[str, dict[str, Any]]:
        """What operations cost at most, see `costs`; and what was measured as `verb: number`, by verb."""
        table: dict[str, dict[str, Any]] = self.coverage.costs.table()
        for name, number in sorted(self.coverage.measured.items()):
            verb, _, what = name.rpartition(": ")
            table.setdefault(verb, {})[what] = number
        return table


def audit(
    program: Program,
    *,
    budget: Budget | None = None,
    strategy: str = "exhaustive",
    seed: int = 0,
    seconds: float | None = None,
    schedules: int | None = None,
    steps_max: int = 400,
    depth: int = 3,
    minimise_seconds: float = 5.0,
    progress: Callable[[Any], bool | None] | None = None,
    database: Any = None,
    jobs: int = 1,
    checkpoint: str | None = None,
    resume: bool = False,
) -> Audit:
    """Explore `program` and judge it. Stops at the first violation, and makes its counterexample short.

    `progress` is called after every run with the search, and may answer True to end it there.
    `checkpoint` names a file to which an exhaustive search is put down when a limit stops it; with
    `resume` it is taken up from there. `jobs` operating-system processes share an exhaustive search.
    """
    if (checkpoint or jobs > 1) and strategy != "exhaustive":
        raise ValueError(f"jobs and checkpoint are for the exhaustive strategy, not for {strategy}")
    if checkpoint and jobs > 1:
        raise ValueError("a checkpoint holds one search: give either jobs or checkpoint")
    if resume and not checkpoint:
        raise ValueError("resume needs the checkpoint file to take up")
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy {strategy!r} is unknown; choose from {', '.join(STRATEGIES)}")
    setting = Setting(program, budget or Budget(), seed, steps_max)
    start = time.perf_counter()
    search = _make(setting, strategy, depth, database, jobs)
    if resume and checkpoint:
        load(search, checkpoint)
    search = _searched(search, strategy, seconds, schedules, progress)
    if checkpoint and not search.failures:
        save(search, checkpoint)
    elapsed = time.perf_counter() - start
    counterexamples = [
        counterexample_of(setting, failure, search.objects, minimise_seconds)
        for failure in search.failures[:1]
    ]
    return _judged(setting, strategy, search, elapsed, counterexamples)


def _make(setting: Setting, strategy: str, depth: int, database: Any, jobs: int) -> Any:
    if strategy == "exhaustive":
        return Together(setting, jobs) if jobs > 1 else Reduced(setting)
    makers: dict[str, Callable[[], Any]] = {
        "plain": lambda: Plain(setting),
        "random": lambda: Random(setting),
        "pct": lambda: Pct(setting, depth),
        "hypothesis": lambda: ByHypothesis(setting, database),
    }
    return makers[strategy]()


def _searched(
    search: Any,
    strategy: str,
    seconds: float | None,
    schedules: int | None,
    progress: Callable[[Any], bool | None] | None,
) -> Any:
    """Explore within the limits; the search that holds the results."""
    if strategy not in ("exhaustive", "plain") and seconds is None and schedules is None:
        schedules = SAMPLES
    limit = stop_after(seconds, schedules)

    def stop(search: Any) -> bool:
        return bool(progress is not None and progress(search)) or limit(search)

    return search.explore(stop) or search


def _judged(
    setting: Setting, strategy: str, search: Any, elapsed: float, counterexamples: list[Counterexample]
) -> Audit:
    complete = search.exhausted and not search.cut
    findings = [*getattr(search, "findings", [])]
    if search.cut:
        findings.append(
            f"{search.cut} runs were cut after {setting.steps_max} steps: some process spins, "
            "or steps_max is too small"
        )
    gaps = [] if counterexamples else search.coverage.findings()
    findings += gaps
    # What never happened cannot have been shown to go well: a pass that covered nothing is no pass.
    verdict = "violated" if counterexamples else "holds" if complete and not gaps else "undecided"
    return Audit(
        verdict=verdict,
        bound=_bound(setting, strategy, search, verdict),
        strategy=strategy,
        schedules=search.schedules,
        pruned=getattr(search, "pruned", 0) + getattr(search, "merged", 0),
        seconds=elapsed,
        counterexamples=counterexamples,
        findings=findings,
        coverage=search.coverage,
        still_to_run=search.still_to_run() if isinstance(search, Reduced) else None,
        complete=complete,
    )


def _bound(setting: Setting, strategy: str, search: Any, verdict: str) -> str:
    processes = len(search.coverage.steps)
    scope = f"{processes} process{'' if processes == 1 else 'es'} with {setting.budget.sentence()}"
    if verdict == "holds":
        return "; ".join([f"every schedule of {scope}", *sorted(search.coverage.limits)])
    if verdict == "violated":
        return f"a schedule of {scope} breaks a property"
    if isinstance(search, Pct):
        return f"{search.schedules} schedules of {scope} sampled; {search.guarantee()}"
    if search.exhausted and not search.cut:
        return f"every schedule of {scope} was explored, and showed too little: see the findings"
    if search.exhausted:
        return f"{search.cut} schedules of {scope} were cut after {setting.steps_max} steps"
    if isinstance(search, Reduced):
        left = search.still_to_run()
        tail = "" if left is None else f"; by estimate about {left} runs are left"
        return f"{search.schedules} schedules of {scope}, {search.explored():.1%} of the tree{tail}"
    return f"{search.schedules} schedules of {scope} tried ({strategy}), which proves nothing about the rest"


def counterexample_of(setting: Setting, failure: Failure, objects: Any, seconds: float) -> Counterexample:
    """The shortest counterexample of a failure that can be found in `seconds`."""
    steps = list(failure.steps) or tokens.name_choices(setting, failure.choices, objects, timed=failure.timed)
    found = tokens.follow(setting, steps)
    if found.violation is None:
        raise Diverged(
            f"{failure.violation} was found in a run, and not in another with the same choices. Something "
            "outside the world decides: a clock, randomness, an identifier, a variable that outlives a run"
        )
    best, targets = make_minimal(setting, found, seconds)
    return tell(best, tokens.write(targets))


def replay(
    program: Program, token: str, *, budget: Budget | None = None, seed: int = 0, steps_max: int = 400
) -> tokens.Replay:
    """Run `program` along a token. Look at `misfit` before trusting a run that shows no violation."""
    setting = Setting(program, budget or Budget(), seed, steps_max)
    return tokens.follow(setting, tokens.read(token))
