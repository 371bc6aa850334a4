"""Operation by operation, side by side with moto where moto is right; AWS's own refusals where it is not."""

import itertools
import re
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from fencepost.sim.world import World
from fencepost.sim.world.present import outside
from tests.sim.boto.worlds import setting_up

_VARYING = {
    "ResponseMetadata",
    "LastModified",
    "Owner",
    "Initiator",
    "Initiated",
    "Location",
    "HostId",
    "ContinuationToken",
}
_ECHOED = {"EncodingType", "StorageClass", "Marker", "Prefix", "KeyMarker"}
"""What moto only sometimes repeats, and AWS always."""
_count = itertools.count(1)


@pytest.fixture
def world() -> Iterator[World]:
    world = setting_up()
    world.configure(part_bytes_min=1)
    yield world
    world.close()


class Both:
    """Does everything to two stores and compares what they say."""

    def __init__(self, ours: Any, theirs: Any) -> None:
        self.clients = (ours, theirs)
        self.names: tuple[dict[str, str], dict[str, str]] = ({}, {})
        self.bucket = f"both-{next(_count)}"

    def __getattr__(self, operation: str) -> Any:
        def call(**given: Any) -> Any:
            ours = self._one(self.clients[0], self.names[0], operation, given)
            # Or the world would answer this client too.
            with outside():
                theirs = self._one(self.clients[1], self.names[1], operation, given)
            assert ours == theirs, operation
            return ours

        return call

    def _one(self, client: Any, names: dict[str, str], operation: str, given: dict[str, Any]) -> Any:
        real = {theirs: name for name, theirs in names.items()}
        given = {"Bucket": self.bucket, **given}
        given = {k: real.get(v, v) if isinstance(v, str) else v for k, v in given.items()}
        try:
            answer = getattr(client, operation)(**given)
        except ClientError as error:
            return (error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"])
        if "Body" in answer:
            answer["Body"] = answer["Body"].read()
        return self._plain(answer, names)

    def _plain(self, value: Any, names: dict[str, str]) -> Any:
        """Without times and owners; identifiers by the order in which they came."""
        if isinstance(value, dict):
            kept = {k: v for k, v in value.items() if k not in _VARYING and (v or k not in _ECHOED)}
            for name in ("EncodingType", "StorageClass"):
                kept.pop(name, None)
            if kept.get("VersionId") == "null" and "IsLatest" not in kept:
                del kept["VersionId"]
            return {
                k: names.setdefault(v, f"{k}-{len(names)}")
                if k.endswith(
                    ("UploadId", "VersionId", "UploadIdMarker", "VersionIdMarker", "ContinuationToken")
                )
                and v
                and v != "null"
                else self._plain(v, names)
                for k, v in kept.items()
            }
        if isinstance(value, list):
            return [self._plain(item, names) for item in value]
        return value


@pytest.fixture
def both(world: World, honest_moto: Any) -> Both:
    with outside():
        theirs = boto3.client(
            "s3",
            endpoint_url=honest_moto.address,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}, request_checksum_calculation="when_required"),
        )
    pair = Both(world.boto3_client("s3"), theirs)
    pair.create_bucket()
    return pair


def test_put_and_get(both: Both) -> None:
    both.put_object(Key="a", Body=b"hello", ContentType="text/plain", Metadata={"who": "ann"})
    assert both.get_object(Key="a")["Body"] == b"hello"
    assert both.head_object(Key="a")["Metadata"] == {"who": "ann"}
    both.get_object(Key="b")
    both.head_object(Key="b")


def test_attributes_come_back(both: Both) -> None:
    both.put_object(Key="a", Body=b"x", CacheControl="no-store", ContentEncoding="gzip", ContentLanguage="en")
    found = both.get_object(Key="a")
    assert (found["CacheControl"], found["ContentEncoding"], found["ContentLanguage"]) == (
        "no-store",
        "gzip",
        "en",
    )
    assert both.get_object(Key="a", ResponseContentType="text/x")["ContentType"] == "text/x"


def test_reading_conditions(both: Both) -> None:
    etag = both.put_object(Key="a", Body=b"hello")["ETag"]
    for condition in ({"IfMatch": etag}, {"IfMatch": '"x"'}, {"IfNoneMatch": etag}, {"IfNoneMatch": '"x"'}):
        both.get_object(Key="a", **condition)
        both.head_object(Key="a", **condition)
    both.get_object(Key="b", IfMatch=etag)


@pytest.mark.parametrize(
    "span", ["bytes=0-1", "bytes=1-", "bytes=-2", "bytes=2-99", "bytes=5-", "bytes=9-12", "bytes=0-"]
)
def test_ranges(both: Both, span: str) -> None:
    both.put_object(Key="a", Body=b"hello")
    both.get_object(Key="a", Range=span)


def test_writing_conditions(both: Both) -> None:
    both.put_object(Key="a", Body=b"1", IfMatch='"x"')
    etag = both.put_object(Key="a", Body=b"1", IfNoneMatch="*")["ETag"]
    assert both.put_object(Key="a", Body=b"2", IfNoneMatch="*") == (412, "PreconditionFailed")
    assert both.put_object(Key="a", Body=b"2", IfMatch='"x"') == (412, "PreconditionFailed")
    assert "ETag" in both.put_object(Key="a", Body=b"2", IfMatch=etag.strip('"'))


def test_deleting(both: Both) -> None:
    etag = both.put_object(Key="a", Body=b"1")["ETag"]
    assert both.delete_object(Key="a", IfMatch='"x"') == (412, "PreconditionFailed")
    both.delete_object(Key="a", IfMatch=etag)
    both.delete_object(Key="a")
    both.get_object(Key="a")


def test_deleting_many(both: Both) -> None:
    for key in "abc":
        both.put_object(Key=key, Body=b"1")
    both.delete_objects(Delete={"Objects": [{"Key": "a"}, {"Key": "x y&z"}]})
    both.list_objects_v2()


def test_listing(both: Both) -> None:
    for key in ("a", "b/1", "b/2", "c", "d e/ä+&", "d e/z"):
        both.put_object(Key=key, Body=key.encode())
    both.list_objects_v2()
    both.list_objects_v2(Prefix="b/")
    both.list_objects_v2(Delimiter="/")
    both.list_objects_v2(StartAfter="b/1")
    both.list_objects()
    both.list_objects_v2(Prefix="d e/", Delimiter="/")
    both.list_objects(Prefix="b/", Delimiter="/")
    first = both.list_objects_v2(MaxKeys=2)
    assert first["IsTruncated"]
    both.list_objects_v2(MaxKeys=2, ContinuationToken=first["NextContinuationToken"])


def test_versions(both: Both) -> None:
    both.put_bucket_versioning(VersioningConfiguration={"Status": "Enabled"})
    assert both.get_bucket_versioning() == {"Status": "Enabled"}
    old = both.put_object(Key="a", Body=b"1")["VersionId"]
    both.put_object(Key="a", Body=b"2")
    both.get_object(Key="a")
    assert both.get_object(Key="a", VersionId=old)["Body"] == b"1"
    marker = both.delete_object(Key="a")["VersionId"]
    both.get_object(Key="a")
    both.list_object_versions()
    both.put_object(Key="a", Body=b"3", IfMatch='"x"')
    both.put_object(Key="a", Body=b"3", IfNoneMatch="*")
    both.delete_object(Key="a", VersionId=old)
    both.list_object_versions(Prefix="a")
    assert marker


def test_uploads(both: Both) -> None:
    upload = both.create_multipart_upload(Key="a", ContentType="text/x", Metadata={"who": "ann"})["UploadId"]
    parts = [
        both.upload_part(Key="a", UploadId=upload, PartNumber=n, Body=bytes([n]) * (5 << 20))["ETag"]
        for n in (1, 2)
    ]
    both.list_parts(Key="a", UploadId=upload)
    both.list_parts(Key="a", UploadId=upload, MaxParts=1)
    chosen = {"Parts": [{"PartNumber": n, "ETag": etag} for n, etag in enumerate(parts, 1)]}
    both.complete_multipart_upload(Key="a", UploadId=upload, MultipartUpload=chosen)
    assert both.head_object(Key="a")["ETag"].endswith('-2"')
    gone = both.create_multipart_upload(Key="b")["UploadId"]
    both.abort_multipart_upload(Key="b", UploadId=gone)
    assert both.list_parts(Key="b", UploadId=gone) == (404, "NoSuchUpload")


def test_copies(both: Both) -> None:
    both.put_object(Key="a", Body=b"1", ContentType="text/x", Metadata={"who": "ann"})
    both.copy_object(Key="b c", CopySource={"Bucket": both.bucket, "Key": "a"})
    assert both.get_object(Key="b c")["Metadata"] == {"who": "ann"}
    both.copy_object(
        Key="d",
        CopySource=f"{both.bucket}/b%20c",
        MetadataDirective="REPLACE",
        Metadata={"who": "bob"},
    )
    both.get_object(Key="d")
    both.copy_object(Key="e", CopySource=f"{both.bucket}/nothing")


def test_buckets(both: Both) -> None:
    both.head_bucket()
    both.get_bucket_location()
    both.get_bucket_versioning()
    both.head_bucket(Bucket="no-such-bucket")
    both.get_object(Bucket="no-such-bucket", Key="a")
    both.list_objects_v2(Bucket="no-such-bucket")
    both.put_object(Key="a", Body=b"1")
    assert both.delete_bucket() == (409, "BucketNotEmpty")
    both.delete_object(Key="a")
    both.delete_bucket()
    both.head_bucket()


# Where AWS is known, and moto is not like it.


def refusal_of(call: Any, **given: Any) -> tuple[int, str]:
    with pytest.raises(ClientError) as refused:
        call(Bucket="b", **given)
    response = refused.value.response
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]


@pytest.fixture
def s3(world: World) -> Any:
    world.boto3_bucket("b")
    client = world.boto3_client("s3")
    client.put_object(Bucket="b", Key="a", Body=b"1")
    return client


@pytest.mark.parametrize(
    "condition", [{"IfNoneMatch": '"x"'}, {"IfMatch": "*"}, {"IfMatch": '"x"', "IfNoneMatch": "*"}]
)
def test_conditions_that_aws_does_not_implement(s3: Any, condition: dict[str, str]) -> None:
    assert refusal_of(s3.put_object, Key="a", Body=b"2", **condition) == (501, "NotImplemented")
    assert refusal_of(s3.copy_object, Key="a", CopySource="b/a", **condition) == (501, "NotImplemented")
    upload = s3.create_multipart_upload(Bucket="b", Key="a")["UploadId"]
    part = s3.upload_part(Bucket="b", Key="a", UploadId=upload, PartNumber=1, Body=b"2")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    refused = refusal_of(
        s3.complete_multipart_upload, Key="a", UploadId=upload, MultipartUpload=parts, **condition
    )
    assert refused == (501, "NotImplemented")
    assert s3.get_object(Bucket="b", Key="a")["Body"].read() == b"1"


def test_conditions_on_the_destination_of_a_copy(s3: Any) -> None:
    etag = s3.head_object(Bucket="b", Key="a")["ETag"]
    assert refusal_of(s3.copy_object, Key="a", CopySource="b/a", IfNoneMatch="*") == (
        412,
        "PreconditionFailed",
    )
    assert refusal_of(s3.copy_object, Key="c", CopySource="b/a", IfMatch=etag) == (404, "NoSuchKey")
    s3.copy_object(Bucket="b", Key="a", CopySource="b/a", IfMatch=etag)
    s3.copy_object(Bucket="b", Key="c", CopySource="b/a", IfNoneMatch="*")
    assert refusal_of(s3.copy_object, Key="c", CopySource="b/a", CopySourceIfMatch='"x"') == (
        412,
        "PreconditionFailed",
    )


def test_deleting_what_stands_there_whatever_it_is(s3: Any) -> None:
    s3.delete_object(Bucket="b", Key="a", IfMatch="*")
    assert refusal_of(s3.delete_object, Key="a", IfMatch="*") == (404, "NoSuchKey")


def test_deleting_many_with_etags(s3: Any) -> None:
    etag = s3.put_object(Bucket="b", Key="c", Body=b"3")["ETag"]
    answer = s3.delete_objects(
        Bucket="b", Delete={"Objects": [{"Key": "a", "ETag": '"x"'}, {"Key": "c", "ETag": etag}]}
    )
    assert [(e["Key"], e["Code"]) for e in answer["Errors"]] == [("a", "PreconditionFailed")]
    assert [e["Key"] for e in answer["Deleted"]] == ["c"]


def test_deleting_many_quietly(s3: Any) -> None:
    answer = s3.delete_objects(Bucket="b", Delete={"Objects": [{"Key": "a"}], "Quiet": True})
    assert "Deleted" not in answer
    assert refusal_of(s3.get_object, Key="a") == (404, "NoSuchKey")


def test_a_precondition_says_which_it_was(s3: Any) -> None:
    with pytest.raises(ClientError) as refused:
        s3.put_object(Bucket="b", Key="a", Body=b"2", IfNoneMatch="*")
    assert refused.value.response["Error"]["Condition"] == "If-None-Match"


def test_parts_that_do_not_fit(world: World) -> None:
    world.configure(part_bytes_min=4)
    world.boto3_bucket("b")
    s3 = world.boto3_client("s3")
    upload = s3.create_multipart_upload(Bucket="b", Key="a")["UploadId"]
    etags = [
        s3.upload_part(Bucket="b", Key="a", UploadId=upload, PartNumber=n, Body=b"x")["ETag"] for n in (1, 2)
    ]

    def complete(*parts: tuple[int, str]) -> tuple[int, str]:
        chosen = {"Parts": [{"PartNumber": n, "ETag": etag} for n, etag in parts]}
        return refusal_of(s3.complete_multipart_upload, Key="a", UploadId=upload, MultipartUpload=chosen)

    assert complete((1, etags[0]), (2, etags[1])) == (400, "EntityTooSmall")
    assert complete((2, etags[1]), (1, etags[0])) == (400, "InvalidPartOrder")
    assert complete((3, etags[0])) == (400, "InvalidPart")
    assert complete() == (400, "MalformedXML")


def test_parts_copied(s3: Any) -> None:
    s3.put_object(Bucket="b", Key="from", Body=b"0123456789")
    upload = s3.create_multipart_upload(Bucket="b", Key="to")["UploadId"]
    spans = [(1, "bytes=0-4"), (2, "bytes=7-9")]
    parts = [
        s3.upload_part_copy(
            Bucket="b", Key="to", UploadId=upload, PartNumber=n, CopySource="b/from", CopySourceRange=span
        )["CopyPartResult"]["ETag"]
        for n, span in spans
    ]
    chosen = {"Parts": [{"PartNumber": n, "ETag": etag} for n, etag in enumerate(parts, 1)]}
    s3.complete_multipart_upload(Bucket="b", Key="to", UploadId=upload, MultipartUpload=chosen)
    assert s3.get_object(Bucket="b", Key="to")["Body"].read() == b"01234789"


@pytest.mark.parametrize("algorithm", ["CRC32", "SHA1", "SHA256"])
def test_checksums_are_kept_and_compared(world: World, algorithm: str) -> None:
    """Over https the SDK sends a checksum behind the body, in chunks."""
    world.boto3_bucket("b")
    s3 = world.boto3_client(
        "s3", config=Config(request_checksum_calculation="when_supported", signature_version="s3v4")
    )
    name = f"Checksum{algorithm}"
    kept = s3.put_object(Bucket="b", Key="a", Body=b"hello" * 1000, ChecksumAlgorithm=algorithm)[name]
    answer = s3.get_object(Bucket="b", Key="a", ChecksumMode="ENABLED")
    assert (answer["Body"].read(), answer[name]) == (b"hello" * 1000, kept)
    assert name not in s3.get_object(Bucket="b", Key="a")
    assert refusal_of(s3.put_object, Key="a", Body=b"other", **{name: kept}) == (400, "BadDigest")


@pytest.mark.parametrize(
    ("style", "endpoint"),
    [
        ("virtual", None),
        ("path", None),
        ("auto", "http://127.0.0.1:9000"),
        ("virtual", "https://minio.example"),
        ("auto", "https://s3.eu-west-1.amazonaws.com"),
    ],
)
def test_every_way_of_addressing(world: World, style: str, endpoint: str | None) -> None:
    world.boto3_bucket("my.bucket")
    s3 = world.boto3_client("s3", endpoint_url=endpoint, config=Config(s3={"addressing_style": style}))
    for key in ("a", "/a//b", "ä ?&#%41+"):
        s3.put_object(Bucket="my.bucket", Key=key, Body=key.encode())
        assert s3.get_object(Bucket="my.bucket", Key=key)["Body"].read() == key.encode()
    assert world.bucket.contents().keys() == {"my.bucket/a", "my.bucket//a//b", "my.bucket/ä ?&#%41+"}


def test_answers_are_numbered(s3: Any) -> None:
    answer = s3.get_object(Bucket="b", Key="a")["ResponseMetadata"]
    assert re.fullmatch("[A-Z0-9]+", answer["RequestId"])
    assert answer["HTTPHeaders"]["server"] == "AmazonS3"


def test_too_much(s3: Any) -> None:
    assert refusal_of(s3.put_object, Key="a", Metadata={"k": "v" * 2048}) == (400, "MetadataTooLarge")
    assert refusal_of(s3.put_object, Key="a" * 1025) == (400, "KeyTooLongError")
