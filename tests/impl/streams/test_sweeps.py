"""The sweeper reaps as many streams as the store can, and asks nothing that cannot succeed."""

from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.http.metrics import Metrics
from fencepost.impl.store.interface import Layer
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import ANYTHING, Delete, Put
from fencepost.impl.streams import Configuration, Node, Reaper, RetentionError, Settings, Trouble
from fencepost.impl.streams.background import Background
from fencepost.impl.streams.retention import Times

from .counting import Counting
from .nodes import NAME, TEXT, append, everything, node_of

STREAMS = 10


def deleted(**settings: object) -> tuple[Node, Counting, SeededEnvironment]:
    """A node that has deleted its streams just now."""
    env = SeededEnvironment()
    inner = MemoryStore(env=env)
    store = Counting(inner)
    node = Node(store, env, Settings(landing_bound_s=60.0, scan_s=0.0, backoff_s=0.0, **settings))
    for number in range(STREAMS):
        node.create(f"/{number}", Configuration("text/plain"), b"data")
        node.delete(f"/{number}")
    return node, store, env


@pytest.mark.parametrize("concurrency", [1, 4])
def test_young_tombstones_wait_outside_the_slots_and_cost_nothing(concurrency: int) -> None:
    """They took a slot each, and two requests, every second of their minute: 20 streams in 68 s."""
    node, store, env = deleted(reap_limit=2, reap_concurrency=concurrency)
    reaper = Reaper(node)
    store.sent.clear()
    for tick in range(STREAMS // 2):
        assert list(reaper.sweep()) == []
        assert reaper.is_behind == (tick < STREAMS // 2 - 1)
    assert store.sent == {"get": STREAMS}  # whose tombstone it is; a list now would be made again later
    store.sent.clear()
    for _ in range(59):
        env.sleep(1)
        assert list(reaper.sweep()) == []
    assert not store.sent
    assert not reaper.is_behind
    env.sleep(1)
    for _ in range(STREAMS // 2):
        assert list(reaper.sweep()) == []
    assert store.inner.contents() == {}
    assert reaper.counters.streams_reaped == STREAMS
    assert reaper.counters.reap_failures == 0
    assert reaper.counters.list_passes == store.sent["list"] == 3 * STREAMS
    assert (reaper.counters.segments_deleted, reaper.counters.manifests_deleted) == (STREAMS, STREAMS)


def test_ticks_that_follow_at_once_look_at_no_stream_again() -> None:
    """A look costs as much as there are streams: of 10,000 that are due it was made 500 times."""
    node, _, env = deleted(reap_limit=1)
    env.sleep(61)
    looks: list[int] = []
    flagged, node.state.flagged = node.state.flagged, lambda: looks.append(1) or flagged()  # type: ignore[method-assign,func-returns-value]  # counts
    reaper = Reaper(node)
    for _ in range(STREAMS):
        assert list(reaper.sweep()) == []
    assert (len(looks), reaper.counters.streams_reaped) == (1, STREAMS)


def test_durations_are_noted() -> None:
    class Noted(Times):
        def __init__(self) -> None:
            self.found: dict[str, int] = {}

        def _note(self, name: str) -> None:
            self.found[name] = self.found.get(name, 0) + 1

        def reap(self, seconds: float) -> None:
            self._note("reap")

        def scan(self, seconds: float) -> None:
            self._note("scan")

        def delete(self, seconds: float) -> None:
            self._note("delete")

    node, _, env = deleted(reap_limit=100)
    env.sleep(61)
    noted = Noted()
    reaper = Reaper(node, times=noted)
    list(reaper.sweep())
    reaper.scan()
    assert noted.found == {"reap": STREAMS, "delete": 2 * STREAMS}


def test_a_failure_of_one_reap_leaves_the_others_alone() -> None:
    node, store, env = deleted(reap_concurrency=4)
    reaper = Reaper(node)
    list(reaper.sweep())
    env.sleep(61)
    node.busy.add("/3")
    assert [name for name, _ in reaper.sweep()] == ["/3"]
    assert reaper.counters.streams_reaped == STREAMS - 1
    node.busy.clear()
    env.sleep(2)
    assert list(reaper.sweep()) == []
    assert store.inner.contents() == {}


class Returning(Layer):
    """A store in which a segment that is deleted comes back, so many times, as late uploads do."""

    def __init__(self, inner: MemoryStore, times: int) -> None:
        super().__init__(inner)
        self.times = times

    def send(self, request: Any) -> Any:
        reply = self.inner.send(request)
        if isinstance(request, Delete) and request.key.endswith(".seg") and self.times:
            self.times -= 1
            self.inner.send(Put(request.key, b"late", ANYTHING))
        return reply


@pytest.mark.parametrize(("times", "ends"), [(4, True), (5, False)])
def test_a_reap_ends_after_so_many_listings(times: int, ends: bool) -> None:
    """Uploads that go on for ever must not keep one reap busy for ever; it is tried again later."""
    env = SeededEnvironment()
    inner = MemoryStore(env=env)
    node = node_of(Returning(inner, times), env, list_passes=5)
    node.create(NAME, TEXT, b"data")
    node.delete(NAME)
    ((name, incarnation),) = node.state.flagged().items()
    reaper = Reaper(node)
    if ends:
        reaper.reap(name, incarnation)
    else:
        with pytest.raises(RetentionError, match="appears again and again") as found:
            reaper.reap(name, incarnation)
        assert found.value.kind is Trouble.PREFIX
        assert node.state.flagged() == {name: incarnation}
        reaper.reap(name, incarnation)
    assert inner.contents() == {}


def test_a_reap_drops_what_the_cache_has_of_the_stream() -> None:
    env = SeededEnvironment()
    node = node_of(MemoryStore(env=env), env)
    node.create(NAME, TEXT, b"old")
    append(node, b" data")
    assert everything(node) == b"old data"
    assert node._cached > 0
    node.delete(NAME)
    ((name, incarnation),) = node.state.flagged().items()
    Reaper(node).reap(name, incarnation)
    assert node._cached == 0


def test_without_sweeps_nothing_is_flagged_reaped_or_scanned() -> None:
    node, store, env = deleted(sweep_s=0.0)
    env.sleep(10**6)
    before = store.inner.contents()
    metrics = Metrics()
    Background(node, metrics).close()
    assert store.inner.contents() == before
    assert b"fencepost_streams_retention_streams_reaped 0.0" in metrics.exposition()


def test_scans_reaps_and_deletions_are_histograms_of_the_server() -> None:
    env = SeededEnvironment()
    node = node_of(MemoryStore(env=env), env, sweep_s=0.0, scan_s=3600.0)
    node.create(NAME, TEXT, b"data")
    node.delete(NAME)
    metrics = Metrics()
    background = Background(node, metrics)
    background.close()
    with pytest.raises(StopIteration):
        next(Reaper(node, times=background.reaper.times).sweep())
    shown = metrics.exposition().decode()
    for name, count in (("scan", 1), ("reap", 1), ("delete", 2)):
        assert f"fencepost_streams_retention_{name}_seconds_count {count}.0" in shown
