"""A worker that is paused at any request, goes on when another one has taken over, and changes nothing then.

Its cursors and walks are refused; what else it writes is harmless. So everything that is due is deleted in
the end, nothing else is, and no stream waits for an operator. The other one releases the lease of a walk that
ends. A worker that takes that lease afterwards has an epoch of its own, so it may walk.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from fencepost.impl.lease import Fenced
from fencepost.impl.lifecycle.documents import named
from fencepost.impl.lifecycle.leases import Leases
from fencepost.impl.lifecycle.worker import Worker
from fencepost.impl.store.interface import Layer
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Outcome, Put, R, Request

from .given import BUCKET, DAY, EVERYTHING, Given, S
from .history import TAG

TAGGED = {"Status": "Enabled", "Filter": {"Tag": {"Key": "t", "Value": "1"}}, "Expiration": {"Days": 3}}
LATER = {"Status": "Enabled", "Filter": {"Prefix": "a"}, "Expiration": {"Days": 2}}
LASTS_S = 3.0
HOLDER = "first"
"""The worker that is paused."""


class Paused(Layer):
    """The store as a worker sees it that stands still before one of its requests, once."""

    def __init__(self, inner: MemoryStore, at: int, meanwhile: Callable[[], None]) -> None:
        super().__init__(inner)
        self.at = at
        self.meanwhile = meanwhile
        self.count = 0
        self.written: list[str] = []
        """The objects that it wrote after that."""
        self.unleased: list[str] = []
        """Of these, the cursors and walks whose lease another worker had taken last."""

    def send(self, request: Request[R]) -> R:
        self.count += 1
        if self.count == self.at:
            self.meanwhile()
        contents = self.inner.contents()
        reply: R = self.inner.send(request)
        if self.count >= self.at and not request.reads and reply.outcome is Outcome.DONE:
            before = contents.get(request.subject, b"{}")
            written = f"{request.kind} {request.subject} {is_rewind(before, request)}"
            self.written.append(written)
            stream = moved_stream(request.subject)
            lease = json.loads(contents.get(named("leases", stream), b"{}"))
            if stream and not written.endswith("rewound") and lease.get("holder") != HOLDER:
                self.unleased.append(written)
        return reply

    def send_all(self, requests: object) -> list[object]:
        return [self.send(request) for request in requests]  # type: ignore[attr-defined]  # a sequence of them


def moved_stream(subject: str) -> str:
    """Return the stream that a document has the place of; empty for other documents."""
    if "/cursors/" in subject:
        return subject
    return f"walk/{BUCKET}" if "/buckets/" in subject else ""


def is_rewind(before: bytes, request: Request[R]) -> str:
    """Of a walk that ends: it has events looked at again, and takes no name away."""
    if not isinstance(request, Put) or "/cursors/" not in request.key:
        return ""
    old, new = json.loads(before), json.loads(request.body)
    is_back = new["position"] <= old.get("position", new["position"])
    return "rewound" if is_back and set(old.get("serves", ())) <= set(new.get("serves", ())) else ""


def leased(given: Given, holder: str, store: object = None) -> Worker:
    worker = given.new_worker(holder, store)  # type: ignore[arg-type]  # a layer is a store
    worker.leases = Leases(worker.context, holder, LASTS_S)
    return worker


def check_due(given: Given) -> None:
    def on_delete(what: str, key: str, version: str) -> None:
        row = given.bucket.rows[key][-1]
        assert given.env.now_ns() >= row.stored.mtime_ns + DAY, f"{what} {key} {version} is not due"

    given.bucket.on_delete = on_delete


def begun(meanwhile: Callable[[Given], None], *, stops: bool) -> Callable[[int], tuple[Given, Paused]]:
    """With a worker that has passed everything until its last pass, in which it is paused; the one that takes
    over does everything too, or begins everything and stops (`stops`)."""

    def run(at: int) -> tuple[Given, Paused]:
        given = Given(EVERYTHING, TAGGED)
        first = leased(given, HOLDER)
        given.work(first)
        for key in ("a", "b", "c"):
            given.env.sleep(1)
            given.bucket.write(key, 1, {})
        given.env.sleep(DAY / S - 2)
        second = leased(given, "second")

        def take_over() -> None:
            meanwhile(given)
            given.env.sleep(LASTS_S + 1)
            second.proceed = lambda: not stops
            given.work(second)

        paused = Paused(given.store, at, take_over)
        given.bucket.structures.append(LATER)
        given.env.sleep(1)
        # The same process: its leases go with it.
        slow = leased(given, HOLDER, paused)
        check_due(given)
        given.work(slow)
        return given, paused

    return run


def every_pause(run: Callable[[int], tuple[Given, Paused]]) -> Iterator[tuple[Given, Paused]]:
    at = 0
    while True:
        at += 1
        given, paused = run(at)
        if paused.count < at:
            assert at > 20
            return
        yield given, paused


def assert_worked_off(given: Given) -> None:
    third = leased(given, "third")
    for _ in range(2):
        given.env.sleep(2 * DAY / S)
        given.work(third)
    assert (given.keys, third.blockers.every()) == ([], [])


def changed(given: Given) -> None:
    """Everything at once: what the paused worker knows is outdated in every way."""
    given.bucket.write("a", 1, {})
    given.bucket.write("b", 1, TAG)
    given.bucket.structures.reverse()


@pytest.mark.parametrize("stops", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_fenced_worker_moves_no_cursor_and_no_walk(stops: bool) -> None:
    released = False
    for given, paused in every_pause(begun(changed, stops=stops)):
        assert paused.unleased == [], f"paused before request {paused.at}"
        assert_worked_off(given)
        released |= any("/buckets/" in what for what in paused.written)
    assert released is not stops, "only the lease of a walk that ended can be taken"


@pytest.mark.parametrize("what", ["cursors", "buckets"])
def test_without_epochs_a_fenced_worker_moves_both(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leases, "epoch", lambda *_: None)
    runs = every_pause(begun(changed, stops=True))
    assert any(f"/{what}/" in one for _, paused in runs for one in paused.unleased)


def test_a_worker_that_holds_its_leases_is_not_disturbed() -> None:
    given = Given().written("a")
    first, second = leased(given, "first"), leased(given, "second")
    given.work(first)
    given.env.sleep(DAY / S)
    first.leases.hold("walk/b")
    given.work(first)
    assert given.keys == []
    before = given.store.contents()
    given.work(second)
    assert given.store.contents() == before


def test_a_lease_that_another_worker_had_meanwhile_is_not_renewed() -> None:
    """In the middle of a stream, a new epoch would let this worker write what it knew before."""
    given = Given()
    first, second = leased(given, "first"), leased(given, "second")
    assert first.leases.hold("walk/b")
    given.env.sleep(LASTS_S + 1)
    assert second.leases.hold("walk/b")
    second.leases.release()
    first.leases.renew()
    assert not first.leases.is_held("walk/b")
    with pytest.raises(Fenced):
        first.leases.epoch("walk/b")
    assert second.leases.hold("walk/b"), "it is left to others"


def test_a_lease_that_nobody_else_had_is_renewed_after_its_end() -> None:
    given = Given()
    first = leased(given, "first")
    assert first.leases.hold("walk/b")
    epoch = first.leases.epoch("walk/b")
    given.env.sleep(LASTS_S + 1)
    first.leases.renew()
    assert first.leases.epoch("walk/b") == epoch


def test_leases_that_are_released_are_taken_at_once() -> None:
    given = Given().written("a")
    first, second = leased(given, "first"), leased(given, "second")
    given.work(first)
    given.env.sleep(DAY / S)
    first.leases.hold("walk/b")
    first.leases.release()
    given.work(second)
    assert given.keys == []


def test_a_blocker_of_a_fenced_worker_stops_nothing() -> None:
    """It had failed four times before it was paused; the other worker succeeds meanwhile."""

    def run(at: int) -> tuple[Given, Paused]:
        given = Given()
        first = leased(given, "first")
        given.work(first)
        given.env.sleep(1)
        given.bucket.write("a", 1, {})
        given.bucket.poisoned.add("a")
        given.env.sleep(DAY / S)
        for _ in range(4):
            given.env.sleep(1)
            given.work(first)
        second = leased(given, "second")

        def take_over() -> None:
            is_just.append(bool(second.blockers.every()))
            given.bucket.poisoned.clear()
            given.env.sleep(LASTS_S + 1)
            given.work(second)

        paused = Paused(given.store, at, take_over)
        given.work(leased(given, "first", paused))
        return given, paused

    is_just: list[bool] = []
    for given, _ in every_pause(run):
        if not is_just[-1]:
            assert_worked_off(given)
    assert {*is_just} == {False, True}


def test_what_becomes_pending_while_another_worker_drains_stays_so() -> None:
    """The drain looks while the tag is gone; the tag comes back, and its event passes, before it removes."""
    given = Given(TAGGED)
    first, second = leased(given, "first"), leased(given, "second")
    given.work(first)
    given.env.sleep(1)
    given.bucket.write("a", 1, {})
    given.env.sleep(2)

    def tag(tags: dict[str, str]) -> None:
        (row,) = given.bucket.rows["a"]
        given.bucket.change("a", [replace(row, stored=replace(row.stored, tags=tags))])

    tag(TAG)
    given.env.sleep(2)
    given.work(first)
    assert [one.key for one in first.records.pending()] == ["a"]
    tag({})

    def meanwhile() -> None:
        tag(TAG)
        given.env.sleep(LASTS_S + 2)
        given.flush()
        second.sweep_all()

    removes = Removing(given.store, meanwhile)
    leased(given, "first", removes).drain()
    assert removes.is_over
    assert [one.key for one in first.records.pending()] == ["a"]


class Removing(Layer):
    """Something happens before the removal of a pending entry."""

    def __init__(self, inner: MemoryStore, meanwhile: Callable[[], None]) -> None:
        super().__init__(inner)
        self.meanwhile = meanwhile
        self.is_over = False

    def send(self, request: Request[R]) -> R:
        if request.kind == "delete" and not self.is_over:
            self.is_over = True
            self.meanwhile()
        reply: R = self.inner.send(request)
        return reply

    def send_all(self, requests: object) -> list[object]:
        return [self.send(request) for request in requests]  # type: ignore[attr-defined]  # a sequence of them
