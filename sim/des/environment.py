"""Clock, sleep, randomness and identifiers in simulated time: what protocol code gets as its environment.

One environment serves all actors; who asks follows from who is running. Each actor has streams of its own,
derived from the run's seed, its name and its incarnation, so that adding a writer reshuffles no other's.
"""

from typing import Any

from fencepost.impl.environment import Environment, SeededEnvironment
from fencepost.sim.des.engine import Engine

START_NS = 1_700_000_000_000_000_000
"""When every simulation begins, by everybody's clock: in November 2023."""


class SimulatedEnvironment(Environment):
    """See the top of this module."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._setup: dict[str, Any] = {}

    def now_ns(self) -> int:
        actor = self._engine.current
        return START_NS + self._engine.now_ns + (0 if actor is None else actor.skew_ns)

    def monotonic_ns(self) -> int:
        return self._engine.now_ns

    def sleep(self, seconds: float) -> None:
        if self._engine.current is not None:
            self._engine.sleep_ns(max(0, round(seconds * 1e9)))

    def stream(self, actor: str) -> Any:
        running = self._engine.current
        streams = self._setup if running is None else running.streams
        found = streams.get(actor)
        if found is None:
            who = "setup" if running is None else f"{running.name}/{running.incarnation}"
            found = streams[actor] = SeededEnvironment(0).stream(f"{self._engine.seed}/{who}/{actor}")
        return found
