"""Common parts of audits of systems: the clock of a scenario, a store that counts, examinations made once."""

import functools
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from fencepost.impl.environment import Environment, SeededEnvironment
from fencepost.impl.store import ABSENT
from fencepost.impl.store.interface import Layer, Store
from fencepost.impl.store.layers.metered import Tally
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Request
from fencepost.sim.world import View, World
from fencepost.sim.world.declaring import Declaring

CACHED_MAX = 20_000
"""Findings in memory; then the cache is cleared."""

S = TypeVar("S", bound=Hashable)
F = TypeVar("F")
Examination = Callable[[Mapping[str, bytes], S], F]


def once(examination: Examination[S, F]) -> Examination[S, F]:
    """The examination, cached by contents and safeguards: far fewer contents than runs are distinct."""
    known: dict[tuple[S, frozenset[tuple[str, bytes]]], F] = {}

    @functools.wraps(examination)
    def examine(contents: Mapping[str, bytes], safeguards: S) -> F:
        key = (safeguards, frozenset(contents.items()))
        if key not in known:
            if len(known) > CACHED_MAX:
                known.clear()
            known[key] = examination(contents, safeguards)
        return known[key]

    return examine


def copy_of(contents: Mapping[str, bytes], start_ns: int = 0) -> MemoryStore:
    """A store outside the world with these objects."""
    store = MemoryStore(env=SeededEnvironment(2, start_ns))
    for key, body in contents.items():
        store.put(key, body, when=ABSENT)
    return store


def declare(
    world: Declaring,
    checks: Mapping[str, Callable[[Any, Any], Iterator[str]]],
    state: Callable[[View], Any],
    outcomes: Callable[[View], Any],
    names: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Have the checks judged at the end of each run, as properties of the same names with dashes.

    `names` gives some another name. State and outcomes are computed once for all checks of a step.
    """
    latest: tuple[int, tuple[Any, Any]] = (-1, (None, None))

    def judged(check: Callable[[Any, Any], Iterator[str]]) -> Callable[[View], str | None]:
        def judge(view: View) -> str | None:
            nonlocal latest
            # Under control nothing changes between two properties that are judged after the same step.
            now = len(world.trace) if isinstance(world, World) else -1
            if now < 0 or latest[0] != now:
                latest = (now, (state(view), outcomes(view)))
            return next(check(*latest[1]), None)

        return judge

    for name, check in checks.items():
        world.finally_(names.get(name, name.replace("_", "-")), judged(check))


class ScenarioEnvironment(Environment):
    """Identifiers and random numbers from the world; a clock that stops unless `timed`.

    The clock moves only in scenarios about time, because reading it is a step. It may be `ahead_s`.
    """

    def __init__(self, world: World, *, timed: bool = False, ahead_s: float = 0.0) -> None:
        self._world = world
        self._timed = timed
        self._ahead_ns = round(ahead_s * 1e9)

    def now_ns(self) -> int:
        return (self._world.env.now_ns() if self._timed else self._world.start_ns) + self._ahead_ns

    def monotonic_ns(self) -> int:
        return self._world.env.monotonic_ns() if self._timed else 0

    def sleep(self, seconds: float) -> None:
        """No step: the scheduler may let others step here with or without a pause."""

    def stream(self, actor: str) -> Any:
        return self._world.env.stream(actor)

    def new_id(self) -> str:
        return self._world.env.new_id()


class WatchingStore(Layer):
    """The store of one process, whose requests it counts. Each system extends `look`."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.cost = Tally()

    @abstractmethod
    def look(self, request: Request[Any], reply: Any) -> None:
        """Inspect a request and its reply."""

    def send(self, request: Request[Any]) -> Any:
        self.cost.step()
        reply = self.inner.send(request)
        self.look(request, reply)
        return reply

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        self.cost.step(len(requests))
        replies = self.inner.send_all(requests)
        for request, reply in zip(requests, replies, strict=True):
            self.look(request, reply)
        return replies
