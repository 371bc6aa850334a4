"""What the headers and parameters of many requests say: conditions, ranges, attributes.

Every header that could change what a request means must be known by name, so that nothing is dropped in
silence: an unknown one is an escape, like an unknown operation.
"""

import re
from collections.abc import Mapping
from typing import Any

from fencepost.impl.store import requests as ask
from fencepost.impl.store.requests import ABSENT, ANYTHING, Condition, Matches, Metadata
from fencepost.sim.boto.asks import Refused
from fencepost.sim.boto.wire import CHECKSUMS, Message

ATTRIBUTES = (
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "expires",
    "x-amz-storage-class",
    "x-amz-website-redirect-location",
    *CHECKSUMS,
)
"""Given with an object and shown with it again. Kept with the user's metadata, under names it cannot have."""
KEPT = "header:"

IGNORED = frozenset(
    "host user-agent accept accept-encoding connection content-length content-type content-md5 expect date "
    "transfer-encoding authorization x-amz-date x-amz-content-sha256 x-amz-security-token x-amz-user-agent "
    "x-amz-trailer x-amz-decoded-content-length x-amz-sdk-checksum-algorithm x-amz-checksum-algorithm "
    "x-amz-checksum-type x-amz-checksum-mode x-amz-acl x-amz-tagging x-amz-request-payer "
    "x-amz-expected-bucket-owner x-amz-source-expected-bucket-owner x-amz-mp-object-size "
    "x-amz-object-ownership x-amz-optional-object-attributes x-amzn-trace-id "
    "x-amz-tagging-directive amz-sdk-invocation-id amz-sdk-request".split()
)
"""Accepted, and without effect here: who may, how it travels, how it is encrypted or labelled."""
_IGNORED = ("x-amz-grant-", "x-amz-server-side-encryption", "x-amz-meta-")

TOKEN = re.compile(r'(?:W/)?"?([^",]+)"?')
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def unknown_headers(message: Message, known: frozenset[str]) -> list[str]:
    """The headers that an operation knows nothing of."""
    return [
        name
        for name in message.headers
        if name not in known
        and name not in IGNORED
        and name not in ATTRIBUTES
        and not name.startswith(_IGNORED)
    ]


def condition(message: Message) -> Condition:
    """What a write is based on, or the refusal of what S3 does not take."""
    absent = message.headers.get("if-none-match")
    matches = message.headers.get("if-match")
    if absent is None and matches is None:
        return ANYTHING
    if absent is not None and matches is not None:
        raise not_implemented("Multiple conditional request headers present in the request")
    if absent not in (None, "*"):
        raise not_implemented("We don't accept the provided value of If-None-Match header for this API")
    if matches == "*":
        raise not_implemented("We don't accept the provided value of If-Match header for this API")
    return ABSENT if matches is None else Matches(bare(matches))


def not_implemented(message: str) -> Refused:
    return Refused(501, "NotImplemented", message)


def bare(etag: str) -> str:
    return etag.strip().removeprefix("W/").strip('"')


def tags(header: str | None) -> tuple[str, ...] | None:
    """The ETags of a reading condition."""
    return None if header is None else tuple(bare(tag) for tag in header.split(","))


def span(message: Message) -> tuple[int | None, int | None] | None:
    """A range: first and last byte, either may be missing. None when all is asked for."""
    found = _RANGE.fullmatch(message.headers.get("range", ""))
    if found is None or found.groups() == ("", ""):
        return None
    first, last = (int(text) if text else None for text in found.groups())
    return None if first is not None and last is not None and last < first else (first, last)


def number(message: Message, name: str, default: int, most: int = 1000) -> int:
    """A count in the query."""
    text = message.query.get(name, "")
    if not text:
        return default
    if not text.lstrip("-").isdecimal() or int(text) < 0:
        raise Refused(400, "InvalidArgument", f"Provided {name} not an integer or within integer range")
    return min(int(text), most)


def content_type(message: Message) -> str:
    return message.headers.get("content-type") or "binary/octet-stream"


def metadata(message: Message) -> Metadata:
    """The user's metadata, and the attributes that come back with the object."""
    found = {}
    size = 0
    for name, value in message.headers.items():
        if name.startswith("x-amz-meta-"):
            found[name[11:]] = value
            size += len(name) - 11 + len(value)
        elif name in ATTRIBUTES:
            value = _without_chunks(value) if name == "content-encoding" else value
            if value:
                found[f"{KEPT}{name}"] = value
    if size > 2048:
        raise Refused(
            400, "MetadataTooLarge", "Your metadata headers exceed the maximum allowed metadata size"
        )
    return Metadata(found) if found else ask.NO_METADATA


def _without_chunks(encoding: str) -> str:
    """`aws-chunked` is about the way, not about the object."""
    return ",".join(part for part in encoding.split(",") if part.strip() != "aws-chunked")


def shown(info: ask.ObjectInfo, *, checksums: bool) -> dict[str, str]:
    """The headers that show an object's metadata."""
    found = {}
    for name, value in info.metadata.items():
        if not name.startswith(KEPT):
            found[f"x-amz-meta-{name}"] = value
        elif checksums or name[len(KEPT) :] not in CHECKSUMS:
            found[name[len(KEPT) :]] = value
    return found


def version_header(reply: Any) -> Mapping[str, str]:
    return {"x-amz-version-id": reply.version} if reply.version else {}
