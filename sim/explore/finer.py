"""Second search of a program whose threads share what they change: other threads may go on between two lines.

The first search takes the code of a thread between two requests, or between two uses of a lock, for one step.
Where its threads share nothing that one of them changes, that is exact, and there is no second search. Else
the names of what they share are known, and threads also pause before each line of the user's code that has
one of them (see `sim.threads.lines`). The second search is without faults. It ends after `SCHEDULES` runs, or
as many steps as the first one took if these are more: its extent depends on the program, and on no clock. The
bound of the verdict names what was left out.

A first search with many faults may take hours, or never end. So once it took `RUNS_BEFORE` runs, it is
interrupted by a second search, which is without faults and therefore short.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Setting
from fencepost.sim.explore.sampling import stop_after
from fencepost.sim.explore.watchdog import Limit, watching
from fencepost.sim.threads import lines
from fencepost.sim.world import NO_FAULTS

if TYPE_CHECKING:
    from fencepost.sim.explore.audit import AuditRequest

SCHEDULES = 1_000
"""Runs of the second search, unless the first one took more steps."""
RUNS_BEFORE = 500
"""Runs of the first search before it is interrupted by a second one."""
FIRST_PART = 0.75
"""Part of a limited time that the first search may take, where there is to be a second one."""
NAMES_SHOWN = 4
ONE_STEP = "the code of a thread between two requests or uses of a lock is one step"


@dataclass(frozen=True)
class Between:
    """Outcome of the second search."""

    failed: Any = None
    """The search, if it found a violation."""
    clauses: list[str] = field(default_factory=list)
    """Parts of the schedules that were left out, as clauses of the bound."""


class EarlyLook:
    """A second search that interrupts a long first one."""

    def __init__(self, request: "AuditRequest") -> None:
        self._request = request
        self._names: frozenset[str] = frozenset()
        self._next = RUNS_BEFORE
        self.failed: ReducedSearch | None = None
        """The search, if it found a violation."""

    def finds(self, first: Any, runs: int, is_over: Callable[[Any], bool]) -> bool:
        """Look, if it is time to, and return True if a violation was found; `runs`: of the first search."""
        if runs < self._next or not isinstance(first, ReducedSearch):
            return False
        self._next = 4 * runs
        names = first.setting.sharing.names
        if names == self._names or not lines.apply(first.setting.program, names):
            return False
        self._names = names
        search = _second(first.setting, self._request)
        search.explore(lambda at: is_over(at) or at.runs >= SCHEDULES)
        self.failed = search if search.failures else None
        return self.failed is not None


def _second(setting: Setting, request: "AuditRequest") -> ReducedSearch:
    names = setting.sharing.names
    return ReducedSearch(
        replace(setting, lines=names, budget=NO_FAULTS, faults_max=None, steps_max=request.steps_max)
    )


def between_lines(
    request: "AuditRequest", searched: Any, elapsed: float, interrupted: Callable[[], bool]
) -> Between:
    """Return what schedules with pauses between lines show, after a first search that found no violation."""
    if searched.failures or not searched.coverage.threaded:
        return Between()
    if not isinstance(searched, ReducedSearch):
        return Between(clauses=[ONE_STEP])
    names = searched.setting.sharing.names
    if not names:
        return Between()
    shared = f"threads share {_listed(names)}"
    if not lines.apply(searched.setting.program, names):
        return Between(clauses=[f"{ONE_STEP}, although {shared}"])
    search = _second(searched.setting, request)
    limit, time_left = stop_after(None, request.schedules), Limit(None)

    def enough(at: ReducedSearch) -> bool:
        return request.schedules is None and at.runs >= SCHEDULES and at.steps >= searched.steps

    if request.seconds is not None:
        time_left = Limit(max(1.0, request.seconds - elapsed), cpu=request.cpu)
        limit = stop_after(time_left.seconds, request.schedules, time_left)
    with watching(time_left.is_over, interrupted):
        search.explore(lambda at: limit(at) or interrupted() or enough(at))
    if search.failures:
        return Between(failed=search)
    if search.exhausted and not search.cut:
        faults = " without faults" if request.budget != NO_FAULTS else ""
        limits = sorted(search.coverage.limits - searched.coverage.limits)
        return Between(clauses=[f"{shared}: they take turns between lines{faults}", *limits])
    tried = f"{search.schedules} schedules with turns between lines were tried, not all"
    return Between(clauses=[f"{ONE_STEP}, although {shared}: {tried}"])


def _listed(names: frozenset[str]) -> str:
    shown = sorted(names)[:NAMES_SHOWN]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more names" if more else "")
