"""Time on a stage. It moves only in scenarios that are about time, since every look at a clock is a step."""

from typing import Any

from fencepost.impl.environment import Environment
from fencepost.sim.world import World


class ScenarioEnvironment(Environment):
    """Identifiers and chance from the world; a clock that stands still unless `timed`, and may be ahead."""

    def __init__(self, world: World, *, timed: bool = False, ahead_s: float = 0.0) -> None:
        self._world = world
        self._timed = timed
        self._ahead_ns = round(ahead_s * 1e9)

    def now_ns(self) -> int:
        return (self._world.env.now_ns() if self._timed else self._world.start_ns) + self._ahead_ns

    def monotonic_ns(self) -> int:
        return self._world.env.monotonic_ns() if self._timed else 0

    def sleep(self, seconds: float) -> None:
        """Whether others step meanwhile is the scheduler's to say, pause or none."""

    def stream(self, actor: str) -> Any:
        return self._world.env.stream(actor)

    def new_id(self) -> str:
        return self._world.env.new_id()
