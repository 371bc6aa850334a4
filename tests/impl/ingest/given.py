"""Fixtures of the ingest tests: a bucket in memory, a clock that only the test moves, small batches."""

import hashlib
from typing import Any

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.ingest import Accepted, Authority, Identity, Manifest, Point, Safeguards, Settings, encode
from fencepost.impl.ingest.safeguards import STANDARD
from fencepost.impl.store.interface import Store
from fencepost.impl.store.layers import Metered
from fencepost.impl.store.memory import MemoryStore
from fencepost.sim.systems.ingest import SYSTEM
from tests.impl.publish.scripted import Crashed

SETTINGS = Settings(horizon_s=3600.0, landing_bound_s=600.0, skew_bound_s=60.0)
LONG_S = 3 * 3600.0 + 900.0
"""After this time no attempt relies on a blob."""


def bucket(*, versioned: bool = False, **options: Any) -> MemoryStore:
    return MemoryStore(env=SeededEnvironment(1), versioned=versioned, **options)


def batch(number: int = 1, *values: float, agent: str = "agent-a") -> tuple[Identity, bytes]:
    """A batch of one metric; other values under the same number make another batch of the same identity."""
    identity = Identity(agent, "boot-1", number * 10, number * 10 + 9)
    points = [
        Point("cpu.load", {"host": "a"}, 1_700_000_000_000_000_000, value) for value in values or (1.0,)
    ]
    return identity, encode(identity, points)


def collector(store: Store, name: str = "ann", without: str | None = None, **options: Any) -> Authority:
    settings = options.pop("settings", SETTINGS)
    return Authority(store, store.env, name, settings, safeguards=table(without), **options)


def accepted(store: Store, number: int = 1, *, follow_up: bool = True) -> Manifest:
    """An accepted batch; its collector wrote the index objects, or died before."""
    ann = collector(store)
    answer = ann.accept(*batch(number))
    assert isinstance(answer, Accepted)
    if follow_up:
        ann.follow_up(answer.manifest)
    return answer.manifest


def table(without: str | None) -> Safeguards:
    """The safeguards, one of them replaced by its mutant."""
    return STANDARD if without is None else SYSTEM.without(without)


class Dying(Metered):
    """The process dies at its next write after so many."""

    def __init__(self, inner: Store, writes: int) -> None:
        super().__init__(inner)
        self.left = writes

    def send(self, request: Any) -> Any:
        if request.kind == "put":
            if self.left == 0:
                raise Crashed
            self.left -= 1
        return super().send(request)

    def send_all(self, requests: Any) -> Any:
        return [self.send(request) for request in requests]


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
