"""A store that is as far away and as narrow as one chooses: latency, and a cap on requests in flight.

The latency passes half before the request reaches the store and half after, so that concurrent requests
land in an order that their sender cannot tell. Each request of a parallel step takes a place of its own
under the cap: with a cap of 8, a step of 16 takes two latencies.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.interface import Layer, Pool, Store
from fencepost.impl.store.requests import R, Request


class Throttled(Layer):
    """Delays every request by `latency_s` (seconds, or a function of the request)."""

    def __init__(
        self,
        inner: Store,
        *,
        latency_s: float | Callable[[Request[Any]], float] = 0.0,
        in_flight_max: int = 64,
    ) -> None:
        super().__init__(inner)
        if in_flight_max < 1:
            raise Misuse(f"in_flight_max is {in_flight_max}; at least one request must be let through")
        self._latency_s = latency_s
        self._slots = threading.Semaphore(in_flight_max)
        self._pool = Pool(in_flight_max, "throttled")

    def send(self, request: Request[R]) -> R:
        with self._slots:
            latency_s = self._latency_s(request) if callable(self._latency_s) else self._latency_s
            self.env.sleep(latency_s / 2)
            try:
                return self.inner.send(request)
            finally:
                self.env.sleep(latency_s / 2)

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        return self._pool.settle(self.send, requests)

    def close(self) -> None:
        self._pool.close()
        super().close()
