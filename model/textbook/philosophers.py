"""Dining philosophers: the classic deadlock, and the classic cure.

All take the left fork first; when all have done so, none can go on. With the safeguard the last
philosopher takes the right fork first, which makes a circle of waiting impossible.
"""

from fencepost.model import *


class Philosophers(Machine):
    """Philosophers around a table, a fork between each two of them."""

    seats = Size(4, least=2, most=20, doc="philosophers, and forks")

    safeguards = {
        "one-left-handed": "the last philosopher takes the forks in the other order",
    }

    philosopher = Each(seats, Enum("thinking", "one-fork", "eating"))
    taken = Each(seats, Bool())

    def forks(s, p: int) -> tuple[int, int]:
        """The first and the second fork of a philosopher, in the order they are taken."""
        return (p, p + 1) if p < s.seats - 1 else (0, p)

    @without("one-left-handed", replaces=forks)
    def left_fork_first(s, p: int) -> tuple[int, int]:
        return p, (p + 1) % s.seats

    @action(p=seats)
    def take_first(s, p: int) -> None:
        fork, _ = s.forks(p)
        s.require((s.philosopher[p] == "thinking") & ~s.taken[fork])
        s.taken[fork] = True
        s.philosopher[p] = "one-fork"

    @action(p=seats)
    def take_second(s, p: int) -> None:
        _, fork = s.forks(p)
        s.require((s.philosopher[p] == "one-fork") & ~s.taken[fork])
        s.taken[fork] = True
        s.philosopher[p] = "eating"

    @action(p=seats)
    def put_down(s, p: int) -> None:
        first, second = s.forks(p)
        s.require(s.philosopher[p] == "eating")
        s.taken[first] = False
        s.taken[second] = False
        s.philosopher[p] = "thinking"

    @invariant
    def neighbours_never_both_eat(s) -> Truth:
        """Two neighbours never eat at the same time."""
        eating = [each == "eating" for each in s.philosopher]
        return ~any_of(eating[p] & eating[(p + 1) % s.seats] for p in range(s.seats))

    @reachable
    def somebody_eats(s) -> Truth:
        """A philosopher can eat."""
        return s.philosopher.any("eating")
