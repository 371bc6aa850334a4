"""Requests of the SDK as the codec reads them, and responses as the SDK receives them.

The codec is the object server's (`fencepost.impl.objects.wire`). Two things differ where requests never leave
the process: bodies are bytes or files, and the host may be any of AWS's.

Every header that could change the meaning of a request must be known by name, so that none is ignored in
silence: an unknown one is an escape, like an unknown operation.
"""

import io
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from botocore.awsrequest import AWSResponse

from fencepost.impl.objects.wire import body as bodies
from fencepost.impl.objects.wire import codec
from fencepost.impl.objects.wire.requests import bucket_of_host, parse_query, place

_VIRTUAL = re.compile(r"(?P<bucket>.+?)\.s3[.-][a-z0-9.-]*amazonaws\.com(\.cn)?(:\d+)?")
"""A host of AWS with the bucket in front, whatever the region."""


class Message:
    """One request: its place, its operation, and its parameters by their names in the service model."""

    __slots__ = (
        "bucket",
        "checksums",
        "headers",
        "key",
        "method",
        "operation",
        "parameters",
        "query",
        "raw",
        "url",
    )

    def __init__(self, request: Any, home: str) -> None:
        """Take a request apart; `home` is the host of the service, without a bucket in front."""
        parts = urlsplit(request.url)
        self.method: str = request.method
        self.url: str = request.url
        self.bucket, self.key = place(_unquoted(parts.path), _bucket_of(parts.netloc, home))
        self.query: dict[str, str] = dict(parse_query(parts.query)) if parts.query else {}
        self.headers: dict[str, str] = {
            name.lower(): value.decode() if type(value) is bytes else str(value)
            for name, value in request.headers.items()
        }
        self.raw = request.body
        self.operation = ""
        self.parameters: dict[str, Any] = {}
        self.checksums: dict[str, str] = {}
        """Parameters with the checksums of the body, once it has been read."""

    @staticmethod
    def host(url: str) -> str:
        """Return the host that a client with this endpoint sends to."""
        return urlsplit(url).netloc

    @property
    def name(self) -> str:
        """The key in the world: bucket and key."""
        return f"{self.bucket}/{self.key}"

    def content(self) -> bytes:
        """Return the content of the body; raise if it does not agree with its checksums."""
        headers = bodies.headers_of_body(self.operation, self.headers)
        content, checksums = bodies.whole(headers, _read(self.raw))
        self.checksums = {f"Checksum{name.upper()}": text for name, text in checksums.items()}
        return content

    def read_body(self) -> dict[str, Any]:
        """Return the parameters, those in an XML body included."""
        call = codec.Call(self.operation, self.parameters)
        self.parameters = codec.read_body(call, self.content())
        return self.parameters


def _unquoted(path: str) -> str:
    return unquote(path) if "%" in path else path


def _bucket_of(host: str, home: str) -> str | None:
    if host == home:
        return None
    bucket = bucket_of_host(host, home)
    if bucket is None:
        found = _VIRTUAL.fullmatch(host)
        bucket = found["bucket"] if found else None
    return bucket


def _read(raw: Any) -> bytes:
    if raw is None:
        return b""
    if isinstance(raw, bytes | bytearray):
        return bytes(raw)
    if isinstance(raw, str):
        return raw.encode()
    found: bytes = raw.read()
    return found


class _Raw(io.BytesIO):
    """The body of a response, with the methods that the SDK calls on a connection."""

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        body = self.read()
        if body:
            yield body


def respond(url: str, status: int, headers: Mapping[str, str], body: bytes = b"") -> Any:
    """Return a response as the SDK receives it from the network."""
    return AWSResponse(url, status, headers, raw_of(body))


def raw_of(body: bytes) -> Any:
    """Return the body of a response, not read yet."""
    return _Raw(body)
