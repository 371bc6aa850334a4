"""The search of programs in which some process never ends: a limit of steps that grows.

A search goes to the end of a run before it turns back. When a run never ends, it turns back near the limit of
steps, tries everything there, and what happens at the beginning in another order waits for ever. So once a
run was cut, the program is searched with few steps first, then with twice as many, up to the limit. Each
of these gets a number of runs only; the last is not limited. Programs whose runs all end are searched once.

A search that is not done after some runs is interrupted by small ones: without faults, and with one kind of
fault at a time. Most mistakes need no more, and the search of all faults together comes to them late. All of
these run in this process, so that what they find is the same with any number of workers; only then the
search goes on in pieces, see `pieces`.
"""

from collections.abc import Callable
from dataclasses import asdict, replace

from fencepost.sim.explore.counterexample import Counterexample
from fencepost.sim.explore.endless import try_favourites
from fencepost.sim.explore.liveness import lasso_after_fault
from fencepost.sim.explore.pieces import Pool, Together
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Coverage, Setting
from fencepost.sim.faults import KINDS
from fencepost.sim.world import Budget
from fencepost.sim.world.stamps import UNTIMED

STEPS_FIRST = 12
RUNS_EACH = 4_000
"""Runs with one limit."""
RUNS_BEFORE = 300
"""Runs of the whole search before fewer faults are tried."""
RUNS_FEWER = 400
"""Runs of each search with fewer faults."""


def fewer(budget: Budget) -> list[Budget]:
    """Return the budgets without faults, and with one kind of fault of several."""
    kinds = [name for name, count in asdict(budget).items() if count and KINDS[name].is_fault]
    alone = [budget.but(**{name: 0 for name in kinds if name != kind}) for kind in kinds]
    return [budget.but(**dict.fromkeys(kinds, 0)), *(alone if len(alone) > 1 else ())]


Stop = Callable[[ReducedSearch], bool]


class Deepening:
    """The same as `ReducedSearch` for who explores; `explore` returns the search that decided."""

    def __init__(self, setting: Setting, *, jobs: int = 1, pool: Pool | None = None) -> None:
        self.setting = setting
        self._jobs = jobs
        self._pool = pool
        self.schedules = 0
        """To their end, so far."""
        self.coverage = Coverage()
        """Of the search that runs, so far."""
        self.lasso: Counterexample | None = None
        """Run that goes round for ever after a fault, if one was found where a run was cut."""

    def explore(self, stop: Stop) -> ReducedSearch:
        try_favourites(self.setting)
        whole: ReducedSearch | Together = ReducedSearch(self.setting)
        found, decided = self._explore(whole, stop, lambda search: bool(search.cut) or self._is_long(search))
        if self._in_pieces and not decided:
            whole = self._search(self.setting, timed=found.timed)
        if not decided and found.cut:
            self.lasso = lasso_after_fault(self.setting)
            if self.lasso is not None:
                return found
        if not decided and not found.cut:
            for budget in fewer(self.setting.budget) if self.setting.budget.most() else ():
                small = ReducedSearch(replace(self.setting, budget=budget), timed=found.timed)
                other, decided = self._explore(small, stop, lambda search: search.runs >= RUNS_FEWER)
                if other.failures:
                    return other
                if decided and not other.exhausted:
                    return found  # the time is over
            found, decided = self._explore(whole, stop, lambda search: bool(search.cut))
        steps = STEPS_FIRST
        while not decided and steps < self.setting.steps_max:
            part = self._search(replace(self.setting, steps_max=steps), timed=found.timed)
            found, decided = self._explore(part, stop, lambda search: search.runs >= RUNS_EACH)
            steps *= 2
        return found if decided else self._explore(whole, stop, lambda _: False)[0]

    def _is_long(self, search: ReducedSearch) -> bool:
        return search.runs >= RUNS_BEFORE and (self._in_pieces or self.setting.budget.most() > 0)

    @property
    def _in_pieces(self) -> bool:
        return self._jobs > 1 or self._pool is not None

    def _search(self, setting: Setting, timed: int = UNTIMED) -> ReducedSearch | Together:
        if self._in_pieces:
            return Together(setting, self._jobs, timed, pool=self._pool)
        return ReducedSearch(setting, timed=timed)

    def _explore(
        self, search: ReducedSearch | Together, stop: Stop, enough: Stop
    ) -> tuple[ReducedSearch, bool]:
        """Return the search with its counts, and True if it decided or is to end."""
        stopped = False

        def look(at: ReducedSearch) -> bool:
            nonlocal stopped
            self.schedules = at.schedules
            self.coverage = at.coverage
            stopped = stop(at)
            return stopped or enough(at)

        found = search.explore(look) or search
        assert isinstance(found, ReducedSearch)
        return found, stopped or bool(found.failures) or (found.exhausted and not found.cut)
