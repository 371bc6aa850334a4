"""AWS Signature Version 2, verified: what SDKs still write by default into presigned URLs in us-east-1.

The signature is the HMAC-SHA1 of method, date or expiry, headers and resource. It covers only some words of
the query (`_SIGNED`); a request with other words that would change its meaning is refused.
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import quote

from fencepost.impl.http.numbers import whole_number
from fencepost.impl.objects.wire.errors import refuse
from fencepost.impl.objects.wire.signature import (
    EXPIRES_MAX,
    SKEW,
    STREAMING_SIGNED,
    UNSIGNED,
    Message,
    Scope,
    Secrets,
    Signed,
    time_of,
)

_SIGNED = frozenset(
    {
        "accelerate", "acl", "cors", "delete", "lifecycle", "location", "logging", "notification",
        "object-lock", "partNumber", "policy", "replication", "requestPayment", "response-cache-control",
        "response-content-disposition", "response-content-encoding", "response-content-language",
        "response-content-type", "response-expires", "restore", "tagging", "torrent", "uploadId", "uploads",
        "versionId", "versioning", "versions", "website",
    }
)  # fmt: skip
_HARMLESS = frozenset(
    {
        "AWSAccessKeyId", "Expires", "Signature", "x-id", "prefix", "delimiter", "marker", "max-keys",
        "encoding-type", "list-type", "continuation-token", "start-after", "fetch-owner", "key-marker",
        "version-id-marker", "upload-id-marker", "max-uploads", "max-parts", "part-number-marker",
    }
)  # fmt: skip
"""Words that select a page, and those of the signature."""


def is_signed_v2(message: Message) -> bool:
    """Return true if a request claims to be signed with this version."""
    return message.headers.get("authorization", "").startswith("AWS ") or any(
        name == "AWSAccessKeyId" for name, _ in message.query
    )


def verify_v2(message: Message, bucket_in_host: str, secrets: Secrets, now: datetime) -> Signed:
    """Return the signer of a request."""
    words = dict(message.query)
    others = words.keys() - _SIGNED - _HARMLESS
    if others:
        refuse("AccessDenied", f"Signature Version 2 does not cover the parameter {min(others)[:80]}")
    header = message.headers.get("authorization", "")
    if header:
        access_key, colon, signature = header.removeprefix("AWS ").strip().rpartition(":")
        if not colon:
            refuse(
                "InvalidArgument", "AWS authorization header is invalid.  Expected AwsAccessKeyId:signature"
            )
        date = _checked_date(message, now)
    else:
        access_key, signature = words["AWSAccessKeyId"], words.get("Signature", "")
        date = _checked_expiry(words.get("Expires", ""), now)
    payload = message.headers.get("x-amz-content-sha256", UNSIGNED)
    if payload.startswith(STREAMING_SIGNED):
        refuse("InvalidRequest", "Chunks can be signed with Signature Version 4 only")
    secret = secrets(access_key) if access_key else None
    texts = (_text(message, date, path, words) for path in _resources(message.path, bucket_in_host))
    digests = [hmac.digest((secret or "").encode(), text.encode(), hashlib.sha1) for text in texts]
    same = [hmac.compare_digest(base64.b64encode(digest), signature.encode()) for digest in digests]
    if not any(same) or secret is None:
        refuse("InvalidAccessKeyId" if secret is None else "SignatureDoesNotMatch")
    return Signed(Scope(access_key, "", ""), date, signature, b"", payload)


def _checked_expiry(text: str, now: datetime) -> str:
    second = whole_number(text, 10**11)
    if second is None:
        refuse(
            "AccessDenied", "Query-string authentication requires the Signature, Expires and AWSAccessKeyId"
        )
    if second < now.timestamp():
        refuse("AccessDenied", "Request has expired")
    if second > now.timestamp() + EXPIRES_MAX + SKEW.total_seconds():
        refuse("AccessDenied", "A presigned URL must expire within a week")
    return text


def _checked_date(message: Message, now: datetime) -> str:
    """Return the date of the text that is signed: empty where `x-amz-date` has it."""
    given = message.headers.get("x-amz-date", message.headers.get("date", ""))
    moment = time_of(given)
    if moment is None or moment.timestamp() < 0:
        refuse("AccessDenied", "AWS authentication requires a valid Date or x-amz-date header")
    if abs(now - moment) > SKEW:
        refuse("RequestTimeTooSkewed")
    return "" if "x-amz-date" in message.headers else given


def _resources(path: str, bucket_in_host: str) -> list[str]:
    """Return the resource as clients sign it: that of a bucket with and without a slash at its end."""
    found = quote(path, safe="/-_.~")
    if bucket_in_host:
        return [f"/{bucket_in_host}{found}"]
    return [found] if found.count("/") > 1 or found == "/" else [found, f"{found}/"]


def _text(message: Message, date: str, path: str, words: dict[str, str]) -> str:
    headers = message.headers
    amz = sorted(name for name in headers if name.startswith("x-amz-"))
    return "\n".join(
        [
            message.method,
            headers.get("content-md5", ""),
            headers.get("content-type", ""),
            date,
            *(f"{name}:{' '.join(headers[name].split())}" for name in amz),
            path + _query(sorted(words.keys() & _SIGNED), words),
        ]
    )


def _query(names: Sequence[str], words: dict[str, str]) -> str:
    pairs = [f"{name}={words[name]}" if words[name] else name for name in names]
    return "?" + "&".join(pairs) if pairs else ""
