"""The default strategy: searches of the same program from few faults to all of the budget.

Theory. Most mistakes need no fault or one, and a depth-first search of all faults together comes to them
late: it first tries the late combinations of faults, below the first schedule. So the schedules are explored
in *stages*: without faults, with any one fault, with any two, with the whole budget. A stage contains the
ones before it, so its verdict is a claim of its own, and the last stage is the audit. A counterexample comes
from the first stage that has one, and so has as few faults as possible.

*Work.* A stage repeats the schedules of the one before it, which are few beside its own. So a program of
which every stage ends is done in little more than the time of its last stage. Stages that do not end take
turns: in each round the first of them gets `RUNS_FIRST` runs, the next half as many, and so on, and each
round has twice the runs of the round before. Runs are counted, not seconds, so the result is a function of
the program and the seed, as long as no limit of time ends it.

*Samples.* Where the stages are not done after `RUNS_BEFORE` runs, schedules are drawn: at random, by
priorities, and by short searches with one kind of fault each. When these show a violation with faults, the
stages with fewer faults get some more runs, and the failure with the fewest faults is reported.

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

RUNS_FIRST = 1_000
"""Runs of the first stage in the first round."""
RUNS_BEFORE = 600
"""Runs before schedules are drawn."""
SAMPLES_EACH = 150
"""Schedules drawn with each way of drawing."""
RUNS_ALONE = 300
"""Runs with each kind of fault alone."""
RUNS_PLAINER = 500
"""Runs of each stage with fewer faults, after schedules that were drawn showed a violation."""
ENOUGH = ("no-faults", "one-fault", "all")
"""Stages that can be asked for."""
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

    def pause(self, stopped: bool) -> bool:
        """Take up that a search on behalf of this stage was stopped."""
        self.stopped = self.stopped or stopped
        return stopped

    @property
    def violated(self) -> bool:
        return self.now is not None and bool(self.now.failures)

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
        self._is_sampled = False
        self._is_looked = False

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
        return tuple(stage.result() for stage in self.stages)

    def progress(self) -> str:
        """Describe the state of the search in a few words."""
        return ", ".join(text for text in map(_brief, self.stages) if text)

    def explore(self, stop: Stop) -> Any:
        try_favourites(self.setting)
        runs = RUNS_FIRST
        while not self._is_done():
            share = runs
            for stage in [one for one in self.stages if not one.decided]:
                self._explore(stage, stop, None if self._is_last(stage) else share)
                if self._ends_with(stage):
                    return self._found()
                if stage is self.stages[0] and not self._is_looked:
                    self._is_looked = True
                    self._look_between_lines(stage, stop)
                    if self._ends_with(stage):
                        return self._found()
                if not self._is_sampled and self.runs >= RUNS_BEFORE and not stage.decided:
                    self._is_sampled = True
                    failed = self._sample(stop)
                    if failed is not None:
                        return failed
                share = max(1, share // 2) if not stage.decided else share
            runs *= 2
        return self._found()

    def _ends_with(self, stage: Stage) -> bool:
        """Return True if nothing is to be explored after what this stage just did."""
        return stage.stopped or stage.violated or self.lasso is not None or self._is_done()

    def _is_last(self, stage: Stage) -> bool:
        """Return True if the stage needs not take turns any more."""
        left = [one for one in self.stages if not one.decided]
        return self._is_sampled and (left == [stage] or self._in_pieces)

    def _is_done(self) -> bool:
        if self.stages[-1].decided:
            return True
        return self._until != "all" and is_reached(self.results(), self._until)

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

    def _look_between_lines(self, stage: Stage, stop: Stop) -> None:
        """Search for violations without faults where threads take turns between lines, see `finer`.

        The search after the last stage says what was left out; this one only has violations shown early.
        """
        names = stage.setting.sharing.names
        if not names or not lines.apply(self.setting.program, names):
            return
        search = ReducedSearch(replace(stage.setting, lines=names, budget=NO_FAULTS))
        before = self._sampled_runs
        self._watch(search, lambda at: stage.pause(stop(at)), before, RUNS_FIRST)
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
        for alone in self._alone():
            search = ReducedSearch(alone, timed=self.stages[-1].timed)
            before = self._sampled_runs
            self._watch(search, stop, before, RUNS_ALONE)
            if search.failures:
                return self._plainer(_faults(search.failures[0]), stop) or search
        return None

    def _draw(self, sampler: Sampled, stop: Stop) -> None:
        self._watch(sampler, stop, self._sampled_runs, SAMPLES_EACH)

    def _watch(self, search: Any, stop: Stop, before: int, most: int) -> None:
        def look(at: Any) -> bool:
            self.now = at
            runs = getattr(at, "runs", at.schedules)
            self._sampled_runs = before + runs
            return stop(self) or runs >= most

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
