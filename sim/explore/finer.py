"""Second search of a program whose threads share what they change: other threads may go on between two lines.

The first search takes the code of a thread between two requests, or between two uses of a lock, for one step.
Where its threads share nothing that one of them changes, that is exact, and there is no second search. Else
the names of what they share are known, and threads also pause before each line of the user's code that has
one of them (see `sim.threads.lines`). The second search is without faults and takes as long as the first one,
or `SECONDS`. The bound of the verdict names what was left out.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.sampling import stop_after
from fencepost.sim.explore.watchdog import Limit, watching
from fencepost.sim.threads import lines
from fencepost.sim.world import NO_FAULTS

if TYPE_CHECKING:
    from fencepost.sim.explore.audit import AuditRequest

SECONDS = 5.0
"""Time of the second search, unless the first one took longer."""
SCHEDULES = 1_000
"""Schedules of the second search, unless the first one had more."""
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
    seconds = max(SECONDS, elapsed)
    if request.seconds is not None:
        seconds = min(seconds, max(1.0, request.seconds - elapsed))
    setting = replace(searched.setting, lines=names, budget=NO_FAULTS, steps_max=request.steps_max)
    search = ReducedSearch(setting)
    most = request.schedules or max(SCHEDULES, searched.schedules)
    limit = Limit(seconds, cpu=request.cpu)
    with watching(limit.is_over, interrupted):
        search.explore(stop_after(seconds, most, limit))
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
