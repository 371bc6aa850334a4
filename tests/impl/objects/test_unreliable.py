"""The server for tests fails as its script says, at the phase that it says, and as no script says otherwise.

If this fails, a user's client passes a test of a fault that never happened, or fails one of the server's own.
"""

import contextlib
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    IncompleteReadError,
    ResponseStreamingError,
)

from fencepost.impl.objects.temporary import Unflushed
from fencepost.impl.objects.unreliable import ADMIN, UnreliableServer
from tests.impl.objects.serving import ROOT_TOKEN, client, served


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("objects")
    with served(root, disk=Unflushed(), make=UnreliableServer) as found:
        with contextlib.closing(client(found)) as s3:
            s3.create_bucket(Bucket="data")
        yield found


@pytest.fixture(scope="module")
def s3(address: str) -> Iterator[Any]:
    with contextlib.closing(client(address)) as found:
        yield found


def ask(address: str, method: str, place: str, body: str = "", token: str = ROOT_TOKEN) -> Any:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(
        f"{address}{ADMIN}{place}", body.encode() or None, headers, method=method
    )
    try:
        with urllib.request.urlopen(request) as response:
            return json.loads(response.read())
    except urllib.error.HTTPError as error:
        error.close()
        raise


@pytest.fixture
def fail(address: str) -> Iterator[Callable[..., None]]:
    def load(**fault: Any) -> None:
        ask(address, "PUT", "faults", json.dumps({"fault": [fault]}))

    yield load
    ask(address, "DELETE", "faults")


def put(s3: Any, key: str, body: bytes = b"new", **more: Any) -> Any:
    return s3.put_object(Bucket="data", Key=key, Body=body, **more)


def content(s3: Any, key: str) -> bytes | None:
    try:
        with contextlib.closing(s3.get_object(Bucket="data", Key=key)["Body"]) as body:
            found: bytes = body.read()
    except s3.exceptions.NoSuchKey:
        return None
    return found


def status(error: ClientError) -> int:
    return int(error.response["ResponseMetadata"]["HTTPStatusCode"])


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"effect": "throttled"}, 503),
        ({"effect": "conflict"}, 409),
        ({"effect": "failed"}, 500),
    ],
)
@pytest.mark.parametrize("phase", ["before", "after"])
def test_an_error_comes_before_or_after_the_commit(
    s3: Any, fail: Callable[..., None], fault: dict[str, Any], code: int, phase: str
) -> None:
    key = f"error-{code}-{phase}"
    fail(**fault, phase=phase, operation="put", count=1)
    with pytest.raises(ClientError) as raised:
        put(s3, key)
    assert status(raised.value) == code
    assert content(s3, key) == (b"new" if phase == "after" else None)
    put(s3, key)  # the second is no more struck


@pytest.mark.parametrize(("effect", "is_applied"), [("reply_lost", True), ("request_lost", False)])
@pytest.mark.parametrize("size", [3, 3 << 20])
def test_a_connection_ends_without_a_reply(
    s3: Any, fail: Callable[..., None], effect: str, is_applied: bool, size: int
) -> None:
    key = f"{effect}-{size}"
    fail(effect=effect, keys=f"{effect}*", operation="PutObject", count=1)
    with pytest.raises(ConnectionClosedError):
        put(s3, key, b"x" * size)
    assert (content(s3, key) is not None) is is_applied


def test_the_second_put_of_a_manifest_is_applied_and_its_reply_lost(
    address: str, s3: Any, fail: Callable[..., None]
) -> None:
    fail(effect="reply_lost", operation="put", keys="manifests/*", first=2, count=1)
    put(s3, "manifests/1", IfNoneMatch="*")
    put(s3, "other")
    with pytest.raises(ConnectionClosedError):
        put(s3, "manifests/2", IfNoneMatch="*")
    with pytest.raises(ClientError) as raised:
        put(s3, "manifests/2", IfNoneMatch="*")  # its own first attempt
    assert status(raised.value) == 412
    put(s3, "manifests/3", IfNoneMatch="*")
    (strike,) = ask(address, "GET", "faults")["struck"]
    assert strike == {
        "number": 1, "fault": 1, "effect": "reply_lost",
        "operation": "PutObject", "bucket": "data", "key": "manifests/2", "nth": 1,
    }  # fmt: skip


def test_a_late_write_lands_behind_later_ones(s3: Any, fail: Callable[..., None]) -> None:
    fail(effect="late", keys="late", operation="put", count=1, seconds=0.2)
    with pytest.raises(ConnectionClosedError):
        put(s3, "late", b"first")
    put(s3, "late", b"second")
    assert content(s3, "late") == b"second"
    wait_for(lambda: content(s3, "late") == b"first")


def test_a_duplicated_create_is_refused_because_of_itself(s3: Any, fail: Callable[..., None]) -> None:
    fail(effect="duplicated", keys="twice", operation="put")
    with pytest.raises(ClientError) as raised:
        put(s3, "twice", IfNoneMatch="*")
    assert status(raised.value) == 412
    assert content(s3, "twice") == b"new"
    put(s3, "twice", b"again")
    assert content(s3, "twice") == b"again"


@pytest.mark.parametrize("phase", ["before", "after"])
def test_a_delay_is_before_or_after_the_commit(
    address: str, s3: Any, fail: Callable[..., None], phase: str
) -> None:
    key = f"delayed-{phase}"
    fail(effect="delayed", keys=key, operation="put", phase=phase, seconds=0.4)
    other = threading.Thread(target=put, args=(s3, key))
    begun = time.monotonic()
    other.start()
    wait_for(lambda: ask(address, "GET", "faults")["struck"] != [])
    if phase == "after":
        wait_for(lambda: content(s3, key) is not None)
    else:
        assert content(s3, key) is None
    other.join()
    assert time.monotonic() - begun >= 0.4
    assert content(s3, key) == b"new"


def test_a_reordered_write_goes_on_behind_the_next(address: str, s3: Any, fail: Callable[..., None]) -> None:
    fail(effect="reordered", keys="order/*", operation="put", count=1)
    first = threading.Thread(target=put, args=(s3, "order/k", b"first"))
    first.start()
    wait_for(lambda: ask(address, "GET", "faults")["struck"] != [])
    assert content(s3, "order/k") is None
    put(s3, "order/k", b"second")
    first.join()
    assert content(s3, "order/k") == b"first"


def test_a_reordered_write_does_not_wait_for_ever(s3: Any, fail: Callable[..., None]) -> None:
    fail(effect="reordered", keys="alone", operation="put", seconds=0.05)
    put(s3, "alone")
    assert content(s3, "alone") == b"new"


def test_a_reply_ends_in_its_middle(s3: Any, fail: Callable[..., None]) -> None:
    put(s3, "whole", b"x" * 1000)
    fail(effect="truncated", operation="get", keys="whole", count=1)
    with pytest.raises((IncompleteReadError, ResponseStreamingError, BotoCoreError, OSError)):
        content(s3, "whole")
    assert content(s3, "whole") == b"x" * 1000


def test_a_trace_repeats_the_same_faults(address: str, s3: Any) -> None:
    text = 'seed = 3\n[[fault]]\neffect = "throttled"\noperation = "put"\nchance = 0.4\n'

    def run() -> list[int]:
        found = []
        for at in range(24):
            with contextlib.suppress(ClientError):
                put(s3, f"random/{at % 5}")
                found.append(at)
        return found

    ask(address, "PUT", "faults", text)
    first = run()
    trace = ask(address, "GET", "faults/trace")
    ask(address, "PUT", "faults", text)
    assert run() == first
    ask(address, "PUT", "faults", json.dumps(trace))
    assert run() == first
    assert 0 < len(first) < 24
    ask(address, "DELETE", "faults")
    assert run() == [*range(24)]


def test_uploads_and_listings_are_struck_by_their_names(s3: Any, fail: Callable[..., None]) -> None:
    fail(effect="failed", operation=["CompleteMultipartUpload", "list"], count=2)
    upload = s3.create_multipart_upload(Bucket="data", Key="parts")["UploadId"]
    named = {"Bucket": "data", "Key": "parts", "UploadId": upload}
    part = s3.upload_part(**named, PartNumber=1, Body=b"part")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    with pytest.raises(ClientError, match="InternalError"):
        s3.complete_multipart_upload(**named, MultipartUpload=parts)
    with pytest.raises(ClientError, match="InternalError"):
        s3.list_objects_v2(Bucket="data")
    s3.complete_multipart_upload(**named, MultipartUpload=parts)


@pytest.mark.parametrize("token", ["", "wrong", "root"])
def test_only_the_root_token_administers(address: str, token: str) -> None:
    for method, place in (("GET", "faults"), ("PUT", "faults"), ("DELETE", "faults"), ("PUT", "quirks")):
        with pytest.raises(urllib.error.HTTPError) as raised:
            ask(address, method, place, "{}", token)
        assert raised.value.code == 401


@pytest.mark.parametrize(
    ("place", "body", "code"),
    [
        ("faults", "[[fault]]", 400),
        ("faults", "x", 400),
        ("quirks", "[]", 400),
        ("quirks", '{"quirks": ["nonsense"]}', 400),
        ("quirks", '{"stores": ["nonsense"]}', 400),
        ("quirks", '{"quirks": 3}', 400),
        ("nonsense", "", 404),
    ],
)
def test_a_bad_administrative_request_changes_nothing(address: str, place: str, body: str, code: int) -> None:
    before = ask(address, "GET", "faults"), ask(address, "GET", "quirks")
    with pytest.raises(urllib.error.HTTPError) as raised:
        ask(address, "PUT", place, body)
    assert raised.value.code == code
    assert (ask(address, "GET", "faults"), ask(address, "GET", "quirks")) == before


def test_without_a_script_nothing_is_struck(address: str, s3: Any) -> None:
    put(s3, "quiet")
    assert content(s3, "quiet") == b"new"
    assert ask(address, "GET", "faults") == {"script": {"seed": 0, "fault": []}, "struck": []}


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)
