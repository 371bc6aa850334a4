"""Retries where a retry is safe, and never where it is not.

    request   outcome               sent again?
    read      throttled, unknown    yes: a read changes nothing
    write     throttled, conflict   yes: it was not applied
    write     unknown               never: it may be applied already, or later. Sending a create again would
                                    meet itself and look like a rival; sending a put again could bury a
                                    write that another client based on the first. The caller must look first
    complete  conflict              never: only a new upload can succeed

Pauses double from `pause_s` up to `pause_max_s`, each shortened by a random share, so that rivals who
met once do not meet again at the same moment.
"""

from collections.abc import Sequence
from typing import Any

from fencepost.impl.store import requests as ask
from fencepost.impl.store.interface import Layer, Store
from fencepost.impl.store.requests import NOT_NOW, Outcome, R, Request


def may_ask_again(request: Request[Any], outcome: Outcome) -> bool:
    """Return True if sending `request` once more is safe and may help."""
    if request.reads:
        return outcome in (Outcome.THROTTLED, Outcome.UNKNOWN)
    if isinstance(request, ask.CompleteUpload):
        return outcome is Outcome.THROTTLED
    return outcome in NOT_NOW


class Retrying(Layer):
    """Repeats what may be repeated, up to `attempts` times in all, and then passes the last reply on."""

    def __init__(
        self, inner: Store, *, attempts: int = 5, pause_s: float = 0.05, pause_max_s: float = 5.0
    ) -> None:
        super().__init__(inner)
        self._attempts = attempts
        self._pause_s = pause_s
        self._pause_max_s = pause_max_s
        self._dice = self.env.stream("retry")

    def send(self, request: Request[R]) -> R:
        reply: R = self.send_all([request])[0]
        return reply

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        replies = list(self.inner.send_all(requests))
        for attempt in range(1, self._attempts):
            again = [
                at
                for at, (request, reply) in enumerate(zip(requests, replies, strict=True))
                if may_ask_again(request, reply.outcome)
            ]
            if not again:
                break
            longest = min(self._pause_max_s, self._pause_s * 2.0 ** (attempt - 1))
            self.env.sleep(longest * (1 - self._dice.random() / 2))
            fresh = self.inner.send_all([requests[at] for at in again])
            for at, reply in zip(again, fresh, strict=True):
                replies[at] = reply
        return replies
