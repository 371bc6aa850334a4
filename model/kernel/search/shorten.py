"""From a walk that happened to violate something to the shortest counterexample that can be found quickly.

    explore   from the starts, breadth first, up to a bound: what is found there is a shortest counterexample

and otherwise, each result no longer than the one before:

    cut       if a state occurs twice, drop the steps between
    drop      drop the steps that the violation does not need. An attempt leaves out a few steps and takes the
              others again from the same start; it succeeds if every label is still enabled and the end still
              decides the property. Attempts are columns, one row each, so trying to leave out every single
              piece costs about as much as trying one. Pieces are halves first, then quarters, down to steps
    corridor  breadth first among the states of the walk and their surroundings only
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fencepost.model.kernel.language.declare import Property
from fencepost.model.kernel.language.kinds import Judged
from fencepost.model.kernel.language.layout import U64, Mask, PackedState, one_row, packed
from fencepost.model.kernel.language.model import Label, Model, Transition
from fencepost.model.kernel.report.counterexample import Counterexample, chain, counterexample_of, found_at
from fencepost.model.kernel.search import keys
from fencepost.model.kernel.search.explore import Bounds, Explorer
from fencepost.model.kernel.search.keys import Batch
from fencepost.model.kernel.search.visited import Visited

EXPLORED = 100_000
"""States that may be explored for a shortest counterexample."""

CORRIDOR = 20_000
"""States around the walk that a counterexample may use."""


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


def shortened(model: Model, walk: Walk, wanted: Property) -> Shortened:
    """The shortest known counterexample of the property that a walk decided."""
    bounds = Bounds(max_states=EXPLORED)
    is_step = wanted.kind.judged is Judged.STEPS
    is_deadlock = wanted.kind.judged is Judged.ENDS
    search = Explorer(model, properties=(wanted,), bounds=bounds, deadlocks=is_deadlock).run()
    found = search.deadlock if is_deadlock else search.found.get(wanted.name)
    if found is not None:
        return Shortened(found_at(search, found), True)
    short = _needed(model, wanted, without_loops(walk, but_last=is_step))
    if is_step:
        # The last step decides: only the path to it is shortened further.
        path = _through_corridor(model, None, Walk(short.steps[:-1], short.steps[-1][0]))
        return Shortened(counterexample_of(model, [*path.steps, short.steps[-1]], short.end), False)
    path = _through_corridor(model, wanted, short)
    return Shortened(counterexample_of(model, path.steps, path.end), False)


def _needed(model: Model, wanted: Property, walk: Walk) -> Walk:
    """The walk without the steps that the violation does not need."""
    state = one_row(walk.states[0])
    steps: list[Transition] = []
    for label in needed(model, wanted, state, [label for _, label in walk.steps]):
        steps.append((packed(state, 0), label))
        state = model.successors(state, label).states
    return Walk(tuple(steps), packed(state, 0))


def without_loops(walk: Walk, *, but_last: bool = False) -> Walk:
    """The walk without the steps between two visits of one state; the last step may be kept as it is."""
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
    """Drop the steps since the last visit of a state, if any."""
    if state in place:
        since = place[state]
        for left, _ in steps[since:]:
            del place[left]
        del steps[since:]


def _through_corridor(model: Model, wanted: Property | None, walk: Walk) -> Walk:
    """A shortest path near the walk from its start to its end, or to where `wanted` is decided."""
    corridor = _around(model, walk.states)
    goal = one_row(walk.end)
    level = keys.distinct(one_row(walk.states[0]))
    seen, levels = Visited(), []
    while len(level):
        seen.add(level)
        levels.append(level.states)
        there = (level.states == goal).all(axis=0)
        if wanted is not None:
            there |= decides(model, wanted, level.states, level.states)
        if there.any():
            end = packed(level.states, int(there.argmax()))
            return Walk(tuple(chain(model, levels, len(levels) - 1, end)), end)
        after = _successors(model, level.states)
        level = after.select(~corridor.unseen(after) & seen.unseen(after))
    return walk  # two states share a fingerprint, and the corridor is broken


def _around(model: Model, states: list[PackedState]) -> Visited:
    """The keys of some states and of states that few steps reach from them, up to a bound."""
    frontier = keys.distinct(np.array(states, np.uint64).T.copy())
    around = Visited()
    while len(frontier) and len(around) + len(frontier) <= max(CORRIDOR, len(states)):
        around.add(frontier)
        after = _successors(model, frontier.states)
        frontier = after.select(around.unseen(after))
    return around


def _successors(model: Model, states: U64) -> Batch:
    found = [model.successors(states, label).states for label in model.labels]
    return keys.distinct(keys.concatenated(found))


def decides(model: Model, wanted: Property, before: U64, after: U64) -> Mask:
    """Where a property is decided by a step, or by the state after it."""
    if wanted.kind.judged is Judged.ENDS:
        stuck: Mask = ~model.may_end(after)
        for label in model.labels:
            stuck[model.successors(after, label).origin] = False
        return stuck
    if wanted.kind.judged is Judged.STEPS:
        return ~model.holds_between(wanted, before, after)
    deciding: Mask = model.holds(wanted, after) == wanted.kind.decided_by
    return deciding


def needed(model: Model, wanted: Property, start: U64, labels: Sequence[Label]) -> list[Label]:
    """The labels of a walk that decides a property, without those that can be left out."""
    kept = list(labels)
    size = len(kept) // 2
    while size:
        pieces = np.zeros((-(-len(kept) // size), len(kept)), np.bool_)
        for row, piece in enumerate(pieces):
            piece[row * size : (row + 1) * size] = True
        free = pieces[_still_decides(model, wanted, start, kept, pieces)]
        if len(free):
            # Each can be left out alone. Try all of them at once, then half of them, and so on.
            shares = [free[: max(1, len(free) >> halvings)] for halvings in range(len(free).bit_length())]
            joined = np.array([share.any(axis=0) for share in shares])
            dropped = joined[int(_still_decides(model, wanted, start, kept, joined).argmax())]
            kept = [label for label, gone in zip(kept, dropped, strict=True) if not gone]
            size = min(size, max(1, len(kept) // 2)) if kept else 0
        else:
            size //= 2
    return kept


def _still_decides(
    model: Model, wanted: Property, start: U64, labels: Sequence[Label], dropped: Mask
) -> Mask:
    """For each attempt, a row of the steps that it leaves out, whether its end decides."""
    states = np.repeat(start, len(dropped), axis=1)
    before = states.copy()
    alive = np.ones(len(dropped), np.bool_)
    for label, gone in zip(labels, dropped.T, strict=True):
        rows = np.flatnonzero(alive & ~gone)
        found = model.successors(states.take(rows, axis=1), label)
        moved = rows.take(found.origin)
        alive[rows] = False
        alive[moved] = True
        before[:, moved] = states[:, moved]
        states[:, moved] = found.states
    if wanted.kind.judged is Judged.STEPS:
        alive &= ~dropped.all(axis=1)  # a step is needed to break a step property
    return alive & decides(model, wanted, before, states)
