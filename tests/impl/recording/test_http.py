"""A proxy's and a server's view: any client, in any language, and one order for all."""

from pathlib import Path

import pytest

from fencepost.impl.recording import Recorder, json_fields
from fencepost.impl.recording.files import BEGIN
from fencepost.impl.recording.http import HttpRecording
from fencepost.impl.store.events import Event, short_hash
from tests.impl.recording.test_files import read

HOST = {"host": "127.0.0.1:9000"}
CHUNKED = b"4;chunk-signature=ab\r\nbody\r\n0;chunk-signature=cd\r\n\r\n"


def events(folder: Path) -> list[Event]:
    return [one for one in sorted(read(folder), key=lambda one: one.seq) if one.kind != BEGIN]


def exchanged(
    tmp_path: Path,
    method: str,
    target: str,
    headers: dict[str, str],
    body: bytes = b"",
    status: int | None = 200,
    answer: dict[str, str] | None = None,
    content: bytes = b"",
) -> list[Event]:
    recorder = Recorder(tmp_path, "proxy")
    recording = HttpRecording(recorder, trace_fields=json_fields({"claims/.+": ("state",)}))
    exchange = recording.begin(method, target, HOST | headers, body, "192.0.2.1:5")
    if exchange is not None:
        exchange.end(status, answer or {}, content)
    recorder.close()
    return events(tmp_path)


def test_a_conditional_put(tmp_path: Path) -> None:
    body = b'{"state": "done"}'
    request, response = exchanged(
        tmp_path, "PUT", "/b/claims/a%20b", {"if-none-match": "*"}, body, answer={"etag": '"e1"'}
    )
    assert (request.run, request.key, request.condition) == ("b", "claims/a b", "absent")
    assert (request.hash, request.trace_fields) == (short_hash(body), "state=done")
    assert (response.outcome, response.etag) == ("done", "e1")


def test_a_body_in_chunks_is_hashed_as_its_content(tmp_path: Path) -> None:
    headers = {
        "x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "content-encoding": "aws-chunked",
    }
    request, _ = exchanged(tmp_path, "PUT", "/b/k", headers, CHUNKED)
    assert (request.hash, request.size) == (short_hash(b"body"), 4)


@pytest.mark.parametrize(
    ("status", "content", "expected"),
    [
        (412, b"<Error><Code>PreconditionFailed</Code></Error>", "exists"),
        (409, b"<Error><Code>ConditionalRequestConflict</Code></Error>", "conflict"),
        (500, b"<Error><Code>InternalError</Code></Error>", "unknown"),
        (503, b"<Error><Code>SlowDown</Code></Error>", "throttled"),
        (None, b"", "unknown"),
    ],
)
def test_refusals_and_silence(tmp_path: Path, status: int | None, content: bytes, expected: str) -> None:
    found = exchanged(tmp_path, "PUT", "/b/k", {"if-none-match": "*"}, b"x", status, content=content)
    assert found[1].outcome == expected


def test_a_completion_of_200_that_holds_an_error_may_have_been_applied(tmp_path: Path) -> None:
    error = b"<?xml version='1.0'?><Error><Code>InternalError</Code></Error>"
    found = exchanged(tmp_path, "POST", "/b/k?uploadId=u", {}, b"<x/>", 200, content=error)
    assert [(one.kind, one.upload, one.outcome) for one in found] == [
        ("complete-upload", "u", ""),
        ("complete-upload", "", "unknown"),
    ]


def test_many_deletes_and_reads(tmp_path: Path) -> None:
    body = b"<Delete><Object><Key>a</Key></Object><Object><Key>b&amp;c</Key></Object></Delete>"
    content = b"<DeleteResult><Error><Key>a</Key><Code>AccessDenied</Code></Error></DeleteResult>"
    found = exchanged(tmp_path, "POST", "/b?delete", {}, body, 200, content=content)
    assert [(one.key, one.outcome) for one in found[2:]] == [("a", "refused"), ("b&c", "done")]


@pytest.mark.parametrize("target", ["/", "/b?acl", "/b/k?tagging", "/b/%ff", "/b?nonsense=1&delete&uploads"])
def test_what_reads_and_changes_no_object_is_no_event(tmp_path: Path, target: str) -> None:
    found = exchanged(tmp_path, "GET", target, {}, status=404)
    assert all(one.kind == "list" for one in found)


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ({"user-agent": "Boto3/1.0 app/worker-1 md/x", "authorization": "x"}, "worker-1"),
        ({"authorization": "AWS4-HMAC-SHA256 Credential=AKIA1/2026/x, Signature=secret"}, "AKIA1"),
        ({}, "192.0.2.1:5"),
    ],
)
def test_clients_have_names_and_no_secret_is_written(
    tmp_path: Path, headers: dict[str, str], name: str
) -> None:
    assert exchanged(tmp_path, "PUT", "/b/k", headers, b"x")[0].process == name
    assert b"secret" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_a_second_recorder_names_its_clients_otherwise(tmp_path: Path) -> None:
    """It counts for itself, so the order between both is not known."""
    with Recorder(tmp_path, "proxy") as first, Recorder(tmp_path, "proxy") as second:
        for recorder in (first, second):
            exchange = HttpRecording(recorder).begin("PUT", "/b/k", HOST, b"", "ann")
            assert exchange is not None
            exchange.end(200, {}, b"")
        suffix = second.process
    assert {one.process for one in events(tmp_path)} == {"ann", f"ann@{suffix}"}
