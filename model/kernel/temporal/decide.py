"""Properties about whole runs: `eventually` and `always_recoverable`.

    eventually           every run from a start reaches the goal that is fair to the actions that the property
                         names (`language/fairness.py`). Counterexample: a stem to a state where the run may
                         stay forever, or a stem and a loop, all of it without the goal (`lasso.py`).
    always_recoverable   from every reachable state some path leads to the goal (AG EF). Counterexample: the
                         shortest path to a state from which none does.

Runs are those of TLA+: every run may stay where it is forever (stuttering), unless a demand of fairness is
enabled there. Nothing is demanded by itself: `fair=(together(),)` demands that something goes on happening. A
state that `may_end` allows is an end like any other: a run that ends there without the goal has missed it. A
transition that changes nothing is no step of a run.

Both are decided on the graph of the states that avoid the goal (`avoiding.py`), after the whole space has
been explored; if a bound has hidden a part of it the verdict is `undecided`. Memory: 8 bytes a state and word
for the states again (and 8 for the fingerprint of wider ones), up to 59 bytes a state and 12 an edge for the
graph and the work on it; all of it is counted and limited.
"""

import numpy as np

from fencepost.model.kernel.language.declare import Property
from fencepost.model.kernel.language.fairness import demands
from fencepost.model.kernel.language.layout import Mask, packed
from fencepost.model.kernel.report.counterexample import Counterexample, chain, counterexample_of
from fencepost.model.kernel.report.result import PropertyResult
from fencepost.model.kernel.search.explore import Found, Search
from fencepost.model.kernel.temporal.avoiding import Avoiding, TooLarge, build
from fencepost.model.kernel.temporal.digraph import closure, reverse
from fencepost.model.kernel.temporal.lasso import Run, shortest_run


def decide(
    search: Search, wanted: Property, *, memory: int | None = None, workers: int | None = None
) -> PropertyResult:
    """The verdict on one temporal property after an exploration."""
    if not search.complete:
        return PropertyResult.of(wanted, "undecided", reason=search.reason)
    try:
        avoiding = build(search, wanted, memory=memory, workers=workers)
    except TooLarge as hit:
        return PropertyResult.of(wanted, "undecided", reason=f"stopped by the memory limit: {hit}")
    if wanted.kind == "eventually":
        return _decide_eventually(search, wanted, avoiding)
    return _decide_recoverable(search, wanted, avoiding)


def _decide_eventually(search: Search, wanted: Property, avoiding: Avoiding) -> PropertyResult:
    places, inside = avoiding.find(search.levels[0])
    run = shortest_run(avoiding, places.compress(inside), demands(wanted, search.model.labels))
    if run is None:
        return PropertyResult.of(wanted, "holds")
    if run.loop:
        reason = "a fair run goes on forever without it"
    elif avoiding.ends[run.nodes[-1]]:
        reason = "a run can end without it"
    else:
        reason = "a run can stay in the last state forever without it, for no fairness demands a step there"
    return PropertyResult.of(wanted, "violated", _counterexample(avoiding, run), reason)


def _decide_recoverable(search: Search, wanted: Property, avoiding: Avoiding) -> PropertyResult:
    everywhere = np.ones(len(avoiding), np.bool_)
    back = closure(reverse(avoiding.forward), np.flatnonzero(avoiding.leaves), everywhere)
    found = _first_of(search, avoiding, ~back)
    if found is None:
        return PropertyResult.of(wanted, "holds")
    steps = chain(search.model, search.levels, found.depth, found.state)
    counterexample = counterexample_of(search.model, *search.model.lifted(steps, found.state))
    return PropertyResult.of(wanted, "violated", counterexample, "from there it can never be reached again")


def _first_of(search: Search, avoiding: Avoiding, wanted: Mask) -> Found | None:
    """Where the exploration first met one of the wanted nodes."""
    if not wanted.any():
        return None
    for depth, level in enumerate(search.levels):
        places, inside = avoiding.find(level)
        rows = np.flatnonzero(inside & wanted.take(places))
        if len(rows):
            return Found(depth, packed(level, int(rows[0])))
    raise AssertionError("every node was met by the exploration")


def _counterexample(avoiding: Avoiding, run: Run) -> Counterexample:
    states = [avoiding.packed(node) for node in run.nodes]
    return counterexample_of(
        avoiding.model, list(zip(states, run.labels, strict=False)), states[-1], run.loop
    )
