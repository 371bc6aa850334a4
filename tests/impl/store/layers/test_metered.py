"""Costs are counted, not timed: requests, bytes, and the longest chain of requests that waited."""

import contextvars
import threading

import pytest

from fencepost.impl.store import ABSENT, ANYTHING, Misuse
from fencepost.impl.store.layers import Metered
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Get, Head, Put


@pytest.fixture
def store() -> Metered:
    return Metered(MemoryStore())


def test_requests_in_a_row_are_hops(store: Metered) -> None:
    with store.operation("row") as cost:
        store.put("a", b"123", when=ABSENT)
        store.get("a")
        store.get("b")
    assert (cost.requests, cost.serial_hops) == (3, 3)
    assert (cost.bytes_sent, cost.bytes_received) == (3, 3)
    assert cost.by_kind == {"put": 1, "get": 2}
    assert [request.outcome for request in cost.sent] == ["done", "done", "missing"]


def test_a_parallel_step_is_one_hop_however_wide(store: Metered) -> None:
    with store.operation("step") as cost:
        store.head("x")
        store.send_all([Put(f"k{at}", b"", ABSENT) for at in range(10)])
        store.head("x")
    assert (cost.requests, cost.serial_hops) == (12, 3)
    assert cost.sent[-1].after == tuple(range(1, 11))


def test_hops_are_the_longest_path_not_the_number_of_steps(store: Metered) -> None:
    """Two steps in threads of one operation: each chain counts by itself."""
    with store.operation("fork") as cost:
        store.head("x")
        context = contextvars.copy_context()
        aside = threading.Thread(target=lambda: context.run(lambda: [store.head("y") for _ in range(5)]))
        aside.start()
        aside.join()
        store.head("z")
    assert cost.requests == 7
    assert cost.serial_hops == 6
    assert [request.key for request in cost.critical_path()] == ["x"] + ["y"] * 5


def test_what_another_thread_sends_is_not_part(store: Metered) -> None:
    with store.operation("mine") as cost:
        other = threading.Thread(target=lambda: store.head("y"))
        other.start()
        other.join()
    assert cost.requests == 0
    assert cost.serial_hops == 0
    assert store.total == {"head": 1}


def test_operations_nest_and_the_outer_goes_on_after_the_inner(store: Metered) -> None:
    with store.operation("outer") as outer:
        store.head("a")
        with store.operation("inner") as inner:
            store.send_all([Head("b"), Get("c")])
        store.head("d")
    store.head("outside")
    assert (inner.requests, inner.serial_hops) == (2, 1)
    assert (outer.requests, outer.serial_hops) == (4, 3)
    assert outer.sent[3].after == (1, 2)


def test_a_refused_request_is_counted_too(store: Metered) -> None:
    with store.operation("bad") as cost:
        with pytest.raises(Misuse):
            store.put("..", b"", when=ANYTHING)
        with pytest.raises(Misuse):
            store.send_all([Get("ok"), Get("")])
    assert [request.outcome for request in cost.sent] == ["refused"] * 3
