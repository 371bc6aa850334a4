"""The hook into botocore: every attempt is an event with its own end, and nothing secret is written."""

import contextlib
import io
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import botocore.awsrequest
import botocore.config
import botocore.exceptions
import pytest

import fencepost
from fencepost.impl.recording.files import BEGIN
from fencepost.impl.store.events import Event, short_hash
from tests.impl.recording.test_files import read
from tests.servers.endpoint import dummy_credentials


class _Raw(io.BytesIO):
    def stream(self, *_: object, **__: object) -> Iterator[bytes]:
        yield self.read()


Reply = tuple[int, dict[str, str], bytes] | Exception
OK: Reply = (200, {"ETag": '"e1"'}, b"")


@pytest.fixture
def client() -> Iterator[Any]:
    with dummy_credentials():
        made = boto3.client(
            "s3",
            region_name="us-east-1",
            endpoint_url="http://127.0.0.1:9",
            config=botocore.config.Config(
                s3={"addressing_style": "path"}, retries={"mode": "standard", "total_max_attempts": 2}
            ),
        )
        yield made
        made.close()


def answer(client: Any, *replies: Reply) -> None:
    """Have the next attempts answered so, without a network."""
    left = list(replies)

    def send(request: Any, **_: Any) -> Any:
        reply = left.pop(0)
        if isinstance(reply, Exception):
            raise reply
        status, headers, body = reply
        found = {"Content-Length": str(len(body)), **headers}
        return botocore.awsrequest.AWSResponse(request.url, status, found, _Raw(body))

    client.meta.events.register("before-send.s3", send)


def events(folder: Path) -> list[Event]:
    found = sorted(read(folder), key=lambda one: (one.run, one.seq))
    return [one for one in found if one.kind != BEGIN]


def brief(folder: Path) -> list[tuple[str, str, str, str, str]]:
    return [(one.phase, one.kind, one.condition, one.outcome, one.etag) for one in events(folder)]


def refusal(status: int, code: str) -> Reply:
    return (status, {}, f"<Error><Code>{code}</Code></Error>".encode())


def test_a_lost_reply_is_an_attempt_of_its_own(client: Any, tmp_path: Path) -> None:
    """The answer to the call is 412, and hides that the first attempt was perhaps applied."""
    recorder = fencepost.record(client, tmp_path, process="ann")
    lost = botocore.exceptions.ConnectionClosedError(endpoint_url="http://x")
    answer(client, lost, refusal(412, "PreconditionFailed"))
    with pytest.raises(client.exceptions.ClientError):
        client.put_object(Bucket="b", Key="k", Body=b"1", IfNoneMatch="*")
    recorder.close()
    assert brief(tmp_path) == [
        ("request", "put", "absent", "", ""),
        ("response", "put", "", "unknown", ""),
        ("request", "put", "absent", "", ""),
        ("response", "put", "", "exists", ""),
    ]
    assert [one.note for one in events(tmp_path)][2] == "attempt 2 of 0"
    assert {one.hash for one in events(tmp_path) if one.phase == "request"} == {short_hash(b"1")}


@pytest.mark.parametrize(
    ("call", "reply", "expected"),
    [
        (lambda s3: s3.put_object(Bucket="b", Key="k", IfMatch='"e0"'), OK, ("put", "matches", "done", "e1")),
        (
            lambda s3: s3.put_object(Bucket="b", Key="k", IfMatch='"e0"'),
            refusal(412, "PreconditionFailed"),
            ("put", "matches", "changed", ""),
        ),
        (
            lambda s3: s3.put_object(Bucket="b", Key="k", IfMatch='"e0"'),
            refusal(404, "NoSuchKey"),
            ("put", "matches", "missing", ""),
        ),
        (
            lambda s3: s3.put_object(Bucket="b", Key="k", IfNoneMatch="*"),
            refusal(409, "ConditionalRequestConflict"),
            ("put", "absent", "conflict", ""),
        ),
        (
            lambda s3: s3.put_object(Bucket="b", Key="k"),
            refusal(403, "AccessDenied"),
            ("put", "anything", "refused", ""),
        ),
        (lambda s3: s3.head_object(Bucket="b", Key="k"), (404, {}, b""), ("head", "", "missing", "")),
        (
            lambda s3: s3.get_object(Bucket="b", Key="k", IfNoneMatch='"e0"'),
            (304, {}, b""),
            ("get", "unless", "unchanged", ""),
        ),
        (
            lambda s3: s3.delete_object(Bucket="b", Key="k", IfMatch='"e0"'),
            (204, {}, b""),
            ("delete", "matches", "done", ""),
        ),
        (
            lambda s3: s3.copy_object(Bucket="b", Key="k", CopySource="b/other"),
            (200, {}, b"<CopyObjectResult><ETag>&quot;e2&quot;</ETag></CopyObjectResult>"),
            ("put", "anything", "done", "e2"),
        ),
        (lambda s3: s3.list_objects_v2(Bucket="b", Prefix="jobs/"), (200, {}, b""), ("list", "", "done", "")),
        (
            lambda s3: s3.complete_multipart_upload(
                Bucket="b", Key="k", UploadId="u", MultipartUpload={"Parts": []}, IfNoneMatch="*"
            ),
            (
                200,
                {},
                b'<CompleteMultipartUploadResult><ETag>"e-2"</ETag></CompleteMultipartUploadResult>',
            ),
            ("complete-upload", "absent", "done", "e-2"),
        ),
        (
            lambda s3: s3.upload_part(Bucket="b", Key="k", UploadId="u", PartNumber=1, Body=b"x"),
            refusal(404, "NoSuchUpload"),
            ("upload-part", "", "gone", ""),
        ),
    ],
)
def test_requests_and_answers_are_understood(
    client: Any,
    tmp_path: Path,
    call: Callable[[Any], object],
    reply: Reply,
    expected: tuple[str, str, str, str],
) -> None:
    with fencepost.record(client, tmp_path, process="ann"):
        answer(client, reply)
        with contextlib.suppress(client.exceptions.ClientError):
            call(client)
    request, response = events(tmp_path)
    found = request.kind, request.condition, response.outcome, response.etag
    assert found == expected
    assert request.etag == ("e0" if expected[1] in ("matches", "unless") else "")


def test_a_500_and_a_503_are_attempts_with_their_own_outcomes(client: Any, tmp_path: Path) -> None:
    with fencepost.record(client, tmp_path, process="ann"):
        answer(client, refusal(500, "InternalError"), OK)
        client.put_object(Bucket="b", Key="k", Body=b"x")
    assert [one.outcome for one in events(tmp_path) if one.phase == "response"] == ["unknown", "done"]


def test_the_body_of_an_answer_is_hashed_while_the_program_reads_it(client: Any, tmp_path: Path) -> None:
    body = json.dumps({"state": "done", "token": "secret"}).encode()
    with fencepost.record(client, tmp_path, process="ann", fields={"k.*": ("state",)}):
        answer(client, *[(200, {"ETag": '"e1"'}, body)] * 3)
        assert client.get_object(Bucket="b", Key="k1")["Body"].read() == body
        assert b"".join(client.get_object(Bucket="b", Key="k2")["Body"].iter_chunks(7)) == body
        client.get_object(Bucket="b", Key="k3")["Body"].close()
    found = {one.key: (one.hash, one.trace_fields) for one in events(tmp_path) if one.phase == "response"}
    assert found == {
        "k1": (short_hash(body), "state=done"),
        "k2": (short_hash(body), "state=done"),
        "k3": ("", ""),
    }


def test_many_keys_are_deleted_by_requests_of_their_own(client: Any, tmp_path: Path) -> None:
    with fencepost.record(client, tmp_path, process="ann"):
        errors = b"<Error><Key>b</Key><Code>AccessDenied</Code></Error>"
        answer(client, (200, {}, b"<DeleteResult>" + errors + b"</DeleteResult>"))
        client.delete_objects(Bucket="b", Delete={"Objects": [{"Key": "a"}, {"Key": "b"}]})
    found = {one.key: one.outcome for one in events(tmp_path) if one.phase == "response"}
    assert found == {"a": "done", "b": "refused"}


def test_no_secret_and_no_body_is_written(client: Any, tmp_path: Path) -> None:
    with fencepost.record(client, tmp_path, process="ann", fields={"k": ("state",)}):
        answer(client, OK, refusal(403, "SignatureDoesNotMatch"))
        client.put_object(
            Bucket="b", Key="k", Body=b'{"state": "x", "password": "hunter2"}', Metadata={"m": "hunter2"}
        )
        with pytest.raises(client.exceptions.ClientError):
            client.get_object(
                Bucket="b", Key="k", SSECustomerKey="hunter2" * 4, SSECustomerAlgorithm="AES256"
            )
    text = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for secret in (b"hunter2", b"fencepost-test", b"Signature=", b"AWS4"):
        assert secret not in text


def test_threads_share_one_counter(client: Any, tmp_path: Path) -> None:
    with fencepost.record(client, tmp_path, process="ann"):
        answer(client, *[OK] * 80)
        put = lambda: [client.put_object(Bucket="b", Key="k", Body=b"x") for _ in range(10)]  # noqa: E731
        threads = [threading.Thread(target=put) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = events(tmp_path)
    assert [one.seq for one in found] == list(range(1, 161))
    assert [one.t_ns for one in found] == sorted(one.t_ns for one in found)
    assert all(len([one for one in found if one.op == op]) == 2 for op in range(80))


def test_what_is_no_client_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="takes a client"):
        fencepost.record(object(), tmp_path)


def test_a_client_that_is_recorded_twice_is_recorded_once(client: Any, tmp_path: Path) -> None:
    fencepost.record(client, tmp_path, process="ann")
    with fencepost.record(client, tmp_path, process="ann"):
        answer(client, OK)
        client.put_object(Bucket="b", Key="k", Body=b"x")
    assert len(events(tmp_path)) == 2


@pytest.mark.parametrize(
    ("urls", "runs"),
    [
        (("http://127.0.0.1:9", "http://127.0.0.1:10"), {"b", "b@127.0.0.1:10"}),
        (("http://127.0.0.1:9", "http://127.0.0.1:9"), {"b"}),
        ((None, "https://s3.eu-west-1.amazonaws.com"), {"b"}),
    ],
)
def test_buckets_of_one_name_at_two_endpoints_are_two_runs(
    urls: tuple[str | None, str], runs: set[str], tmp_path: Path
) -> None:
    """An object of one of them would seem lost at the other. AWS has several hosts for one bucket."""
    with dummy_credentials():
        for url, reply in zip(urls, (OK, refusal(404, "NoSuchKey")), strict=True):
            one = boto3.client("s3", region_name="us-east-1", endpoint_url=url)
            fencepost.record(one, tmp_path, process="ann")
            answer(one, reply)
            with contextlib.suppress(one.exceptions.NoSuchKey):
                one.put_object(Bucket="b", Key="k", Body=b"x") if reply is OK else one.get_object(
                    Bucket="b", Key="k"
                )
            one.close()
        fencepost.record(one, tmp_path, process="ann").close()
    assert {one.run for one in events(tmp_path)} == runs


def test_sessions_and_resources_are_recorded(tmp_path: Path) -> None:
    with dummy_credentials():
        session = boto3.Session(region_name="us-east-1")
        with fencepost.record(session, tmp_path, process="ann"):
            s3 = session.client("s3", endpoint_url="http://127.0.0.1:9")
            answer(s3, OK)
            s3.put_object(Bucket="b", Key="k", Body=b"x")
            s3.close()
        resource = session.resource("s3", endpoint_url="http://127.0.0.1:9")
        with fencepost.record(resource, tmp_path, process="bob"):
            answer(resource.meta.client, OK)
            resource.Object("b", "k").put(Body=b"x")
            resource.meta.client.close()
    assert {one.process for one in events(tmp_path)} >= {"ann", "bob"}
