"""The sweeper reaps as many streams as the store can, and asks nothing that cannot succeed."""

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.streams import Configuration, Node, Reaper, Settings

from .counting import Counting

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
    for tick in range(STREAMS // 2):
        assert list(reaper.sweep()) == []
        assert reaper.is_behind == (tick < STREAMS // 2 - 1)
    assert len([key for key in store.inner.contents() if "/segments/" in key]) == 0
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
