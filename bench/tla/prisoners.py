"""Prisoners visit a room with two switches one by one, and count their visits without talking."""

from fencepost.model import *


class Prisoners(Machine):
    """Everybody but the counter, prisoner 0, sets switch A up twice; the counter sets it down and counts."""

    prisoners = Size(3, least=2)

    a, b = Bool(), Bool()
    times = Each(prisoners, Int(0, 2))
    count = Int(0, 2 * prisoners - 1)

    @initial
    def begin(s) -> None:
        s.a, s.b = anything(), anything()

    @action(p=prisoners)
    def visit(s, p: int) -> None:
        if p == 0:
            s.count += pick(s.a, 1, 0)
            s.b = pick(s.a, s.b, ~s.b)
            s.a = False
        else:
            sets = ~s.a & (s.times[p] < 2)
            s.times[p] += pick(sets, 1, 0)
            s.b = pick(sets, s.b, ~s.b)
            s.a = s.a | sets

    def knows(s) -> Truth:
        return s.count >= 2 * s.prisoners - 2

    @invariant(p=prisoners)
    def truthful(s, p: int) -> Truth:
        """The counter knows only what is so: everybody was in the room."""
        return (p == 0) | implies(s.knows(), s.times[p] > 0)

    knowing = eventually("The counter knows in the end.", fair=("visit",))(lambda s: s.knows())
