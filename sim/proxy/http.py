"""As much of HTTP/1.1 as a proxy must know: where a message ends.

Heads are passed on byte for byte, so that signatures, which cover the Host header among others, stay true. A
server that reads a message differently would see another message (request smuggling). So two readers must
agree on each: this module finds where the message ends, and the parser that our servers use reads the same
bytes. If that refuses them, or sees an end elsewhere, the message is refused.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import httptools

from fencepost.impl.http.heads import is_clear

HEAD_BYTES_MAX = 64 << 10
SMALL = 64 << 10
"""A body up to this size needs no room in memory, as a head needs none."""
LINE_BYTES_MAX = 1024
"""Of the line that gives the size of a chunk; its trailers have as much as a head."""
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[^\r\n]*)?\r\n")


Admit = Callable[[int], Awaitable[None]]
"""Waits for room in memory for the greatest size that a body can have."""


class BadMessage(Exception):
    """Not HTTP as we know it. Carries the status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Gone(Exception):
    """The other side closed the connection."""


class _Seen:
    """The findings of the servers' parser in a message."""

    def __init__(self, *, is_reply: bool) -> None:
        self.fields: dict[str, str] = {}
        self.hosts = 0
        self.target = b""
        self.heads = 0
        self.has_body = False
        self.is_complete = False
        kind = httptools.HttpResponseParser if is_reply else httptools.HttpRequestParser
        self.parser: httptools.HttpRequestParser | httptools.HttpResponseParser = kind(self)

    def feed(self, part: bytes) -> None:
        try:
            self.parser.feed_data(part)
        except httptools.HttpParserUpgrade:
            raise BadMessage(501, "another protocol; only HTTP/1.0 and HTTP/1.1 pass") from None
        except httptools.HttpParserError as error:
            raise BadMessage(400, f"it is not HTTP/1.1 ({error})") from None

    # Callbacks of the parser.

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        known, text = name.decode("latin-1").lower(), value.decode("latin-1")
        if known == "host":
            self.hosts += 1
        if known in self.fields:
            text = f"{self.fields[known]},{text}"
        self.fields[known] = text

    def on_headers_complete(self) -> None:
        self.heads += 1

    def on_body(self, _: bytes) -> None:
        self.has_body = True

    def on_message_complete(self) -> None:
        self.is_complete = True


@dataclass(slots=True)
class Head:
    """The first lines of a message, as they came."""

    raw: bytes
    first: list[str]
    fields: dict[str, str]
    """Names in lower case; repeated fields are joined by commas."""
    _seen: _Seen = field(repr=False)

    @property
    def keeps_alive(self) -> bool:
        words = {word.strip().lower() for word in self.fields.get("connection", "").split(",")}
        version = self.first[0] if self.first[0].startswith("HTTP/") else self.first[-1]
        return "close" not in words and (version != "HTTP/1.0" or "keep-alive" in words)

    @property
    def chunked(self) -> bool:
        return "transfer-encoding" in self.fields

    @property
    def length(self) -> int | None:
        text = self.fields.get("content-length")
        return None if text is None else int(text)

    def without(self, name: str) -> bytes:
        """The head without one field."""
        start = f"{name}:".encode()
        lines = self.raw.split(b"\r\n")
        return b"\r\n".join(line for line in lines if not line.lower().startswith(start))

    def follow(self, part: bytes, *, is_last: bool = False) -> None:
        """Raise `BadMessage` if the parser does not take this for the next part, or the last, of the body."""
        self._seen.feed(part)
        if self._seen.is_complete != is_last:
            raise BadMessage(400, "its chunks end in two places")


async def read_head(reader: asyncio.StreamReader, begun: bytes = b"") -> Head | None:
    """The next head, of which the bytes `begun` were read; None when the connection ends before it begins."""
    try:
        raw = begun + await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if (begun + error.partial).strip():
            raise Gone from None
        return None
    except asyncio.LimitOverrunError:
        raise BadMessage(431, f"a head of more than {HEAD_BYTES_MAX} bytes") from None
    return parse_head(raw)


def parse_head(raw: bytes) -> Head:
    """A whole head, up to its empty line."""
    is_reply = raw.startswith(b"HTTP/")
    seen = _Seen(is_reply=is_reply)
    first = raw.partition(b"\r\n")[0].decode("latin-1").split(" ", 2)
    if len(first) < 2 or (not is_reply and len(first) != 3):
        raise BadMessage(400, f"no first line of HTTP: {' '.join(first)[:60]!a}")
    seen.feed(raw)
    version = seen.parser.get_http_version()
    clear = is_reply or is_clear(version, seen.hosts, seen.target)
    if seen.heads != 1 or seen.has_body:
        raise BadMessage(400, "its head ends in two places")
    if not clear or version not in ("1.0", "1.1"):
        raise BadMessage(400, "it has no host or several, or a target that is not ASCII, or is not HTTP/1.1")
    coding = seen.fields.get("transfer-encoding")
    if coding is not None and ("content-length" in seen.fields or version == "1.0"):
        raise BadMessage(400, "its length is given in two ways")
    if coding is not None and coding.lower() != "chunked":
        raise BadMessage(501, f"transfer encoding {coding[:60]!a}")
    return Head(raw, first, seen.fields, seen)


def chunk_size(line: bytes) -> int:
    """The size of the chunk that this line begins."""
    found = _SIZE.fullmatch(line)
    if found is None:
        raise BadMessage(400, f"no size of a chunk: {line[:40]!a}")
    return int(found[1], 16)


def size_at_most(head: Head, bytes_max: int) -> int:
    """The size of the body, or the greatest that it can have. Raise `BadMessage` if it is too long."""
    length = bytes_max if head.chunked else head.length or 0
    if length > bytes_max:
        raise BadMessage(413, f"a body of {length} bytes; the proxy passes at most {bytes_max}")
    return length


async def read_body(reader: asyncio.StreamReader, head: Head, bytes_max: int, admit: Admit) -> bytes:
    """The body, as it came. `admit` is awaited before more than `SMALL` bytes of it are read."""
    if head.chunked:
        return await _read_chunks(reader, head, bytes_max, admit)
    length = size_at_most(head, bytes_max)
    if length > SMALL:
        await admit(length)
    return await _exactly(reader, length) if length else b""


async def _read_chunks(reader: asyncio.StreamReader, head: Head, bytes_max: int, admit: Admit) -> bytes:
    body = bytearray()
    is_admitted = False
    while True:
        line = await _line(reader)
        length = chunk_size(line)
        if len(body) + len(line) + length + 2 > bytes_max:
            raise BadMessage(413, f"a body of more than {bytes_max} bytes")
        if len(body) + length > SMALL and not is_admitted:
            await admit(bytes_max)
            is_admitted = True
        part = line + (await _exactly(reader, length + 2) if length else b"")
        head.follow(part)
        body += part
        if not length:
            break
    while True:  # trailers, and the empty line that ends them
        line = await _line(reader)
        head.follow(line, is_last=line == b"\r\n")
        body += line
        if line == b"\r\n":
            return bytes(body)
        if len(body) > bytes_max:
            raise BadMessage(413, f"a body of more than {bytes_max} bytes")


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        line = await reader.readuntil(b"\r\n")
    except asyncio.IncompleteReadError:
        raise Gone from None
    except asyncio.LimitOverrunError:
        line = b""
    if not 0 < len(line) <= LINE_BYTES_MAX:
        raise BadMessage(400, "a line of a chunked body that never ends")
    return line


async def _exactly(reader: asyncio.StreamReader, count: int) -> bytes:
    try:
        return await reader.readexactly(count)
    except asyncio.IncompleteReadError:
        raise Gone from None


async def read_reply(
    reader: asyncio.StreamReader, method: str, bytes_max: int, admit: Admit
) -> tuple[Head, bytes, bool]:
    """A whole reply, and whether the connection can be used again. Interim replies (1xx) are left out."""
    while True:
        head = await read_head(reader)
        if head is None:
            raise Gone
        status = head.first[1]
        if not status.startswith("1"):
            break
    if method == "HEAD" or status in ("204", "304"):
        return head, b"", head.keeps_alive
    if head.chunked or head.length is not None:
        return head, await read_body(reader, head, bytes_max, admit), head.keeps_alive
    await admit(bytes_max)
    body = await reader.read(bytes_max + 1)
    while more := await reader.read(bytes_max + 1 - len(body)):
        body += more
    if len(body) > bytes_max:
        raise BadMessage(502, f"a reply of more than {bytes_max} bytes")
    return head, body, False
