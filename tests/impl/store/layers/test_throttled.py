"""Latency and the cap add up as they do on a wire."""

import threading
from typing import Any

import pytest

from fencepost.impl.environment import Environment, SeededEnvironment
from fencepost.impl.store import ABSENT, Misuse, Outcome
from fencepost.impl.store.interface import Layer, Store
from fencepost.impl.store.layers import Throttled
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Get, Request


class Watched(Layer):
    """Counts how many requests are inside at once; each stays until `enough` are, or nobody else comes."""

    def __init__(self, inner: Store, enough: int) -> None:
        super().__init__(inner)
        self.now = self.most = 0
        self._enough = enough
        self._changed = threading.Condition()

    def send(self, request: Request[Any]) -> Any:
        with self._changed:
            self.now += 1
            self.most = max(self.most, self.now)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.now >= self._enough, timeout=0.05)
        try:
            return self.inner.send(request)
        finally:
            with self._changed:
                self.now -= 1


def test_a_request_takes_its_latency_once() -> None:
    env = SeededEnvironment()
    store = Throttled(MemoryStore(env=env), latency_s=0.02)
    assert store.put("k", b"", when=ABSENT).done
    assert env.monotonic_ns() == 20_000_000


def test_latency_may_depend_on_the_request() -> None:
    env: Environment = SeededEnvironment()
    store = Throttled(MemoryStore(env=env), latency_s=lambda request: 1.0 if request.kind == "get" else 0.0)
    store.head("k")
    assert env.monotonic_ns() == 0
    store.get("k")
    assert env.monotonic_ns() == 1_000_000_000


@pytest.mark.parametrize("cap", [1, 3])
def test_no_more_than_the_cap_are_in_flight_and_so_many_really_are(cap: int) -> None:
    watched = Watched(MemoryStore(), enough=cap)
    with Throttled(watched, in_flight_max=cap) as store:
        replies = store.send_all([Get(f"k{at}") for at in range(7)])
    assert [reply.outcome for reply in replies] == [Outcome.MISSING] * 7
    assert watched.most == cap


@pytest.mark.parametrize("cap", [1, 2])
def test_threads_that_ask_for_themselves_share_the_cap(cap: int) -> None:
    """If this fails, only parallel steps are narrow: sixteen writers pass a cap of eight side by side."""
    watched = Watched(MemoryStore(), enough=cap + 1)
    with Throttled(watched, in_flight_max=cap) as store:
        writers = [threading.Thread(target=store.get, args=(f"k{at}",)) for at in range(5)]
        writers.append(threading.Thread(target=store.send_all, args=([Get("a"), Get("b"), Get("c")],)))
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
    assert watched.most == cap


def test_errors_of_a_step_come_out_after_all_were_sent() -> None:
    with Throttled(MemoryStore()) as store, pytest.raises(Misuse):
        store.send_all([Get(""), Get("k")])


def test_a_cap_of_nothing_is_refused() -> None:
    with pytest.raises(Misuse, match="at least one"):
        Throttled(MemoryStore(), in_flight_max=0)
