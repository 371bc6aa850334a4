"""HTTP as the SDK speaks it: its request taken apart, and an answer as the SDK expects one.

Bodies may be bytes, files, or wrapped in `aws-chunked` with a checksum behind them; checksums are compared,
as S3 does, so that a body that the code under audit damaged is refused.
"""

import base64
import hashlib
import io
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from botocore.awsrequest import AWSResponse

from fencepost.sim.boto.asks import Refused

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
    said = headers.get("content-md5")
    if said and base64.b64decode(said) != hashlib.md5(body, usedforsecurity=False).digest():
        raise Refused(400, "BadDigest", "The Content-MD5 you specified did not match what we received.")
    for name, digest in _DIGESTS.items():
        said = headers.get(f"x-amz-checksum-{name}")
        if said and base64.b64decode(said) != digest(body):
            raise Refused(
                400, "BadDigest", f"The {name.upper()} you specified did not match what we received."
            )


class _Raw(io.BytesIO):
    """The body of an answer, with what the SDK asks of a connection."""

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        body = self.read()
        if body:
            yield body


def respond(url: str, status: int, headers: Mapping[str, str], body: bytes = b"") -> Any:
    """An answer as the SDK gets it from the network."""
    return AWSResponse(url, status, headers, _Raw(body))
