"""A bounded buffer between two handshakes."""

from fencepost.model import *


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
