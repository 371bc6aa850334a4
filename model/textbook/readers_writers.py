"""Readers and writers of one resource, served in the order in which they came.

Any number of readers or one writer. No client waits forever: the queue goes on, and a client inside stops.
"""

from fencepost.model import *


class ReadersWriters(Machine):
    """Actors that read or write, one queue for both."""

    actors = Size(3, doc="readers and writers", most=6)

    readers = Flags(actors)
    writers = Flags(actors)
    waiting = Seq(actors, Record(write=Bool(), actor=Id(actors)))

    @action(a=actors, write=(False, True))
    def ask(s, a: int, write: bool) -> None:
        s.require(~s.waiting.any(lambda w: w.actor == a))
        s.waiting.append({"write": write, "actor": a})

    @action
    def enter(s) -> None:
        s.require(~s.waiting.is_empty() & s.writers.is_empty())
        first = s.waiting.first
        s.require(~first.write | s.readers.is_empty())
        s.waiting.pop_first()
        s.readers = pick(first.write, s.readers, s.readers.plus(first.actor))
        s.writers = pick(first.write, s.writers.plus(first.actor), s.writers)

    @action(a=actors)
    def stop(s, a: int) -> None:
        s.require(s.readers.has(a) | s.writers.has(a))
        s.readers = s.readers.minus(a)
        s.writers = s.writers.minus(a)

    @invariant
    def exclusion(s) -> Truth:
        """One writer alone, or readers."""
        return (s.readers.is_empty() | s.writers.is_empty()) & (s.writers.size() <= 1)

    @leads_to(fair=("enter", "stop"), a=actors)
    def served(s, a: int) -> tuple[Truth, Truth]:
        """A client that waits gets in."""
        return s.waiting.any(lambda w: w.actor == a), s.readers.has(a) | s.writers.has(a)
