"""Bodies as they arrive: chunks decoded, lengths, digests and checksums compared, in one pass and bounded
memory.

    body = Body(headers, signed)
    for piece in arriving:
        for content in body.feed(piece):
            write(content)
    checksums = body.finish()

`feed` raises at the end of a chunk whose signature is false, and keeps no content: a chunk may be as large as
the body. `finish` raises unless everything that was promised arrived and agrees; what was written before is
then the caller's to discard. A client that ends early is `IncompleteBody`. An `aws-chunked` body is

    <length in hex>[;chunk-signature=<64 hex digits>]\\r\\n <content> \\r\\n   ... the last has length 0, then
    <name>:<value>\\r\\n ... [x-amz-trailer-signature:<64 hex digits>\\r\\n] \\r\\n
"""

import base64
import functools
import hashlib
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from fencepost.impl.http.numbers import whole_number
from fencepost.impl.objects.wire.errors import refuse
from fencepost.impl.objects.wire.signature import UNSIGNED, Chain, Signed

STREAMING = "STREAMING-"
LINE_BYTES_MAX = 16 * 1024
TRAILER_LINES_MAX = len(["crc32", "crc32c", "crc64nvme", "sha1", "sha256", "signature"])


class Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...


class _Crc:
    """A CRC whose function continues from an earlier value, like `zlib.crc32`."""

    def __init__(self, function: Callable[[bytes, int], int], size: int) -> None:
        self._function, self._size, self._value = function, size, 0

    def update(self, data: bytes) -> None:
        self._value = self._function(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._size, "big")


def _table(polynomial: int) -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
        table.append(value)
    return table


def _reflected(polynomial: int, bits: int) -> Callable[[bytes, int], int]:
    """A reflected CRC in plain Python: right everywhere, and slow."""
    table, ones = _table(polynomial), (1 << bits) - 1

    def crc(data: bytes, value: int) -> int:
        value ^= ones
        for byte in data:
            value = value >> 8 ^ table[(value ^ byte) & 0xFF]
        return value ^ ones

    return crc


try:
    from awscrt.checksums import crc32c, crc64nvme
except ImportError:
    crc32c, crc64nvme = _reflected(0x82F63B78, 32), _reflected(0x9A6C9329AC4BC9B5, 64)

DIGESTS: Mapping[str, Callable[[], Digest]] = {
    "crc32": lambda: _Crc(zlib.crc32, 4),
    "crc32c": lambda: _Crc(crc32c, 4),
    "crc64nvme": lambda: _Crc(crc64nvme, 8),
    "sha1": lambda: hashlib.sha1(usedforsecurity=False),
    "sha256": hashlib.sha256,
}
HEADER = "x-amz-checksum-"


class Body:
    """One request body. `length` is what remains to be declared: the content's, not the encoding's."""

    def __init__(
        self, headers: Mapping[str, str], signed: Signed | None, *, length: int | None = None
    ) -> None:
        """`length` replaces the declared one by an upper bound: for a body that is a part of another."""
        self._payload = signed.payload if signed else headers.get("x-amz-content-sha256", UNSIGNED)
        self.chunked = self._payload.startswith(STREAMING)
        self._declared = length is None
        self.length = _length(headers, chunked=self.chunked) if length is None else length
        self._arrived = 0
        self._md5 = _expected_md5(headers)
        self._sums = {name: headers[HEADER + name] for name in DIGESTS if HEADER + name in headers}
        self._trailer = {name.strip().lower() for name in headers.get("x-amz-trailer", "").split(",")} - {""}
        unknown = {name for name in self._trailer if name.removeprefix(HEADER) not in DIGESTS}
        if unknown or any(name.startswith(HEADER) and not _is_known(name) for name in headers):
            refuse("InvalidRequest", "The algorithm of the checksum is not one of " + ", ".join(DIGESTS))
        wanted = {*self._sums, *(name.removeprefix(HEADER) for name in self._trailer)}
        self._digests = {name: DIGESTS[name]() for name in sorted(wanted)}
        self.md5 = hashlib.md5(usedforsecurity=False)
        self._sha256 = hashlib.sha256() if re.fullmatch("[0-9a-f]{64}", self._payload) else None
        if self._sha256 is None and not self.chunked and self._payload != UNSIGNED:
            refuse(
                "InvalidArgument", "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, a digest or a known word"
            )
        self._decoder = _Chunks(self._payload, signed, self._trailer) if self.chunked else None

    def feed(self, piece: bytes) -> Iterator[bytes]:
        for content in self._decoder.feed(piece) if self._decoder else (piece,):
            self._arrived += len(content)
            if self._arrived > self.length:
                refuse("IncompleteBody" if self._declared else "EntityTooLarge")
            self.md5.update(content)
            for digest in self._digests.values():
                digest.update(content)
            if self._sha256 is not None:
                self._sha256.update(content)
            yield content

    def finish(self) -> dict[str, str]:
        """The checksums of the body that the client named, each in base64."""
        trailer = self._decoder.finish() if self._decoder else {}
        if self._arrived != self.length and self._declared:
            refuse("IncompleteBody")
        if self._md5 is not None and self.md5.digest() != self._md5:
            refuse("BadDigest")
        if self._sha256 is not None and self._sha256.hexdigest() != self._payload:
            refuse("XAmzContentSHA256Mismatch")
        found = {name: base64.b64encode(digest.digest()).decode() for name, digest in self._digests.items()}
        expected = self._sums | {name.removeprefix(HEADER): value for name, value in trailer.items()}
        for name, value in found.items():
            if expected.get(name) != value:
                refuse(
                    "BadDigest", f"The {name.upper()} you specified did not match the calculated checksum."
                )
        return found


def headers_of_body(operation: str, headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers that describe the body: a completed upload's checksum is that of the object."""
    if operation != "CompleteMultipartUpload":
        return headers
    return {name: text for name, text in headers.items() if not name.startswith(HEADER)}


def whole(headers: Mapping[str, str], arrived: bytes) -> tuple[bytes, dict[str, str]]:
    """Return the content of a body that has arrived and its checksums, as `Body.finish` does.

    Signatures of chunks are not verified.
    """
    if not _describe(tuple(headers)):
        return arrived, {}
    headers = {"content-length": str(len(arrived)), **headers}
    if "aws-chunked" in headers.get("content-encoding", ""):
        trailer = "-TRAILER" if "x-amz-trailer" in headers else ""
        headers.setdefault("x-amz-content-sha256", f"{STREAMING}UNSIGNED-PAYLOAD{trailer}")
    body = Body(headers, None)
    content = b"".join(body.feed(arrived))
    return content, body.finish()


@functools.lru_cache(maxsize=1024)
def _describe(headers: tuple[str, ...]) -> bool:
    """Return true if one of these headers is about the encoding of a body, or a digest of it."""
    return any(name in _DESCRIBING or name.startswith(HEADER) for name in headers)


_DESCRIBING = frozenset({"content-encoding", "content-md5", "x-amz-content-sha256", "x-amz-trailer"})


def _is_known(name: str) -> bool:
    rest = name.removeprefix(HEADER)
    return rest in DIGESTS or rest in ("mode", "algorithm", "type")


def _length(headers: Mapping[str, str], *, chunked: bool) -> int:
    text = headers.get("x-amz-decoded-content-length" if chunked else "content-length", "")
    length = whole_number(text, 10**15 - 1)
    if length is None:
        refuse("MissingContentLength")
    return length


def _expected_md5(headers: Mapping[str, str]) -> bytes | None:
    if "content-md5" not in headers:
        return None
    try:
        found = base64.b64decode(headers["content-md5"], validate=True)
    except ValueError:
        refuse("InvalidDigest")
    if len(found) != 16:
        refuse("InvalidDigest")
    return found


class _Chunks:
    """The decoder of `aws-chunked`."""

    def __init__(self, payload: str, signed: Signed | None, trailer: set[str]) -> None:
        self._chain = Chain(signed) if "-AWS4-HMAC-SHA256-PAYLOAD" in payload and signed else None
        known = {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD"}
        if payload.removesuffix("-TRAILER") not in known or (bool(trailer) != payload.endswith("-TRAILER")):
            refuse("InvalidRequest", "x-amz-content-sha256 and x-amz-trailer do not fit together")
        self._expected = trailer
        self._buffer = bytearray()
        self._left = -1
        """Bytes of content that the present chunk still has; -1 between chunks, -2 in the trailer."""
        self._digest: Any = None
        self._signature = ""
        self._lines: list[bytes] = []
        self._ended = False

    def feed(self, piece: bytes) -> Iterator[bytes]:
        self._buffer += piece
        while not self._ended:
            if self._left > 0:
                if not self._buffer:
                    return
                content = bytes(self._buffer[: self._left])
                del self._buffer[: self._left]
                self._left -= len(content)
                if self._chain is not None:
                    self._digest.update(content)
                yield content
                continue
            line = self._line()
            if line is None:
                return
            if self._left == 0:
                if line:
                    refuse("IncompleteBody")
                self._verify()
            elif self._left == -1:
                self._begin(line)
            elif line:
                self._lines.append(line)
                if len(self._lines) > TRAILER_LINES_MAX:
                    refuse("InvalidRequest", "The trailer does not hold what x-amz-trailer names")
            else:
                self._ended = True
        if self._buffer:
            refuse("IncompleteBody")

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            if len(self._buffer) > LINE_BYTES_MAX:
                refuse("IncompleteBody")
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _begin(self, line: bytes) -> None:
        found = re.fullmatch(rb"([0-9a-fA-F]{1,12})(?:;chunk-signature=([0-9a-f]{64}))?", line)
        if found is None or (self._chain is not None and found[2] is None):
            refuse("IncompleteBody")
        self._left = int(found[1], 16)
        self._signature = (found[2] or b"").decode()
        self._digest = hashlib.sha256()
        if self._left == 0:
            self._verify()
            self._left = -2

    def _verify(self) -> None:
        if self._chain is not None:
            self._chain.check_chunk(self._digest.hexdigest(), self._signature)
        self._left = -1

    def finish(self) -> dict[str, str]:
        if not self._ended:
            refuse("IncompleteBody")
        lines = self._lines
        if self._chain is not None and self._expected:
            if not lines or not lines[-1].startswith(b"x-amz-trailer-signature:"):
                refuse("SignatureDoesNotMatch")
            signature = lines[-1].partition(b":")[2].strip().decode(errors="replace")
            lines = lines[:-1]
            self._chain.check_trailer(b"".join(line.strip() + b"\n" for line in lines), signature)
        elif self._chain is None:  # a signature that is not verified
            lines = [line for line in lines if not line.startswith(b"x-amz-trailer-signature:")]
        found = {}
        for line in lines:
            name, _, value = line.decode(errors="replace").partition(":")
            found[name.strip().lower()] = value.strip()
        if found.keys() != self._expected:
            refuse("InvalidRequest", "The trailer does not hold what x-amz-trailer names")
        return found
