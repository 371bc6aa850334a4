"""Latencies of requests: constant, lognormal, or as `fencepost probe` measured them.

    Constant(20_000_000)                                20 ms, always
    Lognormal(p50_ns=15_000_000, p99_ns=80_000_000)     half of them above 15 ms, one in a hundred above 80
    Empirical((2_800_000, ..., 7_000_000))              101 quantiles: minimum, 1 %, 2 %, ..., maximum

A distribution gives a *draw*: a function without arguments whose every call is the next latency. Draws are
made in blocks that grow, since a number from a block costs a twentieth of a number drawn alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fencepost.impl.environment import SeededEnvironment

Draw = Callable[[], int]

NORMAL_99 = 2.3263478740408408
"""The standard normal's 99th percentile."""
BLOCK_MIN, BLOCK_MAX = 16, 1024


@dataclass(frozen=True, slots=True)
class Constant:
    ns: int

    def block(self, rng: np.random.Generator, count: int) -> np.ndarray:
        return np.full(count, self.ns)

    @property
    def median_ns(self) -> int:
        return self.ns


@dataclass(frozen=True, slots=True)
class Lognormal:
    p50_ns: int
    p99_ns: int

    def block(self, rng: np.random.Generator, count: int) -> np.ndarray:
        sigma = math.log(self.p99_ns / self.p50_ns) / NORMAL_99
        return self.p50_ns * np.exp(sigma * rng.standard_normal(count))

    @property
    def median_ns(self) -> int:
        return self.p50_ns


@dataclass(frozen=True, slots=True)
class Empirical:
    quantiles_ns: tuple[float, ...]

    def block(self, rng: np.random.Generator, count: int) -> np.ndarray:
        places = np.linspace(0.0, 1.0, len(self.quantiles_ns))
        return np.interp(rng.random(count), places, self.quantiles_ns)

    @property
    def median_ns(self) -> int:
        return round(self.quantiles_ns[len(self.quantiles_ns) // 2])


Latency = Constant | Lognormal | Empirical


@dataclass(frozen=True, slots=True)
class Profile:
    """Latency by kind of request, and what every byte adds."""

    default: Latency
    kinds: dict[str, Latency] = field(default_factory=dict)
    byte_ns: float = 0.0
    """Nanoseconds that a byte adds to any request: one over the bandwidth."""
    kinds_byte_ns: dict[str, float] = field(default_factory=dict)
    """... or to requests of one kind, where that was measured."""

    def of(self, kind: str) -> Latency:
        return self.kinds.get(kind, self.default)

    def per_byte_ns(self, kind: str) -> float:
        return self.kinds_byte_ns.get(kind, self.byte_ns)


def draw(latency: Latency, seed: str) -> Draw:
    """The latencies of one stream, one a call."""
    if isinstance(latency, Constant):
        always = latency.ns
        return lambda: always
    rng = np.random.default_rng(SeededEnvironment(0).stream(seed).getrandbits(64))
    left: list[int] = []
    size = BLOCK_MIN

    def next_() -> int:
        nonlocal left, size
        if not left:
            left = np.rint(latency.block(rng, size)).astype(np.int64).tolist()
            size = min(2 * size, BLOCK_MAX)
        return left.pop()

    return next_
