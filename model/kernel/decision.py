"""The ways to decide a property after an exploration, for the kinds of properties: see `language.kinds`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from fencepost.model.kernel.language.declare import Property
from fencepost.model.kernel.language.layout import packed
from fencepost.model.kernel.language.model import Model
from fencepost.model.kernel.report.counterexample import found_at
from fencepost.model.kernel.report.result import PropertyResult
from fencepost.model.kernel.search.explore import Found, Search
from fencepost.model.kernel.search.refinement import prove
from fencepost.model.kernel.temporal.decide import decide_of_runs, decide_recoverable

Explore = Callable[[Model], Search]


@dataclass
class Decision:
    """A finished exploration, and the ways to decide a property by it."""

    search: Search
    whole: Search
    """The same without a reduction by symmetry, if a property of runs needs it; else `search`."""
    explore: Explore
    """Explores another model as this one was explored."""
    memory: int | None = None
    workers: int | None = None
    keep_going: bool = False
    notes: list[str] = field(default_factory=list)
    vacuity_warnings: list[str] = field(default_factory=list)
    decided: dict[str, PropertyResult] = field(default_factory=dict)
    is_broken: bool = False
    """A property that is no goal is violated."""

    def decide(self, properties: Iterable[Property]) -> None:
        """Decide properties in this order; those that take an exploration of their own come last."""
        for wanted in sorted(properties, key=lambda each: each.kind.explores):
            found = self.decided[wanted.name] = wanted.kind.decide(wanted, self)
            self.is_broken |= found.verdict == "violated" and not wanted.kind.is_goal

    def of_finding(self, wanted: Property) -> PropertyResult:
        """The verdict on a property of states or steps, by the search's first finding."""
        return self._of(wanted, self.search.found.get(wanted.name))

    def of_deadlock(self, wanted: Property) -> PropertyResult:
        """The verdict on the states where nothing can happen."""
        return self._of(wanted, self.search.deadlock)

    def _of(self, wanted: Property, found: Found | None) -> PropertyResult:
        search, is_goal = self.search, wanted.kind.is_goal
        if wanted.starts is not None:
            right = search.model.holds(replace(wanted, function=wanted.starts), search.levels[0])
            if not right.all():
                start = found_at(search, Found(0, packed(search.levels[0], int(right.argmin()))))
                return PropertyResult.of(wanted, "violated", start, "no start of the other machine")
        if found is not None:
            return PropertyResult.of(wanted, "holds" if is_goal else "violated", found_at(search, found))
        if not search.complete:
            return PropertyResult.of(wanted, "undecided", reason=search.reason)
        if is_goal and search.cut:
            return PropertyResult.of(wanted, "undecided", reason=what_was_cut(search))
        if is_goal:
            return PropertyResult.of(wanted, "violated", reason="no reachable state satisfies it")
        return PropertyResult.of(wanted, "holds")

    def of_runs(self, wanted: Property) -> PropertyResult:
        """The verdict on a property of fair runs."""
        if self.whole.cut:
            return PropertyResult.of(wanted, "undecided", reason=what_was_cut(self.whole))
        return decide_of_runs(self.whole, wanted, memory=self.memory, workers=self.workers)

    def of_recovery(self, wanted: Property) -> PropertyResult:
        """The verdict on whether a state can be reached from everywhere."""
        if self.search.cut:
            return PropertyResult.of(wanted, "undecided", reason=what_was_cut(self.search))
        return decide_recoverable(self.search, wanted, memory=self.memory, workers=self.workers)

    def of_refinement(self, wanted: Property) -> PropertyResult:
        """The verdict on a refinement, by an exploration of both machines; none after a violation."""
        if not self.search.complete:
            return PropertyResult.of(wanted, "undecided", reason=self.search.reason)
        if self.is_broken and not self.keep_going:
            return PropertyResult.of(wanted, "undecided", reason="another property is violated first")
        found, notes, untested = prove(wanted, self.search.model, self.explore)
        self.notes += notes
        self.vacuity_warnings += untested
        return found


def what_was_cut(search: Search) -> str:
    """Return a text on the states that the bounds of the machine left out."""
    names = " and ".join(each.name for each in search.model.bounds)
    return f"the bound {names} cut {search.cut:,} states"
