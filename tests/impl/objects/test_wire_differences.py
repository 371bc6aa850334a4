"""Differences that public suites of S3 found: each as AWS documents it."""

import contextlib
import http.client
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.impl.objects.serving import client
from tests.impl.objects.test_browsers import Sent
from tests.impl.objects.test_hostile import signed

Code = Callable[..., str]


def test_pages_repeat_their_parameters(aws: Any, bucket: str) -> None:
    aws.put_object(Bucket=bucket, Key="a\nb", Body=b"")
    page = aws.list_objects(Bucket=bucket, Prefix="a\n")
    assert (page["Prefix"], [one["Key"] for one in page["Contents"]]) == ("a\n", ["a\nb"])
    page = aws.list_objects_v2(Bucket=bucket, Prefix="a\n")
    assert (page["Prefix"], [one["Key"] for one in page["Contents"]]) == ("a\n", ["a\nb"])
    assert aws.list_objects_v2(Bucket=bucket, ContinuationToken="")["ContinuationToken"] == ""
    assert "ContinuationToken" not in aws.list_objects_v2(Bucket=bucket)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("gzip", "gzip"), ("deflate, gzip", "deflate, gzip"), ("gzip, aws-chunked", "gzip"),
        ("aws-chunked,gzip", "gzip"), ("aws-chunked", None), ("deflate,gzip", "deflate,gzip"),
    ],
)  # fmt: skip
def test_the_encoding_of_the_body_is_not_that_of_the_object(
    aws: Any, bucket: str, sent: str, kept: str | None
) -> None:
    aws.put_object(Bucket=bucket, Key="k", Body=b"", ContentEncoding=sent)
    assert aws.head_object(Bucket=bucket, Key="k").get("ContentEncoding") == kept


@pytest.mark.parametrize("name", [b"caf\xc3\xa9", b"caf\xe9"])
def test_metadata_come_back_as_they_were_sent(aws: Any, bucket: str, endpoint: str, name: bytes) -> None:
    """UTF-8, as most SDKs send it, and Latin-1."""
    path = f"/{bucket}/k"
    text = name.decode("latin-1")
    shown = name.decode() if name == b"caf\xc3\xa9" else text
    headers = signed(endpoint, "PUT", path, {"x-amz-meta-a": shown, "content-length": "0"})
    headers["x-amz-meta-a"] = text
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc)
    with contextlib.closing(connection):
        connection.request("PUT", path, b"", headers)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"")
    assert aws.head_object(Bucket=bucket, Key="k")["ResponseMetadata"]["HTTPHeaders"]["x-amz-meta-a"] == text
    found = aws.get_object(Bucket=bucket, Key="k")
    assert found["ResponseMetadata"]["HTTPHeaders"]["x-amz-meta-a"] == text


def test_a_tag_without_a_value_has_an_empty_one(aws: Any, bucket: str) -> None:
    aws.put_object(Bucket=bucket, Key="k", Body=b"", Tagging="foo=bar&bar")
    tags = aws.get_object_tagging(Bucket=bucket, Key="k")["TagSet"]
    assert tags == [{"Key": "bar", "Value": ""}, {"Key": "foo", "Value": "bar"}]


def test_a_part_that_is_named_twice_is_the_last_one(aws: Any, bucket: str, code: Code) -> None:
    at = {"Bucket": bucket, "Key": "k"}
    upload = aws.create_multipart_upload(**at)["UploadId"]
    parts = [
        {"PartNumber": 1, "ETag": aws.upload_part(**at, UploadId=upload, PartNumber=1, Body=body)["ETag"]}
        for body in (b"first", b"second")
    ]
    complete = aws.complete_multipart_upload
    backwards = {"Parts": [parts[1], parts[0]]}
    assert code(complete, **at, UploadId=upload, MultipartUpload=backwards) == "InvalidPart"
    complete(**at, UploadId=upload, MultipartUpload={"Parts": parts})
    assert aws.get_object(**at)["Body"].read() == b"second"


def test_a_composite_checksum_may_lack_its_count(aws: Any, bucket: str, code: Code) -> None:
    at = {"Bucket": bucket, "Key": "k"}

    def upload() -> dict[str, Any]:
        begun = aws.create_multipart_upload(**at, ChecksumAlgorithm="SHA256")["UploadId"]
        part = aws.upload_part(**at, UploadId=begun, PartNumber=1, Body=b"x", ChecksumAlgorithm="SHA256")
        named = {"PartNumber": 1, "ETag": part["ETag"], "ChecksumSHA256": part["ChecksumSHA256"]}
        return {"UploadId": begun, "MultipartUpload": {"Parts": [named]}}

    done = aws.complete_multipart_upload(**at, **upload())
    whole = done["ChecksumSHA256"]
    assert whole.endswith("-1")
    for given in (whole, whole.removesuffix("-1")):
        assert (
            aws.complete_multipart_upload(**at, **upload(), ChecksumSHA256=given)["ChecksumSHA256"] == whole
        )
    other = "A" + whole[1:]
    assert code(aws.complete_multipart_upload, **at, **upload(), ChecksumSHA256=other) == "BadDigest"


def test_a_response_that_is_not_read_does_not_hold_its_bucket(aws: Any, bucket: str, endpoint: str) -> None:
    """Deleting the bucket, or changing its versioning, waited for every slow download."""
    at = {"Bucket": bucket, "Key": "k"}
    aws.put_object(**at, Body=bytes(8 << 20))
    slow = client(endpoint).get_object(**at)["Body"]
    assert slow.read(10) == bytes(10)
    aws.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    aws.delete_object(**at)
    for one in aws.list_object_versions(Bucket=bucket).get("DeleteMarkers", []):
        aws.delete_object(**at, VersionId=one["VersionId"])
    aws.delete_bucket(Bucket=bucket)
    assert len(slow.read()) == (8 << 20) - 10  # what was begun is finished


def test_a_body_of_unknown_length_is_stored(aws: Any, bucket: str, endpoint: str) -> None:
    path = f"/{bucket}/k"
    headers = signed(endpoint, "PUT", path, {"transfer-encoding": "chunked"})
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc)
    with contextlib.closing(connection):
        connection.request("PUT", path, iter([b"one", b"two"]), headers, encode_chunked=True)
        assert connection.getresponse().status == 200
    assert aws.get_object(Bucket=bucket, Key="k")["Body"].read() == b"onetwo"


def test_a_body_of_unknown_length_that_is_cut_is_not_stored(
    aws: Any, bucket: str, endpoint: str, code: Code
) -> None:
    path = f"/{bucket}/k"
    headers = signed(endpoint, "PUT", path, {"transfer-encoding": "chunked"})
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc)
    with contextlib.closing(connection):
        connection.putrequest("PUT", path)
        for name, text in headers.items():
            connection.putheader(name, text)
        connection.endheaders()
        connection.send(b"5\r\nhello\r\n")
    threading.Event().wait(0.2)
    assert code(aws.get_object, Bucket=bucket, Key="k") == "NoSuchKey"


def test_who_may_list_learns_what_is_missing(aws: Any, bucket: str, endpoint: str) -> None:
    assert Sent(endpoint, "GET", f"/{bucket}/none").status == 403
    aws.put_bucket_acl(Bucket=bucket, ACL="public-read")
    assert Sent(endpoint, "GET", f"/{bucket}/none").status == 404
    assert Sent(endpoint, "GET", "/no-such-bucket/none").status == 404


def test_the_owner_that_is_expected_is_compared(aws: Any, bucket: str, code: Code) -> None:
    aws.head_bucket(Bucket=bucket, ExpectedBucketOwner="fencepost")
    assert code(aws.list_objects, Bucket=bucket, ExpectedBucketOwner="other") == "AccessDenied"
    assert code(aws.put_object, Bucket=bucket, Key="k", ExpectedBucketOwner="other") == "AccessDenied"


def test_canned_acls_of_objects(aws: Any, bucket: str, endpoint: str, code: Code) -> None:
    at = {"Bucket": bucket, "Key": "k"}
    for acl, rights, status in (
        ("private", 1, 403), ("public-read", 2, 200), ("public-read-write", 3, 200),
        ("authenticated-read", 2, 403), ("bucket-owner-full-control", 1, 403),
    ):  # fmt: skip
        aws.put_object(**at, Body=b"x", ACL=acl)
        assert len(aws.get_object_acl(**at)["Grants"]) == rights
        assert Sent(endpoint, "GET", f"/{bucket}/k").status == status, acl
        if acl != "private":
            assert (
                client(endpoint, "elsewhere").get_object(**at)["Body"].read() == b"x" if rights > 1 else True
            )
    assert code(aws.put_object, **at, ACL="public-ready") == "InvalidArgument"


def test_an_old_date_is_no_date(endpoint: str) -> None:
    moment = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    for header, status in (("AWS root", 400), ("AWS root:x", 403)):
        assert Sent(endpoint, "GET", "/", Authorization=header, Date=moment).status == status
    assert Sent(endpoint, "GET", "/", Authorization="AWS root:x", Date="").status == 403


@pytest.mark.parametrize("fails", [False, True])
def test_a_long_completion_keeps_its_client(
    aws: Any, bucket: str, endpoint: str, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """White space arrives while parts are joined, then the result, or the error."""
    from fencepost.impl.objects import app
    from fencepost.impl.objects.multipart import Multipart
    from fencepost.impl.objects.wire.errors import refuse

    at = {"Bucket": bucket, "Key": "k"}
    upload = aws.create_multipart_upload(**at)["UploadId"]
    etag = aws.upload_part(**at, UploadId=upload, PartNumber=1, Body=b"x")["ETag"]
    complete = Multipart.complete_multipart_upload

    def slowly(self: Multipart, p: Any) -> Any:
        threading.Event().wait(0.3)
        if fails:
            refuse("InvalidPart")
        return complete(self, p)

    monkeypatch.setattr(app, "KEEP_ALIVE_S", 0.02)
    monkeypatch.setattr(Multipart, "complete_multipart_upload", slowly)
    query = f"/{bucket}/k?uploadId={upload}"
    body = f"<CompleteMultipartUpload><Part><ETag>{etag}</ETag><PartNumber>1</PartNumber></Part>"
    body += "</CompleteMultipartUpload>"
    found = Sent(endpoint, "POST", query, body.encode(), **signed(endpoint, "POST", query))
    assert found.status == 200
    declaration, spaces, document = found.body.partition(b"\n     ")
    assert declaration.startswith(b"<?xml")
    assert spaces
    assert (b"<Error><Code>InvalidPart</Code>" in document) == fails
    assert (b"<CompleteMultipartUploadResult" in document) == (not fails)
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    if fails:  # SDKs read the document, too
        with pytest.raises(Exception, match="InvalidPart"):
            aws.complete_multipart_upload(**at, UploadId=upload, MultipartUpload=parts)
    else:
        assert aws.get_object(**at)["Body"].read() == b"x"


@pytest.mark.parametrize("name", ["metrics", "livez", "readyz", "healthz", "root"])
def test_reserved_names_are_refused_with_the_reason(aws: Any, endpoint: str, name: str) -> None:
    found = Sent(endpoint, "PUT", f"/{name}", **signed(endpoint, "PUT", f"/{name}"))
    assert found.status == 400
    assert b"<Code>InvalidBucketName</Code>" in found.body
    assert b"choose another name" in found.body
    assert Sent(endpoint, "DELETE", f"/{name}", **signed(endpoint, "DELETE", f"/{name}")).status == 404


def test_every_response_has_the_id_of_its_request(aws: Any, bucket: str, endpoint: str) -> None:
    aws.put_object(Bucket=bucket, Key="k", Body=b"x", ACL="public-read")
    for path in (
        "/livez",
        "/readyz",
        "/metrics",
        "/healthz",
        f"/{bucket}/k",
        f"/{bucket}/none",
        f"/v1/{bucket}/k",
    ):
        assert Sent(endpoint, "GET", path, X_Request_Id="mine.1").headers["x-request-id"] == "mine.1"
        made = Sent(endpoint, "GET", path, X_Request_Id="no id").headers["x-request-id"]
        assert len(made) >= 16, path
        assert made != Sent(endpoint, "GET", path).headers["x-request-id"]


def test_parts_are_joined_within_the_system_or_without(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File systems refuse it, some in the middle."""
    import os

    from fencepost.impl.store.files import Disk, disk

    content = bytes(range(256)) * 5000
    source = os.open(tmp_path / "source", os.O_RDWR | os.O_CREAT)
    os.write(source, content)
    calls: list[int] = []

    def halfway(*args: Any) -> int:
        calls.append(1)
        if len(calls) > 1:
            raise OSError(18, "Invalid cross-device link")
        return os.copy_file_range(args[0], args[1], 1000, args[3])

    for number, within in enumerate((os.copy_file_range, halfway, lambda *_: 0, None)):
        monkeypatch.setattr(disk, "_copy_within", within)
        target = os.open(tmp_path / f"{number}", os.O_RDWR | os.O_CREAT)
        os.write(target, b"before")
        Disk().copy(source, target, len(content) - 5)
        assert os.pread(target, 1 << 21, 0) == b"before" + content[:-5]
        os.close(target)
    with pytest.raises(OSError, match="shorter"), (tmp_path / "short").open("wb") as target_file:
        Disk().copy(source, target_file.fileno(), len(content) + 10)
    os.close(source)


@pytest.mark.parametrize("name", ["foo-.bar", "foo.-bar", "foo..bar"])
def test_the_name_of_a_bucket_is_one_of_a_host(aws: Any, name: str) -> None:
    path = f"/{name}"
    found = Sent(aws.meta.endpoint_url, "PUT", path, **signed(aws.meta.endpoint_url, "PUT", path))
    assert (found.status, b"<Code>InvalidBucketName</Code>" in found.body) == (400, True)
