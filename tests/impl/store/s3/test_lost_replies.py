"""A reply that is lost is `unknown`, whatever the SDK would make of it, and every request is sent once.

Against a real HTTP server, since what matters is what the SDK does on its own account.
"""

from collections.abc import Callable, Iterator

import pytest

from fencepost.impl.store import ABSENT, ANYTHING, Matches, Outcome, Store, Unusable, open_store
from fencepost.impl.store import requests as ask
from tests.servers.moto_here import Here

BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>reduce your rate</Message></Error>"
BROKEN = b"<?xml version='1.0'?><Error><Code>InternalError</Code><Message>try again</Message></Error>"


@pytest.fixture
def store(honest_moto: Here) -> Iterator[Store]:
    with open_store(honest_moto.bucket()) as store:
        store.put("there", b"old", when=ANYTHING)
        yield store


def etag(store: Store, key: str = "there") -> str:
    info = store.head(key).info
    assert info is not None
    return info.etag


def begun(store: Store, key: str) -> tuple[str, list[tuple[int, str]]]:
    upload = store.create_upload(key).upload
    return upload, [(1, store.upload_part(key, upload, 1, b"parts").etag)]


def complete(store: Store, key: str, when: ask.Condition) -> ask.Request[ask.PutReply]:
    upload, parts = begun(store, key)
    return ask.CompleteUpload(key, upload, tuple(parts), when)


WRITES: dict[str, tuple[str, Callable[[Store], ask.Request[ask.Reply]], Callable[[Store], bool]]] = {
    "create": ("PUT", lambda s: ask.Put("new", b"v", ABSENT), lambda s: s.get("new").body == b"v"),
    "swap": (
        "PUT",
        lambda s: ask.Put("there", b"v", Matches(etag(s))),
        lambda s: s.get("there").body == b"v",
    ),
    "swap for the same": (
        "PUT",
        lambda s: ask.Put("there", b"old", Matches(etag(s))),
        lambda s: s.get("there").body == b"old",
    ),
    "put": ("PUT", lambda s: ask.Put("there", b"v", ANYTHING), lambda s: s.get("there").body == b"v"),
    "delete": ("DELETE", lambda s: ask.Delete("there", ANYTHING), lambda s: not s.get("there").done),
    "delete if match": (
        "DELETE",
        lambda s: ask.Delete("there", Matches(etag(s))),
        lambda s: not s.get("there").done,
    ),
    "create an upload": (
        "POST",
        lambda s: ask.CreateUpload("new"),
        lambda s: len(s.list_uploads().uploads) == 1,
    ),
    "complete": (
        "POST",
        lambda s: complete(s, "new", ANYTHING),
        lambda s: s.get("new").body == b"parts",
    ),
    "complete if absent": (
        "POST",
        lambda s: complete(s, "new", ABSENT),
        lambda s: s.get("new").body == b"parts",
    ),
    "abort": (
        "DELETE",
        lambda s: ask.AbortUpload("new", begun(s, "new")[0]),
        lambda s: s.list_uploads().uploads == (),
    ),
}
"""By name: the method, the request, and whether it was applied."""


@pytest.fixture(params=["", "legacy", "standard", "adaptive"])
def retry_mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, credentials: None) -> None:
    """The SDK's retry settings of the environment do not matter here."""
    if request.param:
        monkeypatch.setenv("AWS_RETRY_MODE", request.param)
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "7")
        monkeypatch.setenv("AWS_NEW_RETRIES_2026", "true")


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("apply", [True, False], ids=["applied", "dropped"])
def test_a_write_whose_reply_is_lost_is_unknown(
    honest_moto: Here, store: Store, name: str, apply: bool
) -> None:
    method, make, applied = WRITES[name]
    request = make(store)
    honest_moto.lose_reply(method, apply=apply)
    served = len(honest_moto.app.served)
    reply = store.send(request)
    assert reply.outcome is Outcome.UNKNOWN
    assert len(honest_moto.app.served) == served + 1, "sent once"
    assert applied(store) is (apply or name == "swap for the same")


@pytest.mark.parametrize("answer", ["500 Internal Server Error", "502 Bad Gateway", "504 Gateway Timeout"])
def test_a_create_answered_5xx_after_it_was_applied_is_unknown(
    honest_moto: Here, retry_mode: None, answer: str
) -> None:
    """The SDK's own retry would make a 412 of it: one's own object, taken for somebody else's."""
    with open_store(honest_moto.bucket()) as store:
        honest_moto.answer(answer, BROKEN, apply=True)
        served = len(honest_moto.app.served)
        reply = store.put("k", b"mine", when=ABSENT)
        assert reply.outcome is Outcome.UNKNOWN
        assert len(honest_moto.app.served) == served + 1, "sent once"
        assert store.get("k").body == b"mine"
        assert store.put("k", b"mine", when=ABSENT).outcome is Outcome.EXISTS


@pytest.mark.parametrize("answer", ["503 Slow Down", "429 Too Many Requests"])
def test_a_store_that_is_busy_is_asked_once(honest_moto: Here, retry_mode: None, answer: str) -> None:
    with open_store(honest_moto.bucket()) as store:
        honest_moto.answer(answer, BUSY)
        served = len(honest_moto.app.served)
        assert store.put("k", b"mine", when=ABSENT).outcome is Outcome.THROTTLED
        assert len(honest_moto.app.served) == served + 1, "sent once"
        assert store.get("k").outcome is Outcome.MISSING


def test_a_503_that_no_store_signed_is_unknown(honest_moto: Here, store: Store) -> None:
    honest_moto.answer("503 Service Unavailable", b"<html>proxy</html>", apply=True)
    assert store.put("k", b"mine", when=ABSENT).outcome is Outcome.UNKNOWN
    assert store.get("k").done


@pytest.mark.parametrize("body", [BROKEN, BUSY, b"", b"<cut", b"<html>proxy</html>"])
def test_a_completion_with_an_error_inside_its_200_is_unknown(
    honest_moto: Here, store: Store, body: bytes
) -> None:
    request = complete(store, "new", ABSENT)
    honest_moto.answer("200 OK", body, method="POST", apply=True)
    assert store.send(request).outcome is Outcome.UNKNOWN
    assert store.get("new").body == b"parts"


def test_reads_are_sent_once_too(honest_moto: Here, retry_mode: None) -> None:
    with open_store(honest_moto.bucket()) as store:
        for request in (ask.Get("k"), ask.List(), ask.ListUploads()):
            honest_moto.answer("500 Internal Server Error", BROKEN, method="GET")
            served = len(honest_moto.app.served)
            assert store.send(request).outcome is Outcome.UNKNOWN
            assert len(honest_moto.app.served) == served + 1


@pytest.mark.parametrize("status", ["301 Moved Permanently", "307 Temporary Redirect"])
def test_a_redirect_is_not_followed(honest_moto: Here, store: Store, status: str) -> None:
    """The SDK would look the region up and send the request again."""
    headers = {"x-amz-bucket-region": "eu-west-3", "Location": f"{honest_moto.address}/elsewhere"}
    honest_moto.answer(status, b"", headers=headers)
    served = len(honest_moto.app.served)
    with pytest.raises(Unusable, match=r"region is eu-west-3.*&region="):
        store.put("k", b"v", when=ABSENT)
    assert len(honest_moto.app.served) == served + 1


def test_a_head_in_another_region_is_not_repeated(honest_moto: Here, store: Store) -> None:
    honest_moto.answer("400 Bad Request", method="HEAD", headers={"x-amz-bucket-region": "eu-west-3"})
    served = len(honest_moto.app.served)
    with pytest.raises(Unusable, match="eu-west-3"):
        store.head("k")
    assert len(honest_moto.app.served) == served + 1


@pytest.mark.parametrize("body", [b"", b"<html>proxy</html>"])
def test_a_listing_that_did_not_arrive_is_not_empty(honest_moto: Here, store: Store, body: bytes) -> None:
    for request in (ask.List(), ask.ListUploads()):
        honest_moto.answer("200 OK", body, method="GET")
        assert store.send(request).outcome is Outcome.UNKNOWN
    honest_moto.answer("200 OK", body, method="POST", apply=True)
    assert store.create_upload("k").outcome is Outcome.UNKNOWN
