"""Tags, locks, lifecycle configurations, ACLs and attributes over S3, as AWS has them."""

import base64
import contextlib
import hashlib
import os
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from botocore.exceptions import ClientError

from fencepost.impl.objects import buckets
from fencepost.impl.objects.temporary import Unflushed
from fencepost.impl.objects.wire.body import DIGESTS
from fencepost.impl.objects.wire.errors import S3Error
from tests.impl.objects.serving import client

Code = Callable[..., str]
SOON = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
LATER = SOON + timedelta(days=1)


# Tags.


def tags(aws: Any, **at: Any) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in aws.get_object_tagging(**at)["TagSet"]}


def tag_set(**pairs: str) -> dict[str, Any]:
    return {"TagSet": [{"Key": key, "Value": value} for key, value in pairs.items()]}


def test_tags_come_with_a_write_and_are_replaced(aws: Any, bucket: str) -> None:
    at = {"Bucket": bucket, "Key": "k"}
    etag = aws.put_object(**at, Body=b"x", Tagging="a=1&b=x%20y%2B")["ETag"]
    assert tags(aws, **at) == {"a": "1", "b": "x y+"}
    assert aws.head_object(**at)["TagCount"] == 2
    aws.put_object_tagging(**at, Tagging=tag_set(c="ü"))
    assert tags(aws, **at) == {"c": "ü"}
    assert aws.head_object(**at)["ETag"] == etag
    source = {"Bucket": bucket, "Key": "k"}
    aws.copy_object(Bucket=bucket, Key="same", CopySource=source)
    aws.copy_object(Bucket=bucket, Key="other", CopySource=source, TaggingDirective="REPLACE", Tagging="d=4")
    assert tags(aws, Bucket=bucket, Key="same") == {"c": "ü"}
    assert tags(aws, Bucket=bucket, Key="other") == {"d": "4"}
    upload = aws.create_multipart_upload(**at, Tagging="m=5")["UploadId"]
    part = aws.upload_part(**at, UploadId=upload, PartNumber=1, Body=b"2")["ETag"]
    named = {"Parts": [{"PartNumber": 1, "ETag": part}]}
    aws.complete_multipart_upload(**at, UploadId=upload, MultipartUpload=named)
    assert tags(aws, **at) == {"m": "5"}
    aws.delete_object_tagging(**at)
    assert tags(aws, **at) == {}
    assert "TagCount" not in aws.head_object(**at)


def test_tags_belong_to_a_version(aws: Any, versioned: str, code: Code) -> None:
    at = {"Bucket": versioned, "Key": "k"}
    first = aws.put_object(**at, Body=b"1", Tagging="n=1")["VersionId"]
    aws.put_object(**at, Body=b"2", Tagging="n=2")
    answer = aws.put_object_tagging(**at, VersionId=first, Tagging=tag_set(n="one"))
    assert answer["VersionId"] == first
    assert (tags(aws, **at), tags(aws, **at, VersionId=first)) == ({"n": "2"}, {"n": "one"})
    marker = aws.delete_object(**at)["VersionId"]
    assert code(aws.get_object_tagging, **at) == "NoSuchKey"
    assert code(aws.put_object_tagging, **at, VersionId=marker, Tagging=tag_set()) == "MethodNotAllowed"
    assert code(aws.put_object_tagging, **at, VersionId="0" * 32, Tagging=tag_set()) == "NoSuchVersion"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ([("k" * 129, "")], "InvalidTag"),
        ([("k", "v" * 257)], "InvalidTag"),
        ([("k", "<&>")], "InvalidTag"),
        ([("aws:k", "v")], "InvalidTag"),
        ([("k", "1"), ("k", "2")], "InvalidTag"),
        ([(f"k{number}", "") for number in range(11)], "BadRequest"),
    ],
)
def test_bad_tags_are_refused(
    aws: Any, bucket: str, code: Code, wanted: list[tuple[str, str]], expected: str
) -> None:
    at = {"Bucket": bucket, "Key": "k"}
    aws.put_object(**at, Body=b"x", Tagging="a=1")
    rows = {"TagSet": [{"Key": key, "Value": value} for key, value in wanted]}
    assert code(aws.put_object_tagging, **at, Tagging=rows) == expected
    assert tags(aws, **at) == {"a": "1"}


@pytest.mark.parametrize("text", ["a=1&a=2", "a=%ff", "&", "=v"])
def test_a_bad_tagging_header_writes_nothing(aws: Any, bucket: str, code: Code, text: str) -> None:
    at = {"Bucket": bucket, "Key": "k"}
    assert code(aws.put_object, **at, Body=b"x", Tagging=text) in ("InvalidArgument", "InvalidTag")
    assert code(aws.get_object, **at) == "NoSuchKey"


def test_tags_of_a_bucket(aws: Any, bucket: str, code: Code) -> None:
    many = {"TagSet": [{"Key": f"k{number}", "Value": ""} for number in range(51)]}
    assert code(aws.put_bucket_tagging, Bucket=bucket, Tagging=many) == "BadRequest"
    assert code(aws.get_bucket_tagging, Bucket=bucket) == "NoSuchTagSet"


# Locks.


def test_a_locked_version_stays(aws: Any, locked: str, code: Code, endpoint: str) -> None:
    at = {"Bucket": locked, "Key": "k"}
    lock = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": SOON}
    version = aws.put_object(**at, Body=b"1", **lock)["VersionId"]
    head = aws.head_object(**at)
    assert (head["ObjectLockMode"], head["ObjectLockRetainUntilDate"]) == ("GOVERNANCE", SOON)
    until = head["ResponseMetadata"]["HTTPHeaders"]["x-amz-object-lock-retain-until-date"]
    assert datetime.fromisoformat(until) == SOON  # other than all other dates of headers
    assert code(aws.delete_object, **at, VersionId=version) == "AccessDenied"
    answer = aws.delete_objects(Bucket=locked, Delete={"Objects": [{"Key": "k", "VersionId": version}]})
    assert [one["Code"] for one in answer["Errors"]] == ["AccessDenied"]
    aws.put_object(**at, Body=b"2")
    marker = aws.delete_object(**at)["VersionId"]
    aws.delete_object(**at, VersionId=marker)
    theirs = client(endpoint, locked)
    assert (
        code(theirs.delete_object, **at, VersionId=version, BypassGovernanceRetention=True) == "AccessDenied"
    )
    aws.delete_object(**at, VersionId=version, BypassGovernanceRetention=True)
    assert code(aws.get_object, **at, VersionId=version) == "NoSuchVersion"


def test_compliance_holds_against_everybody(aws: Any, locked: str, code: Code) -> None:
    at = {"Bucket": locked, "Key": "k"}
    version = aws.put_object(**at, Body=b"1")["VersionId"]
    put = aws.put_object_retention
    put(**at, Retention={"Mode": "COMPLIANCE", "RetainUntilDate": SOON})
    assert aws.get_object_retention(**at)["Retention"] == {"Mode": "COMPLIANCE", "RetainUntilDate": SOON}
    bypass = {"BypassGovernanceRetention": True}
    assert code(aws.delete_object, **at, VersionId=version, **bypass) == "AccessDenied"
    shorter = {"Mode": "COMPLIANCE", "RetainUntilDate": SOON - timedelta(hours=1)}
    assert code(put, **at, Retention=shorter, **bypass) == "AccessDenied"
    weaker = {"Mode": "GOVERNANCE", "RetainUntilDate": LATER}
    assert code(put, **at, Retention=weaker, **bypass) == "AccessDenied"
    put(**at, Retention={"Mode": "COMPLIANCE", "RetainUntilDate": LATER})


def test_governance_is_shortened_only_by_bypassing_it(aws: Any, locked: str, code: Code) -> None:
    at = {"Bucket": locked, "Key": "k"}
    version = aws.put_object(**at, Body=b"1")["VersionId"]
    put = aws.put_object_retention
    put(**at, Retention={"Mode": "GOVERNANCE", "RetainUntilDate": LATER})
    shorter = {"Mode": "GOVERNANCE", "RetainUntilDate": SOON}
    assert code(put, **at, Retention=shorter) == "AccessDenied"
    put(**at, Retention=shorter, BypassGovernanceRetention=True)
    assert code(put, **at, Retention={}) == "AccessDenied"
    put(**at, Retention={}, BypassGovernanceRetention=True)
    assert code(aws.get_object_retention, **at) == "NoSuchObjectLockConfiguration"
    aws.delete_object(**at, VersionId=version)


def test_a_legal_hold_is_independent_of_retention(aws: Any, locked: str, code: Code) -> None:
    at = {"Bucket": locked, "Key": "k"}
    version = aws.put_object(**at, Body=b"1", ObjectLockLegalHoldStatus="ON")["VersionId"]
    assert aws.head_object(**at)["ObjectLockLegalHoldStatus"] == "ON"
    bypass = {"BypassGovernanceRetention": True}
    assert code(aws.delete_object, **at, VersionId=version, **bypass) == "AccessDenied"
    aws.put_object_legal_hold(**at, LegalHold={"Status": "OFF"})
    assert aws.get_object_legal_hold(**at)["LegalHold"] == {"Status": "OFF"}
    aws.delete_object(**at, VersionId=version)


def test_new_versions_get_the_default_retention(aws: Any, locked: str, code: Code) -> None:
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 2}}
    configuration = {"ObjectLockEnabled": "Enabled", "Rule": rule}
    aws.put_object_lock_configuration(Bucket=locked, ObjectLockConfiguration=configuration)
    found = aws.get_object_lock_configuration(Bucket=locked)["ObjectLockConfiguration"]
    assert found == configuration
    at = {"Bucket": locked, "Key": "k"}
    aws.put_object(**at, Body=b"1")
    retained = aws.get_object_retention(**at)["Retention"]
    assert retained["Mode"] == "GOVERNANCE"
    assert timedelta(days=1, hours=23) < retained["RetainUntilDate"] - datetime.now(UTC) <= timedelta(days=2)
    suspended = {"Status": "Suspended"}
    suspend = code(aws.put_bucket_versioning, Bucket=locked, VersioningConfiguration=suspended)
    assert suspend == "InvalidBucketState"


def test_locks_are_refused_where_there_are_none(aws: Any, bucket: str, locked: str, code: Code) -> None:
    at = {"Bucket": bucket, "Key": "k"}
    lock = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": SOON}
    assert code(aws.put_object, **at, Body=b"", **lock) == "InvalidRequest"
    assert code(aws.get_object_lock_configuration, Bucket=bucket) == "ObjectLockConfigurationNotFoundError"
    enabled = {"ObjectLockEnabled": "Enabled"}
    put = aws.put_object_lock_configuration
    assert code(put, Bucket=bucket, ObjectLockConfiguration=enabled) == "InvalidBucketState"
    aws.put_object(**at, Body=b"")
    assert code(aws.put_object_legal_hold, **at, LegalHold={"Status": "ON"}) == "InvalidRequest"
    inside = {"Bucket": locked, "Key": "k"}
    past = datetime(2000, 1, 1, tzinfo=UTC)
    for bad in (
        {"ObjectLockMode": "GOVERNANCE"},
        {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": past},
        {"ObjectLockMode": "OTHER", "ObjectLockRetainUntilDate": SOON},
        {"ObjectLockLegalHoldStatus": "MAYBE"},
    ):
        assert code(aws.put_object, **inside, Body=b"", **bad) == "InvalidArgument"
    assert code(aws.get_object, **inside) == "NoSuchKey"
    for bad, expected in (
        ({"Mode": "GOVERNANCE", "Days": 1, "Years": 1}, "MalformedXML"),
        ({"Mode": "GOVERNANCE"}, "MalformedXML"),
        ({"Mode": "OTHER", "Days": 1}, "MalformedXML"),
        ({"Mode": "GOVERNANCE", "Days": 0}, "InvalidRetentionPeriod"),
        ({"Mode": "GOVERNANCE", "Years": 101}, "InvalidArgument"),
    ):
        configuration = {**enabled, "Rule": {"DefaultRetention": bad}}
        assert code(put, Bucket=locked, ObjectLockConfiguration=configuration) == expected


# Lifecycle.


def rule(**more: Any) -> dict[str, Any]:
    return {"Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}, **more}


def test_a_lifecycle_configuration_comes_back(aws: Any, bucket: str, code: Code) -> None:
    get, at = aws.get_bucket_lifecycle_configuration, {"Bucket": bucket}
    assert code(get, **at) == "NoSuchLifecycleConfiguration"
    both = {"Prefix": "p/", "Tags": [{"Key": "a", "Value": "1"}], "ObjectSizeGreaterThan": 10}
    rules = [
        rule(ID="one"),
        {"ID": "two", "Status": "Disabled", "Filter": {"And": both}, "Expiration": {"Days": 3}},
        rule(
            ID="three",
            Expiration={"Date": datetime(2030, 1, 1, tzinfo=UTC)},
            AbortIncompleteMultipartUpload={"DaysAfterInitiation": 2},
            NoncurrentVersionExpiration={"NoncurrentDays": 4, "NewerNoncurrentVersions": 5},
        ),
    ]
    aws.put_bucket_lifecycle_configuration(**at, LifecycleConfiguration={"Rules": rules})
    assert get(**at)["Rules"] == rules
    nameless = {"Status": "Enabled", "Prefix": "old/", "Expiration": {"ExpiredObjectDeleteMarker": True}}
    aws.put_bucket_lifecycle_configuration(**at, LifecycleConfiguration={"Rules": [nameless]})
    assert get(**at)["Rules"] == [{**nameless, "ID": "rule-1"}]
    aws.delete_bucket_lifecycle(**at)
    assert code(get, **at) == "NoSuchLifecycleConfiguration"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], "MalformedXML"),
        ([rule(Status="On")], "MalformedXML"),
        ([rule(Prefix="both")], "MalformedXML"),
        ([{"Status": "Enabled", "Expiration": {"Days": 1}}], "MalformedXML"),
        ([{"Status": "Enabled", "Filter": {"Prefix": ""}}], "InvalidRequest"),
        ([rule(Filter={"Prefix": "a", "ObjectSizeGreaterThan": 1})], "MalformedXML"),
        ([rule(Filter={"And": {"Prefix": "a"}})], "MalformedXML"),
        ([rule(Expiration={"Days": 0})], "InvalidArgument"),
        ([rule(Expiration={})], "MalformedXML"),
        ([rule(Expiration={"Days": 1, "ExpiredObjectDeleteMarker": True})], "MalformedXML"),
        ([rule(Expiration={"Date": datetime(2030, 1, 1, 1, tzinfo=UTC)})], "InvalidArgument"),
        ([rule(NoncurrentVersionExpiration={"NoncurrentDays": 0})], "InvalidArgument"),
        ([rule(AbortIncompleteMultipartUpload={"DaysAfterInitiation": 0})], "InvalidArgument"),
        (
            [
                rule(
                    Filter={"Tag": {"Key": "a", "Value": "b"}},
                    AbortIncompleteMultipartUpload={"DaysAfterInitiation": 1},
                )
            ],
            "InvalidRequest",
        ),
        ([rule(ID="same"), rule(ID="same")], "InvalidArgument"),
        ([rule(ID="x" * 256)], "InvalidArgument"),
        ([rule(Transitions=[{"Days": 1, "StorageClass": "GLACIER"}])], "NotImplemented"),
    ],
)
def test_a_bad_lifecycle_configuration_is_refused(
    aws: Any, bucket: str, code: Code, rules: list[dict[str, Any]], expected: str
) -> None:
    put = aws.put_bucket_lifecycle_configuration
    aws.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [rule(ID="kept")]})
    assert code(put, Bucket=bucket, LifecycleConfiguration={"Rules": rules}) == expected
    assert aws.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"] == [rule(ID="kept")]


# Access.


def status_of(url: str, method: str = "GET", body: bytes | None = None) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, method=method)) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


def test_a_public_object_is_read_without_a_signature(aws: Any, bucket: str, endpoint: str) -> None:
    at = {"Bucket": bucket, "Key": "k"}
    aws.put_object(**at, Body=b"open", ACL="public-read")
    url = f"{endpoint}/{bucket}/k"
    assert status_of(url) == (200, b"open")
    assert status_of(url, "HEAD")[0] == 200
    assert status_of(f"{url}?response-content-type=text/html")[0] == 400
    for other in (f"{url}?tagging", f"{url}?acl", f"{endpoint}/{bucket}/none", f"{endpoint}/{bucket}"):
        assert status_of(other)[0] == 403
    assert status_of(url, "PUT", b"x")[0] == status_of(url, "DELETE")[0] == 403
    grants = aws.get_object_acl(**at)["Grants"]
    assert [grant["Permission"] for grant in grants] == ["READ", "FULL_CONTROL"]
    aws.put_object_acl(**at, ACL="private")
    assert status_of(url)[0] == 403
    aws.put_object_acl(**at, AccessControlPolicy={"Grants": grants, "Owner": {"ID": "fencepost"}})
    assert status_of(url) == (200, b"open")
    aws.put_object(**at, Body=b"closed")
    assert status_of(url)[0] == 403


def test_an_acl_that_cannot_be_kept_is_refused(aws: Any, bucket: str, code: Code) -> None:
    at = {"Bucket": bucket, "Key": "k"}
    aws.put_object(**at, Body=b"")
    assert code(aws.put_object_acl, **at, ACL="aws-exec-read") == "NotImplemented"
    assert code(aws.put_bucket_acl, Bucket=bucket, ACL="log-delivery-write") == "NotImplemented"
    aws.put_bucket_acl(Bucket=bucket, ACL="private")
    assert len(aws.get_bucket_acl(Bucket=bucket)["Grants"]) == 1
    stranger = {"Grantee": {"Type": "CanonicalUser", "ID": "other"}, "Permission": "READ"}
    policy = {"Grants": [stranger], "Owner": {"ID": "fencepost"}}
    assert code(aws.put_object_acl, **at, AccessControlPolicy=policy) == "InvalidArgument"
    stranger["Grantee"] = {"Type": "AmazonCustomerByEmail", "EmailAddress": "a@example"}
    assert code(aws.put_object_acl, **at, AccessControlPolicy=policy) == "UnresolvableGrantByEmailAddress"
    policy["Grants"] = [{"Grantee": {"Type": "CanonicalUser", "ID": "fencepost"}, "Permission": "READ"}]
    assert code(aws.put_object_acl, **at, AccessControlPolicy=policy) == "NotImplemented"
    assert code(aws.put_object, **at, Body=b"", GrantRead="id=other") == "NotImplemented"


# What else is asked of buckets and objects.


def test_a_bucket_without_a_configuration_answers_as_on_aws(aws: Any, bucket: str, code: Code) -> None:
    assert code(aws.get_bucket_policy, Bucket=bucket) == "NoSuchBucketPolicy"
    assert code(aws.get_bucket_cors, Bucket=bucket) == "NoSuchCORSConfiguration"
    encryption = code(aws.get_bucket_encryption, Bucket=bucket)
    assert encryption == "ServerSideEncryptionConfigurationNotFoundError"
    assert aws.get_bucket_request_payment(Bucket=bucket)["Payer"] == "BucketOwner"
    assert "LoggingEnabled" not in aws.get_bucket_logging(Bucket=bucket)
    assert code(aws.get_bucket_policy, Bucket="no-such-bucket") == "NoSuchBucket"
    assert code(aws.put_bucket_policy, Bucket=bucket, Policy="{}") == "MalformedPolicy"


def test_a_bucket_has_a_location(aws: Any, code: Code) -> None:
    at = {"Bucket": "bucket-elsewhere"}
    bad = {"LocationConstraint": "no region"}
    assert code(aws.create_bucket, **at, CreateBucketConfiguration=bad) == "InvalidLocationConstraint"
    aws.create_bucket(**at, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    assert aws.get_bucket_location(**at)["LocationConstraint"] == "eu-west-1"
    assert aws.head_bucket(**at)["BucketRegion"] == "eu-west-1"


@pytest.fixture
def parts(aws: Any, bucket: str) -> tuple[dict[str, str], bytes]:
    """An object of two parts."""
    at, body = {"Bucket": bucket, "Key": "big"}, os.urandom((5 << 20) + 7)
    upload = aws.create_multipart_upload(**at, ChecksumAlgorithm="SHA256")["UploadId"]
    named = []
    for number, piece in enumerate((body[: 5 << 20], body[5 << 20 :]), 1):
        part = aws.upload_part(
            **at, UploadId=upload, PartNumber=number, Body=piece, ChecksumAlgorithm="SHA256"
        )
        named.append({"PartNumber": number, "ETag": part["ETag"], "ChecksumSHA256": part["ChecksumSHA256"]})
    shown = aws.list_parts(**at, UploadId=upload)
    assert [part["ChecksumSHA256"] for part in shown["Parts"]] == [one["ChecksumSHA256"] for one in named]
    assert (shown["ChecksumAlgorithm"], shown["ChecksumType"]) == ("SHA256", "COMPOSITE")
    done = aws.complete_multipart_upload(**at, UploadId=upload, MultipartUpload={"Parts": named})
    assert done["ChecksumSHA256"].endswith("-2")
    return at, body


def test_parts_of_an_object_can_be_read(aws: Any, parts: tuple[dict[str, str], bytes], code: Code) -> None:
    at, body = parts
    second = aws.get_object(**at, PartNumber=2)
    assert (second["Body"].read(), second["PartsCount"]) == (body[5 << 20 :], 2)
    assert aws.head_object(**at, PartNumber=1)["ContentLength"] == 5 << 20
    assert code(aws.get_object, **at, PartNumber=3) == "InvalidPartNumber"
    assert code(aws.get_object, **at, PartNumber=1, Range="bytes=0-1") == "InvalidRequest"
    wanted = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]
    found = aws.get_object_attributes(**at, ObjectAttributes=wanted, MaxParts=1)
    assert found["ObjectSize"] == len(body)
    assert found["Checksum"]["ChecksumType"] == "COMPOSITE"
    assert found["ObjectParts"]["TotalPartsCount"] == 2
    sums = [
        base64.b64encode(hashlib.sha256(part).digest()).decode()
        for part in (body[: 5 << 20], body[5 << 20 :])
    ]
    part = {"PartNumber": 1, "Size": 5 << 20, "ChecksumSHA256": sums[0]}
    assert found["ObjectParts"]["Parts"] == [part]
    assert (second["ChecksumSHA256"], second["ChecksumType"]) == (sums[1], "COMPOSITE")
    assert found["ObjectParts"]["IsTruncated"] is True
    assert code(aws.get_object_attributes, **at, ObjectAttributes=["Nonsense"]) == "InvalidArgument"


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC64NVME"])
def test_a_whole_checksum_of_an_upload_is_verified(aws: Any, bucket: str, code: Code, algorithm: str) -> None:
    at = {"Bucket": bucket, "Key": "k"}
    digest = DIGESTS[algorithm.lower()]()
    digest.update(b"content")
    once = base64.b64encode(digest.digest()).decode()
    whole = {"ChecksumAlgorithm": algorithm, "ChecksumType": "FULL_OBJECT"}
    upload = aws.create_multipart_upload(**at, **whole)["UploadId"]
    part = aws.upload_part(**at, UploadId=upload, PartNumber=1, Body=b"content")
    named = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    complete = {**at, "UploadId": upload, "MultipartUpload": named}
    other = {f"Checksum{algorithm}": "A" * len(once.rstrip("=")) + "=" * once.count("=")}
    assert code(aws.complete_multipart_upload, **complete, **other) == "BadDigest"
    done = aws.complete_multipart_upload(**complete, **{f"Checksum{algorithm}": once})
    assert done[f"Checksum{algorithm}"] == once
    assert aws.head_object(**at, ChecksumMode="ENABLED")["ChecksumType"] == "FULL_OBJECT"
    sha = {"ChecksumAlgorithm": "SHA1", "ChecksumType": "FULL_OBJECT"}
    assert code(aws.create_multipart_upload, **at, **sha) == "InvalidRequest"


def test_uploads_are_listed_by_pages_and_groups(aws: Any, bucket: str) -> None:
    for key in ("a", "b/1", "b/2", "c"):
        aws.create_multipart_upload(Bucket=bucket, Key=key)
    for size in (1, 2, 10):
        keys, groups, more = [], [], {}
        while True:
            page = aws.list_multipart_uploads(Bucket=bucket, Delimiter="/", MaxUploads=size, **more)
            keys += [one["Key"] for one in page.get("Uploads", [])]
            groups += [one["Prefix"] for one in page.get("CommonPrefixes", [])]
            if not page["IsTruncated"]:
                break
            more = {"KeyMarker": page["NextKeyMarker"]}
            if page.get("NextUploadIdMarker"):
                more["UploadIdMarker"] = page["NextUploadIdMarker"]
        assert (keys, groups) == (["a", "c"], ["b/"])


def test_conditions_of_a_copy_look_at_the_source(aws: Any, bucket: str, code: Code) -> None:
    etag = aws.put_object(Bucket=bucket, Key="from", Body=b"x")["ETag"]
    modified = aws.head_object(Bucket=bucket, Key="from")["LastModified"]
    copy = {"Bucket": bucket, "Key": "to", "CopySource": {"Bucket": bucket, "Key": "from"}}
    early = modified - timedelta(hours=1)
    for bad in (
        {"CopySourceIfMatch": '"other"'},
        {"CopySourceIfNoneMatch": etag},
        {"CopySourceIfModifiedSince": modified},
        {"CopySourceIfUnmodifiedSince": early},
    ):
        assert code(aws.copy_object, **copy, **bad) == "PreconditionFailed"
    assert code(aws.get_object, Bucket=bucket, Key="to") == "NoSuchKey"
    aws.copy_object(**copy, CopySourceIfMatch=etag, CopySourceIfUnmodifiedSince=early)
    assert code(aws.copy_object, **copy, MetadataDirective="OTHER") == "InvalidArgument"


def test_buckets_are_hosts_too(tmp_path: Path) -> None:
    from tests.impl.objects.serving import served

    with served(tmp_path, domain="s3.example") as address:
        aws = client(address)
        aws.create_bucket(Bucket="bucket-host")
        aws.put_object(Bucket="bucket-host", Key="a/b", Body=b"x", ACL="public-read")
        request = urllib.request.Request(f"{address}/a/b", headers={"Host": "bucket-host.s3.example"})
        with urllib.request.urlopen(request) as answer:
            assert answer.read() == b"x"


def test_nothing_is_left_of_a_refused_write(aws: Any, locked: str) -> None:
    """Refused before the body, within it, and by the condition."""
    at = {"Bucket": locked, "Key": "k"}
    for bad in (
        {"Tagging": "a=1&a=2"},
        {"ChecksumCRC32": "AAAAAA=="},
        {"IfMatch": '"none"'},
        {"ObjectLockMode": "GOVERNANCE"},
    ):
        with pytest.raises(ClientError):
            aws.put_object(**at, Body=b"x", **bad)
    page = aws.list_object_versions(Bucket=locked)
    assert "Versions" not in page
    assert "DeleteMarkers" not in page


@pytest.mark.parametrize("kept", [False, True])
def test_every_process_sees_a_new_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """A document is read once while its file stays, and again when that is another, or young."""
    monkeypatch.setattr(buckets, "_TICKS_NS", -(10**18) if kept else 10**18)
    one, other = (buckets.Buckets(str(tmp_path), disk=Unflushed()) for _ in range(2))
    one.create("bucket-one")
    for number in range(5):
        tags = {"n": f"{number}"}
        other.change("bucket-one", lambda document, tags=tags: replace(document, tags=tags))  # type: ignore[misc]  # a default
        assert one.document("bucket-one").tags == tags
    reads = []
    monkeypatch.setattr(
        one._documents, "get", lambda key, get=one._documents.get: (reads.append(key), get(key))[1]
    )
    assert one.document("bucket-one") == one.document("bucket-one")
    assert len(reads) == (0 if kept else 2)
    with contextlib.closing(one), contextlib.closing(other):
        other.delete("bucket-one")
        with pytest.raises(S3Error, match="NoSuchBucket"):
            one.document("bucket-one")
