"""Stores send notifications to an address: with a token, understood, and durable before they are answered."""

import json
import threading
from collections.abc import Iterator

import pytest
import requests

from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.http.server import Server, listener
from fencepost.impl.lifecycle.journal import Journals
from fencepost.impl.lifecycle.receiving import Receiver
from fencepost.impl.lifecycle.target import Unavailable
from fencepost.impl.notifications.receiving import BODY_BYTES, NotificationServer
from fencepost.impl.store.layers import Effect, Fault, Faulty

from .given import BUCKET
from .test_journal import Notified, body, record

TOKEN = "a token of sixteen or more"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Sent:
    def __init__(self) -> None:
        self.given = given = Notified(sources=("minio", "weed", "down"))
        fault = Fault(Effect.REQUEST_LOST, {"put"}, times=1000, prefix="lifecycle/v1/events/")
        retry = RetryPolicy("receiver", Unavailable, attempts=2, backoff_s=0.0)
        failing = Journals(Context(Faulty(given.store, [fault]), given.env, retry=retry), BUCKET)
        journals = {"minio": given.journals, "weed": given.journals, "down": failing}
        receivers = {name: Receiver(one, name, BUCKET, self.given.tags_of) for name, one in journals.items()}
        self.service = NotificationServer(receivers, TOKEN, lambda: None)
        self.address = ""

    def post(self, place: str, text: str | bytes, headers: dict[str, str] = BEARER) -> int:
        return requests.post(f"{self.address}/{place}", data=text, headers=headers, timeout=10).status_code

    def keys(self, source: str) -> list[str]:
        return [one.change.key for one in self.given.new_journals().events(source, "", 2**62)]


@pytest.fixture(scope="module")
def sent() -> Iterator[Sent]:
    found = Sent()
    started = threading.Event()
    bound = listener("127.0.0.1", 0)
    server = Server(found.service, on_listening=lambda _: started.set())
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        assert started.wait(30)
        found.address = f"http://127.0.0.1:{bound.getsockname()[1]}"
        yield found
    finally:
        server.stop()
        thread.join(30)
        found.service.close()
        bound.close()


def test_what_is_answered_is_in_the_journal(sent: Sent) -> None:
    before = sent.keys("minio")
    assert sent.post("minio", body(record("a"), record("b%2Fc"))) == 200
    assert sent.post("minio", body(record("d")), {"Authorization": TOKEN}) == 200  # as MinIO may send it
    assert sent.keys("minio") == [*before, "a", "b/c", "d"]
    text = json.dumps({"key": f"/buckets/{BUCKET}/k", "event_type": "create", "message": {}})
    assert sent.post("weed", text) == 200
    assert sent.keys("weed") == ["k"]


def test_what_cannot_be_stored_is_not_answered_as_received(sent: Sent) -> None:
    """The sender sends it again."""
    assert sent.post("down", body(record("z"))) == 503
    assert sent.keys("down") == []


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": ""}, {"Authorization": "Bearer "}, {"Authorization": f"Bearer {TOKEN}x"},
     {"Authorization": f"Basic {TOKEN}"}],
)  # fmt: skip
def test_nobody_sends_without_the_token(headers: dict[str, str], sent: Sent) -> None:
    before = sent.keys("minio")
    assert sent.post("minio", body(record("x")), headers) == 401
    assert sent.keys("minio") == before


@pytest.mark.parametrize(
    ("place", "text", "status"),
    [
        ("other", body(record("x")), 404),
        ("minio", "no json", 400),
        ("minio", "{}", 400),
        ("minio", b"x" * (BODY_BYTES + 1), 413),
    ],
)
def test_what_makes_no_sense_is_refused(place: str, text: str | bytes, status: int, sent: Sent) -> None:
    before = sent.keys("minio")
    assert sent.post(place, text) == status
    assert sent.keys("minio") == before


def test_a_source_that_was_closed_gets_an_error(sent: Sent) -> None:
    sent.given.new_journals().join("late")
    receiver = Receiver(sent.given.new_journals(), "late", BUCKET, sent.given.tags_of)
    sent.service._receivers = {**sent.service._receivers, "late": receiver}
    sent.given.new_journals().close("late")
    assert sent.post("late", body(record("x"))) == 400
