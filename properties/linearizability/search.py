"""The search for one order of a key's operations that explains every reply (Wing and Gong, and Lowe).

First the times of operations are narrowed (`narrow`). Most objects are written once. Such an object is at
its key for one unbroken stretch of time: from its write to the write that replaces it. Every operation that
read it did so within that stretch, so

- its write took effect before the first of its readers returned (and if its reply was lost, this
  proves that it took effect);
- they took effect after the write was called, and the one that replaced it by if-match after all others;
- between the earliest return and the latest call among them nothing can have happened that contradicts that
  object: an operation called in between took effect after it, one that returned in between, before it.

Each rule only removes moments at which an operation cannot have happened. An operation without a moment left
is a violation found without search; the few that are left with a choice are quickly searched. Times are
closed intervals, as everywhere here: equal times count as overlapping.

A configuration of the search is how far an order has come: which operations are in it, and which object the
key holds. An operation may come next when no missing one had returned before it was called. Operations in
order of their calls are done up to `base`, and beyond it as `mask` records, so that a configuration is small
however long the history is, and the same one reached twice is expanded once.

These rules keep the search short, and lose nothing:

- An operation that changes nothing and fits now is taken at once: if it fits later, it fits now too.
- Of equal writes, the one that has to return first goes first (they are interchangeable).
- A *loose* write (outcome unknown) is never needed for its own sake. It lands only right before an operation
  that was impossible without it; any other landing could be removed from the order.
- An object is not overwritten while some operation still has to read it and nothing can bring it back.

Known holes, each pinned by a test of the same name:

- `aba`: an object that went away and came back with the same bytes is the same object. A reader cannot
  distinguish them, so a history in which it matters is accepted.
- `upload memory`: conditions on completing an upload are checked against the object at that time. That S3
also
  refuses when something was written since the upload was created is not checked.
- `listings` are not about one key and are not checked.
"""

import bisect
import enum
import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fencepost.model.store_reference import Standing
from fencepost.properties.linearizability.history import NEVER, OTHER, Move


class Found(enum.Enum):
    AN_ORDER = enum.auto()
    NO_ORDER = enum.auto()
    OUT_OF_STEPS = enum.auto()


class _At(NamedTuple):
    base: int
    mask: int
    standing: Standing
    loose: int
    """The loose writes that have landed, a bit each."""
    bound: frozenset[tuple[Hashable, str]]
    """The ETag chosen for each content, where there was a choice."""
    owing: tuple[Standing] | None
    """The object before a loose write landed that has not been of use yet."""


class _Seen:
    """The configurations that were expanded.

    A configuration that is as far, with the same object, and has used fewer loose writes, can do all that
    another can: if it led nowhere, so does the other.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[object, ...], list[tuple[int, tuple[Standing] | None]]] = defaultdict(list)

    def covers(self, at: _At) -> bool:
        return any(
            not loose & ~at.loose and (owing is None or owing == at.owing)
            for loose, owing in self._seen.get((at.base, at.mask, at.standing, at.bound), ())
        )

    def add(self, at: _At) -> None:
        self._seen[at.base, at.mask, at.standing, at.bound].append((at.loose, at.owing))


class Search:
    """One key's operations; `run` looks for an order."""

    def __init__(self, moves: Sequence[Move]) -> None:
        in_order = sorted(moves, key=lambda move: move.called)
        self._firm = [move for move in in_order if not move.loose]
        self._loose = [move for move in in_order if move.loose]
        self._called = [move.called for move in self._firm]
        self._returned = [move.returned for move in self._firm]
        self._seekers: dict[Standing, int] = defaultdict(int)
        self._makers: dict[Standing, int] = defaultdict(int)
        self._loose_makers: dict[Standing, int] = defaultdict(int)
        for at, move in enumerate(self._firm):
            if move.constrained:
                self._seekers[move.needs] |= 1 << at
            for left in move.left() if move.changes else ():
                self._makers[left] |= 1 << at
        for at, move in enumerate(self._loose):
            for left in move.left():
                self._loose_makers[left] |= 1 << at
        self._puzzles = any(move.contents.puzzles for move in moves)
        self.steps = 0

    def run(self, steps_max: int) -> Found:
        """Depth first, on a stack of our own; no configuration is expanded twice."""
        stack = [iter((_At(0, 0, None, 0, frozenset(), None),))]
        seen = _Seen()
        while stack:
            at = next(stack[-1], None)
            if at is None:
                stack.pop()
                continue
            at = self._settle(at)
            if at.base == len(self._firm):
                return Found.AN_ORDER
            if seen.covers(at):
                continue
            if self.steps >= steps_max:
                return Found.OUT_OF_STEPS
            self.steps += 1
            seen.add(at)
            stack.append(self._next(at))
        return Found.NO_ORDER

    def _settle(self, at: _At) -> _At:
        """Take every operation that changes nothing and fits."""
        base, mask, owing = at.base, at.mask, at.owing
        again = True
        while again:
            again = False
            for index in self._open(base, mask):
                move = self._firm[index]
                if not move.changes and move.outcomes(at.standing):
                    # Without the loose write it would have been taken before, so the write was of use.
                    mask |= 1 << (index - base)
                    owing = None
                    again = True
            while mask & 1:
                base, mask = base + 1, mask >> 1
        return at._replace(base=base, mask=mask, owing=owing)

    def _open(self, base: int, mask: int) -> list[int]:
        """The firm operations that may come next."""
        found = []
        limit = NEVER
        for index in range(base, len(self._firm)):
            if self._called[index] > limit:
                break
            if not mask >> (index - base) & 1:
                found.append(index)
                limit = min(limit, self._returned[index])
        return found

    def _next(self, at: _At) -> Iterator[_At]:
        indices = self._open(at.base, at.mask)
        yield from self._firm_next(at, indices)
        limit = min(self._returned[index] for index in indices)
        yield from self._loose_next(at, limit)

    def _firm_next(self, at: _At, indices: Sequence[int]) -> Iterator[_At]:
        """Apply one of the writes with a reply, the one that returned first before the others."""
        tried = set()
        for index in sorted(indices, key=self._returned.__getitem__):
            move = self._firm[index]
            if not move.changes or move.alike in tried or self._useless(at, move):
                continue
            tried.add(move.alike)
            mask = at.mask | 1 << (index - at.base)
            for left in move.outcomes(at.standing):
                bound = _bind(at.bound, move, left)
                if bound is not None and self._keeps(at, left, mask, at.loose):
                    yield _At(at.base, mask, left, at.loose, bound, None)

    def _loose_next(self, at: _At, limit: int) -> Iterator[_At]:
        tried = set()
        for index, move in enumerate(self._loose):
            if move.called > limit:
                break
            if at.loose >> index & 1 or move.alike in tried or self._useless(at, move):
                continue
            tried.add(move.alike)
            loose = at.loose | 1 << index
            for left in move.outcomes(at.standing):
                bound = _bind(at.bound, move, left)
                if left != at.standing and bound is not None and self._keeps(at, left, at.mask, loose):
                    yield _At(at.base, at.mask, left, loose, bound, (at.standing,))

    def _useless(self, at: _At, move: Move) -> bool:
        """Return True if the loose write that landed last changes nothing for `move`."""
        return at.owing is not None and bool(move.outcomes(at.owing[0]))

    def _keeps(self, at: _At, left: Standing, mask: int, loose: int) -> bool:
        """Return True if all readers of the current object have read it, or it can still come back."""
        if left == at.standing:
            return True
        seekers = self._seekers.get(at.standing, 0) >> at.base & ~mask
        taken = not self._puzzles and (None, at.standing) in at.bound
        if not seekers or taken:
            return not seekers
        firm = self._makers.get(at.standing, 0) >> at.base & ~mask
        return bool(firm or self._loose_makers.get(at.standing, 0) & ~loose)


def _bind(
    bound: frozenset[tuple[Hashable, str]], move: Move, left: Standing
) -> frozenset[tuple[Hashable, str]] | None:
    """Record the ETag chosen for a content; None when another was chosen before.

    For a content that is written once, record only that the ETag is in use.
    """
    if left is None or len(move.options) < 2 or move.contents.free(move.operation):
        return bound
    content = move.contents.content(move.operation)
    if content is None and left == OTHER:
        return bound
    for other, etag in bound:
        same = content is not None and other == content
        if (same and etag != left) or (etag == left != OTHER and not same):
            return None
    return bound | {(content, left)}


ROUNDS_MAX = 20
"""Narrowing one operation can narrow another. Stopping early loses speed, never correctness."""


@dataclass(slots=True)
class _Life:
    """Everything that certainly happened while the key held one object."""

    standing: Standing
    write: Move
    saw: list[Move]
    replaced: list[Move]
    """The operations that read it and left another object."""

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
    """The objects that were read and have only one possible origin."""
    origins: dict[Standing, list[Move]] = defaultdict(list)
    saw: dict[Standing, list[Move]] = defaultdict(list)
    for move in moves:
        for left in move.left() if move.changes else ():
            origins[left].append(move)
        if move.constrained and move.needs is not None:
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
    """Move operations that contradict an object out of the time in which the key certainly held it."""
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
    """Return True if `move` cannot have happened while the key certainly held the object."""
    return move.changes or not move.outcomes(life.standing)
