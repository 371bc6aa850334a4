"""Versions over S3, as AWS has them."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

Code = Callable[..., str]


def listed(aws: Any, bucket: str, **more: Any) -> list[tuple[str, str, bool, bool]]:
    """Key, version, whether it is a marker, whether it is the latest; in the order of the listing."""
    page = aws.list_object_versions(Bucket=bucket, **more)
    rows = [(one, False) for one in page.get("Versions", [])]
    rows += [(one, True) for one in page.get("DeleteMarkers", [])]
    return [(one["Key"], one["VersionId"], marker, one["IsLatest"]) for one, marker in rows]


def body(aws: Any, **at: Any) -> bytes:
    content: bytes = aws.get_object(**at)["Body"].read()
    return content


def test_versioning_is_off_until_it_is_enabled(aws: Any, bucket: str, code: Code) -> None:
    at = {"Bucket": bucket, "Key": "k"}
    assert "Status" not in aws.get_bucket_versioning(Bucket=bucket)
    assert "VersionId" not in aws.put_object(**at, Body=b"0")
    assert "VersionId" not in aws.get_object(**at)
    assert body(aws, **at, VersionId="null") == b"0"
    for status in ("Enabled", "Suspended"):
        aws.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})
        assert aws.get_bucket_versioning(Bucket=bucket)["Status"] == status
    put = aws.put_bucket_versioning
    assert code(put, Bucket=bucket, VersioningConfiguration={"Status": "Off"}) == "MalformedXML"
    missing = code(put, Bucket=bucket, VersioningConfiguration={})
    assert missing == "IllegalVersioningConfigurationException"
    multi = {"Status": "Enabled", "MFADelete": "Enabled"}
    assert code(put, Bucket=bucket, VersioningConfiguration=multi) == "NotImplemented"


def test_every_version_can_be_read_copied_and_removed(aws: Any, versioned: str, code: Code) -> None:
    at = {"Bucket": versioned, "Key": "k"}
    first = aws.put_object(**at, Body=b"1", Metadata={"n": "1"})["VersionId"]
    second = aws.put_object(**at, Body=b"22")["VersionId"]
    assert body(aws, **at) == b"22"
    assert aws.head_object(**at)["VersionId"] == second
    assert body(aws, **at, VersionId=first) == b"1"
    assert aws.head_object(**at, VersionId=first)["Metadata"] == {"n": "1"}
    source = {"Bucket": versioned, "Key": "k", "VersionId": first}
    copied = aws.copy_object(**at, CopySource=source)
    assert copied["CopySourceVersionId"] == first
    assert body(aws, **at) == b"1"
    assert aws.delete_object(**at, VersionId=copied["VersionId"])["VersionId"] == copied["VersionId"]
    assert body(aws, **at) == b"22"
    assert code(aws.get_object, **at, VersionId="0" * 32) == "NoSuchVersion"
    assert code(aws.get_object, **at, VersionId="nonsense") == "InvalidArgument"
    assert code(aws.get_object, **at, VersionId="null") == "NoSuchVersion"
    assert aws.delete_object(**at, VersionId="0" * 32)["VersionId"] == "0" * 32
    assert listed(aws, versioned) == [("k", second, False, True), ("k", first, False, False)]


def test_a_delete_marker_hides_the_object_until_it_is_removed(aws: Any, versioned: str, code: Code) -> None:
    at = {"Bucket": versioned, "Key": "k"}
    first = aws.put_object(**at, Body=b"1")["VersionId"]
    deleted = aws.delete_object(**at)
    marker = deleted["VersionId"]
    assert deleted["DeleteMarker"] is True
    with pytest.raises(ClientError) as raised:
        aws.get_object(**at)
    headers = raised.value.response["ResponseMetadata"]["HTTPHeaders"]
    assert raised.value.response["Error"]["Code"] == "NoSuchKey"
    assert (headers["x-amz-delete-marker"], headers["x-amz-version-id"]) == ("true", marker)
    with pytest.raises(ClientError) as raised:
        aws.get_object(**at, VersionId=marker)
    headers = raised.value.response["ResponseMetadata"]["HTTPHeaders"]
    assert raised.value.response["Error"]["Code"] == "MethodNotAllowed"
    assert (headers["x-amz-delete-marker"], headers["allow"]) == ("true", "DELETE")
    assert code(aws.head_object, **at, VersionId=marker) == "405"
    assert "Contents" not in aws.list_objects_v2(Bucket=versioned)
    assert body(aws, **at, VersionId=first) == b"1"
    source = {"Bucket": versioned, "Key": "k"}
    assert code(aws.copy_object, Bucket=versioned, Key="c", CopySource=source) == "NoSuchKey"
    named = {**source, "VersionId": marker}
    assert code(aws.copy_object, Bucket=versioned, Key="c", CopySource=named) == "InvalidRequest"
    assert aws.delete_object(**at, VersionId=marker)["DeleteMarker"] is True
    assert body(aws, **at) == b"1"
    assert aws.delete_object(Bucket=versioned, Key="never")["DeleteMarker"] is True


def test_conditions_consult_the_current_version(aws: Any, versioned: str, code: Code) -> None:
    """The rows of AWS's own tests: a delete marker is no object for `If-None-Match: *`."""
    at = {"Bucket": versioned, "Key": "k"}
    old = aws.put_object(**at, Body=b"1", IfNoneMatch="*")["ETag"]
    assert code(aws.put_object, **at, Body=b"2", IfNoneMatch="*") == "PreconditionFailed"
    new = aws.put_object(**at, Body=b"2", IfMatch=old)["ETag"]
    assert code(aws.put_object, **at, Body=b"3", IfMatch=old) == "PreconditionFailed"
    assert code(aws.delete_object, **at, IfMatch=old) == "PreconditionFailed"
    aws.delete_object(**at, IfMatch=new)
    assert code(aws.put_object, **at, Body=b"3", IfMatch=new) == "NoSuchKey"
    assert code(aws.delete_object, **at, IfMatch="*") == "PreconditionFailed"
    version = aws.put_object(**at, Body=b"3", IfNoneMatch="*")["VersionId"]
    assert code(aws.delete_object, **at, IfMatch=new, VersionId=version) == "NotImplemented"
    aws.delete_object(**at, IfMatch="*")
    assert code(aws.delete_object, Bucket=versioned, Key="never", IfMatch="*") == "NoSuchKey"


def test_suspended_versioning_replaces_the_null_version(aws: Any, bucket: str) -> None:
    at = {"Bucket": bucket, "Key": "k"}
    aws.put_object(**at, Body=b"old")
    aws.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first = aws.put_object(**at, Body=b"1")["VersionId"]
    aws.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    assert "VersionId" not in aws.put_object(**at, Body=b"null")
    assert listed(aws, bucket) == [("k", "null", False, True), ("k", first, False, False)]
    deleted = aws.delete_object(**at)
    assert (deleted["VersionId"], deleted["DeleteMarker"]) == ("null", True)
    assert sorted(listed(aws, bucket)) == sorted([("k", "null", True, True), ("k", first, False, False)])
    aws.delete_object(**at, VersionId="null")
    assert body(aws, **at) == b"1"


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_pages_of_versions_hold_everything_once(aws: Any, versioned: str, size: int) -> None:
    for key in ("a", "a", "b/1", "b/1", "b/2", "c"):
        aws.put_object(Bucket=versioned, Key=key, Body=b"x")
    aws.delete_object(Bucket=versioned, Key="a")
    found, groups = [], []
    pages = aws.get_paginator("list_object_versions").paginate(
        Bucket=versioned, Delimiter="/", PaginationConfig={"PageSize": size}
    )
    for page in pages:
        found += [(one["Key"], one["VersionId"]) for one in page.get("Versions", [])]
        found += [(one["Key"], one["VersionId"]) for one in page.get("DeleteMarkers", [])]
        groups += [one["Prefix"] for one in page.get("CommonPrefixes", [])]
    assert sorted(key for key, _ in found) == ["a", "a", "a", "c"]
    assert len({*found}) == len(found)
    assert groups == ["b/"]
    whole = listed(aws, versioned, Prefix="b/")
    assert [(key, latest) for key, _, _, latest in whole] == [
        ("b/1", True), ("b/1", False), ("b/2", True),
    ]  # fmt: skip


def test_listing_versions_refuses_what_aws_refuses(aws: Any, bucket: str, code: Code) -> None:
    assert code(aws.list_object_versions, Bucket=bucket, VersionIdMarker="null") == "InvalidArgument"
    aws.put_object(Bucket=bucket, Key="k", Body=b"")
    assert listed(aws, bucket) == [("k", "null", False, True)]
    assert listed(aws, bucket, MaxKeys=0) == []


def test_many_versions_are_deleted_at_once(aws: Any, versioned: str) -> None:
    at = {"Bucket": versioned, "Key": "k"}
    first = aws.put_object(**at, Body=b"1")["VersionId"]
    aws.put_object(**at, Body=b"2")
    wanted = [{"Key": "k"}, {"Key": "k", "VersionId": first}, {"Key": "k", "VersionId": "nonsense"}]
    answer = aws.delete_objects(Bucket=versioned, Delete={"Objects": wanted})
    marker, removed = answer["Deleted"]
    assert marker["DeleteMarker"] is True
    assert removed == {"Key": "k", "VersionId": first}
    assert [(one["Code"], one["VersionId"]) for one in answer["Errors"]] == [("NoSuchVersion", "nonsense")]
    assert [row[1] for row in listed(aws, versioned) if row[2]] == [marker["DeleteMarkerVersionId"]]


def test_a_bucket_with_versions_is_not_empty(aws: Any, versioned: str, code: Code) -> None:
    at = {"Bucket": versioned, "Key": "k"}
    version = aws.put_object(**at, Body=b"1")["VersionId"]
    marker = aws.delete_object(**at)["VersionId"]
    assert code(aws.delete_bucket, Bucket=versioned) == "BucketNotEmpty"
    aws.delete_object(**at, VersionId=version)
    assert code(aws.delete_bucket, Bucket=versioned) == "BucketNotEmpty"
    aws.delete_object(**at, VersionId=marker)
    aws.delete_bucket(Bucket=versioned)
    aws.create_bucket(Bucket=versioned)
    aws.put_object(**at, Body=b"1")
    aws.delete_object(**at)
    assert listed(aws, versioned) == []


def test_an_upload_makes_a_version(aws: Any, versioned: str) -> None:
    at = {"Bucket": versioned, "Key": "k"}
    first = aws.put_object(**at, Body=b"1")["VersionId"]
    upload = aws.create_multipart_upload(**at)["UploadId"]
    etag = aws.upload_part(**at, UploadId=upload, PartNumber=1, Body=b"2")["ETag"]
    named = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    second = aws.complete_multipart_upload(**at, UploadId=upload, MultipartUpload=named)["VersionId"]
    assert [row[1] for row in listed(aws, versioned)] == [second, first]
    source = {"Bucket": versioned, "Key": "k", "VersionId": first}
    upload = aws.create_multipart_upload(**at)["UploadId"]
    part = aws.upload_part_copy(**at, UploadId=upload, PartNumber=1, CopySource=source)
    assert part["CopySourceVersionId"] == first
    named = {"Parts": [{"PartNumber": 1, "ETag": part["CopyPartResult"]["ETag"]}]}
    aws.complete_multipart_upload(**at, UploadId=upload, MultipartUpload=named)
    assert body(aws, **at) == b"1"
