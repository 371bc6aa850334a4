"""Notifications: batches are repaired at once, then acknowledged; the search finds what none names."""

import json
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from fencepost.impl.ingest import Manifest, full_audit, keys, reconcile_once, roll_up, totals
from fencepost.impl.ingest.errors import StoreUnavailable
from fencepost.impl.ingest.indexes import derived
from fencepost.impl.ingest.maintenance import SETTLED_NS, Maintenance, Search
from fencepost.impl.ingest.notified import Followed, NotifiedBatches, Receiver, manifests_in
from fencepost.impl.lifecycle.engine import Change, Seen
from fencepost.impl.lifecycle.log import MemoryLog
from fencepost.impl.notifications.messages import NotANotification
from fencepost.impl.notifications.receiving import receive_once
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.layers import Effect, Fault, Faulty, Metered
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.s3.queue import Message, Queue
from tests.impl.publish.scripted import Crashed

from . import given
from .given import SETTINGS, Dying, accepted, bucket, table

BUCKET = "metrics"
LOG = logging.getLogger("test")
EVERY_S = 6 * 3600.0


def indexes(store: MemoryStore, manifest: Manifest) -> int:
    return sum(put.key in store.contents() for put in derived(manifest))


def counted(store: Any) -> int:
    series = totals(store, store.env, SETTINGS).values()
    return sum(one.count for found in series for one in found.values())


def batches(store: Any, without: str | None = None) -> NotifiedBatches:
    return NotifiedBatches(store, store.env, SETTINGS, table(without))


def receiver(store: Any, without: str | None = None, prefix: str = "") -> Receiver:
    return Receiver("q", batches(store, without), BUCKET, prefix)


def body(*object_keys: str, name: str = "ObjectCreated:Put") -> str:
    found = [{"bucket": {"name": BUCKET}, "object": {"key": key.replace("=", "%3D")}} for key in object_keys]
    return json.dumps({"Records": [{"eventName": name, "s3": one} for one in found]})


def behind_the_rollups(store: MemoryStore) -> Manifest:
    """An accepted batch in no index; the rollups have passed its time by hours."""
    lost = accepted(store, 1, follow_up=False)
    for number in (2, 3):
        store.env.sleep(7200)
        accepted(store, number)
    reconcile_once(store, store.env, SETTINGS)
    roll_up(store, store.env, SETTINGS)
    assert counted(store) == 2
    return lost


def roll(store: MemoryStore) -> None:
    roll_up(store, store.env, SETTINGS)


# Repairing.


def test_a_batch_in_no_index_is_repaired_by_its_notification() -> None:
    store = bucket()
    lost = accepted(store, follow_up=False)
    one = receiver(store)
    one.take([body(lost.key)])
    assert indexes(store, lost) == 2
    found = one.findings.take()
    assert (found.seen, found.repaired, found.marked) == (1, 2, 0)
    one.take([body(lost.key), body(lost.key)])
    again = one.findings.take()
    assert (again.seen, again.repaired) == (1, 0)


@pytest.mark.parametrize("name", [None, "repair-before-acknowledge"])
def test_repair_before_acknowledge(name: str | None) -> None:
    """Otherwise a batch whose notification is gone is in no index until a search."""
    store = bucket()
    lost = accepted(store, follow_up=False)
    receiver(store, name).take([body(lost.key)])
    assert indexes(store, lost) == (2 if name is None else 0)


@pytest.mark.parametrize("name", [None, "mark-late"])
def test_mark_late(name: str | None) -> None:
    """Otherwise the rollups, which have passed its time, never count it."""
    store = bucket()
    lost = behind_the_rollups(store)
    receiver(store, name).take([body(lost.key)])
    roll(store)
    assert counted(store) == (3 if name is None else 2)


@pytest.mark.parametrize("name", [None, "mark-what-exists"])
def test_mark_what_exists(name: str | None) -> None:
    """The notification comes again, and its batch is complete by then."""
    for crash in range(8):
        store = bucket()
        lost = behind_the_rollups(store)
        try:
            receiver(Dying(store, crash), name).take([body(lost.key)])
        except Crashed:
            receiver(store, name).take([body(lost.key)])
        roll(store)
        if counted(store) != 3:
            assert name is not None, crash
            return
    assert name is None, "it was never lost: this test shows nothing"


@pytest.mark.parametrize("late_s", range(0, 1000, 50))
def test_a_place_is_ahead_of_the_rollups_or_its_hour_is_marked(late_s: int) -> None:
    """Whenever the notification comes, and whenever a pass of the rollups began before."""
    store = bucket()
    lost = accepted(store, 1, follow_up=False)
    store.env.sleep(late_s)
    accepted(store, 2)  # moves the cursor
    roll(store)
    receiver(store).take([body(lost.key)])
    store.env.sleep(30)
    accepted(store, 3)
    roll(store)
    roll(store)
    assert counted(store) == 3


def test_a_batch_on_time_costs_no_mark_and_six_requests() -> None:
    store = Metered(bucket())
    lost = accepted(store, follow_up=False)
    with store.operation("take") as cost:
        receiver(store).take([body(lost.key)])
    assert cost.requests == 1 + 2 + 2 + 1
    with store.operation("again") as again:
        receiver(store).take([body(lost.key)])
    assert again.requests == 4


@pytest.mark.parametrize("kind", ["get", "head", "put"])
@pytest.mark.parametrize("effect", [Effect.REQUEST_LOST, Effect.REPLY_LOST])
def test_nothing_is_taken_while_the_store_is_away(kind: str, effect: Effect) -> None:
    store = bucket()
    lost = accepted(store, follow_up=False)
    faulty = Faulty(store, [Fault(effect, {kind}, times=100)])
    with pytest.raises(StoreUnavailable):
        receiver(faulty).take([body(lost.key)])
    receiver(store).take([body(lost.key)])
    assert indexes(store, lost) == 2


def test_lost_data_damage_and_deleted_manifests_are_reported() -> None:
    store = bucket()
    lost = accepted(store, follow_up=False)
    store.delete(lost.raw_blob_key, when=ANYTHING)
    damaged = f"{keys.ACCEPTED}agent=61/boot=62/{1:020d}-{2:020d}.json"
    gone = f"{keys.ACCEPTED}agent=61/boot=62/{3:020d}-{4:020d}.json"
    store.put(damaged, b"{", when=ANYTHING)
    one = receiver(store)
    one.take([body(lost.key, damaged, gone)])
    found = one.findings.take()
    assert (found.missing, found.gone) == ([lost.key], [gone])
    assert "is not JSON" in found.damaged[0]


@pytest.mark.parametrize(
    "key",
    [
        "accepted/v1/", "accepted/v1/agent=6/boot=62/1-2.json", "raw-blobs/v1/x", "accepted/v1/../../etc",
        f"x/accepted/v1/agent=61/boot=62/{1:020d}-{2:020d}.json",
        f"accepted/v1/x/agent=61/boot=62/{1:020d}-{2:020d}.json",
        f"accepted/v1/agent=61/boot=62/{2:020d}-{1:020d}.json",
        f"accepted/v1/agent=ff/boot=62/{1:020d}-{2:020d}.json",
        f"accepted/v1/agent=61/boot=62/{1:020d}-{2:020d}.json/more",
    ],
)  # fmt: skip
def test_other_keys_are_ignored(key: str) -> None:
    """A sender of requests cannot have other objects read."""
    assert list(manifests_in([key])) == []
    store = Metered(bucket())
    with store.operation("take") as cost:
        receiver(store).take([body(key)])
    assert cost.requests == 0


def test_keys_have_the_prefix_of_the_store() -> None:
    key = f"accepted/v1/agent=61/boot=62/{1:020d}-{2:020d}.json"
    assert list(manifests_in([f"prod/{key}", key], "prod/")) == [key]


def test_only_creations_in_this_bucket_count() -> None:
    store = Metered(bucket())
    key = f"accepted/v1/agent=61/boot=62/{1:020d}-{2:020d}.json"
    with store.operation("take") as cost:
        receiver(store).take([body(key, name="ObjectRemoved:Delete"), body(key).replace(BUCKET, "other")])
    assert cost.requests == 0
    with pytest.raises(NotANotification):
        receiver(store).take(["{}"])


# Queues.


class Unordered:
    """Delivers in any order, late, and again until a message is removed; may lose some."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.waiting: dict[str, str] = {}

    def send(self, text: str, times: int) -> None:
        for _ in range(times):
            self.waiting[str(len(self.waiting))] = text

    def receive(self, wait_s: int = 0) -> list[Message]:
        found = [Message(*one) for one in self.waiting.items()]
        self.random.shuffle(found)
        return found[:10]

    def remove(self, messages: Sequence[Message]) -> None:
        for one in messages:
            self.waiting.pop(one.receipt, None)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_order_every_batch_is_indexed_and_counted_once(seed: int) -> None:
    """Notifications come twice, late, unordered; receivers die between repair and acknowledgement."""
    store, queue = bucket(), Unordered(seed)
    dice = random.Random(seed)
    made = []
    for number in range(20):
        made.append(accepted(store, number, follow_up=dice.random() < 0.5))
        queue.send(body(made[-1].key), dice.randint(1, 3))
        store.env.sleep(dice.choice([0, 60, 3000]))
        if dice.random() < 0.3:
            roll(store)
    while queue.waiting:
        if dice.random() < 0.3:
            for one in queue.receive()[:3]:
                receiver(store).take([one.body])  # and dies before it acknowledges
        else:
            receive_once(receiver(store), queue, LOG)
        if dice.random() < 0.3:
            roll(store)
    roll(store)
    assert [indexes(store, one) for one in made] == [2] * 20
    assert counted(store) == 20


def test_a_queue_of_sqs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys in the notifications of S3 are quoted; a message of something else stays in the queue."""
    boto3, moto = pytest.importorskip("boto3"), pytest.importorskip("moto")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with moto.mock_aws():
        s3, sqs = (boto3.client(name, region_name="us-east-1") for name in ("s3", "sqs"))
        url = sqs.create_queue(QueueName="events")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        s3.create_bucket(Bucket=BUCKET)
        wanted = {"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}
        s3.put_bucket_notification_configuration(
            Bucket=BUCKET, NotificationConfiguration={"QueueConfigurations": [wanted]}
        )
        store = bucket()
        lost = accepted(store, follow_up=False)
        s3.put_object(Bucket=BUCKET, Key=f"prod/{lost.key}", Body=lost.body())
        queue = Queue("events", region="us-east-1")
        one = receiver(store, prefix="prod/")
        while receive_once(one, queue, LOG, 0):
            pass
        assert indexes(store, lost) == 2
        assert queue.receive(0) == []


# A log.


class Logged:
    """A bucket whose changes are in a log."""

    def __init__(self) -> None:
        self.store = bucket()
        self.log = MemoryLog(("changes",))
        self.held: list[int] = []
        self.log.hold = lambda needed: self.held.extend(needed.values())  # type: ignore[method-assign]  # recorded

    def accept(self, number: int, *, follow_up: bool = False) -> Manifest:
        made = accepted(self.store, number, follow_up=follow_up)
        self.event(made.key)
        return made

    def event(self, key: str) -> None:
        self.store.env.sleep(0.001)
        seen = Seen(0, 1, "etag")
        self.log.add("changes", self.store.env.now_ns(), Change(BUCKET, key, None, seen))
        self.log.flush("changes", self.store.env.now_ns())

    def follow(self, store: Any = None) -> Followed:
        return Followed("log", batches(store or self.store), self.log)


def test_a_log_is_followed_from_where_it_was_left() -> None:
    given_ = Logged()
    first = given_.accept(1)
    assert given_.follow().once().seen == 1
    second = given_.accept(2)
    given_.event("raw-blobs/v1/other")
    result = given_.follow().once()
    assert (result.seen, result.repaired) == (1, 2)
    assert [indexes(given_.store, one) for one in (first, second)] == [2, 2]
    assert given_.follow().once().seen == 0
    assert given_.held == sorted(given_.held)


def test_the_cursor_of_a_log_stops_before_an_unrepaired_batch() -> None:
    given_ = Logged()
    lost = given_.accept(1)
    faulty = Faulty(given_.store, [Fault(Effect.REQUEST_LOST, {"put"}, keys.BY_BLOB, times=100)])
    with pytest.raises(StoreUnavailable):
        given_.follow(faulty).once()
    assert given_.follow().once().seen == 1
    assert indexes(given_.store, lost) == 2


def test_a_log_that_lost_its_beginning_has_a_search_begin() -> None:
    """And the search finds the batch, hours before it would have been due."""
    given_ = Logged()
    store = given_.store
    given_.accept(0, follow_up=True)
    assert given_.follow().once().lost is False
    search = Search(store, store.env, SETTINGS, every_s=EVERY_S)
    store.env.sleep(61)
    assert search.step().ended
    lost = given_.accept(1)
    store.env.sleep(1)
    given_.log.lose_before("changes", store.env.now_ns())
    result = given_.follow().once()
    assert (result.seen, result.lost) == (0, True)
    assert given_.follow().once().lost is False
    store.env.sleep(SETTLED_NS / 1e9 + 1)
    assert search.step().found == 1
    assert indexes(store, lost) == 2
    assert not search.step().ended, "one search is enough"


def test_a_hole_in_a_log_has_a_search_begin_and_the_rest_is_followed() -> None:
    given_ = Logged()
    given_.accept(0)
    given_.follow().once()
    given_.accept(1)
    hole = given_.store.env.now_ns()
    last = given_.accept(2)
    real = given_.log.events

    def broken(shard: str, after: str, until_ns: int) -> Iterator[Any]:
        for event in real(shard, after, until_ns):
            if event.ts_ns >= hole and given_.log.begins_ns(shard) <= hole:
                given_.log.lose_before(shard, hole + 1)
                return
            yield event

    given_.log.events = broken  # type: ignore[method-assign]  # a log that loses a day
    assert given_.follow().once().lost
    assert given_.follow().once().seen == 1
    assert indexes(given_.store, last) == 2


# What nobody notified.


def found_after_s(store: MemoryStore, act: Callable[[], object], lost: Manifest, most_s: float) -> float:
    """How long the maintenance, at its intervals, takes to have all index objects."""
    begun_ns = store.env.now_ns()
    while indexes(store, lost) < 2:
        act()
        store.env.sleep(60)
        assert (store.env.now_ns() - begun_ns) / 1e9 < most_s, "the bound does not hold"
    return (store.env.now_ns() - begun_ns) / 1e9


@pytest.mark.parametrize("after_s", [0, 30, 59, 61, 3600, 6 * 3600 - 1])
def test_without_a_notification_the_search_finds_it_within_its_bound(after_s: float) -> None:
    """The interval of the search, the settling time, a round. With a notification it takes none of that."""
    store = bucket()
    keeper = Maintenance(store, store.env, "keeper", SETTINGS)
    accepted(store, 1)
    store.env.sleep(61)
    keeper.run_once()
    store.env.sleep(after_s)
    lost = accepted(store, 2, follow_up=False)
    bound_s = EVERY_S + SETTLED_NS / 1e9 + 2 * 60
    assert found_after_s(store, keeper.run_once, lost, bound_s) <= bound_s


@pytest.mark.parametrize("name", [None, "search-late-places"])
def test_search_late_places(name: str | None) -> None:
    """The collector stalled, the rollups went by, and nobody was notified."""
    store = bucket()
    lost = behind_the_rollups(store)
    given.collector(store).follow_up(lost)
    roll(store)
    assert counted(store) == 2
    Search(store, store.env, SETTINGS, safeguards=table(name)).step()
    roll(store)
    assert counted(store) == (3 if name is None else 2)


def test_the_audit_finds_what_neither_found() -> None:
    store = bucket()
    lost = behind_the_rollups(store)
    full_audit(store, store.env, SETTINGS)
    roll(store)
    assert (indexes(store, lost), counted(store)) == (2, 3)
