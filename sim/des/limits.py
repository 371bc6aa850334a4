"""What a store refuses or makes wait: requests in flight, and requests a second.

A *gate* lets so many requests through at once; the others queue in the order in which they came. A *rate* is
a bucket of tokens that fills steadily: who finds it empty is answered 503 at once and queues nowhere, which
is how S3 says SlowDown.
"""

from collections import deque
from typing import Any

SECOND_NS = 1_000_000_000


class Gate:
    """At most `places` at once, the rest in a queue; remembers how full it was."""

    __slots__ = ("_busy_ns", "_changed_ns", "_engine", "free", "places", "queue", "queued_max", "waited")

    def __init__(self, engine: Any, places: int) -> None:
        self._engine = engine
        self.places = places
        self.free = places
        self.queue: deque[Any] = deque()
        self.queued_max = 0
        self.waited = 0
        self._busy_ns = 0
        self._changed_ns = 0

    def enter(self, flight: Any) -> bool:
        """Whether `flight` may go on now; else it is queued and returned by a later `leave`."""
        if self.free:
            self._mark()
            self.free -= 1
            return True
        self.queue.append(flight)
        self.waited += 1
        if len(self.queue) > self.queued_max:
            self.queued_max = len(self.queue)
        return False

    def leave(self) -> Any:
        """A place is free: the flight that takes it, or None."""
        if self.queue:
            return self.queue.popleft()
        self._mark()
        self.free += 1
        return None

    def _mark(self) -> None:
        now = self._engine.simpy._now  # noqa: SLF001 - twice a request: the property costs as much as the sum
        self._busy_ns += (self.places - self.free) * (now - self._changed_ns)
        self._changed_ns = now

    def use(self, now_ns: int) -> float:
        """The mean share of its places that were taken."""
        self._mark()
        return self._busy_ns / (self.places * now_ns) if now_ns else 0.0


class Rate:
    """Tokens a second, for each of many names; `burst` of them can be saved up."""

    __slots__ = ("_left", "burst", "per_second", "refused")

    def __init__(self, per_second: float, burst: float) -> None:
        self.per_second = per_second
        self.burst = burst
        self.refused = 0
        self._left: dict[str, tuple[float, int]] = {}

    def take(self, name: str, now_ns: int) -> bool:
        """Whether there was a token for `name`."""
        left, then = self._left.get(name, (self.burst, now_ns))
        left = min(self.burst, left + (now_ns - then) * self.per_second / SECOND_NS)
        if left < 1.0:
            self._left[name] = (left, now_ns)
            self.refused += 1
            return False
        self._left[name] = (left - 1.0, now_ns)
        return True
