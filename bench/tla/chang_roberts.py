"""Chang and Roberts: election in a ring. The lowest number of those that begin wins."""

from fencepost.model import *


class ChangRoberts(Machine):
    """Numbers go round one way, in any order; a candidate stops those that are higher than its own."""

    nodes = Size(4)

    begins = Each(nodes, Bool())
    state = Each(nodes, Enum("waits", "candidate", "lost", "won"))
    inbox = Each(nodes, Flags(nodes))

    @initial
    def start(s) -> None:
        s.begins = anything()
        s.require(s.begins.any(True))

    @action(n=nodes)
    def begin(s, n: int) -> None:
        s.require(s.begins[n], s.state[n] == "waits")
        s.state[n] = "candidate"
        after = (n + 1) % s.nodes
        s.inbox[after] = s.inbox[after].plus(n)

    @action(n=nodes, number=nodes)
    def receive(s, n: int, number: int) -> None:
        s.require(s.inbox[n].has(number))
        s.inbox[n] = s.inbox[n].minus(number)
        after, stops = (n + 1) % s.nodes, (s.state[n] == "candidate") & (number >= n)
        s.inbox[after] = pick(stops, s.inbox[after], s.inbox[after].plus(number))
        s.state[n] = case((stops & (number == n), "won"), (stops, "candidate"), otherwise="lost")

    one_wins = invariant("At most one node wins.")(lambda s: s.state.count("won") <= 1)
    won = eventually("A node wins.", fair=("begin", "receive"))(lambda s: s.state.any("won"))

    @may_end
    def over(s) -> Truth:
        return s.state.any("won")
