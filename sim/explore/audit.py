"""Audit a program: explore its runs under a fault budget, and judge what that proved.

    def program(world):
        store = world.store()
        for name in ("a", "b"):
            world.spawn(elect, store, name, name=name)
        world.always("one leader", lambda view: len(view.notes("leader")) <= 1)

    result = audit(program, budget=Budget(crash=1))
    print(result)

The verdicts. `holds`: the search explored every schedule within the budget, up to swaps that no process can
notice. `violated`: the result has the shortest counterexample found and the token that repeats it.
`undecided`: time or bounds ran out first, or only samples were taken, or everything was explored and covered
nothing. `error`: no violation, but the program cannot be audited; the result names its line.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from fencepost.impl.store.events import Event
from fencepost.sim.explore import tokens
from fencepost.sim.explore.checkpoint import load, save
from fencepost.sim.explore.counterexample import Counterexample, counterexample_of
from fencepost.sim.explore.deepening import Deepening
from fencepost.sim.explore.executed import recording
from fencepost.sim.explore.finer import FIRST_PART, EarlyLook, between_lines
from fencepost.sim.explore.like import Like, RecordedStep
from fencepost.sim.explore.liveness import lasso
from fencepost.sim.explore.pieces import Pool, Together
from fencepost.sim.explore.plain import Plain
from fencepost.sim.explore.portfolio import ENOUGH, Portfolio, is_reached
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.rehearsal import rehearse
from fencepost.sim.explore.result import AuditCoverage, AuditResult, AuditVerdict, ProgramError, StageResult
from fencepost.sim.explore.runs import Coverage, Setting
from fencepost.sim.explore.sampling import ByHypothesis, Pct, Random, stop_after
from fencepost.sim.explore.watchdog import REAL_TIMES, Limit, watching
from fencepost.sim.world import Budget, Program, World, places
from fencepost.sim.world.costs import AtMost
from fencepost.sim.world.finalizers import PROPERTY
from fencepost.sim.world.located import AuditError, CodeLine
from fencepost.sim.world.loops import WAIT_ROUNDS
from fencepost.sim.world.process import Diverged, Stuck
from fencepost.sim.world.sites import Sites

STRATEGIES = ("portfolio", "exhaustive", "plain", "random", "pct", "hypothesis")
SEARCHES = ("portfolio", "exhaustive")
"""Strategies that explore every schedule. A search with a checkpoint has one stage."""
OTHERS_SCHEDULES = 500
"""Schedules in which other broken properties are looked for, at least."""
SECONDS_AT_LEAST = 1.0
"""Time in which a counterexample is shortened, although the time of the audit is over."""
SHARE_SHOWN = 0.005
"""Share of the schedules that is shown as a number."""
SAMPLES = 2_000
"""Schedules a sampling strategy tries when nothing else limits it."""

Progress = Callable[[Any], bool | None]
"""Called after every run with the search; returns True to end it there."""


@dataclass(frozen=True)
class AuditRequest:
    """An audit: the program with its parameters bound, the faults, the strategy and the limits."""

    program: Program
    name: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    strategy: str = "portfolio"
    seed: int = 0
    seconds: float | None = None
    cpu: bool = False
    """True if `seconds` are of the time on the processor, see `watchdog.Limit`."""
    schedules: int | None = None
    steps_max: int = 400
    wait_rounds: int = WAIT_ROUNDS
    """Rounds in vain after which a waiting loop is held back."""
    depth: int = 3
    jobs: int = 1
    """Operating-system processes that share an exhaustive search."""
    pool: Pool | None = None
    """Workers elsewhere that share it, instead of processes of this machine."""
    checkpoint: str | None = None
    """The file in which an exhaustive search is saved when a limit stops it."""
    resume: bool = False
    """True if the search continues from that file."""
    minimise_seconds: float = 5.0
    database: Any = None
    """Where Hypothesis remembers failures."""
    like: tuple[RecordedStep, ...] = ()
    """The requests of a trace, which the strategy `like` follows."""
    by_line: bool = False
    """True if outcomes are counted by the line of the user's code that sent the request."""
    lines_run: bool = False
    """True if the lines of the user's code that run are recorded too."""
    others: bool = True
    """True if other broken properties are looked for after the first one."""
    enough: str = "all"
    """The stage that must hold for a pass, see `portfolio`. Without limits the search ends there."""
    exact_costs: bool = False
    """True if the highest cost of each operation must be found, see `runs.Costs`."""

    def __post_init__(self) -> None:
        if (self.checkpoint or self.in_pieces) and self.strategy not in SEARCHES:
            raise ValueError(f"jobs and checkpoint are for the exhaustive strategy, not for {self.strategy}")
        if self.enough not in ENOUGH:
            raise ValueError(f"enough={self.enough!r} is unknown; choose from {', '.join(ENOUGH)}")
        if self.enough != "all" and (self.strategy != "portfolio" or self.checkpoint):
            raise ValueError("enough names a stage of the portfolio; leave strategy and checkpoint out")
        if self.resume and not self.checkpoint:
            raise ValueError("resume needs the checkpoint file to continue from")
        if (self.strategy == "like") != bool(self.like):
            raise ValueError("the strategy like follows a trace: give both or neither")
        if self.strategy not in (*STRATEGIES, "like"):
            raise ValueError(f"strategy {self.strategy!r} is unknown; choose from {', '.join(STRATEGIES)}")

    @property
    def in_pieces(self) -> bool:
        """True if several workers share the search."""
        return self.jobs > 1 or self.pool is not None

    @cached_property
    def setting(self) -> Setting:
        sites = Sites() if self.by_line or self.lines_run else None
        return Setting(
            self.program,
            self.budget,
            self.seed,
            self.steps_max,
            exact_costs=self.exact_costs,
            wait_rounds=self.wait_rounds,
            sites=sites,
        )

    def with_bounds(self, bounds: Sequence[AtMost]) -> "AuditRequest":
        """Return the same audit, in which operations may cost at most so much."""

        def program(world: World) -> None:
            self.program(world)
            world.bound(bounds)

        program.__qualname__ = getattr(self.program, "__qualname__", "a program")
        return replace(self, program=program)


@dataclass(frozen=True)
class AuditOutcome:
    """An audit that has ended, with its counterexamples as runs; `result` gives the plain values."""

    request: AuditRequest
    strategy: str
    verdict: AuditVerdict
    bound: str
    """Claim that was proven, or the extent of the search, in one sentence."""
    schedules: int
    pruned: int
    """Runs that were given up early: they could only repeat another one, or reached a known state."""
    seconds: float
    counterexamples: tuple[Counterexample, ...]
    findings: tuple[str, ...]
    coverage: Coverage
    stages: tuple[StageResult, ...] = ()
    """From no faults to all of the budget; empty where the search had one stage."""
    complete: bool = False
    """True if every schedule was explored, so that the highest cost seen is the highest possible."""
    error_at: CodeLine | None = None
    """The line of the program that keeps it from being audited, when the verdict is `error`."""
    interrupted: bool = False
    """True if Ctrl-C ended the search early."""
    flat: Mapping[str, Any] | None = None
    """The parameter and the values for which costs were compared."""
    events: Sequence[Event] = ()
    """Of the run that failed or was replayed."""
    suspicions: tuple[Counterexample, ...] = ()
    """Schedules that break a ready promise, of a program that declares no property."""
    replayed: Sequence[str] | None = None
    """The lines of the one run, when a token was replayed."""
    token: str = ""

    def __str__(self) -> str:
        lines = [
            f"{self.verdict}: {self.bound}",
            f"{self.schedules} schedules ({self.pruned} given up early) in {self.seconds:.2f} s",
        ]
        for counterexample in self.counterexamples:
            lines += ["", *counterexample.text(), "", f"replay token: {counterexample.token}"]
        lines += [f"finding: {finding}" for finding in self.findings]
        return "\n".join(lines)

    def result(self) -> AuditResult:
        """Return the outcome as plain values, for reports and JSON."""
        coverage = self.coverage.summary(self.request.budget)
        replays = self.replayed is not None
        if replays:  # one run is not compared with others
            coverage = AuditCoverage(coverage.outcomes, coverage.faults, coverage.steps)
        return AuditResult(
            system=self.request.name,
            strategy=self.strategy,
            parameters=dict(self.request.parameters),
            verdict=self.verdict,
            bound=self.bound,
            schedules=self.schedules,
            pruned=self.pruned,
            seconds=self.seconds,
            violations=tuple(found.as_violation() for found in self.counterexamples),
            findings=self.findings,
            suspicions=tuple(found.as_violation() for found in self.suspicions),
            coverage=coverage,
            cost={} if replays else self.cost(),
            complete=None if replays else self.complete,
            stages=self.stages,
            enough=self.request.enough,
            passes=self.suffices,
            faults=asdict(self.request.budget),
            seed=self.request.seed,
            model=None if replays else self.reported.get("model"),
            flat=None if replays else self.flat,
            counterexample=tuple(self.replayed or ()),
            token=self.token if replays else None,
            error=self._error() if self.verdict == "error" else None,
        )

    @property
    def suffices(self) -> bool:
        """True if all holds, or the stages that the request calls enough hold and covered something."""
        if self.verdict != "undecided" or self.request.enough == "all":
            return self.verdict == "holds"
        return is_reached(self.stages, self.request.enough) and not self.coverage.covers_nothing()

    def _error(self) -> ProgramError:
        at = self.error_at
        return (
            ProgramError(self.bound)
            if at is None
            else ProgramError(self.bound, at.file, at.line, at.function)
        )

    @cached_property
    def reported(self) -> dict[str, Any]:
        """Results of the program's own reports; none after an interruption, since some take long."""
        reports = () if self.interrupted else self.coverage.reports
        return {key: value for report in reports for key, value in report().items()}

    def cost(self) -> dict[str, dict[str, Any]]:
        """By verb: the highest cost, see `costs`, and what was measured as `verb: number`."""
        table: dict[str, dict[str, Any]] = self.coverage.costs.table()
        if self.flat is not None:
            table = {name: {**row, "flat": True} for name, row in table.items()}
        for name, number in sorted(self.coverage.measured.items()):
            verb, _, what = name.rpartition(": ")
            table.setdefault(verb, {})[what] = number
        return table


def audit(program: Program, *, progress: Progress | None = None, **options: Any) -> AuditOutcome:
    """Explore `program` and judge it; `options` are the fields of `AuditRequest`."""
    return search(AuditRequest(program, **options), progress)


def search(
    request: AuditRequest,
    progress: Progress | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> AuditOutcome:
    """Explore until the first violation or a limit, minimise the counterexample, and judge.

    `progress` ends the search between two runs, `interrupted` also in the middle of one.
    """
    sites = request.setting.sites
    if request.lines_run:
        declared_properties(request.setting)  # loads the modules that the program imports itself
    executed = recording(request.program, sites) if request.lines_run and sites else nullcontext()
    with places.held(request.program), executed:
        return _search(request, progress, interrupted)


def _search(
    request: AuditRequest, progress: Progress | None, interrupted: Callable[[], bool]
) -> AuditOutcome:
    setting, seconds = request.setting, request.seconds
    started = time.perf_counter()
    limit = Limit(seconds, cpu=request.cpu and request.jobs == 1)
    before: Stuck | None = None
    endless, searched, searching, ended = _attempted(request, progress, interrupted, limit)
    if isinstance(ended, Stuck) and ended.too_long:
        before = ended  # the machine may have been at fault: only a second time counts
        endless, searched, searching, ended = _attempted(request, progress, interrupted, limit)
    if ended is not None:
        if before is not None and not _is_same(before, ended):
            ended = Stuck(f"{before}; not so when the search was repeated", before.at, too_long=False)
        return _without_verdict(request, ended, searching, time.perf_counter() - started)
    if endless is not None or searched is None:
        return _never_ends(request, endless, time.perf_counter() - started)
    if request.checkpoint and not searched.failures:
        save(searched, request.checkpoint)
    elapsed = time.perf_counter() - started
    try:
        between = between_lines(request, searched, elapsed, interrupted)
    except (AuditError, Stuck) as error:
        return _without_verdict(request, error, searched, time.perf_counter() - started)
    if between.failed is not None:
        searched = between.failed
    if searched.failures:
        setting = searched.setting  # with the faults of its stage, and no more
    elapsed = time.perf_counter() - started
    if setting.steps_max != request.steps_max:
        setting = replace(setting, steps_max=request.steps_max)
    minimising = Limit(0.0) if interrupted() else _for_minimising(request, limit.left())
    found = [
        counterexample_of(setting, failure, searched.footprints, minimising)
        for failure in searched.failures[:1]
    ]
    if found and found[0].property != PROPERTY and request.others:
        searched.findings += _find_others(request, found, searched.schedules, limit.left(), interrupted)
    return _judge(request, searched, elapsed, tuple(found), between.clauses, _stages(searching))


def _for_minimising(request: AuditRequest, left: float) -> Limit:
    """Return the time for a shorter counterexample, of what is left of the audit's.

    It is time on the processor, so that a busy machine finds the same one, if enough of all time is left. A
    violation that is found at the end of the time is shortened a little all the same.
    """
    seconds = min(request.minimise_seconds, max(SECONDS_AT_LEAST, left))
    return Limit(seconds, cpu=request.cpu or left >= REAL_TIMES * seconds)


def _stages(searching: Any) -> tuple[StageResult, ...]:
    found = searching.results() if isinstance(searching, Portfolio) else ()
    return found if len(found) > 1 else ()


def _learns(setting: Setting) -> bool:
    """Return True if the search must start over, since processes changed variables that they shared."""
    learns = setting.variables.learns() or setting.variables.suspects()
    if learns:
        setting.variables.restore()
    return learns


def _attempted(
    request: AuditRequest,
    progress: Progress | None,
    interrupted: Callable[[], bool],
    limit: Limit,
) -> tuple[Any, Any, Any, AuditError | Stuck | None]:
    """Return a run without end, or the search that decided; the searcher; and the error that ended it."""
    setting = request.setting
    while True:
        searching = _searcher(request, setting)
        try:
            with watching(limit.is_over, interrupted):
                endless = rehearse(setting, then=lasso)
                searched = None if endless is not None else _explored(request, searching, progress, limit)
                endless = endless or getattr(searching, "lasso", None)
        except (AuditError, Stuck) as error:
            return None, None, searching, error
        except Diverged:
            if not _learns(setting):
                raise
        else:
            if not _learns(setting):
                return endless, searched, searching, None


def _is_same(before: Stuck, now: AuditError | Stuck) -> bool:
    """Return True if two searches were ended in the same code."""
    if not isinstance(now, Stuck) or not now.too_long:
        return False
    functions = {(line.file, line.function) for line in before.at}
    return functions == set() or any((line.file, line.function) in functions for line in now.at)


def _find_others(
    request: AuditRequest,
    found: list[Counterexample],
    schedules: int,
    left: float,
    interrupted: Callable[[], bool],
) -> list[str]:
    """Add a counterexample for every other property that is broken; what remained undecided."""
    time_left = Limit(min(request.minimise_seconds, left), cpu=request.cpu)
    most = max(OTHERS_SCHEDULES, 2 * schedules)
    while True:
        setting = replace(request.setting, muted=frozenset(one.property for one in found))
        if interrupted() or not _declares(setting):
            return []
        searching = _searcher(request, setting)
        limit = stop_after(time_left.left(), most, time_left)
        try:
            with watching(time_left.is_over, interrupted):
                searched = searching.explore(limit) or searching
        except (AuditError, Stuck) as error:
            return [f"other properties could not be judged: {error}"]
        if not searched.failures:
            break
        other = counterexample_of(setting, searched.failures[0], searched.footprints, time_left)
        found.append(other)
    if searched.exhausted and not searched.cut:
        return []
    return [f"whether the other properties hold is not decided, after {searched.schedules} more schedules"]


def _declares(setting: Setting) -> bool:
    """Return True if the program declares a property that is not muted."""
    return bool(set(declared_properties(setting)) - setting.muted)


def declared_properties(setting: Setting) -> tuple[str, ...]:
    """Return the names of the properties that the program declares and a run can violate."""
    world = setting.world()
    try:
        world.start(setting.program)
        names = [promise.name for promise in world.properties if promise.can_be_violated]
        names += [fold.name for fold in world.judge.folds] + [name for name, _ in world.judge.followers]
        names += [promised.name for promised in world.judge.promises]
        return tuple(dict.fromkeys([*names, *(bound.property for bound in world.judge.bounds)]))
    finally:
        world.close()


def _explored(request: AuditRequest, searching: Any, progress: Progress | None, limit: Limit) -> Any:
    """Return the search that decided, or came to its limit."""
    schedules = request.schedules
    seconds = None if limit.seconds is None else limit.left()
    if request.resume and request.checkpoint:
        (Together.load if isinstance(searching, Together) else load)(searching, request.checkpoint)
    if request.strategy not in (*SEARCHES, "plain") and seconds is None and schedules is None:
        schedules = SAMPLES
    whole = stop_after(seconds, schedules, limit)
    first = whole if seconds is None else stop_after(seconds * FIRST_PART, schedules, limit)
    early = EarlyLook(request)

    def stop(at: Any) -> bool:
        now = at.now if isinstance(at, Portfolio) else at
        has_second = isinstance(now, ReducedSearch) and bool(now.setting.sharing.names)
        is_over = bool(progress is not None and progress(at)) or (first if has_second else whole)(at)
        if has_second and not is_over and not isinstance(at, Portfolio):  # that looks by itself
            is_over = early.finds(now, at.runs, first)
        return is_over or request.setting.variables.has_learnt

    found = searching.explore(stop) or searching
    return early.failed or found


def _never_ends(request: AuditRequest, found: Any, elapsed: float) -> AuditOutcome:
    """A fair run goes round for ever, and what was promised does not happen."""
    scope = f"{found.processes} process{'' if found.processes == 1 else 'es'}"
    how = "with one fault" if found.faults else "without faults"
    bound = f"a schedule of {scope} {how}, in which all take turns, goes round for ever"
    return AuditOutcome(request, request.strategy, "violated", bound, 1, 0, elapsed, (found,), (), Coverage())


def _without_verdict(
    request: AuditRequest, error: AuditError | Stuck, searching: Any, elapsed: float
) -> AuditOutcome:
    """The program cannot be audited; or it was computing when the time was over, and nothing is decided."""
    undecided = isinstance(error, Stuck) and not error.too_long
    schedules = searching.schedules
    return AuditOutcome(
        request,
        request.strategy,
        "undecided" if undecided else "error",
        f"{schedules} schedules, and the last was not left" if undecided else str(error),
        schedules,
        0,
        elapsed,
        (),
        (str(error),) if undecided else (),
        searching.coverage,
        stages=_stages(searching),
        error_at=error.at[-1] if error.at else None,
    )


def _searcher(request: AuditRequest, setting: Setting) -> Any:
    makers: dict[str, Callable[[], Any]] = {
        "portfolio": lambda: _exhaustive(request, setting),
        "exhaustive": lambda: _exhaustive(request, setting),
        "plain": lambda: Plain(setting),
        "random": lambda: Random(setting),
        "pct": lambda: Pct(setting, request.depth),
        "hypothesis": lambda: ByHypothesis(setting, request.database),
        "like": lambda: Like(setting, request.like),
    }
    return makers[request.strategy]()


def _exhaustive(request: AuditRequest, setting: Setting) -> Any:
    jobs, pool = request.jobs, request.pool
    if request.checkpoint and request.in_pieces:
        return Together(setting, jobs, pool=pool, checkpoint=request.checkpoint)
    if request.checkpoint:
        return ReducedSearch(setting)
    if request.strategy == "exhaustive":
        return Deepening(setting, jobs=jobs, pool=pool)
    is_limited = request.seconds is not None or request.schedules is not None
    return Portfolio(setting, jobs=jobs, pool=pool, until="all" if is_limited else request.enough)


def _judge(
    request: AuditRequest,
    searched: Any,
    elapsed: float,
    counterexamples: tuple[Counterexample, ...],
    clauses: Sequence[str] = (),
    stages: tuple[StageResult, ...] = (),
) -> AuditOutcome:
    complete = searched.exhausted and not searched.cut
    findings = [*getattr(searched, "findings", [])]
    if left_out := searched.setting.deadlines.left_out:
        findings.append(f"{left_out} comparisons with the clock are of more lines than pauses are tried for")
    findings += [
        f"{found.property} may have a shorter counterexample: minimising it ran out of time"
        for found in counterexamples
        if not found.minimised
    ]
    if searched.cut:
        findings += _about_cut_runs(searched, searched.setting.steps_max)
    gaps = [] if counterexamples else searched.coverage.findings()
    # A search that covered nothing has shown nothing: it is no pass.
    verdict: AuditVerdict = (
        "violated" if counterexamples else "holds" if complete and not gaps else "undecided"
    )
    if counterexamples and counterexamples[0].property == PROPERTY:
        verdict = "error"  # code outside of the world's control is no violation of the program
    bound = _bound(request, searched, verdict, counterexamples, clauses, stages)
    schedules = searched.schedules
    pruned = getattr(searched, "pruned", 0) + getattr(searched, "merged", 0)
    if stages and verdict == "undecided":
        schedules = sum(one.schedules for one in stages)
        pruned = sum(one.runs for one in stages) - schedules
    if request.resume and not counterexamples:
        bound += f"; continued from {request.checkpoint}, which is trusted"
    return AuditOutcome(
        request,
        request.strategy,
        verdict,
        bound,
        schedules,
        pruned,
        elapsed,
        counterexamples,
        (*findings, *gaps),
        searched.coverage,
        stages=stages,
        complete=complete,
    )


def _about_cut_runs(searched: Any, steps_max: int) -> list[str]:
    coverage = searched.coverage
    names = ", ".join(name for name, _ in coverage.cut.most_common(3))
    found = [
        f"{searched.cut} runs were cut after {steps_max} steps, and {names or 'some process'} went on; "
        "raise the limit (--max-steps, steps_max=), or spawn(..., daemon=True) what is to run for ever"
    ]
    if coverage.unjudged:
        found.append(
            f"not judged in runs that were cut: {', '.join(sorted(coverage.unjudged))} "
            "(eventually and finally_ need the end of a run)"
        )
    return found


def _bound(
    request: AuditRequest,
    searched: Any,
    verdict: str,
    counterexamples: Sequence[Counterexample],
    clauses: Sequence[str] = (),
    stages: tuple[StageResult, ...] = (),
) -> str:
    coverage = searched.coverage
    processes = counterexamples[0].processes if counterexamples else coverage.processes or len(coverage.steps)
    scope = f"{_number(processes, 'process', 'es')} with {request.budget.sentence()}"
    if verdict == "error":
        return counterexamples[0].reason
    if verdict == "violated":
        more = "" if len(counterexamples) == 1 else f"; {len(counterexamples)} properties are broken"
        held = [one.bound for one in stages if one.verdict == "holds"]
        more += f"; it holds {held[-1]}" if held and len(counterexamples) == 1 else ""
        return f"a schedule of {scope} breaks a property{more}"
    if verdict == "holds":
        untried = request.budget.untried(coverage.met_by_faults)
        left_out = [f"not tried: {', '.join(untried)}"] if untried else []
        return "; ".join([f"every schedule of {scope}", *sorted([*coverage.clauses(), *clauses]), *left_out])
    schedules = _number(searched.schedules, "schedule")
    if isinstance(searched, Pct | Like):
        return f"{schedules} of {scope} sampled; {searched.guarantee()}"
    if searched.exhausted and not searched.cut:
        return f"every schedule of {scope} was explored, and showed too little: see the findings"
    if searched.exhausted:
        cut, steps = _number(searched.cut, "schedule"), _number(searched.setting.steps_max, "step")
        return f"{cut} of {scope} cut after {steps}"
    if stages:
        return "; ".join(
            [f"{_number(processes, 'process', 'es')}: {_by_stage(stages)}", *coverage.clauses(), *clauses]
        )
    if isinstance(searched, ReducedSearch):
        return f"{schedules} of {scope}, {searched.explored():.1%} of the tree found so far"
    return f"{schedules} of {scope} tried ({request.strategy}), which proves nothing about the rest"


def _by_stage(stages: Sequence[StageResult]) -> str:
    """Return the verdicts of the stages as one line: what holds, and what is left."""
    parts = [f"holds {one.bound}" for one in stages if one.verdict == "holds"]
    for one in stages:
        if one.verdict != "holds" and one.runs:
            share = f"about {one.explored:.0%}" if one.explored >= SHARE_SHOWN else "less than 1%"
            parts.append(f"{one.bound}: undecided, {share} explored (an estimate)")
    if not stages[-1].runs:
        parts.append(f"{stages[-1].bound}: not begun")
    return "; ".join(parts)


def _number(count: int, noun: str, plural: str = "s") -> str:
    return f"{count} {noun}{'' if count == 1 else plural}"


def replay(
    program: Program, token: str, *, budget: Budget | None = None, seed: int = 0, steps_max: int = 400
) -> tokens.Replay:
    """Run `program` along a token. Check `misfit` before trusting a run that shows no violation."""
    return follow_watched(
        tokens.muted_for(Setting(program, budget or Budget(), seed, steps_max), token), token
    )


def follow_watched(setting: Setting, token: str) -> tokens.Replay:
    """Return the run of a token, after runs that show which variables its processes change."""
    with places.held(setting.program):
        setting.variables.watch()
        while True:
            found = tokens.follow(setting, tokens.read(token), watched=True)
            if not setting.variables.learns():
                return found
            setting.variables.restore()


def audit_sizes(
    name: str,
    requests: Sequence[AuditRequest],
    first: Callable[[AuditRequest], AuditOutcome],
    others: Callable[[AuditRequest], AuditOutcome],
) -> AuditOutcome:
    """Judge if costs grow with the parameter `name`: the highest costs of the first audit bound the others.

    Returns the result of the first size, or of the first other size that costs more, where a schedule that
    costs more is a violation like any other. `others` may replay a token.
    """
    result = first(replace(requests[0], exact_costs=True))
    if result.verdict != "holds":
        unknown = () if result.counterexamples else (f"whether costs grow with {name} was not looked at",)
        return replace(result, findings=(*result.findings, *unknown))
    values = [request.parameters[name] for request in requests]
    bounds = [
        AtMost(verb, level["requests"], level["hops"], level["faults"], f", as with {name}={values[0]}")
        for verb, row in result.cost().items()
        for level in row.get("faults", ())
    ]
    for request in requests[1:]:
        other = others(request.with_bounds(bounds))
        if other.verdict != "holds":
            return other
    sizes = " or ".join(f"{name}={value}" for value in values[1:])
    return replace(
        result,
        bound=f"{result.bound}; no operation costs more with {sizes} than with {name}={values[0]}",
        flat={"parameter": name, "values": values},
    )
