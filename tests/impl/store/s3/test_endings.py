"""Every way a request can end has one meaning, written down in a table and walked here."""

import ssl
from collections.abc import Iterator
from typing import Any

import botocore.discovery
import botocore.exceptions
import botocore.parsers
import pytest
import urllib3.exceptions

from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import BrokenPromise, Misuse, StoreError, Unsupported, Unusable
from fencepost.impl.store.requests import ABSENT, ANYTHING, Matches, Outcome
from fencepost.impl.store.s3.endings import (
    BUSY_CODES,
    CODES,
    HAS_OUTCOME,
    LIBRARY_ERRORS,
    NO_ANSWER,
    STATUSES,
    Ending,
    ended,
)

PART = ((1, "etag"),)
REQUESTS: dict[str, ask.Request[Any]] = {
    "put anything": ask.Put("k", b"", ANYTHING),
    "put absent": ask.Put("k", b"", ABSENT),
    "put matches": ask.Put("k", b"", Matches("etag")),
    "get": ask.Get("k"),
    "get range": ask.Get("k", start=3, stop=5),
    "get only-if": ask.Get("k", only_if="etag"),
    "get unless": ask.Get("k", unless="etag"),
    "get version": ask.Get("k", version="v"),
    "head": ask.Head("k"),
    "head version": ask.Head("k", version="v"),
    "delete anything": ask.Delete("k", ANYTHING),
    "delete matches": ask.Delete("k", Matches("etag")),
    "delete version": ask.Delete("k", ANYTHING, version="v"),
    "list": ask.List("p"),
    "list versions": ask.ListVersions("p"),
    "list uploads": ask.ListUploads("p"),
    "create upload": ask.CreateUpload("k"),
    "upload part": ask.UploadPart("k", "u", 1, b""),
    "complete anything": ask.CompleteUpload("k", "u", PART, ANYTHING),
    "complete absent": ask.CompleteUpload("k", "u", PART, ABSENT),
    "complete matches": ask.CompleteUpload("k", "u", PART, Matches("etag")),
    "abort": ask.AbortUpload("k", "u"),
}
WRITES = [name for name, request in REQUESTS.items() if not request.reads]


def refused(
    status: int, code: str = "", *, retries: int = 0, headers: dict[str, str] | None = None, **more: str
) -> botocore.exceptions.ClientError:
    """What the SDK raises for an answer; without a code it puts the status there."""
    meta = {"HTTPStatusCode": status, "RetryAttempts": retries, "HTTPHeaders": headers or {}}
    error = {"Code": code or str(status), "Message": "what the store says", **more}
    return botocore.exceptions.ClientError({"Error": error, "ResponseMetadata": meta}, "Operation")


def outcome(request: str, error: BaseException) -> Outcome | type[StoreError]:
    """What `error` means for `request`; checks what holds of every ending on the way."""
    message = "\n"
    try:
        reply = ended(REQUESTS[request], error, "s3://bucket")
    except StoreError as raised:
        message, kind = str(raised), type(raised)
    if message != "\n":
        assert "\n" not in message
        assert "s3://bucket" in message, "the message says where"
        return kind
    assert type(reply) is REQUESTS[request].reply
    assert reply.detail
    return reply.outcome


def classes(root: type[BaseException]) -> Iterator[type[BaseException]]:
    for child in root.__subclasses__():
        if child.__module__.startswith("botocore."):
            yield child
            yield from classes(child)


SDK_ERRORS = sorted(
    {
        *classes(botocore.exceptions.BotoCoreError),
        *classes(botocore.exceptions.ClientError),
        botocore.exceptions.BotoCoreError,
        botocore.exceptions.ClientError,
        botocore.parsers.ResponseParserError,
        botocore.discovery.EndpointDiscoveryException,
    },
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", SDK_ERRORS, ids=lambda kind: kind.__name__)
def test_every_exception_of_the_sdk_is_named(kind: type[BaseException]) -> None:
    """A release of the SDK with a new exception fails here: decide whether the request was sent."""
    assert kind.__name__ in NO_ANSWER, f"say in endings.NO_ANSWER what {kind.__name__} means"
    assert issubclass(kind, LIBRARY_ERRORS), "the driver would let it through"
    if issubclass(kind, botocore.exceptions.ClientError):
        return  # decided by its answer, below
    error = kind.__new__(kind)
    for request in REQUESTS:
        assert outcome(request, error) is NO_ANSWER[kind.__name__].means


def test_what_was_never_sent_is_not_unknown_and_what_was_sent_is() -> None:
    url = "http://127.0.0.1:1"
    for name in WRITES:
        assert (
            outcome(name, botocore.exceptions.EndpointConnectionError(endpoint_url=url)) is Outcome.THROTTLED
        )
        assert outcome(name, botocore.exceptions.ConnectTimeoutError(endpoint_url=url)) is Outcome.THROTTLED
        assert outcome(name, botocore.exceptions.ReadTimeoutError(endpoint_url=url)) is Outcome.UNKNOWN
        assert outcome(name, botocore.exceptions.ConnectionClosedError(endpoint_url=url)) is Outcome.UNKNOWN
        assert outcome(name, botocore.exceptions.HTTPClientError(error="x")) is Outcome.UNKNOWN
        assert outcome(name, botocore.exceptions.NoCredentialsError()) is Unusable


def test_an_exception_nobody_knows_is_unknown() -> None:
    class New(botocore.exceptions.BotoCoreError):
        pass

    class NewTimeout(botocore.exceptions.ReadTimeoutError):
        pass

    assert outcome("put absent", New()) is Outcome.UNKNOWN
    assert outcome("put absent", NewTimeout(endpoint_url="x")) is Outcome.UNKNOWN
    assert outcome("get", urllib3.exceptions.DecodeError()) is Outcome.UNKNOWN
    assert outcome("get", ConnectionResetError()) is Outcome.UNKNOWN


def test_a_certificate_nobody_trusts_was_found_before_sending() -> None:
    inner = urllib3.exceptions.SSLError(ssl.SSLCertVerificationError(1, "certificate verify failed"))
    bad = botocore.exceptions.SSLError(endpoint_url="https://x", error=inner)
    assert outcome("put absent", bad) is Unusable
    broken = botocore.exceptions.SSLError(endpoint_url="https://x", error=ssl.SSLEOFError(8, "EOF"))
    assert outcome("put absent", broken) is Outcome.UNKNOWN


@pytest.mark.parametrize("name", REQUESTS)
def test_every_status_has_a_meaning_that_fits(name: str) -> None:
    """With no code, and with one that nobody knows: never `done`, never an outcome it cannot have."""
    request = REQUESTS[name]
    for status in range(100, 600):
        for code in ("", "NobodyKnowsThis"):
            means = outcome(name, refused(status, code))
            refusal = 300 <= status < 500 and status not in (408, 499)
            assert (means is not Outcome.UNKNOWN) == (refusal or status in (501, 507)), status
            assert means is not Outcome.DONE, status
            if isinstance(means, Outcome) and means in HAS_OUTCOME:
                assert isinstance(request, HAS_OUTCOME[means]), status


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_has_its_meaning(code: str) -> None:
    """As the table says where the request can have it, else as somebody's broken promise."""
    ending = CODES[code]
    found = {name: outcome(name, refused(400, code)) for name in REQUESTS}
    assert ending.means in (Outcome.CHANGED, *found.values())
    for name, means in found.items():
        fits = {ending.means, Unusable, BrokenPromise}
        if name.startswith("delete") and code in ("NoSuchKey", "NoSuchVersion"):
            fits.add(Outcome.DONE)
        assert means in ({*fits, Outcome.EXISTS} if ending.means is Outcome.CHANGED else fits), name


@pytest.mark.parametrize("code", [code for code in CODES if code != "NotImplemented"])
def test_a_code_in_a_500_proves_nothing(code: str) -> None:
    """Also of "200 with an error inside", which the SDK hands on as a 500."""
    for name in WRITES:
        assert outcome(name, refused(500, code)) is Outcome.UNKNOWN


def test_503_is_throttled_only_when_the_store_itself_says_so() -> None:
    for name in REQUESTS:
        for code in BUSY_CODES:
            assert outcome(name, refused(503, code)) is Outcome.THROTTLED
        assert outcome(name, refused(503)) is Outcome.UNKNOWN
        assert outcome(name, refused(503, "InternalError")) is Outcome.UNKNOWN
        assert outcome(name, refused(500, "SlowDown")) is Outcome.UNKNOWN
        assert outcome(name, refused(429)) is Outcome.THROTTLED
        assert outcome(name, refused(429, "TooManyRequests")) is Outcome.THROTTLED


EXPECTED: list[tuple[str, int, str, Outcome | type[StoreError]]] = [
    ("put absent", 412, "PreconditionFailed", Outcome.EXISTS),
    ("put absent", 412, "", Outcome.EXISTS),
    ("put matches", 412, "PreconditionFailed", Outcome.CHANGED),
    ("put matches", 404, "NoSuchKey", Outcome.MISSING),
    ("put matches", 404, "", Outcome.MISSING),
    ("put absent", 404, "NoSuchKey", Unusable),
    ("put anything", 404, "", Unusable),
    ("put anything", 412, "PreconditionFailed", BrokenPromise),
    ("put absent", 409, "ConditionalRequestConflict", Outcome.CONFLICT),
    ("put absent", 409, "OperationAborted", Outcome.CONFLICT),
    ("put absent", 409, "", Outcome.CONFLICT),
    ("put absent", 409, "ExistingObjectIsFile", Unsupported),
    ("put absent", 501, "NotImplemented", Unsupported),
    ("put absent", 405, "MethodNotAllowed", Unsupported),
    ("put absent", 403, "AccessDenied", Unusable),
    ("put absent", 404, "NoSuchBucket", Unusable),
    ("put absent", 301, "PermanentRedirect", Unusable),
    ("put absent", 307, "TemporaryRedirect", Unusable),
    ("put absent", 507, "XMinioStorageFull", Unusable),
    ("put absent", 507, "", Unusable),
    ("put absent", 400, "BadDigest", Outcome.THROTTLED),
    ("put absent", 400, "RequestTimeout", Outcome.THROTTLED),
    ("put absent", 400, "SomethingElse", Unusable),
    ("put absent", 400, "KeyTooLongError", Misuse),
    ("put absent", 413, "", Misuse),
    ("get", 404, "NoSuchKey", Outcome.MISSING),
    ("get", 404, "NoSuchBucket", Unusable),
    ("get", 304, "", BrokenPromise),
    ("get", 416, "InvalidRange", BrokenPromise),
    ("get", 412, "PreconditionFailed", BrokenPromise),
    ("get range", 416, "InvalidRange", Outcome.PAST_END),
    ("get range", 416, "", Outcome.PAST_END),
    ("get only-if", 412, "PreconditionFailed", Outcome.CHANGED),
    ("get only-if", 404, "NoSuchKey", Outcome.MISSING),
    ("get unless", 304, "", Outcome.UNCHANGED),
    ("get unless", 412, "", BrokenPromise),
    ("get version", 404, "NoSuchVersion", Outcome.MISSING),
    ("get version", 405, "MethodNotAllowed", Outcome.MISSING),
    ("head", 404, "", Outcome.MISSING),
    ("head", 403, "", Unusable),
    ("head", 405, "", Unsupported),
    ("head version", 405, "", Outcome.MISSING),
    ("delete matches", 404, "NoSuchKey", Outcome.MISSING),
    ("delete matches", 412, "PreconditionFailed", Outcome.CHANGED),
    ("delete matches", 409, "ConditionalRequestConflict", Outcome.CONFLICT),
    ("delete anything", 404, "NoSuchKey", Outcome.DONE),
    ("delete version", 404, "NoSuchVersion", Outcome.DONE),
    ("delete anything", 404, "NoSuchBucket", Unusable),
    ("delete anything", 404, "", Unusable),
    ("list", 404, "NoSuchBucket", Unusable),
    ("list", 404, "", Unusable),
    ("upload part", 404, "NoSuchUpload", Outcome.GONE),
    ("upload part", 404, "", Outcome.GONE),
    ("complete absent", 404, "NoSuchUpload", Outcome.GONE),
    ("complete absent", 412, "PreconditionFailed", Outcome.EXISTS),
    ("complete absent", 409, "ConditionalRequestConflict", Outcome.CONFLICT),
    ("complete matches", 412, "PreconditionFailed", Outcome.CHANGED),
    ("complete matches", 404, "NoSuchKey", Outcome.MISSING),
    ("complete matches", 404, "NoSuchUpload", Outcome.GONE),
    ("complete anything", 400, "InvalidPart", Misuse),
    ("complete anything", 400, "EntityTooSmall", Misuse),
    ("complete anything", 400, "InvalidPartOrder", Misuse),
    ("abort", 404, "NoSuchUpload", Outcome.GONE),
]


@pytest.mark.parametrize(("name", "status", "code", "means"), EXPECTED)
def test_answers_mean_what_s3_says(
    name: str, status: int, code: str, means: Outcome | type[StoreError]
) -> None:
    assert outcome(name, refused(status, code)) is means


def test_a_version_that_cannot_be_is_missing() -> None:
    assert (
        outcome("get version", refused(400, "InvalidArgument", ArgumentName="versionId")) is Outcome.MISSING
    )
    assert outcome("get version", refused(400, "InvalidArgument", ArgumentName="partNumber")) is Misuse
    assert outcome("get", refused(400, "InvalidArgument", ArgumentName="versionId")) is Misuse


@pytest.mark.parametrize("status", [404, 409, 412, 403, 503])
def test_a_refusal_after_the_sdk_tried_again_is_unknown(status: int) -> None:
    """The attempt before may be what the last one met. Never happens while retries are off."""
    for name in WRITES:
        assert outcome(name, refused(status, retries=1)) is Outcome.UNKNOWN


def test_messages_hold_what_the_store_says_and_no_secret() -> None:
    with pytest.raises(Unusable, match=r"400 AuthorizationHeaderMalformed.*bucket's region is eu-west-3"):
        ended(
            REQUESTS["list"],
            refused(400, "AuthorizationHeaderMalformed", headers={"x-amz-bucket-region": "eu-west-3"}),
            "s3://bucket",
        )
    leaky = botocore.exceptions.HTTPClientError(error=ValueError("Invalid header value b'Credential=SECRET'"))
    assert "SECRET" not in ended(REQUESTS["get"], leaky, "s3://bucket").detail
    answer = refused(403, "SignatureDoesNotMatch", StringToSign="SECRET", AWSAccessKeyId="SECRET")
    with pytest.raises(Unusable, match="secret key does not fit") as caught:
        ended(REQUESTS["get"], answer, "s3://bucket")
    assert "SECRET" not in str(caught.value)


def test_messages_stay_short() -> None:
    error = refused(403, "AccessDenied")
    error.response["Error"]["Message"] = "so\nmuch " * 1000
    with pytest.raises(Unusable) as caught:
        ended(ask.Get("k" * 1000), error, "s3://bucket")
    assert len(str(caught.value)) < 800


def test_the_reason_of_a_broken_connection_is_shown() -> None:
    inner = urllib3.exceptions.NewConnectionError(None, "no")  # type: ignore[arg-type] # never used
    inner.__cause__ = ConnectionRefusedError(111, "Connection refused")
    error = botocore.exceptions.EndpointConnectionError(endpoint_url="http://x", error=inner)
    reply = ended(REQUESTS["put absent"], error, "s3://bucket")
    assert reply.detail == "no connection (EndpointConnectionError: Connection refused)"


def test_the_tables_are_whole() -> None:
    """Whatever must be acted upon says how."""
    for ending in (*CODES.values(), *STATUSES.values(), *NO_ANSWER.values()):
        assert isinstance(ending, Ending)
        assert ending.advice or isinstance(ending.means, Outcome)
