"""Dijkstra's detection of termination in a ring (EWD 840)."""

from fencepost.model import *


class TokenRing(Machine):
    """Dijkstra's detection of termination in a ring (EWD 840)."""

    nodes = Size(4)

    active = Each(nodes, Bool())
    black = Each(nodes, Bool())
    token = Id(nodes)
    token_black = Bool(start=True)

    @initial
    def begin(s) -> None:
        s.active = anything()
        s.black = anything()
        s.token = anything()

    @action
    def start_probe(s) -> None:
        s.require((s.token == 0) & (s.token_black | s.black[0]))
        s.token = s.nodes - 1
        s.token_black = False
        s.black[0] = False

    @action(i=nodes)
    def pass_token(s, i: int) -> None:
        s.require(i > 0, s.token == i, ~s.active[i] | s.black[i] | s.token_black)
        s.token = max(i - 1, 0)
        s.token_black = s.token_black | s.black[i]
        s.black[i] = False

    @action(i=nodes, j=nodes)
    def send(s, i: int, j: int) -> None:
        s.require(i != j, s.active[i])
        s.active[j] = True
        s.black[i] = s.black[i] | (j > i)

    @action(i=nodes)
    def stop(s, i: int) -> None:
        s.require(s.active[i])
        s.active[i] = False

    def detected(s) -> Truth:
        return (s.token == 0) & ~s.token_black & ~s.black[0] & ~s.active[0]

    @invariant
    def truthful(s) -> Truth:
        """Termination that is detected has happened."""
        return ~s.detected() | s.active.all(False)

    @leads_to(fair=(together("start_probe", "pass_token"),))
    def is_detected(s) -> tuple[Truth, Truth]:
        """The end is detected."""
        return s.active.all(False), s.detected()

    @may_end
    def over(s) -> Truth:
        return s.active.all(False)
