"""The search of programs in which some process goes on and on: a limit of steps that grows.

A search goes to the end of a run before it turns back. When a run never ends, it turns back near the limit of
steps, tries everything there, and what happens at the beginning in another order waits for ever. So once a
run was cut, the program is searched with few steps first, then with twice as many, up to the limit. Each
of these gets a number of runs only; the last is not limited. Programs whose runs all end are searched once.
"""

from collections.abc import Callable
from dataclasses import replace

from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Setting

STEPS_FIRST = 12
RUNS_EACH = 4_000
"""Runs with one limit."""

Stop = Callable[[ReducedSearch], bool]


class Deepening:
    """The same as `ReducedSearch` for who explores; `explore` returns the search that decided."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.schedules = 0
        """To their end, so far."""

    def explore(self, stop: Stop) -> ReducedSearch:
        whole = ReducedSearch(self.setting)
        if self._explore(whole, stop, lambda search: bool(search.cut)):
            return whole
        steps = STEPS_FIRST
        while steps < self.setting.steps_max:
            part = ReducedSearch(replace(self.setting, steps_max=steps), timed=whole.timed)
            if self._explore(part, stop, lambda search: search.runs >= RUNS_EACH):
                return part
            steps *= 2
        self._explore(whole, stop, lambda _: False)
        return whole

    def _explore(self, search: ReducedSearch, stop: Stop, enough: Stop) -> bool:
        """Whether it decided, or is to end; False when it only had enough."""
        stopped = False

        def look(at: ReducedSearch) -> bool:
            nonlocal stopped
            self.schedules = at.schedules
            stopped = stop(at)
            return stopped or enough(at)

        search.explore(look)
        return stopped or bool(search.failures) or (search.exhausted and not search.cut)
