"""Small machines of `bench.tlaplus` that do not ship."""

# ruff: noqa: N805  # an action's first parameter is the states

from fencepost.model import (
    Bool,
    Each,
    Id,
    Int,
    Machine,
    Process,
    Seq,
    Size,
    Truth,
    action,
    anything,
    initial,
    invariant,
    leads_to,
    least,
    may_end,
    together,
)


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
        """Who waits gets in."""
        return s.side[p] == "wait", s.side[p] == "critical"


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


class HourClock(Machine):
    """A clock that shows the hours, from any of them on."""

    hour = Int(1, 12)

    @initial(h=range(1, 13))
    def begin(s, h: int) -> None:
        s.hour = h

    @action
    def tick(s) -> None:
        s.hour = s.hour % 12 + 1

    @invariant
    def in_range(s) -> Truth:
        """From 1 to 12."""
        return (s.hour >= 1) & (s.hour <= 12)


class Fifo(Machine):
    """A bounded buffer between two handshakes."""

    data = Size(2)
    room = Size(3)

    buffer = Seq(room, Id(data))

    put = Id(data)
    is_put = Bool()
    taken = Id(data)
    is_taken = Bool()

    @action(d=data)
    def send(s, d: int) -> None:
        s.require(~s.is_put)
        s.put, s.is_put = d, True

    @action
    def enqueue(s) -> None:
        s.require(s.is_put & ~s.buffer.is_full())
        s.buffer.append(s.put)
        s.is_put = False

    @action
    def dequeue(s) -> None:
        s.require(~s.is_taken & ~s.buffer.is_empty())
        s.taken, s.is_taken = s.buffer.pop_first(), True

    @action
    def receive(s) -> None:
        s.require(s.is_taken)
        s.is_taken = False

    @invariant
    def bounded(s) -> Truth:
        """Never more than there is room."""
        return s.buffer.length <= s.room


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
        """What is detected is so."""
        return ~s.detected() | s.active.all(False)

    @leads_to(fair=(together("start_probe", "pass_token"),))
    def is_detected(s) -> tuple[Truth, Truth]:
        """The end is detected."""
        return s.active.all(False), s.detected()

    @may_end
    def over(s) -> Truth:
        return s.active.all(False)
