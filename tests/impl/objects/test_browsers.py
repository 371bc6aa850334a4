"""What pages and forms of browsers send: cross-origin requests, POST of objects with policies."""

import base64
import hashlib
import hmac
import http.client
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from fencepost.impl.objects.wire.form import Form
from tests.impl.objects.serving import secret
from tests.impl.objects.test_access import status_of

Code = Callable[..., str]


class Sent:
    """A response as it came."""

    def __init__(self, endpoint: str, method: str, path: str, body: bytes = b"", **headers: str) -> None:
        connection = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=30)
        given = {name.replace("_", "-"): text for name, text in headers.items()}
        connection.request(method, path, body, given)
        answer = connection.getresponse()
        self.status, self.body = answer.status, answer.read()
        self.headers = {name.lower(): text for name, text in answer.getheaders()}
        connection.close()


# Cross-origin requests.

RULES = [
    {"AllowedOrigins": ["https://*.example"], "AllowedMethods": ["GET", "PUT"], "AllowedHeaders": ["x-amz-*"],
     "ExposeHeaders": ["ETag"], "MaxAgeSeconds": 60},
    {"AllowedOrigins": ["*"], "AllowedMethods": ["HEAD"]},
]  # fmt: skip
ORIGIN = "https://a.example"


@pytest.fixture
def open_to_pages(aws: Any, bucket: str) -> str:
    aws.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": RULES})
    aws.put_object(Bucket=bucket, Key="k", Body=b"x", ACL="public-read")
    return bucket


def test_a_preflight_is_answered_by_the_rules(aws: Any, open_to_pages: str, endpoint: str) -> None:
    def ask(origin: str, method: str, headers: str = "") -> Sent:
        more = {"Access_Control_Request_Headers": headers} if headers else {}
        path = f"/{open_to_pages}/k"
        return Sent(endpoint, "OPTIONS", path, Origin=origin, Access_Control_Request_Method=method, **more)

    found = ask(ORIGIN, "PUT", "x-amz-meta-a, X-Amz-Date")
    assert (found.status, found.body) == (200, b"")
    assert found.headers["access-control-allow-origin"] == ORIGIN
    assert found.headers["access-control-allow-methods"] == "GET, PUT"
    assert found.headers["access-control-allow-headers"] == "x-amz-meta-a, X-Amz-Date"
    assert found.headers["access-control-max-age"] == "60"
    assert found.headers["vary"].startswith("Origin")
    assert ask("https://other", "HEAD").headers["access-control-allow-origin"] == "*"
    for refused in (
        ask("https://other", "PUT"), ask(ORIGIN, "DELETE"), ask(ORIGIN, "PUT", "authorization"),
    ):  # fmt: skip
        assert refused.status == 403
        assert "access-control-allow-origin" not in refused.headers
    assert ask(ORIGIN, "NONSENSE").status == Sent(endpoint, "OPTIONS", f"/{open_to_pages}/k").status == 400


def test_a_response_tells_which_pages_may_see_it(aws: Any, open_to_pages: str, endpoint: str) -> None:
    path = f"/{open_to_pages}/k"
    found = Sent(endpoint, "GET", path, Origin=ORIGIN)
    assert (found.status, found.body) == (200, b"x")
    assert found.headers["access-control-allow-origin"] == ORIGIN
    assert found.headers["access-control-expose-headers"] == "ETag"
    refused = Sent(endpoint, "GET", f"/{open_to_pages}/none", Origin=ORIGIN)
    assert (refused.status, refused.headers["access-control-allow-origin"]) == (403, ORIGIN)
    for other in (Sent(endpoint, "GET", path, Origin="https://other"), Sent(endpoint, "GET", path)):
        assert other.status == 200
        assert "access-control-allow-origin" not in other.headers
    assert aws.get_bucket_cors(Bucket=open_to_pages)["CORSRules"] == RULES
    aws.delete_bucket_cors(Bucket=open_to_pages)
    assert "access-control-allow-origin" not in Sent(endpoint, "GET", path, Origin=ORIGIN).headers
    assert Sent(endpoint, "OPTIONS", path, Origin=ORIGIN, Access_Control_Request_Method="GET").status == 403


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"AllowedOrigins": ["*"], "AllowedMethods": ["PATCH"]}, "InvalidRequest"),
        ({"AllowedOrigins": ["*.*"], "AllowedMethods": ["GET"]}, "InvalidRequest"),
        ({"AllowedOrigins": ["*"], "AllowedMethods": ["GET"], "AllowedHeaders": ["*-*"]}, "InvalidRequest"),
    ],
)
def test_rules_that_mean_nothing_are_refused(
    aws: Any, bucket: str, rule: Any, expected: str, code: Code
) -> None:
    rules = {"CORSRules": [rule]}
    assert code(aws.put_bucket_cors, Bucket=bucket, CORSConfiguration=rules) == expected


# Forms.

Condition = Any


def form_of(fields: dict[str, str], content: bytes, file_name: str = "a.txt") -> tuple[bytes, str]:
    boundary = "----boundary"
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'.encode()
        for name, text in fields.items()
    ]
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{file_name}"\r\n'
    body = b"".join(parts) + head.encode() + b"Content-Type: text/plain\r\n\r\n" + content
    return body + f"\r\n--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def signed_fields(
    conditions: list[Condition] | None, access_key: str = "root", *, minutes: float = 10, version: int = 4
) -> dict[str, str]:
    now = datetime.now(UTC)
    document: dict[str, Any] = {"expiration": f"{now + timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"}
    if conditions is not None:
        document["conditions"] = conditions
    policy = base64.b64encode(json.dumps(document).encode()).decode()
    if version == 2:
        digest = hmac.digest(secret(access_key).encode(), policy.encode(), hashlib.sha1)
        return {
            "AWSAccessKeyId": access_key, "policy": policy, "signature": base64.b64encode(digest).decode(),
        }  # fmt: skip
    key = b"AWS4" + secret(access_key).encode()
    day = f"{now:%Y%m%d}"
    for part in (day, "us-east-1", "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return {
        "policy": policy,
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": f"{access_key}/{day}/us-east-1/s3/aws4_request",
        "x-amz-date": f"{now:%Y%m%dT%H%M%SZ}",
        "x-amz-signature": hmac.digest(key, policy.encode(), "sha256").hex(),
    }


def post(endpoint: str, bucket: str, fields: dict[str, str], content: bytes, **more: str) -> Sent:
    body, kind = form_of(fields, content)
    return Sent(endpoint, "POST", f"/{bucket}", body, Content_Type=kind, **more)


ANY_V4 = [["starts-with", "$x-amz-credential", ""], ["starts-with", "$x-amz-date", ""]]


@pytest.mark.parametrize("size", [0, 10, 3 << 20])
@pytest.mark.parametrize("version", [2, 4])
def test_a_form_is_stored(aws: Any, bucket: str, endpoint: str, size: int, version: int) -> None:
    content = (b"\r\n--x" + bytes(range(256))) * (size // 256 + 1)
    content = content[:size]
    conditions = [
        {"bucket": bucket}, ["starts-with", "$key", "up/"], ["eq", "$content-type", "text/x"],
        ["starts-with", "$x-amz-meta-a", ""], ["content-length-range", 0, 4 << 20],
        *(ANY_V4 if version == 4 else []),
    ]  # fmt: skip
    fields = {
        "key": "up/${filename}", "Content-Type": "text/x", "x-amz-meta-a": "b", "x-ignore-c": "d",
        **signed_fields(conditions, version=version),
    }  # fmt: skip
    found = post(endpoint, bucket, fields, content)
    assert found.status == 204, found.body
    got = aws.get_object(Bucket=bucket, Key="up/a.txt")
    assert got["Body"].read() == content
    assert (got["ContentType"], got["Metadata"]) == ("text/x", {"a": "b"})
    assert got["ETag"] == found.headers["etag"]


def test_what_boto_presigns_is_stored(aws: Any, bucket: str, endpoint: str) -> None:
    presigned = aws.generate_presigned_post(bucket, "k", Conditions=[["content-length-range", 1, 10]])
    assert post(endpoint, bucket, presigned["fields"], b"x").status == 204
    assert aws.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"


def test_the_answer_is_the_one_that_was_asked_for(aws: Any, bucket: str, endpoint: str) -> None:
    conditions = [{"bucket": bucket}, {"key": "k"}, ["starts-with", "$success_action_status", ""]]
    fields = {"key": "k", **signed_fields(conditions, version=2)}
    for status, expected in (("200", 200), ("201", 201), ("404", 204)):
        found = post(endpoint, bucket, {**fields, "success_action_status": status}, b"x")
        assert found.status == expected
    created = post(endpoint, bucket, {**fields, "success_action_status": "201"}, b"x").body
    assert b"<PostResponse>" in created
    assert b"<Key>k</Key>" in created
    to = "http://page.example/done?a=b"
    conditions[-1] = ["starts-with", "$success_action_redirect", "http://page.example/"]
    fields = {"key": "k", **signed_fields(conditions, version=2), "success_action_redirect": to}
    found = post(endpoint, bucket, fields, b"x")
    assert found.status == 303
    assert found.headers["location"].startswith(f"{to}&bucket={bucket}&key=k&etag=")


def good(bucket: str) -> list[Condition]:
    return [{"bucket": bucket}, ["starts-with", "$key", "k"], ["content-length-range", 2, 8]]


def refusals(bucket: str) -> list[tuple[dict[str, str], bytes, int, str]]:
    key = {"key": "k"}
    signed = signed_fields(good(bucket), version=2)
    flipped = {**signed, "signature": "A" + signed["signature"][1:]}
    missing = {name: text for name, text in signed.items() if name != "signature"}
    return [
        ({**key, **signed}, b"123456789", 400, "EntityTooLarge"),
        ({**key, **signed}, b"1", 400, "EntityTooSmall"),
        ({"key": "other", **signed}, b"123", 403, "AccessDenied"),
        ({**key, **signed, "x-amz-meta-a": "b"}, b"123", 403, "AccessDenied"),
        ({**key, **signed, "acl": "public-read"}, b"123", 403, "AccessDenied"),
        ({**key, **flipped}, b"123", 403, "SignatureDoesNotMatch"),
        ({**key, **missing}, b"123", 400, "InvalidArgument"),
        ({**key, **signed_fields(good("elsewhere"), version=2)}, b"123", 403, "AccessDenied"),
        ({**key, **signed_fields(good(bucket), minutes=-1, version=2)}, b"123", 403, "AccessDenied"),
        ({**key, **signed_fields([], version=2)}, b"123", 400, "InvalidPolicyDocument"),
        ({**key, **signed_fields(None, version=2)}, b"123", 400, "InvalidPolicyDocument"),
        ({**key, **signed_fields([*good(bucket), ["near", "$key", "x"]], version=2)}, b"123", 400,
         "InvalidPolicyDocument"),
        ({**key, **signed_fields([["content-length-range", -1, 0]], version=2)}, b"", 400,
         "InvalidPolicyDocument"),
        ({**signed}, b"123", 400, "InvalidArgument"),
        ({**key}, b"123", 403, "AccessDenied"),
        ({**key, **signed_fields(good(bucket), access_key="elsewhere", version=2)}, b"123", 403,
         "AccessDenied"),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(16))
def test_a_form_that_its_policy_does_not_allow_stores_nothing(
    aws: Any, bucket: str, endpoint: str, number: int
) -> None:
    fields, content, status, code = refusals(bucket)[number]
    found = post(endpoint, bucket, fields, content)
    assert (found.status, f"<Code>{code}</Code>".encode() in found.body) == (status, True), found.body
    assert "Contents" not in aws.list_objects_v2(Bucket=bucket)


def test_a_form_without_a_policy_needs_a_bucket_that_is_open(aws: Any, bucket: str, endpoint: str) -> None:
    aws.put_bucket_acl(Bucket=bucket, ACL="public-read-write")
    assert post(endpoint, bucket, {"key": "k"}, b"x").status == 204
    assert status_of(f"{endpoint}/{bucket}/k") == 403


def test_torn_and_endless_forms_are_refused(aws: Any, bucket: str, endpoint: str) -> None:
    body, kind = form_of({"key": "k", **signed_fields(good(bucket), version=2)}, b"123")
    for torn in (body[:-10], body[: body.index(b'name="file"')], b"", b"x" * 100_000, b"\r\n\r\n" * 50_000):
        assert Sent(endpoint, "POST", f"/{bucket}", torn, Content_Type=kind).status == 400
    many = {f"x-ignore-{number}": "x" * 1000 for number in range(60)}
    body, kind = form_of({**many, "key": "k"}, b"123")
    assert Sent(endpoint, "POST", f"/{bucket}", body, Content_Type=kind).status == 400
    assert "Contents" not in aws.list_objects_v2(Bucket=bucket)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100_000])
def test_a_form_is_the_same_in_pieces_of_any_size(size: int) -> None:
    content = b"\r\n----boundar\r\n--\r\n-----boundary" * 20
    body, _ = form_of({"key": "k", "a": "b\r\nc"}, content)
    posted = Form(b"----boundary")
    found = b"".join(part for at in range(0, len(body), size) for part in posted.feed(body[at : at + size]))
    posted.finish()
    assert found == content
    assert (posted.fields, posted.file_name) == ({"key": "k", "a": "b\r\nc"}, "a.txt")


# Presigned with Signature Version 2, as boto3 and older command lines do by default.


def test_a_url_that_is_presigned_by_default_works(aws: Any, bucket: str, endpoint: str) -> None:
    import boto3

    plain = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="root",
        aws_secret_access_key=secret("root"),
    )  # fmt: skip
    at = {"Bucket": bucket, "Key": "a b/ü?"}
    aws.put_object(**at, Body=b"x")
    url = plain.generate_presigned_url("get_object", Params={**at, "ResponseContentType": "text/x"})
    assert "AWSAccessKeyId=" in url
    assert status_of(url) == 200
    put = plain.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "k"})
    assert Sent(endpoint, "PUT", put.removeprefix(endpoint), b"y").status == 200
    for bad in (
        url.replace("text", "test"), url.replace("Signature=", "Signature=A"), f"{url}&tagging",
        f"{url}&retention",
        url.replace("AWSAccessKeyId=root", "AWSAccessKeyId=other"), url.replace("Expires=", "Expires=9"),
        url.replace("Expires=", "Expires=x"),
    ):  # fmt: skip
        assert status_of(bad) == 403, bad
    assert status_of(url, "DELETE") == 403
    expired = plain.generate_presigned_url("get_object", Params=at, ExpiresIn=-10)
    assert status_of(expired) == 403


# Server-side encryption, as a mark.


def test_an_object_tells_how_it_was_asked_to_be_encrypted(aws: Any, bucket: str, code: Code) -> None:
    at = {"Bucket": bucket, "Key": "k"}
    assert aws.put_object(**at, Body=b"x", ServerSideEncryption="AES256")["ServerSideEncryption"] == "AES256"
    assert aws.head_object(**at)["ServerSideEncryption"] == "AES256"
    copied = aws.copy_object(Bucket=bucket, Key="c", CopySource=at)
    assert "ServerSideEncryption" not in copied
    rules = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}
    aws.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration=rules)
    assert aws.put_object(**at, Body=b"x")["ServerSideEncryption"] == "AES256"
    upload = aws.create_multipart_upload(**at)
    assert upload["ServerSideEncryption"] == "AES256"
    part = aws.upload_part(**at, UploadId=upload["UploadId"], PartNumber=1, Body=b"y")
    assert part["ServerSideEncryption"] == "AES256"
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    done = aws.complete_multipart_upload(**at, UploadId=upload["UploadId"], MultipartUpload=parts)
    assert done["ServerSideEncryption"] == aws.head_object(**at)["ServerSideEncryption"] == "AES256"
    aws.delete_bucket_encryption(Bucket=bucket)
    assert "ServerSideEncryption" not in aws.put_object(**at, Body=b"x")
    assert code(aws.put_object, **at, Body=b"x", ServerSideEncryption="rot13") == "InvalidArgument"
    customer = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "k" * 32}
    assert code(aws.put_object, **at, Body=b"x", **customer) == "NotImplemented"


def test_a_bucket_is_deleted_with_its_unfinished_uploads(aws: Any, bucket: str) -> None:
    at = {"Bucket": bucket, "Key": "k"}
    upload = aws.create_multipart_upload(**at)["UploadId"]
    aws.upload_part(**at, UploadId=upload, PartNumber=1, Body=b"y")
    aws.delete_bucket(Bucket=bucket)
    aws.create_bucket(Bucket=bucket)
    assert "Uploads" not in aws.list_multipart_uploads(Bucket=bucket)
