"""Signatures against AWS's published examples and against the SDK's own signer; every change is noticed."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from urllib.parse import parse_qsl, urlsplit

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from fencepost.impl.objects.wire.errors import S3Error
from fencepost.impl.objects.wire.signature import (
    Chain,
    Message,
    Scope,
    Signed,
    canonical_request,
    sign,
    signing_key,
    verify,
)

# AWS's documentation of Signature Version 4 for S3 gives these credentials, requests and signatures.
KEY = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
THEN = datetime(2013, 5, 24, tzinfo=UTC)
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
GET = {
    "host": "examplebucket.s3.amazonaws.com",
    "range": "bytes=0-9",
    "x-amz-content-sha256": EMPTY,
    "x-amz-date": "20130524T000000Z",
    "authorization": (
        f"AWS4-HMAC-SHA256 Credential={KEY}/20130524/us-east-1/s3/aws4_request,"
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    ),
}


def secrets(access_key: str) -> str | None:
    return SECRET if access_key == KEY else None


def code_of(method, path, query, headers, now=THEN) -> str:
    try:
        verify(Message(method, path, query, headers), secrets, now)
    except S3Error as error:
        return error.code
    return ""


def test_the_published_get_is_accepted() -> None:
    assert verify(Message("GET", "/test.txt", [], GET), secrets, THEN).scope == Scope(
        KEY, "20130524", "us-east-1"
    )


def test_the_published_chunks_are_accepted_in_their_order_only() -> None:
    """65,536 and 1,024 bytes of the letter a, then the empty chunk."""
    scope = Scope(KEY, "20130524", "us-east-1")
    seed = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
    signed = Signed(
        scope, "20130524T000000Z", seed, signing_key(SECRET, scope), "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
    )
    import hashlib

    chunks = [
        (b"a" * 65536, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"),
        (b"a" * 1024, "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"),
        (b"", "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"),
    ]
    chain = Chain(signed)
    for content, signature in chunks:
        chain.check_chunk(hashlib.sha256(content).hexdigest(), signature)
    with pytest.raises(S3Error):
        Chain(signed).check_chunk(hashlib.sha256(chunks[1][0]).hexdigest(), chunks[1][1])


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"range": "bytes=0-8"}, "SignatureDoesNotMatch"),
        ({"host": "other.s3.amazonaws.com"}, "SignatureDoesNotMatch"),
        ({"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}, "SignatureDoesNotMatch"),
        ({"x-amz-acl": "public-read"}, "AccessDenied"),
        ({"x-amz-date": "20130524T001501Z"}, "RequestTimeTooSkewed"),
        ({"x-amz-date": "20130525T000000Z"}, "AccessDenied"),
        ({"x-amz-date": ""}, "AccessDenied"),
        ({"authorization": "AWS4-HMAC-SHA256 nonsense"}, "AuthorizationHeaderMalformed"),
        ({"authorization": GET["authorization"].replace(KEY, "AKIAOTHER")}, "InvalidAccessKeyId"),
        ({"authorization": GET["authorization"].replace("us-east-1", "eu-west-1")}, "SignatureDoesNotMatch"),
        ({"authorization": GET["authorization"].replace("/s3/", "/sts/")}, "AuthorizationHeaderMalformed"),
        ({"authorization": GET["authorization"].replace("host;", "")}, "AccessDenied"),
        (
            {"authorization": GET["authorization"].replace("Signature=f", "Signature=e")},
            "SignatureDoesNotMatch",
        ),
    ],
)
def test_a_changed_request_is_refused(change: dict[str, str], code: str) -> None:
    assert code_of("GET", "/test.txt", [], {**GET, **change}) == code


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [("HEAD", "/test.txt", []), ("GET", "/x", []), ("GET", "/test.txt", [("acl", "")])],
)
def test_another_method_path_or_query_is_refused(method, path, query) -> None:
    assert code_of(method, path, query, GET) == "SignatureDoesNotMatch"


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20))
def test_any_key_signs_as_the_sdk_signs_it(key: str) -> None:
    from urllib.parse import quote

    request = AWSRequest("GET", "http://127.0.0.1:9000/bucket/" + quote(key, safe="/-_.~"))
    signer = S3SigV4Auth(Credentials(KEY, SECRET), "s3", "us-east-1")
    signer.add_auth(request)
    headers = {"host": "127.0.0.1:9000", **{name.lower(): value for name, value in request.headers.items()}}
    now = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    assert verify(Message("GET", f"/bucket/{key}", [], headers), secrets, now).scope.access_key == KEY


def dated() -> tuple[dict[str, str], datetime]:
    """Return headers that the SDK signed where a program had set `Date`, and their time."""
    request = AWSRequest("GET", "http://127.0.0.1:9000/bucket/key")
    request.headers["Date"] = "a date that the SDK replaces"
    S3SigV4Auth(Credentials(KEY, SECRET), "s3", "us-east-1").add_auth(request)
    headers = {"host": "127.0.0.1:9000", **{name.lower(): value for name, value in request.headers.items()}}
    assert "x-amz-date" not in headers
    return headers, parsedate_to_datetime(headers["date"]).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("change", "seconds", "code"),
    [
        ({}, 0, ""),
        ({}, 899, ""),
        ({}, 901, "RequestTimeTooSkewed"),
        ({"date": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0, "AccessDenied"),
        ({"date": "yesterday"}, 0, "AccessDenied"),
        ({"date": ""}, 0, "AccessDenied"),
        ({"x-amz-date": ""}, 0, "AccessDenied"),
        ({"x-amz-date": "a date"}, 0, "AccessDenied"),
    ],
)
def test_without_x_amz_date_the_date_is_the_time_of_a_request(
    change: dict[str, str], seconds: int, code: str
) -> None:
    headers, made = dated()
    now = made + timedelta(seconds=seconds)
    assert code_of("GET", "/bucket/key", [], {**headers, **change}, now) == code


def test_x_amz_date_overrules_the_date() -> None:
    assert code_of("GET", "/test.txt", [], {**GET, "date": "Thu, 01 Jan 1970 00:00:00 GMT"}) == ""


def test_a_changed_date_is_refused() -> None:
    headers, made = dated()
    second = timedelta(seconds=1 if made.second < 59 else -1)
    headers["date"] = format_datetime(made + second, usegmt=True)
    assert code_of("GET", "/bucket/key", [], headers, made) == "SignatureDoesNotMatch"


def presigned(expires: int) -> tuple[list[tuple[str, str]], datetime]:
    request = AWSRequest("GET", "http://127.0.0.1:9000/bucket/key?versionId=a%2Bb")
    S3SigV4QueryAuth(Credentials(KEY, SECRET), "s3", "us-east-1", expires=expires).add_auth(request)
    query = parse_qsl(urlsplit(request.url).query, keep_blank_values=True)
    moment = dict(query)["X-Amz-Date"]
    return query, datetime.strptime(moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "code"), [(0, ""), (59, ""), (61, "AccessDenied"), (-901, "AccessDenied")]
)
def test_a_presigned_url_is_good_until_it_expires(seconds: int, code: str) -> None:
    query, made = presigned(60)
    now = made + timedelta(seconds=seconds)
    assert code_of("GET", "/bucket/key", query, {"host": "127.0.0.1:9000"}, now) == code


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("versionId", "other", "SignatureDoesNotMatch"),
        ("X-Amz-Expires", "604801", "AuthorizationQueryParametersError"),
        ("X-Amz-Expires", "120", "SignatureDoesNotMatch"),
        ("X-Amz-Algorithm", "AWS4-ECDSA", "AuthorizationQueryParametersError"),
        ("X-Amz-Credential", "x", "AuthorizationQueryParametersError"),
        ("X-Amz-SignedHeaders", "", "AccessDenied"),
    ],
)
def test_a_changed_presigned_url_is_refused(name: str, value: str, code: str) -> None:
    query, made = presigned(60)
    changed = [(word, value if word == name else text) for word, text in query]
    assert code_of("GET", "/bucket/key", changed, {"host": "127.0.0.1:9000"}, made) == code


def test_no_signature_is_access_denied() -> None:
    assert code_of("GET", "/bucket/key", [], {"host": "h"}) == "AccessDenied"


def test_the_canonical_request_is_as_published() -> None:
    scope = Scope(KEY, "20130524", "us-east-1")
    names = ["host", "range", "x-amz-content-sha256", "x-amz-date"]
    text = canonical_request(Message("GET", "/test.txt", [], GET), names, EMPTY)
    signature = sign(signing_key(SECRET, scope), "20130524T000000Z", scope, text)
    assert GET["authorization"].endswith(signature)
