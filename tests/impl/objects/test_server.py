"""The server as boto3 and others use it: what AWS does, with AWS's codes, and nothing half-written."""

import io
import os
import socket
import threading
import urllib.request
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from botocore.exceptions import ClientError

from fencepost.impl.objects import operations
from tests.impl.objects.serving import client, served

BUCKET = "bucket-one"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("objects")) as found:
        yield found


@pytest.fixture(scope="module")
def root(address: str) -> Any:
    s3 = client(address)
    s3.create_bucket(Bucket=BUCKET)
    return s3


@pytest.fixture
def s3(root: Any) -> Any:
    """With an empty bucket."""
    for upload in root.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []):
        root.abort_multipart_upload(Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"])
    found = root.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    if found:
        root.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": one["Key"]} for one in found]})
    return root


def code(act: Any, **parameters: Any) -> str:
    with pytest.raises(ClientError) as raised:
        act(**parameters)
    return str(raised.value.response["Error"]["Code"])


def test_a_response_has_one_date(s3: Any) -> None:
    """A list comes from a thread, a small object perhaps from the event loop."""
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"x")
    for found in (s3.list_objects_v2(Bucket=BUCKET), *(s3.get_object(Bucket=BUCKET, Key="k") for _ in "12")):
        parsedate_to_datetime(found["ResponseMetadata"]["HTTPHeaders"]["date"])
        assert found["ResponseMetadata"]["HTTPHeaders"]["date"].count("GMT") == 1


# Writes.


def test_an_object_comes_back_with_everything(s3: Any) -> None:
    key, body = "a/b c+é?&=%41", b"hello"
    put = s3.put_object(
        Bucket=BUCKET, Key=key, Body=body, ContentType="text/x", Metadata={"a": "b"}, CacheControl="no-cache",
        ContentDisposition="attachment", ContentEncoding="gzip", ContentLanguage="de",
    )  # fmt: skip
    got = s3.get_object(Bucket=BUCKET, Key=key, ChecksumMode="ENABLED")
    assert got["Body"].read() == body
    assert got["ETag"] == put["ETag"] == '"5d41402abc4b2a76b9719d911017c592"'
    assert got["ChecksumCRC32"] == put["ChecksumCRC32"] == "NhCmhg=="
    assert got["Metadata"] == {"a": "b"}
    names = ("ContentType", "CacheControl", "ContentDisposition", "ContentEncoding", "ContentLanguage")
    assert [got[name] for name in names] == ["text/x", "no-cache", "attachment", "gzip", "de"]


def test_conditions_of_writes(s3: Any) -> None:
    put, at = s3.put_object, {"Bucket": BUCKET, "Key": "k"}
    assert code(put, **at, Body=b"0", IfMatch='"e"') == "NoSuchKey"
    first = put(**at, Body=b"1", IfNoneMatch="*")["ETag"]
    assert code(put, **at, Body=b"2", IfNoneMatch="*") == "PreconditionFailed"
    second = put(**at, Body=b"3", IfMatch=first)["ETag"]
    assert code(put, **at, Body=b"4", IfMatch=first) == "PreconditionFailed"
    assert code(put, **at, Body=b"4", IfNoneMatch=first) == "NotImplemented"
    assert code(s3.delete_object, **at, IfMatch=first) == "PreconditionFailed"
    assert s3.get_object(**at)["Body"].read() == b"3"
    s3.delete_object(**at, IfMatch=second)
    assert code(s3.get_object, **at) == "NoSuchKey"
    assert code(s3.delete_object, **at, IfMatch=second) == "NoSuchKey"


def test_one_of_many_creates_wins(s3: Any) -> None:
    won = []

    def create(number: int) -> None:
        try:
            s3.put_object(Bucket=BUCKET, Key="leader", Body=b"%d" % number, IfNoneMatch="*")
        except ClientError as error:
            assert error.response["Error"]["Code"] == "PreconditionFailed"  # noqa: PT017  each thread has one
        else:
            won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert s3.get_object(Bucket=BUCKET, Key="leader")["Body"].read() == b"%d" % won[0]


def test_counting_by_compare_and_swap_loses_nothing(s3: Any) -> None:
    s3.put_object(Bucket=BUCKET, Key="count", Body=b"0")

    def count(times: int) -> None:
        while times:
            got = s3.get_object(Bucket=BUCKET, Key="count")
            value = int(got["Body"].read())
            try:
                s3.put_object(Bucket=BUCKET, Key="count", Body=b"%d" % (value + 1), IfMatch=got["ETag"])
                times -= 1
            except ClientError as error:
                assert error.response["Error"]["Code"] == "PreconditionFailed"  # noqa: PT017  in a thread

    threads = [threading.Thread(target=count, args=(10,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert s3.get_object(Bucket=BUCKET, Key="count")["Body"].read() == b"40"


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (3 << 20) + 7])
def test_bodies_of_any_size_pass(s3: Any, size: int) -> None:
    """Small ones are written in one visit to a thread, large ones piece by piece."""
    body = os.urandom(size)
    s3.put_object(Bucket=BUCKET, Key="sized", Body=body)
    assert s3.get_object(Bucket=BUCKET, Key="sized")["Body"].read() == body


@pytest.mark.parametrize("size", [100, 3 << 20])
@pytest.mark.parametrize("left", [1, 50])
def test_a_body_that_ends_early_leaves_nothing(s3: Any, address: str, size: int, left: int) -> None:
    url = s3.generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": "torn"})
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        path = url.removeprefix(address)
        head = f"PUT {path} HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-length: {size}\r\n\r\n"
        connection.sendall(head.encode() + b"x" * (size - left))
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1000)
    assert code(s3.get_object, Bucket=BUCKET, Key="torn") == "NoSuchKey"


def test_a_body_with_another_digest_leaves_nothing(s3: Any) -> None:
    for size in (10, 2 << 20):
        with pytest.raises(ClientError) as raised:
            s3.put_object(Bucket=BUCKET, Key="bad", Body=b"x" * size, ChecksumCRC32="AAAAAA==")
        assert raised.value.response["Error"]["Code"] == "BadDigest"
    assert code(s3.head_object, Bucket=BUCKET, Key="bad") == "404"


def test_a_header_that_is_not_implemented_is_refused(s3: Any) -> None:
    assert (
        code(s3.put_object, Bucket=BUCKET, Key="k", Body=b"", ServerSideEncryption="aws:kms")
        == "NotImplemented"
    )
    rules = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms"}}]}
    put = s3.put_bucket_encryption
    assert code(put, Bucket=BUCKET, ServerSideEncryptionConfiguration=rules) == "NotImplemented"
    assert code(s3.restore_object, Bucket=BUCKET, Key="k", RestoreRequest={}) == "NotImplemented"


@pytest.mark.parametrize(
    ("key", "expected"),
    [("../x", "InvalidArgument"), ("a/./b", "InvalidArgument"), ("x" * 1025, "KeyTooLongError")],
)
def test_keys_that_would_leave_the_directory_are_refused(s3: Any, key: str, expected: str) -> None:
    assert code(s3.put_object, Bucket=BUCKET, Key=key, Body=b"") == expected


def test_a_promise_that_cannot_be_kept_is_refused(s3: Any) -> None:
    """An ignored ACL, size or checksum would be accepted and mean nothing."""
    at = {"Bucket": BUCKET, "Key": "k"}
    assert code(s3.put_object, **at, Body=b"", ACL="aws-exec-read") == "NotImplemented"
    s3.put_object(**at, Body=b"")
    source = {"Bucket": BUCKET, "Key": "k"}
    copy = {"Bucket": BUCKET, "Key": "k2", "CopySource": source}
    assert code(s3.copy_object, **copy, ACL="nonsense") == "InvalidArgument"
    assert code(s3.create_bucket, Bucket="bucket-open", ACL="log-delivery-write") == "NotImplemented"
    upload = s3.create_multipart_upload(**at)["UploadId"]
    etag = s3.upload_part(**at, UploadId=upload, PartNumber=1, Body=b"12345")["ETag"]
    parts = {**at, "UploadId": upload, "MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": etag}]}}
    assert code(s3.complete_multipart_upload, **parts, MpuObjectSize=4) == "InvalidRequest"
    assert code(s3.complete_multipart_upload, **parts, ChecksumCRC32="AAAAAA==") == "BadDigest"
    s3.complete_multipart_upload(**parts, MpuObjectSize=5)


# Reads.


def test_ranges(s3: Any) -> None:
    s3.put_object(Bucket=BUCKET, Key="r", Body=b"0123456789")

    def part(text: str) -> tuple[int, bytes]:
        got = s3.get_object(Bucket=BUCKET, Key="r", Range=text)
        return got["ResponseMetadata"]["HTTPStatusCode"], got["Body"].read()

    assert part("bytes=2-4") == (206, b"234")
    assert part("bytes=7-") == (206, b"789")
    assert part("bytes=-3") == (206, b"789")
    assert part("bytes=8-99") == (206, b"89")
    assert part("bytes=4-2") == (200, b"0123456789")
    assert part("lines=1-2") == (200, b"0123456789")
    assert code(s3.get_object, Bucket=BUCKET, Key="r", Range="bytes=10-") == "InvalidRange"
    assert code(s3.get_object, Bucket=BUCKET, Key="r", Range="bytes=-0") == "InvalidRange"


def test_conditions_of_reads(s3: Any) -> None:
    etag = s3.put_object(Bucket=BUCKET, Key="c", Body=b"x")["ETag"]
    modified = s3.head_object(Bucket=BUCKET, Key="c")["LastModified"]
    get, at = s3.get_object, {"Bucket": BUCKET, "Key": "c"}
    assert get(**at, IfMatch=etag)["ETag"] == get(**at, IfNoneMatch='"other"')["ETag"] == etag
    assert code(get, **at, IfMatch='"other"') == "PreconditionFailed"
    assert code(get, **at, IfNoneMatch=etag) == "304"
    assert code(get, **at, IfModifiedSince=modified) == "304"
    early = modified.replace(year=2000)
    assert code(get, **at, IfUnmodifiedSince=early) == "PreconditionFailed"
    assert get(**at, IfMatch=etag, IfUnmodifiedSince=early)["ETag"] == etag
    assert code(s3.head_object, **at, IfMatch='"other"') == "412"


def test_a_read_serves_one_version_while_it_is_replaced(s3: Any) -> None:
    old, new = b"a" * (4 << 20), b"b" * (4 << 20)
    s3.put_object(Bucket=BUCKET, Key="v", Body=old)
    got = s3.get_object(Bucket=BUCKET, Key="v")
    start = got["Body"].read(10)
    s3.put_object(Bucket=BUCKET, Key="v", Body=new)
    assert start + got["Body"].read() == old
    assert s3.get_object(Bucket=BUCKET, Key="v")["Body"].read() == new


# Listings.


@pytest.fixture
def many(s3: Any) -> Any:
    for key in ("a", "b/1", "b/2", "b/c/1", "d/1", "e é&<", "f"):
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"x")
    return s3


@pytest.mark.parametrize("operation", ["list_objects_v2", "list_objects"])
@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
def test_pages_hold_every_key_and_group_once(many: Any, operation: str, limit: int) -> None:
    pages = many.get_paginator(operation).paginate(
        Bucket=BUCKET, Delimiter="/", PaginationConfig={"PageSize": limit}
    )
    keys, groups = [], []
    for page in pages:
        keys += [one["Key"] for one in page.get("Contents", [])]
        groups += [one["Prefix"] for one in page.get("CommonPrefixes", [])]
    assert keys == ["a", "e é&<", "f"]
    assert groups == ["b/", "d/"]


def test_listings_start_after_and_take_a_prefix(many: Any) -> None:
    def keys(**more: Any) -> list[str]:
        return [one["Key"] for one in many.list_objects_v2(Bucket=BUCKET, **more).get("Contents", [])]

    assert keys(Prefix="b/") == ["b/1", "b/2", "b/c/1"]
    assert keys(StartAfter="b/2") == ["b/c/1", "d/1", "e é&<", "f"]
    assert keys(MaxKeys=0) == []
    assert code(many.list_objects_v2, Bucket=BUCKET, ContinuationToken="***") == "InvalidArgument"
    assert code(many.list_objects_v2, Bucket="no-such-bucket") == "NoSuchBucket"


# Copies, deletes, uploads.


@pytest.mark.parametrize("form", ['W/"{}"', '"0123", "{}"', '"{}0"', "{}0"])
def test_a_write_by_an_etag_in_another_form_is_refused(s3: Any, form: str) -> None:
    """A weak ETag matches no object for a write, and a list is not read as one ETag."""
    at = {"Bucket": BUCKET, "Key": "k"}
    etag = s3.put_object(**at, Body=b"old")["ETag"].strip('"')
    refused = code(s3.put_object, **at, Body=b"new", IfMatch=form.format(etag))
    assert refused in ("PreconditionFailed", "InvalidArgument")
    assert s3.get_object(**at)["Body"].read() == b"old"
    for good in (etag, f'"{etag}"'):
        s3.put_object(**at, Body=b"old", IfMatch=good)


@pytest.mark.parametrize("pinned", [True, False])
def test_a_copy_is_judged_by_its_source_when_read_and_its_destination_when_written(
    s3: Any, monkeypatch: pytest.MonkeyPatch, pinned: bool
) -> None:
    """A put that ends between the two steps: content and condition of one moment, never a mixture."""
    at = {"Bucket": BUCKET, "Key": "k"}
    etag = s3.put_object(**at, Body=b"old")["ETag"]
    real = operations.copy_bytes

    def overtaken(*given: Any) -> str:
        s3.put_object(**at, Body=b"newer")
        return real(*given)

    monkeypatch.setattr(operations, "copy_bytes", overtaken)
    copying = {**at, "CopySource": at, "CopySourceIfMatch": etag, "MetadataDirective": "REPLACE"}
    if pinned:
        assert code(s3.copy_object, **copying, IfMatch=etag) == "PreconditionFailed"
        assert s3.get_object(**at)["Body"].read() == b"newer"
    else:
        assert s3.copy_object(**copying)["CopyObjectResult"]["ETag"] == etag
        assert s3.get_object(**at)["Body"].read() == b"old"


def test_a_copy_takes_metadata_along_or_replaces_it(s3: Any) -> None:
    s3.put_object(Bucket=BUCKET, Key="from", Body=b"x", Metadata={"a": "1"}, ContentType="text/x")
    source = {"Bucket": BUCKET, "Key": "from"}
    s3.copy_object(Bucket=BUCKET, Key="to", CopySource=source)
    assert s3.head_object(Bucket=BUCKET, Key="to")["Metadata"] == {"a": "1"}
    s3.copy_object(
        Bucket=BUCKET, Key="to", CopySource=source, MetadataDirective="REPLACE", Metadata={"b": "2"}
    )
    assert s3.head_object(Bucket=BUCKET, Key="to")["Metadata"] == {"b": "2"}
    assert code(s3.copy_object, Bucket=BUCKET, Key="from", CopySource=source) == "InvalidRequest"
    assert (
        code(s3.copy_object, Bucket=BUCKET, Key="to", CopySource=source, IfNoneMatch="*")
        == "PreconditionFailed"
    )
    assert (
        code(s3.copy_object, Bucket=BUCKET, Key="to", CopySource=source, CopySourceIfMatch='"no"')
        == "PreconditionFailed"
    )


def test_deleting_many(s3: Any) -> None:
    etag = s3.put_object(Bucket=BUCKET, Key="one", Body=b"1")["ETag"]
    s3.put_object(Bucket=BUCKET, Key="two", Body=b"2")
    wanted = [{"Key": "one", "ETag": '"other"'}, {"Key": "two"}, {"Key": "never-there"}]
    answer = s3.delete_objects(Bucket=BUCKET, Delete={"Objects": wanted})
    assert [one["Key"] for one in answer["Deleted"]] == ["two", "never-there"]
    assert [(one["Key"], one["Code"]) for one in answer["Errors"]] == [("one", "PreconditionFailed")]
    s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "one", "ETag": etag}], "Quiet": True})
    assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0


def test_a_multipart_upload(s3: Any) -> None:
    body = os.urandom((11 << 20) + 3)
    s3.upload_fileobj(io.BytesIO(body), BUCKET, "big", ExtraArgs={"Metadata": {"a": "b"}})
    got = s3.get_object(Bucket=BUCKET, Key="big")
    assert got["Body"].read() == body
    assert got["ETag"].endswith('-2"')
    assert got["Metadata"] == {"a": "b"}
    back = io.BytesIO()
    s3.download_fileobj(BUCKET, "big", back)
    assert back.getvalue() == body


def test_an_upload_is_listed_completed_once_and_refused_with_codes(s3: Any) -> None:
    at = {"Bucket": BUCKET, "Key": "up"}
    upload = s3.create_multipart_upload(**at)["UploadId"]
    assert [one["UploadId"] for one in s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]] == [upload]
    etag = s3.upload_part(**at, UploadId=upload, PartNumber=1, Body=b"small")["ETag"]
    other = s3.upload_part(**at, UploadId=upload, PartNumber=2, Body=b"part")["ETag"]
    assert [(one["PartNumber"], one["Size"]) for one in s3.list_parts(**at, UploadId=upload)["Parts"]] == [
        (1, 5),
        (2, 4),
    ]

    def complete(*parts: tuple[int, str], **more: Any) -> Any:
        named = [{"PartNumber": number, "ETag": etag} for number, etag in parts]
        return s3.complete_multipart_upload(**at, UploadId=upload, MultipartUpload={"Parts": named}, **more)

    assert code(lambda: complete((1, etag), (2, other))) == "EntityTooSmall"
    assert code(lambda: complete((2, other), (1, etag))) == "InvalidPartOrder"
    assert code(lambda: complete((1, other))) == "InvalidPart"
    assert code(lambda: complete((3, etag))) == "InvalidPart"
    s3.put_object(**at, Body=b"x")
    assert code(lambda: complete((1, etag), IfNoneMatch="*")) == "PreconditionFailed"
    first = complete((1, etag))["ETag"]
    assert s3.get_object(**at)["Body"].read() == b"small"
    s3.put_object(**at, Body=b"newer")
    assert complete((1, etag))["ETag"] == complete((1, etag), IfNoneMatch="*")["ETag"] == first
    assert s3.get_object(**at)["Body"].read() == b"newer"
    assert code(lambda: complete((1, other))) == code(lambda: complete((1, "x"))) == "NoSuchUpload"
    assert code(s3.list_parts, **at, UploadId=upload) == "NoSuchUpload"
    assert code(s3.abort_multipart_upload, **at, UploadId=upload) == "NoSuchUpload"


@pytest.mark.parametrize("kind", ["FULL_OBJECT", "COMPOSITE"])
def test_a_part_is_not_compared_with_the_checksum_of_the_object(s3: Any, kind: str) -> None:
    """boto3 compared the part that it got with the checksum of the whole object, and raised."""
    how = {"ChecksumAlgorithm": "CRC32", "ChecksumType": kind}
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="parts", **how)["UploadId"]
    bodies = [b"a" * (5 << 20), b"tail"]
    parts = []
    for number, body in enumerate(bodies, 1):
        at = {"Bucket": BUCKET, "Key": "parts", "UploadId": upload, "PartNumber": number}
        made = s3.upload_part(**at, Body=body, ChecksumAlgorithm="CRC32")
        parts.append({"PartNumber": number, "ETag": made["ETag"], "ChecksumCRC32": made["ChecksumCRC32"]})
    s3.complete_multipart_upload(
        Bucket=BUCKET, Key="parts", UploadId=upload, MultipartUpload={"Parts": parts}, ChecksumType=kind
    )
    for number, body in enumerate(bodies, 1):
        got = s3.get_object(Bucket=BUCKET, Key="parts", PartNumber=number, ChecksumMode="ENABLED")
        assert got["Body"].read() == body
    whole = s3.get_object(Bucket=BUCKET, Key="parts", ChecksumMode="ENABLED")
    assert whole["Body"].read() == b"".join(bodies)
    assert whole["ChecksumType"] == kind


def test_a_part_can_be_copied(s3: Any) -> None:
    s3.put_object(Bucket=BUCKET, Key="from", Body=b"0123456789")
    at = {"Bucket": BUCKET, "Key": "to"}
    upload = s3.create_multipart_upload(**at)["UploadId"]
    source = {"Bucket": BUCKET, "Key": "from"}
    part = s3.upload_part_copy(
        **at, UploadId=upload, PartNumber=1, CopySource=source, CopySourceRange="bytes=2-5"
    )
    named = [{"PartNumber": 1, "ETag": part["CopyPartResult"]["ETag"]}]
    s3.complete_multipart_upload(**at, UploadId=upload, MultipartUpload={"Parts": named})
    assert s3.get_object(**at)["Body"].read() == b"2345"


# Buckets and who may use them.


def test_buckets(root: Any) -> None:
    root.create_bucket(Bucket="bucket-two")
    root.create_bucket(Bucket="bucket-two")  # as in us-east-1
    elsewhere = {"LocationConstraint": "eu-west-1"}
    create = root.create_bucket
    found = code(create, Bucket="bucket-two", CreateBucketConfiguration=elsewhere)
    assert found == "BucketAlreadyOwnedByYou"
    assert [one["Name"] for one in root.list_buckets()["Buckets"]] == [BUCKET, "bucket-two"]
    root.put_object(Bucket="bucket-two", Key="k", Body=b"")
    assert code(root.delete_bucket, Bucket="bucket-two") == "BucketNotEmpty"
    root.delete_object(Bucket="bucket-two", Key="k")
    assert code(root.get_bucket_tagging, Bucket="bucket-two") == "NoSuchTagSet"
    root.put_bucket_tagging(Bucket="bucket-two", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    assert root.get_bucket_tagging(Bucket="bucket-two")["TagSet"] == [{"Key": "a", "Value": "b"}]
    assert root.get_bucket_location(Bucket="bucket-two")["LocationConstraint"] is None
    root.delete_bucket(Bucket="bucket-two")
    assert code(root.put_object, Bucket="bucket-two", Key="k", Body=b"") == "NoSuchBucket"
    assert code(root.head_bucket, Bucket="bucket-two") == "404"


def test_no_bucket_has_the_name_of_the_root_key(root: Any) -> None:
    """The token of such a bucket would be the secret key of root."""
    assert code(root.create_bucket, Bucket="root") == "InvalidBucketName"


def test_a_key_of_a_bucket_sees_that_bucket_only(s3: Any, address: str) -> None:
    mine = client(address, BUCKET)
    mine.put_object(Bucket=BUCKET, Key="k", Body=b"x")
    assert [one["Name"] for one in mine.list_buckets()["Buckets"]] == [BUCKET]
    assert code(mine.create_bucket, Bucket="bucket-three") == "AccessDenied"
    assert code(mine.delete_bucket, Bucket=BUCKET) == "AccessDenied"
    theirs = client(address, "bucket-other")
    assert code(theirs.get_object, Bucket=BUCKET, Key="k") == "AccessDenied"
    assert code(theirs.list_objects_v2, Bucket=BUCKET) == "AccessDenied"
    s3.create_bucket(Bucket="bucket-other")
    source = {"Bucket": BUCKET, "Key": "k"}
    assert code(theirs.copy_object, Bucket="bucket-other", Key="k", CopySource=source) == "AccessDenied"
    s3.delete_bucket(Bucket="bucket-other")


def test_presigned_urls_work_and_unsigned_requests_do_not(s3: Any, address: str) -> None:
    url = s3.generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": "p"})
    with urllib.request.urlopen(urllib.request.Request(url, b"body", method="PUT")) as answer:
        assert answer.status == 200
    url = s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "p"})
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"body"
    for path in (f"/{BUCKET}/p", "/", f"/{BUCKET}?list-type=2"):
        with pytest.raises(HTTPError) as raised:
            urllib.request.urlopen(address + path)
        assert raised.value.code == 403
        assert b"<Code>AccessDenied</Code>" in raised.value.read()
        raised.value.close()


def test_the_process_is_watched_beside(address: str) -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        with urllib.request.urlopen(address + path) as answer:
            assert answer.status == 200


def test_objects_survive_the_server(tmp_path: Path) -> None:
    with served(tmp_path) as address:
        s3 = client(address)
        s3.create_bucket(Bucket=BUCKET)
        s3.put_object(Bucket=BUCKET, Key="k", Body=b"x", Metadata={"a": "b"})
    with served(tmp_path) as address:
        got = client(address).get_object(Bucket=BUCKET, Key="k")
        assert (got["Body"].read(), got["Metadata"]) == (b"x", {"a": "b"})
