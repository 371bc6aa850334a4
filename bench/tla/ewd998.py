"""Safra's detection of termination in a ring whose messages take time (EWD 998)."""

from fencepost.model import *


class Ewd998(Machine):
    """A token adds up what each node sent and received; it is black if a node received a message."""

    nodes = Size(3, doc="nodes in the ring")
    most = Size(1, doc="messages on their way to a node, and counted by it", most=9)

    active, black = Each(nodes, Bool()), Each(nodes, Bool())
    counter = Each(nodes, Int(0 - most * nodes, most, start=0))
    pending = Each(nodes, Int(0, most))
    token = Record(at=Int(0, nodes - 1), sum=Int(0 - most * nodes * nodes, most * nodes), black=Bool())

    @initial
    def begin(s) -> None:
        s.active, s.black = anything(), anything()
        s.token = anything(*({"at": n, "sum": 0, "black": True} for n in range(s.nodes)))

    @action
    def start_probe(s) -> None:
        s.require(s.token.at == 0, s.token.black | s.black[0] | (s.token.sum + s.counter[0] > 0))
        s.token = {"at": s.nodes - 1, "sum": 0, "black": False}
        s.black[0] = False

    @action(n=nodes)
    def pass_token(s, n: int) -> None:
        s.require(n > 0, s.token.at == n, ~s.active[n])
        s.token = {
            "at": max(n - 1, 0),
            "sum": s.token.sum + s.counter[n],
            "black": s.token.black | s.black[n],
        }
        s.black[n] = False

    @action(n=nodes, to=nodes)
    def send(s, n: int, to: int) -> None:
        s.require(n != to, s.active[n], s.counter[n] < s.most, s.pending[to] < s.most)
        s.counter[n] += 1
        s.pending[to] += 1

    @action(n=nodes)
    def receive(s, n: int) -> None:
        s.require(s.pending[n] > 0)
        s.pending[n] -= 1
        s.counter[n] -= 1
        s.black[n] = s.active[n] = True

    @action(n=nodes)
    def stop(s, n: int) -> None:
        s.require(s.active[n])
        s.active[n] = False

    def detected(s) -> Truth:
        quiet = (s.token.sum + s.counter[0] == 0) & ~s.token.black & ~s.black[0] & ~s.active[0]
        return (s.token.at == 0) & quiet

    def is_over(s) -> Truth:
        return s.active.all(False) & s.pending.all(0)

    @invariant
    def truthful(s) -> Truth:
        """Termination that is detected has happened."""
        return implies(s.detected(), s.is_over())

    @leads_to(fair=(together("start_probe", "pass_token"),))
    def is_detected(s) -> tuple[Truth, Truth]:
        """The end is detected."""
        return s.is_over(), s.detected()

    @may_end
    def over(s) -> Truth:
        return s.is_over()
