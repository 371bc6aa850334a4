"""The kinds of properties: when a search judges each, and what decides it.

A kind is one class. Its attributes say when a search judges a property and which finding decides it; its
method `decide` returns the verdict after an exploration, from what `check.Decision` offers. Whatever shows
verdicts (text, JSON, reports) has the name of the kind, and needs nothing else of it.

    class Unreachable(Kind):
        name = "unreachable"
        judged = Judged.STATES
        decided_by = True                       # a state in which it is true is the counterexample

    @declares(Unreachable())
    def overwritten(s) -> Truth: ...

`declare.declares` makes a decorator of a kind; those in `declare` are made of the kinds below.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from fencepost.model.kernel.language.columns import Truth, describe, to_truth
from fencepost.model.kernel.language.errors import ModellingMistake, missing_return

if TYPE_CHECKING:
    from fencepost.model.kernel.language.declare import Property


class Judged(Enum):
    """When a search judges a property."""

    STATES = "each state, when it is first reached"
    STEPS = "each transition"
    ENDS = "each state without a successor"
    AFTERWARDS = "the explored space as a whole"


Case = tuple[str, "Property", "Property | None"]
"""A choice of the parameters as text, the goal, and what leads to it (None: everything)."""


class Kind:
    """A kind of property: the facts that a search needs, and the decision."""

    name: str
    judged = Judged.AFTERWARDS
    decided_by = False
    """The value of the property in a state that decides it, where states are judged."""
    is_goal = False
    """Being reached makes it hold; it is violated if no state reaches it."""
    of_runs = False
    """It is about fair runs: no reduction by symmetry applies, and each choice of parameters is a case."""
    explores = False
    """It takes an exploration of its own, so it is decided last."""
    watches_implications = True
    """A condition of `implies` that is true in no reachable state is reported."""

    @property
    def rows(self) -> int:
        """The number of states that its function reads."""
        return 2 if self.judged is Judged.STEPS else 1

    @property
    def is_safe_so_far(self) -> bool:
        """True if a search that has not found a violation yet has judged every state so far."""
        return self.judged in (Judged.STATES, Judged.STEPS) and not self.is_goal

    def decide(self, wanted: "Property", decision: Any) -> Any:
        """The verdict after an exploration: that of the first finding."""
        return decision.of_finding(wanted)

    def conditions(self, wanted: "Property", sizes: Mapping[str, int]) -> "list[Property]":  # of other kinds
        """The conditions on states of which a property consists."""
        return [wanted] if self.watches_implications else []

    def demands_nothing(self, wanted: "Property", reached: Any) -> Iterator[str]:  # of other kinds
        """Sentences on why a property that holds demands nothing of this machine."""
        return iter(())

    def __repr__(self) -> str:
        return self.name


class Condition(Kind):
    """A condition on states that a search reads for its own purposes and that is no property."""

    name = "condition"
    judged = Judged.STATES


class Invariant(Kind):
    """Holds in every reachable state."""

    name = "invariant"
    judged = Judged.STATES


class Step(Kind):
    """Holds for every transition."""

    name = "step"
    judged = Judged.STEPS
    watches_implications = False


class Reachable(Kind):
    """Some reachable state satisfies it."""

    name = "reachable"
    judged = Judged.STATES
    decided_by = True
    is_goal = True


class Deadlock(Kind):
    """Something can always happen, except where the machine may end."""

    name = "deadlock"
    judged = Judged.ENDS
    watches_implications = False

    def decide(self, wanted: "Property", decision: Any) -> Any:
        return decision.of_deadlock(wanted)


class AlwaysRecoverable(Kind):
    """From every reachable state, a state that satisfies it can still be reached."""

    name = "always_recoverable"

    def decide(self, wanted: "Property", decision: Any) -> Any:
        return decision.of_recovery(wanted)

    def demands_nothing(self, wanted: "Property", reached: Any) -> Iterator[str]:
        if all(reached.model.holds(wanted, chunk).all() for chunk in reached.states()):
            yield f"{wanted.name} demands nothing: it is true in every reachable state"


class OfRuns(Kind):
    """A kind of property of fair runs: its goal is reached, in time or again and again."""

    of_runs = True
    from_starts = False
    """Runs are judged from their start, not from every reachable state."""
    why_nothing = "it is true"

    def decide(self, wanted: "Property", decision: Any) -> Any:
        return decision.of_runs(wanted)

    def case(self, wanted: "Property", text: str, given: Mapping[str, object]) -> Case:
        """The case of one choice of the parameters."""
        return text, replace(wanted, function=partial(wanted.function, **given)), None

    def conditions(self, wanted: "Property", sizes: Mapping[str, int]) -> "list[Property]":
        return [each for _, goal, cause in wanted.cases(sizes) for each in (goal, cause) if each is not None]

    def demands_nothing(self, wanted: "Property", reached: Any) -> Iterator[str]:
        cases = [*wanted.cases(reached.model.sizes)]

        def demanded(chunk: Any) -> bool:
            for _, goal, cause in cases:
                missing = ~reached.holds(goal, chunk)
                if missing.any() and (cause is None or (missing & reached.holds(cause, chunk)).any()):
                    return True
            return False

        if not any(demanded(chunk) for chunk in reached.states()):
            yield f"{wanted.name} demands nothing: {self.why_nothing} in every reachable state"


class Eventually(OfRuns):
    """Every fair run comes to satisfy it."""

    name = "eventually"
    from_starts = True

    def demands_nothing(self, wanted: "Property", reached: Any) -> Iterator[str]:
        cases = wanted.cases(reached.model.sizes)
        if all(reached.holds(goal, reached.starts).all() for _, goal, _ in cases):
            yield f"{wanted.name} demands nothing: every run begins with it"


class InfinitelyOften(OfRuns):
    """Every fair run comes to satisfy it again and again."""

    name = "infinitely_often"


class LeadsTo(OfRuns):
    """Whenever the first of two conditions holds, every fair run comes to satisfy the second."""

    name = "leads_to"
    why_nothing = "what leads to it comes with it"

    def case(self, wanted: "Property", text: str, given: Mapping[str, object]) -> Case:
        return text, self._part(wanted, 1, given), self._part(wanted, 0, given)

    def _part(self, wanted: "Property", number: int, given: Mapping[str, object]) -> "Property":
        def part(s: Any) -> Truth:
            pair = wanted.function(s, **given)
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ModellingMistake(
                    f"`{wanted.name}` returns {describe(pair)}{missing_return(pair) or ':'} "
                    "a leads_to returns two conditions, what happens and what must follow"
                )
            return to_truth(pair[number], "leads_to")

        return replace(wanted, function=part)


class Refinement(Kind):
    """Every step is one that another machine allows, by the labels and the mapping that it names."""

    name = "refinement"
    explores = True
    watches_implications = False

    def decide(self, wanted: "Property", decision: Any) -> Any:
        return decision.of_refinement(wanted)
