"""S3's HTTP: requests taken apart, conditions, ranges and metadata in headers, XML bodies, answers.

Bodies are bytes, files, or wrapped in `aws-chunked` with a checksum behind them; checksums are compared, as
S3 does, so a body that the audited code damaged is refused.

Every header that could change the meaning of a request must be known by name, so that none is ignored in
silence: an unknown one is an escape, like an unknown operation.
"""

import base64
import functools
import hashlib
import io
import re
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qsl, quote_plus, unquote, urlsplit
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from botocore.awsrequest import AWSResponse

from fencepost.impl.store import requests as req
from fencepost.impl.store.requests import ABSENT, ANYTHING, Condition, Matches, Metadata
from fencepost.sim.boto.sdk_requests import Refused

_VIRTUAL = re.compile(r"(?P<bucket>.+?)\.s3[.-][a-z0-9.-]*amazonaws\.com(\.cn)?(:\d+)?")
"""A host of AWS with the bucket in front, whatever the region."""
_DIGESTS: Mapping[str, Any] = {
    "crc32": lambda body: zlib.crc32(body).to_bytes(4, "big"),
    "sha1": lambda body: hashlib.sha1(body, usedforsecurity=False).digest(),
    "sha256": lambda body: hashlib.sha256(body).digest(),
}
CHECKSUMS = tuple(f"x-amz-checksum-{name}" for name in ("crc32", "sha1", "sha256", "crc32c", "crc64nvme"))


class Message:
    """A request as it would go over the wire."""

    __slots__ = ("bucket", "headers", "key", "method", "query", "raw", "url")

    def __init__(self, request: Any, home: str) -> None:
        parts = urlsplit(request.url)
        self.method: str = request.method
        self.url: str = request.url
        self.bucket, self.key = _place(parts.netloc, parts.path, home)
        self.query: dict[str, str] = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.headers = {
            name.lower(): value.decode() if type(value) is bytes else str(value)
            for name, value in request.headers.items()
        }
        self.raw = request.body

    @staticmethod
    def host(url: str) -> str:
        """Where a client's requests go."""
        return urlsplit(url).netloc

    @property
    def name(self) -> str:
        """The key as the world knows it."""
        return f"{self.bucket}/{self.key}"

    def body(self) -> bytes:
        """What is to be stored, once its checksums have been compared."""
        body = _read(self.raw)
        if self.headers.get("content-encoding", "").startswith("aws-chunked"):
            body, trailers = _unwrap(body)
            self.headers.update(trailers)
        _compare(body, self.headers)
        return body


def _place(host: str, path: str, home: str) -> tuple[str, str]:
    """Bucket and key; both empty for the service itself."""
    bucket = ""
    if host != home:
        found = _VIRTUAL.fullmatch(host)
        if host.endswith(f".{home}"):
            bucket = host[: -len(home) - 1]
        elif found:
            bucket = found["bucket"]
    path = unquote(path[1:])
    return (bucket, path) if bucket else (path.partition("/")[0], path.partition("/")[2])


def _read(raw: Any) -> bytes:
    if raw is None:
        return b""
    if isinstance(raw, bytes | bytearray):
        return bytes(raw)
    if isinstance(raw, str):
        return raw.encode()
    found: bytes = raw.read()
    return found


def _unwrap(wrapped: bytes) -> tuple[bytes, dict[str, str]]:
    """The body inside chunks, and the headers that follow it."""
    stream = io.BytesIO(wrapped)
    chunks = []
    while size := int(stream.readline().partition(b";")[0], 16):
        chunks.append(stream.read(size))
        stream.readline()
    lines = (line.decode().strip() for line in stream)
    trailers = dict(line.split(":", 1) for line in lines if line)
    return b"".join(chunks), {name.lower(): value.strip() for name, value in trailers.items()}


def _compare(body: bytes, headers: Mapping[str, str]) -> None:
    expected = headers.get("content-md5")
    if expected and base64.b64decode(expected) != hashlib.md5(body, usedforsecurity=False).digest():
        raise Refused(400, "BadDigest", "The Content-MD5 you specified did not match what we received.")
    for name, digest in _DIGESTS.items():
        expected = headers.get(f"x-amz-checksum-{name}")
        if expected and base64.b64decode(expected) != digest(body):
            raise Refused(
                400, "BadDigest", f"The {name.upper()} you specified did not match what we received."
            )


class _Raw(io.BytesIO):
    """The body of an answer, with what the SDK needs of a connection."""

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        body = self.read()
        if body:
            yield body


def respond(url: str, status: int, headers: Mapping[str, str], body: bytes = b"") -> Any:
    """An answer as the SDK gets it from the network."""
    return AWSResponse(url, status, headers, _Raw(body))


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
    "x-amz-api-version x-amz-expected-bucket-owner x-amz-source-expected-bucket-owner x-amz-mp-object-size "
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
    return ABSENT if matches is None else Matches(bare_etag(matches))


def not_implemented(message: str) -> Refused:
    return Refused(501, "NotImplemented", message)


def bare_etag(etag: str) -> str:
    return etag.strip().removeprefix("W/").strip('"')


def etags(header: str | None) -> tuple[str, ...] | None:
    """The ETags of a reading condition."""
    return None if header is None else tuple(bare_etag(tag) for tag in header.split(","))


def byte_range(message: Message) -> tuple[int | None, int | None] | None:
    """A range: first and last byte, either may be missing. None for everything."""
    found = _RANGE.fullmatch(message.headers.get("range", ""))
    if found is None or found.groups() == ("", ""):
        return None
    first, last = (int(text) if text else None for text in found.groups())
    return None if first is not None and last is not None and last < first else (first, last)


def count(message: Message, name: str, default: int, most: int = 1000) -> int:
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
    return Metadata(found) if found else req.NO_METADATA


def _without_chunks(encoding: str) -> str:
    """`aws-chunked` is about the way, not about the object."""
    return ",".join(part for part in encoding.split(",") if part.strip() != "aws-chunked")


def metadata_headers(info: req.ObjectInfo, *, checksums: bool) -> dict[str, str]:
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


_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
_SPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
Field = tuple[str, Any]
"""A tag, and its text or the fields inside of it. None leaves it out."""


def xml_document(root: str, fields: Iterable[Field]) -> bytes:
    return f'{_HEAD}<{root} xmlns="{_SPACE}">{_inside(fields)}</{root}>'.encode()


def xml_error(code: str, message: str, fields: Iterable[Field]) -> bytes:
    inside = _inside([("Code", code), ("Message", message), *fields])
    return f"{_HEAD}<Error>{inside}</Error>".encode()


def _inside(fields: Iterable[Field]) -> str:
    return "".join(f"<{tag}>{_text(value)}</{tag}>" for tag, value in fields if value is not None)


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return _inside(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return escape(str(value))


def url_encoded(text: str, encoding: str | None) -> str:
    """A key in the encoding that the listing requests."""
    return quote_plus(text, safe="/") if encoding == "url" else text


@functools.lru_cache(4096)
def iso_date(ns: int) -> str:
    """To the second, as S3 has it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(ns // 1_000_000_000))


@functools.lru_cache(4096)
def http_date(ns: int) -> str:
    return formatdate(ns // 1_000_000_000, usegmt=True)


def parse_xml(body: bytes, root: str) -> Any:
    """The root element, its tags without their namespace."""
    try:
        found = ET.fromstring(body)  # noqa: S314 - written by the SDK in this process
    except ET.ParseError:
        raise malformed_xml() from None
    for element in found.iter():
        element.tag = element.tag.rpartition("}")[2]
    if found.tag != root:
        raise malformed_xml()
    return found


def malformed_xml() -> Refused:
    return Refused(
        400,
        "MalformedXML",
        "The XML you provided was not well-formed or did not validate against our published schema",
    )
