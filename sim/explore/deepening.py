"""The search of programs in which some process never ends: a limit of steps that grows.

A search goes to the end of a run before it turns back. When a run never ends, it turns back near the limit of
steps, tries everything there, and what happens at the beginning in another order waits for ever. So once a
run was cut, the program is searched with few steps first, then with twice as many, up to the limit. Each
of these gets a number of runs only; the last is not limited. Programs whose runs all end are searched once.
"""

from collections.abc import Callable
from dataclasses import replace

from fencepost.sim.explore.counterexample import Counterexample
from fencepost.sim.explore.endless import try_favourites
from fencepost.sim.explore.liveness import lasso_after_fault
from fencepost.sim.explore.pieces import Pool, Together
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Coverage, Setting
from fencepost.sim.world.stamps import UNTIMED

STEPS_FIRST = 12
RUNS_EACH = 4_000
"""Runs with one limit."""

Stop = Callable[[ReducedSearch], bool]


class Lassos:
    """Looks once for a run that goes round for ever after a fault; `found` once there is one."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._looked = False
        self.found: Counterexample | None = None

    def look(self) -> bool:
        """Look when a run was cut for the first time; return True if there is such a run."""
        if not self._looked:
            self._looked = True
            self.found = lasso_after_fault(self._setting)
        return self.found is not None


class Deepening:
    """The same as `ReducedSearch` for who explores; `explore` returns the search that decided.

    It can be called again to continue, with another number of runs.
    """

    def __init__(
        self, setting: Setting, *, jobs: int = 1, pool: Pool | None = None, lassos: Lassos | None = None
    ) -> None:
        self.setting = setting
        self._jobs = jobs
        self._pool = pool
        self._lassos = lassos
        self._whole: ReducedSearch | None = None
        self._part: ReducedSearch | None = None
        """The search with fewer steps, if it was interrupted."""
        self._steps = STEPS_FIRST
        self.timed = UNTIMED
        """Level of time on which the runs so far depended, see `stamps`."""
        self.now: ReducedSearch | None = None
        """The search that ran last."""
        self.decided = False
        """True if it found a violation, or explored everything."""
        self.stopped = False
        """True if `stop` ended it."""
        self.exhausted = False
        """True if no schedule is left; if runs were cut, nothing is decided all the same."""
        self.ended_runs = 0
        """Runs of the searches with fewer steps that have ended."""

    @property
    def schedules(self) -> int:
        """Runs to their end, of the search that ran last."""
        return 0 if self.now is None else self.now.schedules

    @property
    def runs(self) -> int:
        """Runs so far, however they ended."""
        whole = 0 if self._whole is None else self._whole.runs
        part = 0 if self.now is None or self.now is self._whole else self.now.runs
        return self.ended_runs + whole + part

    @property
    def coverage(self) -> Coverage:
        return Coverage() if self.now is None else self.now.coverage

    @property
    def lasso(self) -> Counterexample | None:
        """Run that goes round for ever after a fault, if one was found where a run was cut."""
        return None if self._lassos is None else self._lassos.found

    def explore(self, stop: Stop, runs: int | None = None) -> ReducedSearch:
        """Explore until something is decided, `stop` says so, or after so many runs."""
        if self._lassos is None:
            try_favourites(self.setting)
            self._lassos = Lassos(self.setting)
        last = None if runs is None else self.runs + runs
        whole = self._whole
        if whole is None or not whole.cut:
            whole = self._whole = self._explore(whole, self.setting, stop, last, lambda at: bool(at.cut))
            if self._is_over(last) or not whole.cut or self._lassos.look():
                return whole
        while self._steps < self.setting.steps_max:
            few = replace(self.setting, steps_max=self._steps)
            part = self._part = self._explore(
                self._part, few, stop, last, lambda search: search.runs >= RUNS_EACH
            )
            if self._is_over(last):
                return part
            self.ended_runs += part.runs
            self._part = None
            self._steps *= 2
        self._whole = self._explore(whole, self.setting, stop, last, lambda _: False)
        self.exhausted = self._whole.exhausted
        return self._whole

    def _is_over(self, last: int | None) -> bool:
        return self.decided or self.stopped or (last is not None and self.runs >= last)

    def _explore(
        self, search: ReducedSearch | None, setting: Setting, stop: Stop, last: int | None, enough: Stop
    ) -> ReducedSearch:
        """Continue a search, or begin one; several processes always begin anew, and have no limit of runs."""

        def look(at: ReducedSearch) -> bool:
            self.now = at
            self.stopped = stop(at)
            return self.stopped or enough(at) or (last is not None and self.runs >= last)

        if (self._jobs > 1 or self._pool is not None) and last is None:
            search = Together(setting, self._jobs, self.timed, pool=self._pool).explore(look)
        else:
            search = search or ReducedSearch(setting, timed=self.timed)
            self.now = search
            search.explore(look)
        self.now = search
        self.timed = max(self.timed, search.timed)
        self.decided = bool(search.failures) or (search.exhausted and not search.cut)
        return search
