"""A sliding puzzle of two rows and three columns."""

from fencepost.model import *


class SlidingPuzzle(Machine):
    """Number 0 is the hole; a neighbour slides into it."""

    place = Each(6, Int(0, 5))

    @initial
    def begin(s) -> None:
        for number, tile in enumerate((3, 0, 5, 1, 4, 2)):
            s.place[number] = tile

    @action(hole=6, other=6)
    def slide(s, hole: int, other: int) -> None:
        beside = abs(hole // 3 - other // 3) + abs(hole % 3 - other % 3) == 1
        s.require(beside, s.place[hole] == 0)
        s.place[hole] = s.place[other]
        s.place[other] = 0

    unsolved = invariant("Violated: the counterexample is the solution.")(
        lambda s: s.place != (0, 1, 2, 3, 4, 5)
    )
