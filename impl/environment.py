"""The only access to time, randomness and identifiers.

Protocol code never reads a clock, sleeps, draws a random number or creates an identifier by itself: it calls
its environment. In production that is `SystemEnvironment`; a test passes a `SeededEnvironment`; the harness
passes its own, so that a run is a function of its choices alone. A lint (ruff's banned-api) forbids the other
ways everywhere but here.

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
    """The clock, randomness and identifiers that protocol code may use."""

    @abstractmethod
    def now_ns(self) -> int:
        """The wall clock in nanoseconds since 1970: comparable between hosts, may jump and be skewed."""

    @abstractmethod
    def monotonic_ns(self) -> int:
        """A clock that never goes backwards, comparable only with itself: for durations and timeouts."""

    @abstractmethod
    def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""

    @abstractmethod
    def stream(self, actor: str) -> random.Random:
        """The random stream of one actor. Each actor has its own, so adding one changes no other."""

    def new_id(self) -> str:
        """A unique identifier that sorts by creation time (a ULID: 48 bits time, 80 random)."""
        return ulid_prefix(self.now_ns()) + _base32(self.stream("identifiers").getrandbits(80), 16)


def ulid_prefix(ns: int) -> str:
    """The first 10 characters of the identifiers created in the millisecond of `ns`."""
    return _base32(ns // 1_000_000 & (1 << 48) - 1, 10)


def _base32(value: int, length: int) -> str:
    return "".join(_CROCKFORD[value >> 5 * at & 31] for at in range(length - 1, -1, -1))


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
    """Repeatable: time passes only in `sleep`, and every stream derives from one seed."""

    def __init__(self, seed: int | str = 0, start_ns: int = 1_700_000_000_000_000_000) -> None:
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
