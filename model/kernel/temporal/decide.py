"""Properties about whole runs: `eventually`, `infinitely_often`, `leads_to` and `always_recoverable`.

    eventually           every run from a start reaches the goal that is fair to the actions that the property
                         names (`language/fairness.py`). Counterexample: a stem to a state where the run may
                         stay forever, or a stem and a loop, all of it without the goal (`lasso.py`).
    infinitely_often     the same from every reachable state, so the goal comes again and again.
    leads_to             the same from every reachable state where the first of its two conditions holds; the
                         second is the goal.
    always_recoverable   from every reachable state some path leads to the goal (AG EF). Counterexample: the
                         shortest path to a state from which none does.

Runs are those of TLA+: every run may stay where it is forever (stuttering), unless a demand of fairness is
enabled there. Nothing is demanded by itself: `fair=(together(),)` demands that something goes on happening. A
state that `may_end` allows is an end like any other: a run that ends there without the goal has missed it. A
transition that changes nothing is no step of a run.

Both are decided on the graph of the states that avoid the goal (`avoiding.py`), after the whole space has
been explored; if a bound has hidden a part of it the verdict is `undecided`. Memory: 8 bytes a state and word
for the states again (and 8 for the fingerprint of wider ones), up to 59 bytes a state and 12 an edge for the
graph and the work on it. All of it is counted and limited.
"""

import numpy as np

from fencepost.model.kernel.language.declare import Property
from fencepost.model.kernel.language.fairness import demands
from fencepost.model.kernel.language.kinds import OfRuns
from fencepost.model.kernel.language.layout import I64, Mask, PackedState, packed
from fencepost.model.kernel.language.model import Transition
from fencepost.model.kernel.report.counterexample import Counterexample, chain, counterexample_of
from fencepost.model.kernel.report.result import PropertyResult
from fencepost.model.kernel.search.explore import Found, Search
from fencepost.model.kernel.temporal.avoiding import Avoiding, TooLarge, build
from fencepost.model.kernel.temporal.digraph import closure, reverse
from fencepost.model.kernel.temporal.lasso import Run, shortest_run


def decide_of_runs(
    search: Search, wanted: Property, *, memory: int | None = None, workers: int | None = None
) -> PropertyResult:
    """The verdict on a property of fair runs; the first case that a run misses decides."""
    if not search.complete:
        return PropertyResult.of(wanted, "undecided", reason=search.reason)
    try:
        return _decide_of_runs(search, wanted, memory=memory, workers=workers)
    except TooLarge as hit:
        return PropertyResult.of(wanted, "undecided", reason=f"stopped by the memory limit: {hit}")


def decide_recoverable(
    search: Search, wanted: Property, *, memory: int | None = None, workers: int | None = None
) -> PropertyResult:
    """The verdict on an `always_recoverable`."""
    if not search.complete:
        return PropertyResult.of(wanted, "undecided", reason=search.reason)
    try:
        avoiding = build(search, wanted, memory=memory, workers=workers)
    except TooLarge as hit:
        return PropertyResult.of(wanted, "undecided", reason=f"stopped by the memory limit: {hit}")
    return _decide_recoverable(search, wanted, avoiding)


def _decide_of_runs(
    search: Search, wanted: Property, *, memory: int | None, workers: int | None
) -> PropertyResult:
    for text, goal, trigger in wanted.cases(search.model.sizes):
        avoiding = build(search, goal, memory=memory, workers=workers)
        begin, before = _begin(search, wanted, avoiding, trigger)
        run = shortest_run(avoiding, begin, demands(wanted, search.model.labels), before)
        if run is not None:
            prefix = chain(search.model, search.levels, *_met_at(search, avoiding, run.nodes[0]))
            since = "" if trigger is None else f", after what leads to it in step {len(prefix)}"
            reason = _reason(avoiding, run) + since + (f" (with {text})" if text else "")
            return PropertyResult.of(wanted, "violated", _counterexample(avoiding, run, prefix), reason)
    return PropertyResult.of(wanted, "holds")


def _begin(search: Search, wanted: Property, avoiding: Avoiding, trigger: Property | None) -> tuple[I64, I64]:
    """The nodes from which no fair run may avoid the goal, and the steps to each of them."""
    assert isinstance(wanted.kind, OfRuns)
    if wanted.kind.from_starts:
        places, inside = avoiding.find(search.levels[0])
        begin = places.compress(inside)
        return begin, np.zeros(len(begin), np.int64)
    before = np.zeros(len(avoiding), np.int64)
    for depth, level in enumerate(search.levels):
        for start in range(0, level.shape[1], _CHUNK):
            places, inside = avoiding.find(level[:, start : start + _CHUNK])
            before[places.compress(inside)] = depth
    begins = np.ones(len(avoiding), np.bool_)
    if trigger is not None:
        for start in range(0, len(avoiding), _CHUNK):
            states = avoiding.nodes.states[:, start : start + _CHUNK]
            begins[start : start + _CHUNK] = search.model.holds(trigger, states)
    begin = np.flatnonzero(begins)
    return begin, before.take(begin)


def _met_at(search: Search, avoiding: Avoiding, node: int) -> tuple[int, PackedState]:
    """The level and the state of a node."""
    only = np.zeros(len(avoiding), np.bool_)
    only[node] = True
    found = _first_of(search, avoiding, only)
    assert found is not None
    return found.depth, found.state


def _reason(avoiding: Avoiding, run: Run) -> str:
    if run.loop is not None:
        return "a fair run goes on forever without it"
    if avoiding.ends[run.nodes[-1]]:
        return "a run can end without it"
    return "a run can stay in the last state forever without it, for no fairness demands a step there"


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


def _counterexample(avoiding: Avoiding, run: Run, prefix: list[Transition]) -> Counterexample:
    states = [avoiding.packed(node) for node in run.nodes]
    steps = [*prefix, *zip(states, run.labels, strict=False)]
    loop = None if run.loop is None else run.loop + len(prefix)
    return counterexample_of(avoiding.model, steps, states[-1], loop)


_CHUNK = 1 << 15
