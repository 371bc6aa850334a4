"""Four gallons with a jug of three and one of five."""

from fencepost.model import *


class DieHard(Machine):
    """Four gallons with a jug of three and one of five."""

    small = Int(0, 3)
    big = Int(0, 5)

    @action
    def fill_small(s) -> None:
        s.small = 3

    @action
    def fill_big(s) -> None:
        s.big = 5

    @action
    def empty_small(s) -> None:
        s.small = 0

    @action
    def empty_big(s) -> None:
        s.big = 0

    @action
    def small_to_big(s) -> None:
        moved = least([s.small, 5 - s.big])
        s.big, s.small = s.big + moved, s.small - moved

    @action
    def big_to_small(s) -> None:
        moved = least([s.big, 3 - s.small])
        s.small, s.big = s.small + moved, s.big - moved

    @invariant
    def not_four(s) -> Truth:
        """Violated: the counterexample is the solution."""
        return s.big != 4
