"""A bounded queue: a ring of places between one producer and one consumer.

Both count their positions modulo twice the number of places, so that a full ring and an empty one look
different. The producer writes its position as the value. "Nothing is lost, doubled or reordered" is then one
comparison: the place to read next holds the reader's own position.
"""

from fencepost.model import *


class BoundedQueue(Machine):
    """One producer, one consumer, and a ring of a few places between them."""

    places = Size(3, most=500, doc="places in the ring")

    safeguards = {
        "wait-when-full": "the producer waits while the ring is full, so that nothing is written over",
    }

    place = Each(places, Int(0, 2 * places - 1))
    written = Int(0, 2 * places - 1)  # where the producer writes next
    read = Int(0, 2 * places - 1)  # where the consumer reads next

    def waiting(s) -> Number:
        """The number of values in the ring."""
        return (s.written - s.read) % (2 * s.places)

    def has_room(s) -> Truth:
        return s.waiting() < s.places

    @without("wait-when-full", replaces=has_room)
    def never_waits(s) -> bool:
        return True

    @action
    def put(s) -> None:
        s.require(s.has_room())
        s.place[s.written % s.places] = s.written
        s.written = (s.written + 1) % (2 * s.places)

    @action
    def take(s) -> None:
        s.require(s.waiting() > 0)
        s.read = (s.read + 1) % (2 * s.places)

    @invariant
    def in_order(s) -> Truth:
        """The value to be taken next is the one after the last that was taken."""
        return implies(s.waiting() > 0, s.place[s.read % s.places] == s.read)

    @step
    def one_end_moves(before, after: "BoundedQueue") -> Truth:
        """A step moves the producer or the consumer, never both."""
        return (before.written == after.written) | (before.read == after.read)

    @reachable
    def full(s) -> Truth:
        """The ring can be full."""
        return s.waiting() == s.places

    @always_recoverable
    def drained(s) -> Truth:
        """The ring can always be emptied again."""
        return s.waiting() == 0
