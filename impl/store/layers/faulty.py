"""A store layer that injects faults, the ways stores and networks fail.

A fault is a value: its effect, the requests it fits, its probability and its limit. The first fault that fits
a request and whose draw succeeds is applied. `struck` records what was injected, so that a test can assert
that anything happened at all.

    Faulty(store, [Fault(Effect.REPLY_LOST, kinds={"put"}, prefix="manifest/", times=1)])

The effects, in the order of a request's life (the words of `sim.faults`):

    throttled      not applied; answered 503
    conflict       not applied; answered 409. Reads are exempt: no store answers a read with a conflict
    request_lost   not applied; the outcome is unknown
    reply_lost     applied, and its reply is lost, even when the reply was a refusal: unknown
    late           unknown now; applied after `delay` further requests went through, or at `land_all`
    duplicated     applied, its reply lost, and sent again by a client library that does not report it: the
                   caller receives the second reply, so its own create is answered `exists`
"""

import enum
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fencepost.impl.environment import Environment
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.interface import Layer, Store
from fencepost.impl.store.requests import Outcome, R, Request


class Effect(enum.StrEnum):
    THROTTLED = "throttled"
    CONFLICT = "conflict"
    REQUEST_LOST = "request_lost"
    REPLY_LOST = "reply_lost"
    LATE = "late"
    DUPLICATED = "duplicated"


_APPLIED = (Effect.REPLY_LOST, Effect.DUPLICATED)
"""Applied right away."""
_REFUSALS = {Effect.THROTTLED: Outcome.THROTTLED, Effect.CONFLICT: Outcome.CONFLICT}


@dataclass(frozen=True, slots=True)
class Fault:
    effect: Effect
    kinds: frozenset[str] | set[str] = frozenset()
    """Request kinds it fits; empty: all."""
    prefix: str = ""
    chance: float = 1.0
    times: int | None = None
    """The number of times it may strike; None: without limit."""
    delay: int = 1
    """The number of further requests that are applied before a late one lands."""

    def fits(self, request: Request[Any]) -> bool:
        if self.effect is Effect.CONFLICT and request.reads:
            return False
        return (not self.kinds or request.kind in self.kinds) and request.subject.startswith(self.prefix)


@dataclass(slots=True)
class _Late:
    request: Request[Any]
    delay: int


class Faulty(Layer):
    def __init__(self, inner: Store, faults: Sequence[Fault], env: Environment | None = None) -> None:
        super().__init__(inner)
        self._faults = tuple(faults)
        self._left = [fault.times for fault in self._faults]
        self._dice = (env or inner.env).stream("faults")
        self._late: list[_Late] = []
        self._lock = threading.Lock()
        self.struck: list[tuple[Fault, Request[Any]]] = []

    def send(self, request: Request[R]) -> R:
        reply: R = self.send_all([request])[0]
        return reply

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        with self._lock:
            due = [self._due() for _ in requests]
            fates = [self._fate(request) for request in requests]
        self._land([late for group in due for late in group])
        passing = [at for at, fate in enumerate(fates) if fate is None or fate.effect in _APPLIED]
        replies = dict(zip(passing, self.inner.send_all([requests[at] for at in passing]), strict=True))
        return [
            self._answer(request, fate, replies.get(at))
            for at, (request, fate) in enumerate(zip(requests, fates, strict=True))
        ]

    def land_all(self) -> None:
        """Let every late request land now, in the order they were sent."""
        with self._lock:
            landing, self._late = self._late, []
        self._land([late.request for late in landing])

    def _land(self, requests: Sequence[Request[Any]]) -> None:
        for request in requests:
            with suppress(StoreError):  # the sender no longer waits for the reply
                self.inner.send(request)

    def _due(self) -> list[Request[Any]]:
        for late in self._late:
            late.delay -= 1
        due = [late.request for late in self._late if late.delay < 0]
        self._late = [late for late in self._late if late.delay >= 0]
        return due

    def _fate(self, request: Request[Any]) -> Fault | None:
        for at, fault in enumerate(self._faults):
            left = self._left[at]
            if left == 0 or not fault.fits(request) or self._dice.random() >= fault.chance:
                continue
            self._left[at] = left - 1 if left is not None else None
            self.struck.append((fault, request))
            if fault.effect is Effect.LATE:
                self._late.append(_Late(request, fault.delay))
            return fault
        return None

    def _answer(self, request: Request[Any], fate: Fault | None, reply: Any) -> Any:
        if fate is None:
            return reply
        if fate.effect in _REFUSALS:
            return request.ends(_REFUSALS[fate.effect], "injected")
        if fate.effect is Effect.DUPLICATED:
            return self.inner.send(request)
        return request.ends(Outcome.UNKNOWN, "injected")
