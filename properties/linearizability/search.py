"""The search for one order of a key's operations that explains every answer (Wing and Gong, and Lowe).

A configuration is how far such an order has come: which operations stand in it already, and what stands
at the key. An operation may come next when none that is still missing had returned before it was called.
Operations in order of their calls are done up to `base`, and beyond it as `mask` says, so that a
configuration is small however long the history is, and the same one reached twice is looked at once.

What keeps the search short, and why nothing is lost by it:

- An operation that changes nothing and fits now is taken at once: if it fits later, it fits now too.
- Of equal writes, the one that has to return first goes first (they could trade places).
- A *loose* write (outcome unknown) is never needed for its own sake. It lands only right before an operation
  that was impossible without it; any other landing could be struck out of the order.
- An object is not overwritten while some operation still has to see it and nothing can bring it back.

Known holes, each pinned by a test of the same name:

- `aba`: an object that went away and came back with the same bytes is the same object. A reader cannot
  tell, so a history in which it matters is accepted.
- `upload memory`: conditions on completing an upload are judged against what stands then. That S3 also
  refuses when something was written since the upload was created is not asked for.
- `listings` are not about one key and are not judged.
"""

import enum
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from fencepost.model.store_reference import Standing
from fencepost.properties.linearizability.contents import OTHER
from fencepost.properties.linearizability.moves import NEVER, Move


class Found(enum.Enum):
    AN_ORDER = enum.auto()
    NO_ORDER = enum.auto()
    OUT_OF_STEPS = enum.auto()


class _At(NamedTuple):
    """A configuration."""

    base: int
    mask: int
    standing: Standing
    loose: int
    """Which loose writes have landed, a bit each."""
    bound: frozenset[tuple[Hashable, str]]
    """Which content was taken to have left which ETag, where that was a choice."""
    owing: tuple[Standing] | None
    """What stood there before a loose write landed that has not been of use yet."""


class _Seen:
    """The configurations that were expanded.

    One that is as far, with the same object there, and has used up fewer loose writes, can do all that
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
            if move.picky:
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
        """Apply one of the writes that were answered, the one that returned first before the others."""
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
        """Whether the loose write that landed last changes nothing for `move`: it need not have landed."""
        return at.owing is not None and bool(move.outcomes(at.owing[0]))

    def _keeps(self, at: _At, left: Standing, mask: int, loose: int) -> bool:
        """Whether everybody who must see what stands now has seen it, or it can still come back."""
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
    """Remember which ETag a content was taken to have; None when that was taken otherwise before.

    Of a content that is written once nobody asks twice: only that the ETag is now taken.
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
