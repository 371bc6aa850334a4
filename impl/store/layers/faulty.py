"""A store layer that injects faults, the ways stores and networks fail: see `faults` for what they are.

`struck` records what was injected, so that a test can assert that anything happened at all.

    Faulty(store, [Fault(Effect.REPLY_LOST, kinds={"put"}, prefix="manifest/", times=1)])

A late request is applied after `delay` further requests went through, or at `land_all`. A reply that is lost,
and every answer that says nothing about whether the request was applied, is the outcome *unknown*.
"""

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fencepost.impl.environment import Environment
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.faults import BadScript, Effect, Fault, Phase
from fencepost.impl.store.interface import Layer, Store
from fencepost.impl.store.requests import Outcome, R, Request

EFFECTS = frozenset(Effect) - {Effect.REORDERED, Effect.TRUNCATED}
"""The others need a connection."""
_REFUSALS = {Effect.THROTTLED: Outcome.THROTTLED, Effect.CONFLICT: Outcome.CONFLICT}
_OPERATIONS = {
    "put": "PutObject",
    "get": "GetObject",
    "head": "HeadObject",
    "delete": "DeleteObject",
    "list": "ListObjectsV2",
    "list-versions": "ListObjectVersions",
    "create-upload": "CreateMultipartUpload",
    "upload-part": "UploadPart",
    "complete-upload": "CompleteMultipartUpload",
    "abort-upload": "AbortMultipartUpload",
    "list-uploads": "ListMultipartUploads",
}
"""Kinds of requests to S3's names of them, both of which a script may use."""


def _names(request: Request[Any]) -> frozenset[str]:
    is_upload = {"upload"} if "upload" in request.kind else set()
    return frozenset({request.kind, _OPERATIONS.get(request.kind, request.kind), *is_upload})


def _is_applied(fault: Fault) -> bool:
    """Return True if a request that it strikes is applied right away."""
    match fault.effect:
        case Effect.REPLY_LOST | Effect.DUPLICATED | Effect.DELAYED:
            return True
        case Effect.THROTTLED | Effect.CONFLICT | Effect.FAILED:
            return fault.phase is Phase.AFTER
    return False


@dataclass(slots=True)
class _Late:
    request: Request[Any]
    delay: int


class Faulty(Layer):
    def __init__(self, inner: Store, faults: Sequence[Fault], env: Environment | None = None) -> None:
        super().__init__(inner)
        self._env = env or inner.env
        self._dice = self._env.stream("faults")
        self._late: list[_Late] = []
        self._lock = threading.Lock()
        self.struck: list[tuple[Fault, Request[Any]]] = []
        self.inject(faults)

    def inject(self, faults: Sequence[Fault]) -> None:
        """Replace the faults, for the requests from now on; what is late stays late."""
        unable = {fault.effect for fault in faults} - EFFECTS
        if unable:
            raise BadScript(f"a store layer has no {min(unable)}; use the object server for tests")
        with self._lock:
            self._faults = tuple(faults)
            self._left = [fault.times for fault in self._faults]
            self._fitted = [0] * len(self._faults)

    def send(self, request: Request[R]) -> R:
        reply: R = self.send_all([request])[0]
        return reply

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        with self._lock:
            due = [self._due() for _ in requests]
            fates = [self._fate(request) for request in requests]
        self._land([late for group in due for late in group])
        self._wait(fates, Phase.BEFORE)
        passing = [at for at, fate in enumerate(fates) if fate is None or _is_applied(fate)]
        replies = dict(zip(passing, self.inner.send_all([requests[at] for at in passing]), strict=True))
        self._wait(fates, Phase.AFTER)
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
            if left == 0 or not self._fits(at, fault, request) or self._dice.random() >= fault.chance:
                continue
            self._left[at] = left - 1 if left is not None else None
            self.struck.append((fault, request))
            if fault.effect is Effect.LATE:
                self._late.append(_Late(request, fault.delay))
            return fault
        return None

    def _fits(self, at: int, fault: Fault, request: Request[Any]) -> bool:
        if not fault.fits(_names(request), fault.bucket, request.subject, reads=request.reads):
            return False
        self._fitted[at] += 1
        return self._fitted[at] >= fault.first

    def _wait(self, fates: Sequence[Fault | None], phase: Phase) -> None:
        delayed = (fate for fate in fates if fate is not None and fate.effect is Effect.DELAYED)
        seconds = max((fate.seconds for fate in delayed if fate.phase is phase), default=0.0)
        if seconds:
            self._env.sleep(seconds)

    def _answer(self, request: Request[Any], fate: Fault | None, reply: Any) -> Any:
        if fate is None or fate.effect is Effect.DELAYED:
            return reply
        if fate.effect in _REFUSALS and fate.phase is Phase.BEFORE:
            return request.ends(_REFUSALS[fate.effect], "injected")
        if fate.effect is Effect.DUPLICATED:
            return self.inner.send(request)
        return request.ends(Outcome.UNKNOWN, "injected")
