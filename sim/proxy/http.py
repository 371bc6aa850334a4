"""As much of HTTP/1.1 as a proxy must know: where a message ends.

Heads are passed on byte for byte, so that signatures, which cover the Host header among others, stay true. A
message whose end is given in two ways, or in none, is refused: a server that reads it differently would see
another message (request smuggling).
"""

import asyncio
from dataclasses import dataclass

HEAD_BYTES_MAX = 64 << 10


class BadMessage(Exception):
    """Not HTTP as we know it. Carries the status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Gone(Exception):
    """The other side closed the connection."""


@dataclass(slots=True)
class Head:
    """The first lines of a message, as they came."""

    raw: bytes
    first: list[str]
    fields: dict[str, str]
    """Names in lower case; repeated fields are joined by commas."""

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


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The next head; None when the connection ends before it begins."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial.strip():
            raise Gone from None
        return None
    except asyncio.LimitOverrunError:
        raise BadMessage(431, f"a head of more than {HEAD_BYTES_MAX} bytes") from None
    return parse_head(raw)


def parse_head(raw: bytes) -> Head:
    """A whole head, up to its empty line."""
    first, *lines = raw.decode("latin-1")[:-4].split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2:
        raise BadMessage(400, f"no first line of HTTP: {first[:60]!r}")
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadMessage(400, f"no header field: {line[:60]!r}")
        name, value = name.lower(), value.strip()
        fields[name] = f"{fields[name]},{value}" if name in fields else value
    head = Head(raw, words, fields)
    _check_framing(head)
    return head


def _check_framing(head: Head) -> None:
    length, coding = head.fields.get("content-length"), head.fields.get("transfer-encoding")
    if length is not None and (coding is not None or not (length.isascii() and length.isdigit())):
        raise BadMessage(400, "its length is given in two ways, or not as a number")
    if coding is not None and coding.lower() != "chunked":
        raise BadMessage(501, f"transfer encoding {coding!r}")


async def read_body(reader: asyncio.StreamReader, head: Head, bytes_max: int) -> bytes:
    """The body of a request, as it came."""
    if head.chunked:
        return await _read_chunks(reader, bytes_max)
    length = head.length or 0
    if length > bytes_max:
        raise BadMessage(413, f"a body of {length} bytes; the proxy passes at most {bytes_max}")
    return await _exactly(reader, length) if length else b""


async def _read_chunks(reader: asyncio.StreamReader, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        line = await _line(reader)
        try:
            length = int(line.split(b";")[0], 16)
        except ValueError:
            raise BadMessage(400, f"no size of a chunk: {line[:40]!r}") from None
        size += length + len(line) + 2
        if length < 0 or size > bytes_max:
            raise BadMessage(413, f"a body of more than {bytes_max} bytes")
        parts.append(line)
        if not length:
            break
        parts.append(await _exactly(reader, length + 2))
    while True:  # trailers, and the empty line that ends them
        line = await _line(reader)
        parts.append(line)
        if line == b"\r\n":
            return b"".join(parts)


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n")
    except asyncio.IncompleteReadError:
        raise Gone from None
    except asyncio.LimitOverrunError:
        raise BadMessage(400, "a line of a chunked body that never ends") from None


async def _exactly(reader: asyncio.StreamReader, count: int) -> bytes:
    try:
        return await reader.readexactly(count)
    except asyncio.IncompleteReadError:
        raise Gone from None


async def read_reply(reader: asyncio.StreamReader, method: str, bytes_max: int) -> tuple[Head, bytes, bool]:
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
        return head, await read_body(reader, head, bytes_max), head.keeps_alive
    body = await reader.read(bytes_max + 1)
    while more := await reader.read(bytes_max + 1 - len(body)):
        body += more
    if len(body) > bytes_max:
        raise BadMessage(502, f"a reply of more than {bytes_max} bytes")
    return head, body, False
