"""What a sweep passes is resolved, and in order; what it must not miss is looked at in time."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from fencepost.impl.lifecycle import cursors
from fencepost.impl.lifecycle.ordered_map import in_order
from fencepost.impl.lifecycle.target import WHOLE, Listed, Needs, Standing, Unavailable
from fencepost.impl.lifecycle.worker import CONCURRENCY, Handled
from fencepost.impl.store.interface import Layer
from fencepost.impl.store.requests import R, Request

from .given import BUCKET, DAY, EVERYTHING, Given, S
from .history import TAG

TAGGED = {"Status": "Enabled", "Filter": {"Tag": {"Key": "t", "Value": "1"}}, "Expiration": {"Days": 3}}


def walked_ns(given: Given) -> int | None:
    return given.worker.records.bucket(BUCKET).walked_ns


# What must not be missed.


@pytest.mark.parametrize("key", [cursors.ages_key(DAY, "x"), cursors.near_key("x")])
def test_no_cursor_is_past_what_may_become_visible(key: str) -> None:
    """The log is flushed late: its events become visible behind the clock by more than any delay."""
    given = Given(EVERYTHING, TAGGED)
    given.work()
    settled_ns = given.env.now_ns() + S
    given.log.flush("x", settled_ns)
    given.env.sleep(20)
    given.worker.sweep_all()
    assert given.cursor(key).saved == cursors.before(settled_ns + 1)


def test_an_event_that_becomes_visible_late_is_looked_at() -> None:
    given = Given()
    given.work()
    given.env.sleep(3)
    given.bucket.write("a", 1, {})
    given.env.sleep(20)
    given.worker.sweep_all()
    given.flush()
    given.worker.sweep_all()
    assert given.keys == []


def test_what_is_written_behind_a_long_walk_is_found_by_its_event() -> None:
    """The cursor begins before the walk, not before its end."""
    given = Given()
    for key in "abcdef":
        given.bucket.write(key, 1, {})

    def slow(bucket: str, after: str, *more: str, uploads: bool) -> Sequence[Listed]:
        if after == "c":
            given.bucket.write("aa", 1, {})
            given.env.sleep(2 * DAY / S)
        return page(bucket, after, *more, uploads=uploads)

    page, given.bucket.page = given.bucket.page, slow  # type: ignore[method-assign]  # for one walk
    given.work()
    given.bucket.page = page  # type: ignore[method-assign]  # as it was
    began_ns = walked_ns(given)
    given.works(4)
    assert given.keys == []
    assert walked_ns(given) == began_ns


def test_an_older_version_that_becomes_the_current_one_is_deleted() -> None:
    """Its own event was passed while it was not; the removal of the newer one is looked at at once."""
    given = Given(versioned=True)
    given.work()
    given.bucket.write("a", 1, {})
    given.env.sleep(DAY / S - 1)
    given.bucket.write("a", 2, {})
    given.works(4)
    second = given.bucket.rows["a"][-1]
    given.bucket.remove_version("a", second.stored.version_id)
    began_ns = walked_ns(given)
    given.works(4)
    assert given.bucket.rows["a"][-1].stored.marker
    assert walked_ns(given) == began_ns


class Order(Layer):
    """The writes in their order."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.written: list[str] = []

    def send(self, request: Request[R]) -> R:
        if not request.reads:
            self.written.append(request.subject)
        reply: R = self.inner.send(request)
        return reply

    def send_all(self, requests: Any) -> list[Any]:
        return [self.send(request) for request in requests]


@pytest.mark.parametrize(("room", "first"), [(1, "/pending/"), (0, "/buckets/")])
def test_what_waits_is_recorded_before_its_event_is_passed(room: int, first: str) -> None:
    """As pending, or as a demotion where the list is full."""
    given = Given(TAGGED)
    given.work()
    given.bucket.write("a", 1, {})
    given.env.sleep(1)
    given.bucket.change("a", [tagged(given)])
    given.env.sleep(2)
    given.flush()
    order = Order(given.store)
    worker = given.new_worker(store=order)
    worker.pending_max = room
    (near,) = [one for one in worker.streams() if one.delay_ns is None]
    assert worker.sweep(near) is Handled.RESOLVED
    places = [next(at for at, key in enumerate(order.written) if part in key) for part in (first, "/near/")]
    assert places == sorted(places)


def tagged(given: Given) -> Any:
    (row,) = given.bucket.rows["a"]
    return replace(row, stored=replace(row.stored, tags=TAG))


# Several at a time.


def test_results_come_in_the_order_of_the_items() -> None:
    """The first is the last to end."""
    first = threading.Event()
    ended: list[int] = []

    def work(number: int) -> int:
        if number == 0:
            first.wait(30)
        ended.append(number)
        if len(ended) == 3:
            first.set()
        return -number

    with ThreadPoolExecutor(4) as pool:
        assert list(in_order(range(4), work, pool=pool, most=4)) == [(n, -n) for n in range(4)]
    assert ended[-1] == 0


def test_no_more_are_worked_on_at_a_time_than_that() -> None:
    gate = threading.Barrier(3)
    now, most, lock = [0], [0], threading.Lock()

    def work(number: int) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        gate.wait(30)  # three at a time, or none ever ends
        with lock:
            now[0] -= 1

    with ThreadPoolExecutor(8) as pool:
        assert len(list(in_order(range(9), work, pool=pool, most=3))) == 9
    assert most == [3]


def test_trivial_items_take_no_place() -> None:
    with ThreadPoolExecutor(2) as pool:
        found = in_order(range(5_000), lambda n: n, pool=pool, most=2, is_work=lambda n: n % 1_000 == 0)
        assert [item for item, _ in found] == list(range(5_000))


def test_one_that_is_closed_leaves_nothing_running() -> None:
    running: list[int] = []

    def work(number: int) -> int:
        running.append(number)
        running.remove(number)
        return number

    with ThreadPoolExecutor(4) as pool:
        results = in_order(range(100), work, pool=pool, most=4)
        next(results)
        results.close()
        assert running == []


def pooled(given: Given) -> ThreadPoolExecutor:
    given.worker.pool = ThreadPoolExecutor(CONCURRENCY)
    return given.worker.pool


def test_the_cursor_never_passes_an_event_that_is_not_resolved() -> None:
    """Later ones are deleted meanwhile, and looked at again."""
    keys = [f"k{number:02}" for number in range(20)]
    given = Given().written(*keys)
    given.env.sleep(DAY / S)
    given.flush()
    deleted = threading.Event()
    given.bucket.on_delete = lambda what, key, version: deleted.set() if key > "k05" else None

    def standing(bucket: str, key: str, needs: Needs = WHOLE) -> Standing:
        if key == "k05":
            deleted.wait(30)
            raise Unavailable("the bucket does not answer")
        return original(bucket, key)

    original, given.bucket.standing = given.bucket.standing, standing  # type: ignore[method-assign]  # fails once
    with pooled(given):
        (stream,) = [one for one in given.worker.streams() if one.delay_ns == DAY]
        assert given.worker.sweep(stream) is Handled.RETRY
        assert not [key for key in given.keys if key < "k05"]
        assert "k05" in given.keys
        assert len(given.keys) < 15
        events = given.log.events("x", "", given.env.now_ns())
        event = next(one for one in events if one.change.key == "k05")
        assert given.cursor().saved < event.position
        given.bucket.standing = original  # type: ignore[method-assign]  # as it was
        assert given.worker.sweep(stream) is Handled.RESOLVED
    assert given.keys == []
    assert given.cursor().saved > event.position


def test_a_walk_looks_at_a_page_at_a_time() -> None:
    given = Given()
    for number in range(10):
        given.bucket.write(f"k{number}", 1, {})
    given.env.sleep(DAY / S)
    together = threading.Barrier(3)

    def standing(bucket: str, key: str, needs: Needs = WHOLE) -> Standing:
        if key < "k9":
            together.wait(30)  # three keys of a page at a time, or none ever ends
        return original(bucket, key)

    original, given.bucket.standing = given.bucket.standing, standing  # type: ignore[method-assign]  # meets others
    with pooled(given):
        given.work()
    assert given.keys == []
