"""How many requests may be worked on at once, in all and by one agent.

Only touched on the thread that serves, between two awaits: there is nothing to lock.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator

from fencepost.impl.ingest.service.answers import Refusal
from fencepost.impl.ingest.service.limits import Limits


class Gate:
    """Lets in, and turns away with a word on when to come back."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._agents: Counter[str] = Counter()
        self.inside = 0
        self.closed = False

    @contextlib.contextmanager
    def enter(self, agent: str) -> Iterator[None]:
        self._judge(agent)
        self.inside += 1
        self._agents[agent] += 1
        try:
            yield
        finally:
            self.inside -= 1
            self._agents[agent] -= 1
            if not self._agents[agent]:
                del self._agents[agent]

    def _judge(self, agent: str) -> None:
        wait = self._limits.retry_after_s
        if self.closed:
            raise Refusal("draining", "this collector is about to stop; try another one", retry_after_s=wait)
        if self.inside >= self._limits.requests:
            raise Refusal(
                "busy",
                f"this collector works on {self.inside} requests; try again, or another one",
                retry_after_s=wait,
            )
        if self._agents[agent] >= self._limits.agent_requests:
            raise Refusal(
                "too_many_requests",
                f"{self._agents[agent]} requests of this agent are under way; wait for their answers",
                retry_after_s=wait,
            )
