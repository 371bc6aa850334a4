"""From a walk that happened to find something to the shortest counterexample that can be found quickly.

    explore   from the starts, breadth first, up to a bound: what is found there is a shortest counterexample

and otherwise, each no longer than the one before:

    cut       a state met twice: what lies between is left out
    drop      steps without which the walk still ends where it should are left out (`dropping.py`)
    corridor  breadth first among the states of the walk and their surroundings only
"""

from dataclasses import dataclass

import numpy as np

from fencepost.model.kernel import keys
from fencepost.model.kernel.access import PackedState
from fencepost.model.kernel.check import counterexample
from fencepost.model.kernel.counterexample import Counterexample, chain, tell
from fencepost.model.kernel.declare import Property
from fencepost.model.kernel.dropping import needed, tells
from fencepost.model.kernel.explore import Explorer
from fencepost.model.kernel.keys import Batch
from fencepost.model.kernel.layout import U64
from fencepost.model.kernel.model import Model, Transition
from fencepost.model.kernel.search import Bounds, packed
from fencepost.model.kernel.visited import Visited

EXPLORED = 100_000
"""States that may be explored for a shortest counterexample."""

CORRIDOR = 20_000
"""States around the walk that a counterexample may lead through."""


@dataclass(frozen=True)
class Walk:
    """The transitions of a walk from a start to `end`; for a step property the last one breaks it."""

    steps: tuple[Transition, ...]
    end: PackedState

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def states(self) -> list[PackedState]:
        return [*(state for state, _ in self.steps), self.end]


@dataclass(frozen=True)
class Shortened:
    """A counterexample, and whether no shorter one exists."""

    counterexample: Counterexample
    is_shortest: bool


def shortened(model: Model, walk: Walk, wanted: Property | None) -> Shortened:
    """The shortest known counterexample of what a walk found: a property decided, or (for None) a
    deadlock."""
    bounds = Bounds(max_states=EXPLORED)
    properties = () if wanted is None else (wanted,)
    search = Explorer(model, properties=properties, bounds=bounds, deadlocks=wanted is None).run()
    found = search.deadlock if wanted is None else search.found.get(wanted.name)
    if found is not None:
        return Shortened(counterexample(search, found), True)
    short = _needed(model, wanted, without_loops(walk, but_last=_is_step(wanted)))
    if _is_step(wanted):
        # The last step is the point: only the way to it is shortened further.
        way = _through_corridor(model, None, Walk(short.steps[:-1], short.steps[-1][0]))
        return Shortened(tell(model, [*way.steps, short.steps[-1]], short.end), False)
    found_way = _through_corridor(model, wanted, short)
    return Shortened(tell(model, found_way.steps, found_way.end), False)


def _is_step(wanted: Property | None) -> bool:
    return wanted is not None and wanted.kind == "step"


def _needed(model: Model, wanted: Property | None, walk: Walk) -> Walk:
    """The walk without the steps that it does without."""
    state = _column(walk.states[0])
    steps: list[Transition] = []
    for label in needed(model, wanted, state, [label for _, label in walk.steps]):
        steps.append((packed(state, 0), label))
        state = model.successors(state, label).states
    return Walk(tuple(steps), packed(state, 0))


def without_loops(walk: Walk, *, but_last: bool = False) -> Walk:
    """The walk without what happens between two visits of one state; the last step may be kept as it is."""
    if but_last:
        way = without_loops(Walk(walk.steps[:-1], walk.steps[-1][0]))
        return Walk((*way.steps, walk.steps[-1]), walk.end)
    steps: list[Transition] = []
    place: dict[PackedState, int] = {}
    for state, label in walk.steps:
        _back_to(steps, place, state)
        place[state] = len(steps)
        steps.append((state, label))
    _back_to(steps, place, walk.end)
    return Walk(tuple(steps), walk.end)


def _back_to(steps: list[Transition], place: dict[PackedState, int], state: PackedState) -> None:
    """Forget what was done since a state was met, if it was."""
    if state in place:
        since = place[state]
        for left, _ in steps[since:]:
            del place[left]
        del steps[since:]


def _through_corridor(model: Model, wanted: Property | None, walk: Walk) -> Walk:
    """A shortest way from the walk's start to its end among the states around it."""
    corridor = _around(model, walk.states)
    goal = _column(walk.end)
    level = keys.distinct(_column(walk.states[0]))
    seen, levels = Visited(), []
    while True:
        seen.add(level.keys)
        levels.append(level.states)
        there = (level.states == goal).all(axis=0)
        if wanted is not None:
            there |= tells(model, wanted, level.states, level.states)
        if there.any():
            end = packed(level.states, int(there.argmax()))
            return Walk(tuple(chain(model, levels, len(levels) - 1, end)), end)
        after = _successors(model, level.states)
        level = after.select(~corridor.unseen(after.keys) & seen.unseen(after.keys))


def _around(model: Model, states: list[PackedState]) -> Visited:
    """The keys of some states and of what can be reached from them in a few steps, up to a bound."""
    frontier = keys.distinct(np.array(states, np.uint64).T.copy())
    around = Visited()
    while len(frontier) and len(around) + len(frontier) <= max(CORRIDOR, len(states)):
        around.add(frontier.keys)
        after = _successors(model, frontier.states)
        frontier = after.select(around.unseen(after.keys))
    return around


def _column(state: PackedState) -> U64:
    return np.array(state, np.uint64)[:, np.newaxis]


def _successors(model: Model, states: U64) -> Batch:
    found = [model.successors(states, label).states for label in model.labels]
    return keys.distinct(keys.concatenated(found))
