"""The default strategy: searches of the same program from few faults to all of the budget.

Theory. Most mistakes need no fault or one, and a depth-first search of all faults together comes to them
late: it first tries the late combinations of faults, below the first schedule. So the schedules are explored
in *stages*: without faults, with any one fault, with any two, with the whole budget. A stage contains the
ones before it, so its verdict is a claim of its own, and the last stage is the audit. A counterexample comes
from the first stage that has one, and so has as few faults as possible.

*Turns.* The first stages get some runs. That is enough for small programs, and for most mistakes. Then
schedules are drawn, at random and by priorities, and the whole budget gets `RUNS_WHOLE` runs: it contains the
other stages, so a program that is explored by then is not explored twice. After that the stages that are
left take turns: in each round the first of them gets `RUNS_FIRST` runs, the next half as many, and so on, and
each round has twice the runs of the round before. Runs are counted, not seconds, so the result is a function
of the program and the seed, as long as no limit of time ends it. When a violation with faults was found out
of turn, the stages with fewer faults get some more runs, and the failure with the fewest faults is reported.

*Stages without more faults.* Where the steps of a stage show that no run can have more faults than it allows,
it is the last one.

*Threads* that share memory also take turns between lines, after the first runs of the first stage (`finer`).

*What is learnt* in one stage holds in the others: deadlines, endless loops, shared memory, and how much time
matters. A search that rests on less than is known by then starts over, see `ReducedSearch`.

The share that a stage has explored is an estimate (weighted backtracking): each branch below a state is taken
to be as large as its neighbours. The branches of a state are known only when races show them, so the estimate
tends to be too high.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

from fencepost.sim.explore.counterexample import Counterexample
from fencepost.sim.explore.deepening import Deepening, Lassos
from fencepost.sim.explore.endless import try_favourites
from fencepost.sim.explore.pieces import Pool
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.result import AuditVerdict, StageResult
from fencepost.sim.explore.runs import Coverage, Failure, Setting
from fencepost.sim.explore.sampling import Pct, Random, Sampled
from fencepost.sim.faults import KINDS
from fencepost.sim.threads import lines
from fencepost.sim.world import NO_FAULTS, Budget
from fencepost.sim.world.budget import price
from fencepost.sim.world.stamps import UNTIMED

RUNS_FIRST, RUNS_ONE = 1_000, 500
"""Runs without faults and with any one fault before schedules are drawn."""
RUNS_WHOLE = 8_000
"""Runs of the whole budget after that."""
SAMPLES_EACH = 75
"""Schedules drawn with each way of drawing."""
RUNS_ALONE = 300
"""Runs with each kind of fault alone."""
RUNS_PLAINER = 500
"""Runs of each stage with fewer faults, after schedules that were drawn showed a violation."""
ENOUGH = ("no-faults", "one-fault", "all")
"""Stages that can be asked for."""
_BY_STEP = frozenset(KINDS) - {"pause", "skew", "power_loss", "notification_delayed"}
"""Kinds of which the steps of a run say if they can strike."""
_TITLES = ("without faults", "with any one fault", "with any two faults")
_NAMES = ("no-faults", "one-fault", "two-faults")

Stop = Callable[[Any], bool]


class Stage(Deepening):
    """The schedules with at most so many faults."""

    def __init__(
        self,
        name: str,
        title: str,
        setting: Setting,
        *,
        jobs: int = 1,
        pool: Pool | None = None,
        lassos: Lassos | None = None,
    ) -> None:
        super().__init__(setting, jobs=jobs, pool=pool, lassos=lassos)
        self.name = name
        self.title = title
        self.seconds = 0.0

    def explore(self, stop: Stop, runs: int | None = None) -> ReducedSearch:
        started = time.perf_counter()
        try:
            return super().explore(stop, runs)
        finally:
            self.seconds += time.perf_counter() - started

    @property
    def violated(self) -> bool:
        return self.now is not None and bool(self.now.failures)

    def take_over(self, other: "Stage") -> None:
        """Take up that the other stage has the same schedules, and has explored them."""
        if other is not self:
            self.now, self._whole, self.decided = other.now, other.now, True

    def verdict(self) -> AuditVerdict:
        """Return the verdict on the schedules of this stage alone.

        Only the last stage must have covered what the audit asks for: it may need faults to happen.
        """
        if self.violated:
            return "violated"
        if not self.decided or self.now is None:
            return "undecided"
        return "undecided" if self.name == "all" and self.now.coverage.findings() else "holds"

    def explored(self) -> float:
        """Return the estimated share of the schedules that is explored."""
        if self.decided and not self.violated:
            return 1.0
        if self.now is None or self._whole is None:
            return 0.0
        return 0.0 if self._whole.cut else self._whole.explored()

    def result(self) -> StageResult:
        schedules = 0 if self.now is None else self.now.schedules
        return StageResult(
            name=self.name,
            verdict=self.verdict(),
            bound=self.title,
            schedules=schedules,
            runs=self.runs,
            seconds=self.seconds,
            explored=self.explored(),
        )


def stages_of(setting: Setting, **how: Any) -> list[Stage]:
    """Return the stages of a setting, the one with all faults last; `how`: as for each stage."""
    found = []
    for faults in range(min(setting.budget.most(), len(_NAMES))):
        fewer = replace(setting, faults_max=faults)
        if not faults:
            fewer = replace(setting, budget=_without(setting.budget, _kinds(setting.budget)))
        found.append(Stage(_NAMES[faults], _TITLES[faults], fewer, **how))
    title = f"with {setting.budget.sentence()}" if found else _TITLES[0]
    return [*found, Stage("all", title, setting, **how)]


def _kinds(budget: Budget) -> list[str]:
    return [name for name, count in asdict(budget).items() if count and KINDS[name].is_fault]


def _without(budget: Budget, kinds: list[str]) -> Budget:
    return budget.but(**dict.fromkeys(kinds, 0))


def is_reached(stages: list[StageResult] | tuple[StageResult, ...], enough: str) -> bool:
    """Return True if the stage that is enough holds, or one with more faults."""
    names = [*_NAMES, "all"]
    wanted = names.index(enough)
    return any(one.verdict == "holds" and names.index(one.name) >= wanted for one in stages)


class Portfolio:
    """Explores the stages. `explore` returns the search that decided, or the last stage's."""

    def __init__(
        self, setting: Setting, *, jobs: int = 1, pool: Pool | None = None, until: str = "all"
    ) -> None:
        self.setting = setting
        self._in_pieces = jobs > 1 or pool is not None
        self._until = until
        """The stage at which the search ends, if it holds."""
        self._lassos = Lassos(setting)
        self.stages = stages_of(setting, jobs=jobs, pool=pool, lassos=self._lassos)
        self.now: Any = None
        """The search that ran last."""
        self._sampled_runs = 0
        self._is_stopped = False
        """True if the search was to end while schedules were drawn."""

    @property
    def lasso(self) -> Counterexample | None:
        """Run that goes round for ever after a fault, if one was found where a run was cut."""
        return self._lassos.found

    @property
    def schedules(self) -> int:
        """Runs to their end, of the search that ran last."""
        return 0 if self.now is None else int(self.now.schedules)

    @property
    def runs(self) -> int:
        """Runs of all stages so far, however they ended."""
        sampled = self._sampled_runs
        return sum(stage.runs for stage in self.stages) + sampled

    @property
    def coverage(self) -> Coverage:
        """Coverage of all stages so far."""
        found = Coverage()
        for stage in self.stages:
            found.add(stage.coverage)
        return found

    def results(self) -> tuple[StageResult, ...]:
        """Return what was decided. The last stage contains the others."""
        last = self.stages[-1]
        if last.decided and not last.violated and last.verdict() == "holds":
            return tuple(replace(stage.result(), verdict="holds", explored=1.0) for stage in self.stages)
        return tuple(stage.result() for stage in self.stages)

    def progress(self) -> str:
        """Describe the state of the search in a few words."""
        return ", ".join(text for text in map(_brief, self.stages) if text)

    def explore(self, stop: Stop) -> Any:
        try_favourites(self.setting)
        for turn in (self._first_runs, self._all_at_once, self._with_each_kind_alone):
            failed = turn(stop)
            if failed is not None or self._is_over:
                return failed or self._found()
        runs = RUNS_FIRST
        while True:
            share = runs
            for stage in self._open():
                left = self._open()
                self._explore(stage, stop, None if left == [stage] or self._in_pieces else share)
                if self._is_over:
                    return self._found()
                share = max(1, share // 2) if not stage.decided else share
            runs *= 2

    def _first_runs(self, stop: Stop) -> Any:
        """Give the stages with few faults some runs, and draw schedules where that does not decide them."""
        for number, stage in enumerate(self.stages[:2]):
            self._explore(stage, stop, (RUNS_FIRST, RUNS_ONE)[number])
            if not number and not self._is_over:
                self._look_between_lines(stage, stop)
            if self._is_over:
                return None
            if not stage.decided:
                return self._sample(stop)
        return None

    def _all_at_once(self, stop: Stop) -> Any:
        """Give the last stage, which contains the others, the runs in which most programs are explored."""
        last = self.stages[-1]
        if self._in_pieces or self._open() == [last]:
            return None
        self._explore(last, stop, RUNS_WHOLE)
        if last.violated and last.now is not None:
            return self._plainer(_faults(last.now.failures[0]), stop)
        return None

    def _open(self) -> list[Stage]:
        return [stage for stage in self.stages if not (stage.decided or stage.exhausted)]

    @property
    def _is_over(self) -> bool:
        """True if nothing is to be explored any more."""
        stages = self.stages
        if self._until != "all" and is_reached(self.results(), self._until):
            return True
        last = stages[-1]
        found = self.lasso is not None or last.decided or last.exhausted or self._is_stopped
        return found or any(stage.stopped or stage.violated for stage in stages)

    def _explore(self, stage: Stage, stop: Stop, runs: int | None) -> None:
        """Continue a stage with what the others learnt."""
        stage.timed = max(one.timed for one in self.stages)
        for other in self.stages:
            if other is not stage:
                stage.setting.sharing.add(other.setting.sharing.packed())

        def look(at: Any) -> bool:
            self.now = at
            return stop(self)

        self.now = stage.explore(look, runs)
        if stage.decided and not stage.violated and self._contains_all(stage):
            self.stages[-1].take_over(stage)

    def _contains_all(self, stage: Stage) -> bool:
        """Return True if no run can have more faults than this stage allows, which is explored.

        Before the first fault beyond the limit, a run is one of the stage. So that fault strikes a step that
        the stage took as well. If all kinds that can strike its steps allow no more faults, no run has more.
        """
        assert stage.now is not None, "it is decided"
        most = stage.setting.budget.most() if stage.setting.faults_max is None else stage.setting.faults_max
        met = stage.now.coverage.met_by_faults
        budget = self.setting.budget
        cannot = [kind for kind in _kinds(budget) if kind in _BY_STEP and not KINDS[kind].can_strike(met)]
        if "pause" in _kinds(budget) and stage.now.timed == UNTIMED and not KINDS["pause"].can_strike(met):
            cannot.append("pause")
        return _without(budget, cannot).most() <= most

    def _look_between_lines(self, stage: Stage, stop: Stop) -> None:
        """Search for violations without faults where threads take turns between lines, see `finer`.

        The search after the last stage says what was left out; this one only has violations shown early.
        """
        names = stage.setting.sharing.names
        if not names or not lines.apply(self.setting.program, names):
            return
        search = ReducedSearch(replace(stage.setting, lines=names, budget=NO_FAULTS))
        self._watch(search, stop, self._sampled_runs, RUNS_FIRST)
        if search.failures:
            stage.now = search
        else:
            lines.remove()

    def _found(self) -> Any:
        """Return the search that decided, else that of the last stage with the coverage of all."""
        for stage in self.stages:
            if stage.violated:
                return stage.now
        last = self.stages[-1].now
        if self.stages[-1].decided:
            return last
        found = ReducedSearch(self.setting) if last is None else last
        found.coverage = self.coverage
        found.findings = [*dict.fromkeys(one for stage in self.stages for one in _findings(stage))]
        return found

    # Samples.

    def _sample(self, stop: Stop) -> Any:
        """Draw schedules; return the search that shows a violation with the fewest faults, if any does."""
        for make in (Random, Pct):
            sampler = make(self.setting)
            self._draw(sampler, stop)
            if sampler.failures:
                return self._plainer(_faults(sampler.failures[0]), stop) or sampler
        return None

    def _with_each_kind_alone(self, stop: Stop) -> Any:
        """Search with one fault of one kind; return the search with the fewest faults that fails."""
        for alone in self._alone() if not self.stages[min(1, len(self.stages) - 1)].decided else ():
            search = ReducedSearch(alone, timed=self.stages[-1].timed)
            self._watch(search, stop, self._sampled_runs, RUNS_ALONE)
            if search.failures:
                return self._plainer(_faults(search.failures[0]), stop) or search
            if self._is_stopped:
                return None
        return None

    def _draw(self, sampler: Sampled, stop: Stop) -> None:
        self._watch(sampler, stop, self._sampled_runs, SAMPLES_EACH)

    def _watch(self, search: Any, stop: Stop, before: int, most: int) -> None:
        def look(at: Any) -> bool:
            self.now = at
            runs = getattr(at, "runs", at.schedules)
            self._sampled_runs = before + runs
            self._is_stopped = stop(self)
            return self._is_stopped or runs >= most

        search.explore(look)
        self._sampled_runs = before + getattr(search, "runs", search.schedules)

    def _alone(self) -> Iterator[Setting]:
        """Yield the setting with one kind of fault each, if there are several."""
        kinds = _kinds(self.setting.budget)
        for kind in kinds if len(kinds) > 1 else ():
            others = [other for other in kinds if other != kind]
            yield replace(self.setting, budget=_without(self.setting.budget, others), faults_max=1)

    def _plainer(self, faults: int, stop: Stop) -> Any:
        """Return a search with fewer faults that shows a violation, if a short one does."""
        for stage in self.stages[:faults]:
            if not stage.decided:
                self._explore(stage, stop, RUNS_PLAINER)
            if stage.violated or stage.stopped:
                return stage.now if stage.violated else None
        return None


def _findings(stage: Stage) -> list[str]:
    return [] if stage.now is None else stage.now.findings


def _faults(failure: Failure) -> int:
    return sum(1 for _, alternative in failure.choices if price(alternative) >= 0)


def _brief(stage: Stage) -> str:
    if stage.decided:
        return f"{stage.verdict()} {stage.title}"
    return f"{stage.title}: {stage.runs} runs" if stage.runs else ""
