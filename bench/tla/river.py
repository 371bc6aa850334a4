"""Missionaries and cannibals cross a river."""

from fencepost.model import *


class River(Machine):
    """A boat of two; on neither bank may cannibals outnumber missionaries."""

    each = Size(3, doc="missionaries, and cannibals")

    missionaries = Int(0, each, start=3)  # on the first bank
    cannibals = Int(0, each, start=3)
    boat = Bool(start=True)

    @action(m=3, c=3)
    def cross(s, m: int, c: int) -> None:
        s.require(1 <= m + c <= 2)
        sign = pick(s.boat, -1, 1)
        missionaries, cannibals = s.missionaries + sign * m, s.cannibals + sign * c
        s.require(all_of((n >= 0) & (n <= s.each) for n in (missionaries, cannibals)))
        s.require((missionaries == cannibals) | (missionaries == 0) | (missionaries == s.each))
        s.missionaries, s.cannibals, s.boat = missionaries, cannibals, ~s.boat

    unsolved = invariant("Violated: the counterexample is the way across.")(
        lambda s: (s.missionaries + s.cannibals > 0) | s.boat
    )
