"""Narrowing when each operation can have taken effect, before anything is searched.

Most objects are written once. Such an object stands at its key for one unbroken stretch of time: from its
write to whatever replaces it. Everything that saw it saw it within that stretch, so

- its write took effect before the first of those who saw it returned (and if its reply was lost, this
  is the proof that it landed);
- they took effect after the write was called, and the one that replaced it by if-match after all others;
- between the earliest return and the latest call among them nothing can have happened that does not go
  with that object: whoever was called in between took effect after it, whoever returned, before it.

Each rule can only take away moments at which an operation cannot have happened. An operation without a
moment left is a violation found without search; and the few that are left with a choice are quickly
searched. Times are closed intervals, as everywhere here: equal times count as overlapping.
"""

import bisect
import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.model.store_reference import Standing
from fencepost.properties.linearizability.moves import Move

ROUNDS_MAX = 20
"""Narrowing one operation can narrow another. Stopping early loses speed, never correctness."""


@dataclass(slots=True)
class _Life:
    """All that certainly happened while one object stood at the key."""

    standing: Standing
    write: Move
    saw: list[Move]
    replaced: list[Move]
    """Of those who saw it, the ones that left something else."""

    @property
    def first(self) -> int:
        return min(self.write.returned, *(move.returned for move in self.saw))

    @property
    def last(self) -> int:
        return max(self.write.called, *(move.called for move in self.saw))


def narrow(moves: Sequence[Move]) -> bool:
    """Narrow the moves' times in place; False when that alone shows that no order exists."""
    lives = _lives(moves)
    for life in lives:
        life.write.loose = False
    for _ in range(ROUNDS_MAX):
        before = [(move.called, move.returned) for move in moves]
        if not all(_narrow_own(life) for life in lives) or not _narrow_others(moves, lives):
            return False
        if any(move.called > move.returned for move in moves):
            return False
        if before == [(move.called, move.returned) for move in moves]:
            return True
    return True


def _lives(moves: Sequence[Move]) -> list[_Life]:
    """The objects that were seen and of which only one operation can be the origin."""
    origins: dict[Standing, list[Move]] = defaultdict(list)
    saw: dict[Standing, list[Move]] = defaultdict(list)
    for move in moves:
        for left in move.left() if move.changes else ():
            origins[left].append(move)
        if move.picky and move.needs is not None:
            saw[move.needs].append(move)
    return [
        _Life(what, origins[what][0], seen, [move for move in seen if move.changes])
        for what, seen in saw.items()
        if len(origins[what]) == 1 and len(origins[what][0].options) == 1
    ]


def _narrow_own(life: _Life) -> bool:
    if len(life.replaced) > 1:
        return False
    life.write.returned = min(life.write.returned, life.first)
    for move in life.saw:
        move.called = max(move.called, life.write.called)
    for last in life.replaced:
        last.called = max(last.called, life.last)
        for move in life.saw:
            move.returned = min(move.returned, last.returned)
    return True


def _narrow_others(moves: Sequence[Move], lives: Sequence[_Life]) -> bool:
    """Push what does not go with an object out of the time in which that object certainly stood there."""
    stretches = sorted(
        ((life.first, life.last, life) for life in lives if life.first < life.last),
        key=lambda stretch: stretch[:2],
    )
    if any(after[0] < before[1] for before, after in itertools.pairwise(stretches)):
        return False
    starts = [first for first, _, _ in stretches]
    ends = [last for _, last, _ in stretches]
    for move in moves:
        at = bisect.bisect_left(starts, move.called) - 1
        while (
            0 <= at < len(stretches) and starts[at] < move.called < ends[at] and _bars(stretches[at][2], move)
        ):
            move.called = ends[at]
            at = bisect.bisect_left(starts, move.called) - 1
        at = bisect.bisect_left(starts, move.returned) - 1
        while (
            0 <= at < len(stretches)
            and starts[at] < move.returned < ends[at]
            and _bars(stretches[at][2], move)
        ):
            move.returned = starts[at]
            at = bisect.bisect_left(starts, move.returned) - 1
    return True


def _bars(life: _Life, move: Move) -> bool:
    """Whether `move` cannot have happened while the object certainly stood there."""
    return move.changes or not move.outcomes(life.standing)
