"""The towers of Hanoi."""

from fencepost.model import *


class Hanoi(Machine):
    """Disks on three towers; a smaller disk always lies on a larger one."""

    disks = Size(5)
    tower = Each(disks, Id(3))  # the disks from the smallest to the largest

    @action(d=disks, to=3)
    def move(s, d: int, to: int) -> None:
        s.require(s.tower[d] != to)
        s.require(*((s.tower[e] != s.tower[d]) & (s.tower[e] != to) for e in range(d)))
        s.tower[d] = to

    unsolved = invariant("Violated: the counterexample is the solution.")(lambda s: ~s.tower.all(2))
