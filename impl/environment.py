"""The one door to time, randomness and identifiers.

Protocol code never reads a clock, sleeps, draws a random number or makes up an identifier by itself:
it asks the environment it was given. In production that is `SystemEnvironment`; a test gives a
`SeededEnvironment`; the harness gives its own, so that a run is a function of its choices alone. A
lint (ruff's banned-api) forbids the other ways everywhere but here.

    env = SystemEnvironment()
    env.sleep(0.2)
    plan_id = env.new_id()            # 26 characters that sort by time of creation
    jitter = env.stream("retry").random()
"""

import random
import time
from abc import ABC, abstractmethod

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class Environment(ABC):
    """What protocol code may know of the world besides the store."""

    @abstractmethod
    def now_ns(self) -> int:
        """The wall clock in nanoseconds since 1970: comparable between hosts, may jump and be skewed."""

    @abstractmethod
    def monotonic_ns(self) -> int:
        """A clock that never goes back, comparable only with itself: for durations and time-outs."""

    @abstractmethod
    def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""

    @abstractmethod
    def stream(self, actor: str) -> random.Random:
        """The random stream of one actor. Each actor has its own, so adding one reshuffles no other."""

    def new_id(self) -> str:
        """An identifier nobody else has, that sorts by creation time (a ULID: 48 bits time, 80 random)."""
        value = (self.now_ns() // 1_000_000 & (1 << 48) - 1) << 80 | self.stream("identifiers").getrandbits(
            80
        )
        return "".join(_CROCKFORD[value >> shift & 31] for shift in range(125, -1, -5))


class SystemEnvironment(Environment):
    """The real clock, real sleep and the operating system's randomness."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def stream(self, actor: str) -> random.Random:
        return self._random


class SeededEnvironment(Environment):
    """Repeatable: time passes only when somebody sleeps, and every stream derives from one seed."""

    def __init__(self, seed: int = 0, start_ns: int = 1_700_000_000_000_000_000) -> None:
        self._seed = seed
        self._start_ns = start_ns
        self._elapsed_ns = 0
        self._streams: dict[str, random.Random] = {}

    def now_ns(self) -> int:
        return self._start_ns + self._elapsed_ns

    def monotonic_ns(self) -> int:
        return self._elapsed_ns

    def sleep(self, seconds: float) -> None:
        self._elapsed_ns += max(0, round(seconds * 1e9))

    def stream(self, actor: str) -> random.Random:
        # Seeded by text, which Python hashes with SHA-512: the same on every run and machine.
        if actor not in self._streams:
            self._streams[actor] = random.Random(f"{self._seed}/{actor}")  # noqa: S311 - repeatable on purpose
        return self._streams[actor]
