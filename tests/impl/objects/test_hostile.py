"""Requests that no SDK sends: each is refused with a code of S3, in bounded memory, and changes nothing."""

import contextlib
import http.client
import logging
import select
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.temporary import Unflushed
from tests.impl.objects.serving import ROOT_TOKEN, client, secret, served


def signed(
    address: str, method: str, path: str, headers: Mapping[str, str] | None = None, key: str = "root"
) -> dict[str, str]:
    """The headers of a signed request, whatever it is."""
    request = AWSRequest(method, address + path, headers or {})
    signer = S3SigV4Auth(Credentials(key, secret(key)), "s3", "us-east-1")
    signer.payload = lambda _: (headers or {}).get("x-amz-content-sha256", "UNSIGNED-PAYLOAD")
    signer.add_auth(request)
    return dict(request.headers.items())


def send(
    address: str, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
    with contextlib.closing(connection):
        connection.request(method, path, body, signed(address, method, path, headers))
        response = connection.getresponse()
        return response.status, response.read()


def connected(address: str) -> socket.socket:
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def head(method: str, path: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {text}" for name, text in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def received(connection: socket.socket) -> bytes:
    """Until the response has its end."""
    found = b""
    with contextlib.suppress(OSError):
        while b"</Error>" not in found and b"}" not in found and (piece := connection.recv(4000)):
            found += piece
    return found


def pour(
    address: str, path: str, headers: Mapping[str, str], start: bytes, piece: bytes, limit: int
) -> tuple[int, bytes]:
    """Send a request body without end; returns how much was taken, and the response."""
    host = address.removeprefix("http://")
    with connected(address) as connection:
        connection.sendall(head("PUT", path, {"Host": host, **signed(address, "PUT", path, headers)}) + start)
        taken = 0
        while taken < limit and not select.select([connection], [], [], 0)[0]:
            connection.sendall(piece)
            taken += len(piece)
        return taken, received(connection)


CHUNKED = {
    "x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    "x-amz-decoded-content-length": "10",
    "x-amz-trailer": "x-amz-checksum-crc32",
    "transfer-encoding": "chunked",
}


def test_a_body_whose_declared_length_is_small_is_not_collected(endpoint: str, bucket: str) -> None:
    piece = b"10000\r\n" + (b"1\r\nx\r\n" * 20000)[:0x10000] + b"\r\n"
    taken, response = pour(endpoint, f"/{bucket}/k", CHUNKED, b"", piece, 64 << 20)
    assert taken < 64 << 20
    assert b"<Code>" in response


def test_a_trailer_without_end_is_refused(endpoint: str, bucket: str) -> None:
    line = b"x-amz-checksum-crc32:AAAAAA==\r\n" * 1000
    piece = b"%x\r\n%s\r\n" % (len(line), line)
    taken, response = pour(endpoint, f"/{bucket}/k", CHUNKED, b"3\r\n0\r\n\r\n", piece, 64 << 20)
    assert taken < 64 << 20
    assert b"<Code>" in response


def test_a_part_without_its_number_overwrites_nothing(aws: Any, endpoint: str, bucket: str) -> None:
    aws.put_object(Bucket=bucket, Key="k", Body=b"1")
    for query in ("uploadId=u1", "partNumber=1", "versionId=null"):
        status, _ = send(endpoint, "PUT", f"/{bucket}/k?{query}", b"2")
        assert status == 400, query
    assert aws.get_object(Bucket=bucket, Key="k")["Body"].read() == b"1"


@pytest.mark.parametrize("encoding", ["utf-16", "cp037"])
def test_a_document_type_is_found_in_every_encoding(endpoint: str, bucket: str, encoding: str) -> None:
    start = f'<?xml version="1.0" encoding="{encoding}"?>'
    rest = '<!DOCTYPE d [<!ENTITY a "k">]><Delete><Object><Key>&a;</Key></Object></Delete>'
    body = (start + rest).encode(encoding) if encoding == "utf-16" else start.encode() + rest.encode(encoding)
    status, content = send(endpoint, "POST", f"/{bucket}?delete", body)
    assert status == 400, content
    assert b"<Code>MalformedXML</Code>" in content


def test_no_header_is_put_into_a_response(aws: Any, endpoint: str, bucket: str) -> None:
    aws.put_object(Bucket=bucket, Key="k", Body=b"1")
    path = f"/{bucket}/k?response-content-type=a%0D%0Aset-cookie%3A%20b"
    status, content = send(endpoint, "GET", path)
    assert status == 400, content


def test_dates_of_any_form_are_dates_or_refused(aws: Any, endpoint: str, bucket: str, locked: str) -> None:
    aws.put_object(Bucket=bucket, Key="k", Body=b"1")
    since = {"if-modified-since": "Mon, 01 Jan 2024 00:00:00 -0000"}
    assert send(endpoint, "GET", f"/{bucket}/k", headers=since)[0] == 200
    until = {"x-amz-object-lock-mode": "GOVERNANCE"}
    for text, expected in (("9999-12-31T23:59:59-12:00", 400), ("Fri, 01 Jan 2100 00:00:00 -0000", 200)):
        retained = {**until, "x-amz-object-lock-retain-until-date": text}
        assert send(endpoint, "PUT", f"/{locked}/k", b"", retained)[0] == expected, text


def test_numbers_and_digests_of_any_form_are_refused(aws: Any, endpoint: str, bucket: str) -> None:
    aws.put_object(Bucket=bucket, Key="k", Body=b"1")
    assert send(endpoint, "GET", f"/{bucket}/k?response-expires=98881335547780702")[0] == 400
    for header, text, expected in (
        ("if-unmodified-since", "5121347184515139567", 200),  # no date, so it is no condition
        ("if-unmodified-since", "9999-12-31T23:59:59-12:00", 200),
        ("content-md5", "\u156c", 400),
    ):
        headers = {"authorization": f"Bearer {ROOT_TOKEN}", header: text.encode()}
        connection = http.client.HTTPConnection(endpoint.removeprefix("http://"), timeout=30)
        with contextlib.closing(connection):
            connection.request("PUT", f"/v1/{bucket}/k", b"2", headers)  # type: ignore[arg-type]  # bytes are sent as they are
            assert connection.getresponse().status == expected, text


def test_a_marker_of_a_folder_hides_nothing(aws: Any, bucket: str) -> None:
    """An object whose key is the prefix of the listing is no group that a page has ended with."""
    for key in ("a/", "a/b", "a/c/d", "a/e"):
        aws.put_object(Bucket=bucket, Key=key, Body=b"")
    for operation in ("list_objects", "list_objects_v2"):
        found = []
        pages = aws.get_paginator(operation).paginate(
            Bucket=bucket, Prefix="a/", Delimiter="/", PaginationConfig={"PageSize": 1}
        )
        for page in pages:
            found += [one["Key"] for one in page.get("Contents", [])]
            found += [one["Prefix"] for one in page.get("CommonPrefixes", [])]
        assert found == ["a/", "a/b", "a/c/", "a/e"], operation


def test_creating_a_bucket_does_not_wait_for_its_requests(
    aws: Any, endpoint: str, bucket: str, code: Any
) -> None:
    path = f"/{bucket}/slow"
    headers = signed(endpoint, "PUT", path, {"content-length": str(3 << 20)})
    with connected(endpoint) as slow:
        slow.sendall(
            head("PUT", path, {"Host": endpoint.removeprefix("http://"), **headers}) + bytes(2 << 20)
        )
        time.sleep(0.3)
        began = time.monotonic()
        aws.create_bucket(Bucket=bucket)
        assert code(aws.delete_bucket, Bucket=bucket) in ("OperationAborted", "BucketNotEmpty")
        assert time.monotonic() - began < 8
        slow.sendall(bytes(1 << 20))
        assert slow.recv(4000).startswith(b"HTTP/1.1 200")


def test_json_without_end_is_refused(endpoint: str) -> None:
    connection = http.client.HTTPConnection(endpoint.removeprefix("http://"), timeout=30)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/buckets", b"[" * 60_000, {"authorization": f"Bearer {ROOT_TOKEN}"})
        assert connection.getresponse().status == 400


def test_virtual_hosts_have_no_words_of_ours(tmp_path: Path) -> None:
    with served(tmp_path, domain="s3.test", disk=Unflushed()) as address:
        client(address).create_bucket(Bucket="bucket-one")
        for key in ("metrics", "v1/x"):
            connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
            with contextlib.closing(connection):
                headers = signed("http://bucket-one.s3.test", "PUT", f"/{key}")
                connection.request("PUT", f"/{key}", b"1", {**headers, "Host": "bucket-one.s3.test"})
                assert connection.getresponse().status == 200, key
            assert client(address).get_object(Bucket="bucket-one", Key=key)["Body"].read() == b"1"


@pytest.mark.parametrize("name", ["metrics", "readyz", "livez", "healthz"])
def test_no_bucket_has_the_name_of_an_address(tmp_path: Path, name: str) -> None:
    from fencepost.impl.objects.wire.errors import S3Error

    buckets = Buckets(str(tmp_path))
    with contextlib.closing(buckets), pytest.raises(S3Error, match="InvalidBucketName"):
        buckets.create(name)


def test_no_signature_is_logged(
    aws: Any, endpoint: str, bucket: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="fencepost.objects")
    url = aws.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
    connection = http.client.HTTPConnection(endpoint.removeprefix("http://"), timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", url.removeprefix(endpoint))
        connection.getresponse().read()
    deadline = time.monotonic() + 30  # the line is written after the response was sent
    while "X-Amz-Date" not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "X-Amz-Date" in caplog.text
    assert url.partition("X-Amz-Signature=")[2][:16] not in caplog.text


def test_a_client_that_sends_nothing_is_refused(tmp_path: Path) -> None:
    with served(tmp_path, disk=Unflushed(), body_s=0.2) as address:
        client(address).create_bucket(Bucket="bucket-one")
        host = address.removeprefix("http://")
        root = {"authorization": f"Bearer {ROOT_TOKEN}"}
        for path, signing, code in (
            (
                "/bucket-one/k",
                signed(address, "PUT", "/bucket-one/k", {"content-length": "5"}),
                b"RequestTimeout",
            ),
            ("/v1/bucket-one/k", root | {"content-length": "5"}, b"too_slow"),
        ):
            with connected(address) as slow:
                slow.sendall(head("PUT", path, {"Host": host, **signing}) + b"12")
                assert code in received(slow)


def test_a_client_that_sends_a_little_now_and_then_is_refused(tmp_path: Path) -> None:
    """It kept its place among the requests in flight for as long as it wished."""
    with served(tmp_path, disk=Unflushed(), body_s=0.3) as address:
        client(address).create_bucket(Bucket="bucket-one")
        host = address.removeprefix("http://")
        root = {"authorization": f"Bearer {ROOT_TOKEN}"}
        for path, signing, code in (
            (
                "/bucket-one/k",
                signed(address, "PUT", "/bucket-one/k", {"content-length": "500"}),
                b"RequestTimeout",
            ),
            ("/v1/bucket-one/k", root | {"content-length": "500"}, b"too_slow"),
        ):
            with connected(address) as slow:
                slow.sendall(head("PUT", path, {"Host": host, **signing}))
                for _ in range(100):
                    slow.sendall(b"1")
                    if select.select([slow], [], [], 0.05)[0]:
                        break
                assert code in received(slow)


def test_nothing_is_read_for_a_client_that_has_gone(
    aws: Any, endpoint: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws.put_object(Bucket=bucket, Key="k", Body=bytes(64 << 20))
    from fencepost.impl.objects import app

    read = []

    def counted(fd: int, size: int, at: int, plain: Any = app._read) -> bytes:
        read.append(at)
        return plain(fd, size, at)

    monkeypatch.setattr(app, "_read", counted)
    path = f"/{bucket}/k"
    with connected(endpoint) as gone:
        gone.sendall(
            head("GET", path, {"Host": endpoint.removeprefix("http://"), **signed(endpoint, "GET", path)})
        )
        gone.recv(1000)
    before = -1
    while before != len(read):
        before = len(read)
        time.sleep(0.3)
    assert len(read) < 50
