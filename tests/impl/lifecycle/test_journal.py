"""Logs of notifications: whatever comes twice, late or in another order is neither lost nor early."""

import json
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.lifecycle import cursors
from fencepost.impl.lifecycle.engine import Class, classify
from fencepost.impl.lifecycle.journal import Journals
from fencepost.impl.lifecycle.policy import Degraded, Mode
from fencepost.impl.lifecycle.receiving import Receiver
from fencepost.impl.lifecycle.service import Service
from fencepost.impl.lifecycle.shards import Shards
from fencepost.impl.lifecycle.worker import Worker
from fencepost.impl.notifications.messages import Closed, NotANotification, rows_of
from fencepost.impl.notifications.receiving import receive_once
from fencepost.impl.store.interface import Layer, Store
from fencepost.impl.store.layers import Effect, Fault, Faulty
from fencepost.impl.store.requests import ANYTHING, Put, R, Request
from fencepost.impl.store.s3.queue import Message, NoQueue, Queue

from .given import BUCKET, DAY, START, TIMING, Down, Given, S

RETRY = RetryPolicy("receiver", Down, attempts=3, backoff_s=0.0)
LOG = logging.getLogger("test")


def record(key: str, name: str = "ObjectCreated:Put", bucket: str = BUCKET, **about: Any) -> dict[str, Any]:
    of = {"bucket": {"name": bucket}, "object": {"key": key, **about}}
    return {"eventName": name, "eventTime": "2026-11-20T00:00:00.000Z", "s3": of}


def body(*records: dict[str, Any]) -> str:
    return json.dumps({"Records": list(records)})


class FakeQueue:
    """Delivers in any order, late, and again until a message is removed."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.waiting: dict[str, str] = {}
        self.count = 0
        self.fails = 0

    def send(self, text: str, times: int = 1) -> None:
        for _ in range(times):
            self.count += 1
            self.waiting[str(self.count)] = text

    def receive(self, wait_s: int = 0) -> list[Message]:
        if self.fails:
            self.fails -= 1
            raise NoQueue("it does not answer")
        found = [Message(*one) for one in self.waiting.items()]
        self.random.shuffle(found)
        return found[: self.random.randint(0, 10)]

    def remove(self, messages: Sequence[Message]) -> None:
        for one in messages:
            self.waiting.pop(one.receipt, None)


class Notified(Given):
    """The same bucket and workers; the bucket's own log is not looked at, but notifications are."""

    def __init__(self, *rules: dict[str, Any], sources: Sequence[str] = ("q",)) -> None:
        super().__init__(*rules)
        self.journals = self.new_journals()
        for source in sources:
            self.journals.join(source)
        self.queue = FakeQueue()

    def new_journals(self) -> Journals:
        return Journals(self.new_worker().context, BUCKET)

    def receiver(self, source: str = "q") -> Receiver:
        return Receiver(self.new_journals(), source, BUCKET, self.tags_of)

    def tags_of(self, key: str) -> Mapping[str, str] | None:
        rows = self.bucket.rows.get(key)
        return rows[0].stored.tags if rows else None

    def service(self) -> Service:
        one = self.new_worker()
        self.worker = Worker(one.context, self.bucket, self.journals, TIMING)
        return Service(self.worker)

    def write(self, key: str) -> None:
        self.bucket.write(key, 1, {})
        self.queue.send(body(record(key)), times=self.queue.random.randint(1, 3))

    def rounds(self, service: Service, count: int) -> None:
        for _ in range(count):
            service.round()
            assert service.last.failed == {}
            self.env.sleep(1)


# The forms.


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (body(record("a%2Bb+c", size=3, eTag="e")), [["a+b c", "written", 3, "e", None]]),
        (body(record("k", "s3:ObjectRemoved:Delete")), [["k", "removed", -1, "", None]]),
        (body(record("k", "ObjectRemoved:DeleteMarkerCreated")), [["k", "written", -1, "", None]]),
        (body(record("k", "ObjectTagging:Put", eTag="e")), [["k", "tagged", -1, "e", None]]),
        (body(record("k", "ObjectAccessed:Get")), []),
        (body(record("k", bucket="other")), []),
        (json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent"}), []),
        (
            json.dumps({"Type": "Notification", "Message": body(record("k"))}),
            [["k", "written", -1, "", None]],
        ),
        (
            json.dumps({"EventName": "s3:ObjectCreated:Put", "Key": f"{BUCKET}/k", "Records": [record("k")]}),
            [["k", "written", -1, "", None]],
        ),
        (
            json.dumps(
                {
                    "detail-type": "Object Created",
                    "detail": {"bucket": {"name": BUCKET}, "object": {"key": "a+b", "size": 1, "etag": "e"}},
                }
            ),
            [["a+b", "written", 1, "e", None]],
        ),
        (
            json.dumps({"key": f"/buckets/{BUCKET}/d/k", "event_type": "create", "message": {}}),
            [["d/k", "written", -1, "", None]],
        ),
        (json.dumps({"key": "/buckets/other/k", "event_type": "delete", "message": {}}), []),
    ],
)
def test_each_form_is_understood(text: str, rows: list[list[Any]]) -> None:
    assert rows_of(BUCKET, text) == rows


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"Records": [{}]}', '{"Records": 3}', '"x"', '{"Message": "x"}', "[" * 9999],
)
def test_nothing_else_is_taken_for_a_notification(text: str) -> None:
    with pytest.raises(NotANotification):
        rows_of(BUCKET, text)


# The journal.


def test_positions_are_the_order_of_arrival(caplog: pytest.LogCaptureFixture) -> None:
    given = Notified()
    for keys in (("b", "a"), ("c",), ("a",)):
        given.receiver().take([body(*(record(key) for key in keys))])
    events = list(given.journals.events("q", "", 2**62))
    assert [one.change.key for one in events] == ["b", "a", "c", "a"]
    assert sorted(one.position for one in events) == [one.position for one in events]
    assert len({one.position for one in events}) == 4
    for number, one in enumerate(events):
        rest = [other.change.key for other in given.new_journals().events("q", one.position, 2**62)]
        assert rest == ["b", "a", "c", "a"][number + 1 :]


def test_many_entries_are_found_by_position() -> None:
    given = Notified()
    for number in range(40):
        given.env.sleep(1)
        given.receiver().take([body(record(f"k{number}"))])
    fresh = given.new_journals()
    events = list(fresh.events("q", "", 2**62))
    for number in (0, 1, 17, 38, 39):
        place = cursors.before(events[number].ts_ns)
        assert next(given.new_journals().events("q", place, 2**62)).change.key == f"k{number}"
    until = events[20].ts_ns
    assert [one.change.key for one in fresh.events("q", "", until)][-1] == "k20"
    assert fresh.settled_ns("q") == events[-1].ts_ns


def test_receivers_of_one_source_overwrite_nothing() -> None:
    """Each knows another end of the journal, and clocks differ."""
    given = Notified()
    contexts = [Context(given.store, SeededEnvironment(n, START - n * 5 * S), retry=RETRY) for n in range(3)]
    receivers = [Receiver(Journals(one, BUCKET), "q", BUCKET, given.tags_of) for one in contexts]
    for number in range(12):
        receivers[number % 3].take([body(record(f"k{number}"))])
    events = list(given.journals.events("q", "", 2**62))
    assert [one.change.key for one in events] == [f"k{number}" for number in range(12)]
    assert len({one.ts_ns for one in events}) == 12


class Interrupted(Layer):
    """Another receiver appends just before an entry is created."""

    def __init__(self, inner: Store, act: Callable[[], None]) -> None:
        super().__init__(inner)
        self._act: Callable[[], None] | None = act

    def send(self, request: Request[R]) -> R:
        if isinstance(request, Put) and "/events/q/0" in request.key and self._act is not None:
            act, self._act = self._act, None
            act()
        return self.inner.send(request)

    def send_all(self, requests: Sequence[Request[Any]]) -> list[Any]:
        return [self.send(request) for request in requests]


def test_of_two_receivers_of_one_moment_both_have_their_entries() -> None:
    given = Notified()
    store = Interrupted(given.store, lambda: given.receiver().take([body(record("other"))]))
    context = Context(store, given.env, retry=RETRY)
    Receiver(Journals(context, BUCKET), "q", BUCKET, given.tags_of).take([body(record("mine"))])
    assert [one.change.key for one in given.new_journals().events("q", "", 2**62)] == ["other", "mine"]


def test_nothing_is_acknowledged_before_it_is_in_the_journal() -> None:
    given = Notified()
    given.queue.send(body(record("k")))
    lost = Faulty(given.store, [Fault(Effect.REQUEST_LOST, {"put"}, times=50, prefix="lifecycle/v1/events/")])
    receiver = Receiver(Journals(given.new_worker(store=lost).context, BUCKET), "q", BUCKET, given.tags_of)

    def receive_all() -> None:
        for _ in range(20):
            receive_once(receiver, given.queue, LOG)

    with pytest.raises(Down):
        receive_all()
    assert len(given.queue.waiting) == 1
    while given.queue.waiting:
        receive_once(given.receiver(), given.queue, LOG)
    assert [one.change.key for one in given.journals.events("q", "", 2**62)] == ["k"]


def test_a_lost_reply_repeats_and_loses_nothing() -> None:
    given = Notified()
    lost = Faulty(given.store, [Fault(Effect.REPLY_LOST, {"put"}, times=1, prefix="lifecycle/v1/events/")])
    receiver = Receiver(Journals(given.new_worker(store=lost).context, BUCKET), "q", BUCKET, given.tags_of)
    receiver.take([body(record("a"))])
    receiver.take([body(record("b"))])
    assert {one.change.key for one in given.journals.events("q", "", 2**62)} == {"a", "b"}


def test_what_is_no_notification_stays_in_the_queue(caplog: pytest.LogCaptureFixture) -> None:
    given = Notified()
    given.queue.send("no json")
    given.queue.send(body(record("k")))
    for _ in range(30):
        receive_once(given.receiver(), given.queue, LOG)
    assert list(given.queue.waiting.values()) == ["no json"]
    assert "stays in the queue" in caplog.text


def test_a_change_of_tags_has_the_tags_of_the_object() -> None:
    given = Notified()
    given.bucket.write("k", 1, {"t": "1"})
    given.receiver().take([body(record("k", "ObjectTagging:Put"))])
    (event,) = given.journals.events("q", "", 2**62)
    assert classify(event.change) is Class.TAGS
    assert event.change.new is not None
    assert event.change.new.tags == (("t", "1"),)


# A lifecycle that follows them.


@pytest.mark.parametrize("seed", range(5))
def test_whatever_the_order_everything_expires_and_nothing_early(seed: int) -> None:
    """Notifications that come twice, late, and in any order; receivers whose queue fails meanwhile."""
    given = Notified()
    given.queue.random.seed(seed)
    service = given.service()
    given.rounds(service, 1)
    written: dict[str, int] = {}
    for number in range(15):
        key = f"k{given.queue.random.randrange(8)}"
        given.write(key)
        written[key] = given.env.now_ns()
        given.queue.fails = given.queue.random.choice([0, 0, 1])
        for _ in range(given.queue.random.randrange(3)):
            try:
                receive_once(given.receiver(), given.queue, LOG)
            except NoQueue:
                continue
        given.rounds(service, 1)
        for one, written_ns in written.items():
            assert one in given.keys or given.env.now_ns() >= written_ns + DAY, number
    given.queue.fails = 0
    while given.queue.waiting:
        receive_once(given.receiver(), given.queue, LOG)
    given.rounds(service, DAY // S + 4)
    assert given.keys == []
    assert given.worker.records.bucket(BUCKET).walk is None


def test_an_object_whose_clock_is_ahead_waits_in_the_list() -> None:
    given = Notified()
    service = given.service()
    given.rounds(service, 1)
    given.env.sleep(3)
    given.bucket.write("k", 1, {})
    now_ns = given.env.now_ns()
    given.receiver().take([body(record("k"))])
    (row,) = given.bucket.rows["k"]
    given.bucket.rows["k"] = [replace(row, stored=replace(row.stored, mtime_ns=now_ns + 2 * S))]
    given.rounds(service, DAY // S + 1)
    assert given.keys == ["k"]
    assert [one.key for one in given.operator.pending()] == ["k"]
    given.rounds(service, 4)
    assert given.keys == []


def test_what_nobody_notified_is_found_by_a_walk() -> None:
    given = Notified()
    service = given.service()
    given.rounds(service, DAY // S + 6)
    given.bucket.write("k", 1, {})
    given.rounds(service, DAY // S + 2)
    assert given.keys == ["k"]
    given.env.sleep(7 * DAY / S)
    given.rounds(service, 2)
    assert given.keys == []


def test_an_action_is_driven_once_the_journal_is_old_enough() -> None:
    """What was written before the first notification could arrive is left to walks."""
    given = Notified()
    service = given.service()
    given.rounds(service, 1)
    (state,) = given.worker.records.bucket(BUCKET).actions.values()
    assert (state.mode, state.reason) == (Mode.SCAN_ONLY, Degraded.RETENTION_BELOW_HORIZON)
    given.rounds(service, DAY // S + 6)
    (state,) = given.worker.records.bucket(BUCKET).actions.values()
    assert state.mode is Mode.EVENT_DRIVEN


# Several sources: they join, are closed, and vanish.


def test_sources_join_and_vanish_when_everything_in_them_is_resolved() -> None:
    given = Notified(sources=("a", "b"))
    service = given.service()
    given.rounds(service, DAY // S + 8)
    for source, key in (("a", "ka"), ("b", "kb")):
        given.bucket.write(key, 1, {})
        given.receiver(source).take([body(record(key))])
    given.rounds(service, 2)
    given.journals.close("a")
    with pytest.raises(Closed):
        given.receiver("a").take([body(record("late"))])
    assert given.journals.shards() == ["a", "b"]
    given.rounds(service, DAY // S + 8)
    assert given.keys == []
    assert given.journals.shards() == ["b"]
    given.rounds(service, 2)
    assert {stream.shard for stream in given.worker.streams()} == {"b"}
    assert Shards(given.worker).evidence() == []
    (state,) = given.worker.records.bucket(BUCKET).actions.values()
    assert state.mode is Mode.EVENT_DRIVEN


def test_a_source_that_joins_later_is_followed_from_its_beginning() -> None:
    given = Notified(sources=("a",))
    service = given.service()
    given.rounds(service, DAY // S + 8)
    given.env.sleep(1)
    given.new_journals().join("b")
    given.bucket.write("k", 1, {})
    given.receiver("b").take([body(record("k"))])
    given.rounds(service, DAY // S + 4)
    assert given.keys == []


def test_a_journal_that_is_removed_by_hand_is_evidence() -> None:
    given = Notified(sources=("a", "b"))
    service = given.service()
    given.rounds(service, DAY // S + 8)
    given.bucket.write("k", 1, {})
    given.receiver("a").take([body(record("k"))])
    given.rounds(service, 1)
    for key in [key for key in given.store.contents() if key.startswith("lifecycle/v1/events/a/")]:
        given.store.delete(key, when=ANYTHING)
    given.env.sleep(2)
    given.rounds(service, 3)
    (state,) = given.worker.records.bucket(BUCKET).actions.values()
    assert state.reason is Degraded.LOST_LOG
    given.rounds(service, DAY // S + 4)
    assert given.keys == []  # by the walks that follow a loss


def test_what_is_resolved_is_removed_from_the_journal() -> None:
    given = Notified()
    service = given.service()
    given.rounds(service, DAY // S + 8)
    for number in range(6):
        given.bucket.write(f"k{number}", 1, {})
        given.receiver().take([body(record(f"k{number}"))])
        given.rounds(service, 1)
    given.rounds(service, DAY // S + 4)
    assert given.keys == []
    entries = [key for key in given.store.contents() if "/events/q/0" in key]
    assert len(entries) <= 2
    (state,) = given.worker.records.bucket(BUCKET).actions.values()
    assert state.mode is Mode.EVENT_DRIVEN


# A queue.


def test_a_queue_of_sqs(monkeypatch: pytest.MonkeyPatch) -> None:
    boto3 = pytest.importorskip("boto3")
    moto = pytest.importorskip("moto")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with moto.mock_aws():
        s3, sqs = (boto3.client(name, region_name="us-east-1") for name in ("s3", "sqs"))
        url = sqs.create_queue(QueueName="events")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        s3.create_bucket(Bucket=BUCKET * 3)
        configuration = {"QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]}
        s3.put_bucket_notification_configuration(Bucket=BUCKET * 3, NotificationConfiguration=configuration)
        s3.put_object(Bucket=BUCKET * 3, Key="a b/+", Body=b"xyz")
        given = Notified()
        journals = Journals(given.new_worker().context, BUCKET * 3)
        receiver = Receiver(journals, "q", BUCKET * 3, given.tags_of)
        queue = Queue("events", region="us-east-1")
        while receive_once(receiver, queue, LOG, 0):
            pass
        assert queue.receive(0) == []
        (event,) = journals.events("q", "", 2**62)
        assert event.change.key == "a b/+"
        assert event.change.new is not None
        assert event.change.new.size == 3
        with pytest.raises(NoQueue, match="does not answer"):
            Queue("other", region="us-east-1").receive(0)
