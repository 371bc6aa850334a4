"""Several endpoints of one store as one target: each request goes to the next one that answers.

    target = Endpoints([S3Target(url) for url in urls], env)

An endpoint that does not answer is left alone for 60 seconds. The request goes to the next one: a deletion is
made under its guard, so one that was made already is found, and not made again. When none is left the request
is halted: nothing is sent, and no attempt is counted at what it was for.

The pages of a walk come from one endpoint as long as it answers: some stores cannot go on with a listing in
the middle, so that another endpoint would list from the beginning.
"""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from fencepost.impl.environment import Environment
from fencepost.impl.lifecycle.policy import Rule, What
from fencepost.impl.lifecycle.target import (
    WHOLE,
    Guard,
    Halted,
    Listed,
    Needs,
    Result,
    Standing,
    Target,
    Unavailable,
    Wanted,
)

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
        self._lists = 0
        """The endpoint that lists."""
        self._lock = threading.Lock()

    @property
    def healthy(self) -> list[bool]:
        now_ns = self._env.monotonic_ns()
        return [until_ns <= now_ns for until_ns in self._until_ns]

    def _send(self, request: Callable[[Target], T], *, lists: bool = False) -> T:
        failed: Unavailable | None = None
        for _ in self._targets:
            place = self._choose(lists=lists)
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

    def _choose(self, *, lists: bool) -> int | None:
        """The next one in turn that is not left alone; for a listing the one that listed last."""
        healthy = self.healthy
        with self._lock:
            if lists and any(healthy):
                while not healthy[self._lists]:
                    self._lists = (self._lists + 1) % len(healthy)
                return self._lists
            for step in range(len(healthy)):
                place = (self._next + step) % len(healthy)
                if healthy[place]:
                    self._next = place + 1
                    return place
        return None

    # The target.

    def buckets(self) -> Sequence[str]:
        return self._send(lambda target: target.buckets())

    def rules(self, bucket: str, age_s: float = 0.0) -> Sequence[Rule]:
        return self._send(lambda target: target.rules(bucket, age_s))

    def standing(self, bucket: str, key: str, needs: Needs = WHOLE) -> Standing:
        return self._send(lambda target: target.standing(bucket, key, needs))

    def page(self, bucket: str, after: str, prefix: str = "", *, uploads: bool = True) -> Sequence[Listed]:
        return self._send(lambda target: target.page(bucket, after, prefix, uploads=uploads), lists=True)

    def first(self, bucket: str, after: str, prefix: str = "") -> str | None:
        return self._send(lambda target: target.first(bucket, after, prefix), lists=True)

    def delete(
        self, bucket: str, key: str, version_id: str, what: What, guard: Guard, needs: Needs = WHOLE
    ) -> Result:
        return self._send(lambda target: target.delete(bucket, key, version_id, what, guard, needs))

    def delete_versions(
        self, bucket: str, wanted: Sequence[Wanted], after: str, prefix: str = ""
    ) -> Sequence[Result | None]:
        return self._send(lambda target: target.delete_versions(bucket, wanted, after, prefix), lists=True)
