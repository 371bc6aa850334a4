"""Several endpoints of one store as one target: each request goes to the next one that answers.

    target = Endpoints([S3Target(url) for url in urls], env)

An endpoint that does not answer is left alone for 60 seconds. The request goes to the next one: a deletion is
made under its guard, so one that was made already is found, and not made again. When none is left the request
is halted: nothing is sent, and no attempt is counted at what it was for.
"""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from fencepost.impl.environment import Environment
from fencepost.impl.lifecycle.policy import Rule, What
from fencepost.impl.lifecycle.target import Guard, Halted, Result, Standing, Target, Unavailable

T = TypeVar("T")
UNHEALTHY_S = 60.0


class Endpoints:
    """For several threads of control."""

    def __init__(self, targets: Sequence[Target], env: Environment, unhealthy_s: float = UNHEALTHY_S) -> None:
        if not targets:
            raise ValueError("a store has at least one endpoint")
        self._targets = list(targets)
        self._env = env
        self._unhealthy_ns = round(unhealthy_s * 1e9)
        self._until_ns = [0] * len(targets)
        """Until when each is left alone, by the monotonic clock."""
        self._next = 0
        self._lock = threading.Lock()

    @property
    def healthy(self) -> list[bool]:
        now_ns = self._env.monotonic_ns()
        return [until_ns <= now_ns for until_ns in self._until_ns]

    def _send(self, request: Callable[[Target], T]) -> T:
        failed: Unavailable | None = None
        for _ in self._targets:
            place = self._choose()
            if place is None:
                break
            try:
                return request(self._targets[place])
            except Halted:
                raise
            except Unavailable as error:
                failed = error
                self._until_ns[place] = self._env.monotonic_ns() + self._unhealthy_ns
        raise failed or Halted("no endpoint answers; each is tried again after a minute")

    def _choose(self) -> int | None:
        """The next one in turn that is not left alone."""
        healthy = self.healthy
        with self._lock:
            for step in range(len(healthy)):
                place = (self._next + step) % len(healthy)
                if healthy[place]:
                    self._next = place + 1
                    return place
        return None

    # The target.

    def buckets(self) -> Sequence[str]:
        return self._send(lambda target: target.buckets())

    def rules(self, bucket: str) -> Sequence[Rule]:
        return self._send(lambda target: target.rules(bucket))

    def standing(self, bucket: str, key: str) -> Standing:
        return self._send(lambda target: target.standing(bucket, key))

    def page(self, bucket: str, after: str) -> Sequence[str]:
        return self._send(lambda target: target.page(bucket, after))

    def delete(self, bucket: str, key: str, version_id: str, what: What, guard: Guard) -> Result:
        return self._send(lambda target: target.delete(bucket, key, version_id, what, guard))
