"""Small objects that are answered from the event loop: the same responses, and nothing that another process
has changed since."""

import asyncio
import errno
import fcntl
import hmac
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.http.service import Head
from fencepost.impl.objects import app
from fencepost.impl.objects.app import ObjectServer
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.credentials import ROOT, Caller, Credentials
from fencepost.impl.objects.surface import act
from fencepost.impl.objects.temporary import Unflushed
from fencepost.impl.store.files import disk

TOKEN = "a root token of this test"
ENDPOINT = "http://127.0.0.1:9"
BUCKET = "bucket"


class Later(SystemEnvironment):
    """Documents are kept once they are a second old."""

    def now_ns(self) -> int:
        return super().now_ns() + 2 * 10**9


class Process:
    """What one worker process has: caches of its own over a directory that it shares."""

    def __init__(self, root: Path) -> None:
        self.buckets = Buckets(str(root), env=Later(), disk=Unflushed())
        self.server = ObjectServer(self.buckets, Credentials(TOKEN))

    def do(self, operation: str, **parameters: Any) -> Any:
        return act(operation, self.buckets, Caller(ROOT))({"Bucket": BUCKET, **parameters})

    def put(self, key: str, body: bytes, **parameters: Any) -> None:
        with self.do("PutObject", Key=key, **parameters) as receiving:
            receiving.write(body)
            receiving.finish(f"{len(body):032x}", {})

    def warm(self, key: str = "key") -> None:
        """Have the session, the folder and the document of the bucket in the caches."""
        with self.do("GetObject", Key=key):
            pass

    def close(self) -> None:
        self.server.close()
        self.buckets.close()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Process, Process]]:
    found = Process(tmp_path), Process(tmp_path)
    found[0].buckets.create(BUCKET)
    found[0].put("key", b"content")
    for process in found:
        process.warm()
    yield found
    for process in found:
        process.close()


def head(method: str = "GET", key: str = "key", *, signed: bool = True, **parameters: Any) -> Head:
    secret = hmac.digest(TOKEN.encode(), b"root", "sha256").hex()
    style = Config(signature_version="s3v4", s3={"addressing_style": "path"})
    client = boto3.client(
        "s3", region_name="us-east-1", endpoint_url=ENDPOINT, config=style,
        aws_access_key_id="root", aws_secret_access_key=secret,
    )  # fmt: skip
    operation = "get_object" if method == "GET" else "head_object"
    url = client.generate_presigned_url(operation, {"Bucket": BUCKET, "Key": key, **parameters})
    path, _, query = url.removeprefix(ENDPOINT).partition("?")
    headers = [(b"host", b"127.0.0.1:9")]
    return Head(method, path.encode(), query.encode() if signed else b"", headers, ("127.0.0.1", 1))


def usual(process: Process, request: Head) -> tuple[int, dict[str, str], bytes]:
    """The response of the way that every other request takes."""
    sent: list[Any] = []

    arriving = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Any:
        if not arriving:
            await asyncio.Event().wait()
        return arriving.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": request.method, "path": request.raw_path.decode(),
        "raw_path": request.raw_path, "query_string": request.query, "headers": request.headers,
        "client": request.client,
    }  # fmt: skip
    asyncio.run(process.server(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(message["body"] for message in sent[1:])


def parsed(raw: bytes | None) -> tuple[int, dict[str, str], bytes]:
    assert raw is not None, "it was not answered at once"
    start, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = start.decode().split("\r\n")
    pairs = (line.split(": ", 1) for line in lines)
    return int(status.split()[1]), {name.lower(): value for name, value in pairs}, body


def without_moment(found: tuple[int, dict[str, str], bytes]) -> Any:
    status, headers, body = found
    return (
        status,
        {
            name: text
            for name, text in headers.items()
            if name not in ("x-amz-request-id", "x-request-id", "date")
        },
        body,
    )


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("parameters", [{}, {"Range": "bytes=1-3"}, {"ResponseContentType": "text/x"}])
def test_the_response_is_that_of_the_usual_way(
    two: tuple[Process, Process], method: str, parameters: dict[str, str]
) -> None:
    process = two[0]
    process.put("key", b"content", Metadata={"a": "b"}, ContentType="text/plain", Tagging="x=1")
    request = head(method, **parameters)
    if "Range" in parameters:
        request.headers.append((b"range", b"bytes=1-3"))
    found = parsed(process.server.at_once(request))
    assert without_moment(found) == without_moment(usual(process, request))
    assert found[0] == (206 if "Range" in parameters else 200)


def test_what_another_process_wrote_is_read(two: tuple[Process, Process]) -> None:
    here, there = two
    assert parsed(here.server.at_once(head()))[2] == b"content"
    there.put("key", b"replaced")
    assert parsed(here.server.at_once(head()))[2] == b"replaced"
    there.do("DeleteObject", Key="key")
    assert here.server.at_once(head()) is None
    assert usual(here, head())[0] == 404


def test_a_folder_that_was_removed_and_made_again_is_found(two: tuple[Process, Process]) -> None:
    here, there = two
    there.put("a/b", b"first")
    here.warm("a/b")
    assert parsed(here.server.at_once(head(key="a/b")))[2] == b"first"
    there.do("DeleteObject", Key="a/b")
    there.put("a/b", b"second")
    assert here.server.at_once(head(key="a/b")) is None
    assert usual(here, head(key="a/b"))[2] == b"second"


def test_settings_of_another_process_hold(two: tuple[Process, Process]) -> None:
    here, there = two
    there.do("PutBucketVersioning", VersioningConfiguration={"Status": "Enabled"})
    there.put("key", b"second")
    for _ in range(2):  # the document is read anew, and then kept
        answer = here.server.at_once(head())
        _, headers, _ = parsed(answer) if answer is not None else usual(here, head())
        assert "x-amz-version-id" in headers
    version = headers["x-amz-version-id"]
    assert here.server.at_once(head(VersionId=version)) is None, "a named version may be anywhere"
    there.do("DeleteObject", Key="key")
    there.do("DeleteObject", Key="key", VersionId=version)
    assert here.server.at_once(head()) is None or b"content" in (here.server.at_once(head()) or b"")


def test_a_bucket_that_another_process_removed_is_gone(two: tuple[Process, Process]) -> None:
    here, there = two
    there.do("DeleteObject", Key="key")
    there.do("DeleteBucket")
    assert here.server.at_once(head()) is None
    assert usual(here, head())[0] == 404


def test_access_that_another_process_withdrew_is_refused(two: tuple[Process, Process]) -> None:
    here, there = two
    anonymous = head(signed=False)
    assert here.server.at_once(anonymous) is None
    there.do("PutObjectAcl", Key="key", ACL="public-read")
    assert parsed(here.server.at_once(anonymous))[2] == b"content"
    there.do("PutObjectAcl", Key="key", ACL="private")
    assert here.server.at_once(anonymous) is None
    assert usual(here, anonymous)[0] == 403


def test_a_false_signature_is_refused(two: tuple[Process, Process]) -> None:
    request = head()
    false = request._replace(query=request.query[:-1] + (b"0" if request.query[-1:] != b"0" else b"1"))
    assert two[0].server.at_once(request) is not None
    assert two[0].server.at_once(false) is None
    assert usual(two[0], false)[0] == 403


def test_what_would_wait_is_left_to_a_thread(
    two: tuple[Process, Process], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = two
    server = here.server
    there.put("large", bytes(app.SMALL_BYTES_MAX + 1))
    here.warm("large")
    assert server.at_once(head(key="large")) is None
    assert server.at_once(head("HEAD", "large")) is not None, "its bytes are not read"
    lock = os.open(tmp_path / ".objects" / "locks" / BUCKET, os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert server.at_once(head()) is None, "the bucket is being changed"
    os.close(lock)
    assert server.at_once(head()) is not None

    def not_in_memory(*_: object) -> int:
        raise BlockingIOError(errno.EAGAIN, "would block")

    with monkeypatch.context() as patch:
        patch.setattr(os, "preadv", not_in_memory)
        assert server.at_once(head()) is None
    with monkeypatch.context() as patch:
        patch.setattr(disk, "_openat2", lambda *_: -1)
        assert server.at_once(head()) is None, "the name is not in memory, or the system cannot say so"


@pytest.mark.parametrize("memory", ["all of it", "nothing", "a part of each piece", "every other piece"])
def test_a_long_answer_is_read_by_a_thread_where_it_is_not_in_memory(
    two: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch, memory: str
) -> None:
    """A piece of which a part is in memory must not be sent as the whole piece."""
    process, body = two[0], os.urandom(3 * app.SLICE + 5)
    process.put("large", body)
    reads, calls, preadv, read = 0, 0, os.preadv, app._read

    def counted(*place: Any) -> bytes:
        nonlocal reads
        reads += 1
        return read(*place)

    def from_memory(fd: int, buffers: list[bytearray], at: int, flags: int) -> int:
        nonlocal calls
        calls += 1
        if memory == "nothing" or (memory == "every other piece" and calls % 2):
            raise BlockingIOError(errno.EAGAIN, "would block")
        found = preadv(fd, buffers, at)
        return found - 1 if memory == "a part of each piece" else found

    monkeypatch.setattr(app, "_AT_ONCE", 8)
    monkeypatch.setattr(app, "_read", counted)
    monkeypatch.setattr(os, "preadv", from_memory)
    status, headers, found = usual(process, head(key="large"))
    assert (status, headers["content-length"], found == body) == (200, str(len(body)), True)
    assert (reads == 0) == (memory == "all of it")


def test_a_server_that_is_full_or_stops_does_not_answer(two: tuple[Process, Process]) -> None:
    server = two[0].server
    with server.gate.enter("another"):
        server.gate.inside = server.limits.requests
        assert server.at_once(head()) is None
        server.gate.inside = 1
    server.stop()
    assert server.at_once(head()) is None


def test_no_header_is_split(two: tuple[Process, Process], caplog: pytest.LogCaptureFixture) -> None:
    """A control character in what a writer stored must not end the header on its way out."""
    two[0].put("key", b"content", Metadata={"a": "b\r\nset-cookie: x"})
    assert two[0].server.at_once(head()) is None
    assert "a header has a control character" in caplog.text
