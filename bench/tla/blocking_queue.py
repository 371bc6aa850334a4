"""A blocking queue whose producers and consumers wait for one condition: it deadlocks."""

from fencepost.model import *


class BlockingQueue(Machine):
    """A thread that cannot go on waits; one that goes on wakes a waiting one, perhaps of its own kind."""

    producers, consumers, room = Size(3), Size(2), Size(1)

    buffer = Int(0, room)
    waiting = Flags(producers + consumers)

    def is_producer(s, t: int) -> bool:
        return t < s.producers

    @action(t=producers + consumers)
    def sleep(s, t: int) -> None:
        s.require(~s.waiting.has(t), s.buffer == (s.room if s.is_producer(t) else 0))
        s.waiting = s.waiting.plus(t)

    @action(t=producers + consumers, woken=producers + consumers)
    def move(s, t: int, woken: int) -> None:
        s.require(s.waiting.has(woken))
        s.move_on(t)
        s.waiting = s.waiting.minus(woken)

    @action(t=producers + consumers)
    def move_alone(s, t: int) -> None:
        s.require(s.waiting.is_empty())
        s.move_on(t)

    def move_on(s, t: int) -> None:
        s.require(~s.waiting.has(t), s.buffer != (s.room if s.is_producer(t) else 0))
        s.buffer += 1 if s.is_producer(t) else -1
