"""Mutual exclusion of two."""

from fencepost.model import *


class Peterson(Machine):
    """Mutual exclusion of two."""

    sides = Size(2, most=2)
    side = Process(p=sides)
    wants = Each(sides, Bool())
    turn = Id(2)

    @side.step
    def raise_flag(s, p: int) -> None:
        s.wants[p] = True

    @side.step
    def give_way(s, p: int) -> None:
        s.turn = 1 - p

    @side.step
    def wait(s, p: int) -> None:
        s.require(~s.wants[1 - p] | (s.turn == p))

    @side.step
    def critical(s, p: int) -> None:
        pass

    @side.step(then="raise_flag")
    def leave(s, p: int) -> None:
        s.wants[p] = False

    @invariant
    def exclusion(s) -> Truth:
        """Never both."""
        return s.side.count("critical") <= 1

    @leads_to(fair=(side.fairly(),), p=sides)
    def served(s, p: int) -> tuple[Truth, Truth]:
        """A process that waits gets in."""
        return s.side[p] == "wait", s.side[p] == "critical"
