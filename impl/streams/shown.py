"""Chunks as readers get them: the body of a response, or server-sent events, encoded once for all.

An event of data and the control event behind it are sent together, so that a reader that has the data has the
offset behind it. Only data that is longer than a piece of an answer is cut, and never from its control event.
"""

import base64
import enum
import json
from codecs import getincrementaldecoder
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.impl.http.memory import PIECE, Room, cut
from fencepost.impl.streams.framing import is_json, is_text, to_shown
from fencepost.impl.streams.node import Node
from fencepost.impl.streams.stream import Chunk

Key = tuple[str, str, int, int, "Form", bool, bool]


class Form(enum.Enum):
    BODY = enum.auto()
    EVENT = enum.auto()


@dataclass(eq=False)
class Shown:
    """Of a chunk, without the bytes that were stored."""

    key: Key
    chunk: Chunk
    data: bytes
    """The body of a response, or a whole event but for its last line feed; empty if there is none."""
    end: int
    """The position behind what is shown: an event of text ends before a character that is not complete."""
    users: int = 0
    """Those who send it, if it is long."""
    room: Room | None = None
    moves: int = -1
    """The count of moves (`Tail.moves`) when the chunk was read."""
    _control: tuple[str, bytes] = field(default=("", b""))

    @property
    def is_long(self) -> bool:
        return len(self.data) > PIECE

    @property
    def offset(self) -> str:
        return self.chunk.manifest.offset(self.end)

    @property
    def has_news(self) -> bool:
        return self.end > self.chunk.start or self.chunk.closed

    def event(self, cursor: str) -> bytes:
        """The events, one object for all with the same cursor; of data that is not long."""
        if self._control[0] != cursor:
            self._control = cursor, self.data + self.control(cursor)
        return self._control[1]

    def pieces(self, cursor: str) -> Iterator[bytes | memoryview]:
        """The events in pieces, the last of which has the control event."""
        last = b""
        for piece in cut(self.data):
            if last:
                yield last
            last = piece  # type: ignore[assignment]  # a view of bytes, which is sent as they are
        yield bytes(last) + self.control(cursor)

    def control(self, cursor: str) -> bytes:
        control: dict[str, Any] = {"streamNextOffset": self.offset}
        if self.chunk.closed:
            control |= {"upToDate": True, "streamClosed": True}
        else:
            control["streamCursor"] = cursor
            if self.chunk.up_to_date:
                control["upToDate"] = True
        text = json.dumps(control, separators=(",", ":"))
        return b"%sevent: control\ndata:%s\n\n" % (b"\n" if self.data else b"", text.encode())


def key_of(name: str, chunk: Chunk, form: Form) -> Key:
    """Equal for chunks that are shown alike: bytes at a position of an incarnation never change."""
    place = chunk.manifest.incarnation, chunk.start, chunk.end
    return name, *place, form, chunk.up_to_date, chunk.closed


def read(node: Node, name: str, offset: str, form: Form) -> Chunk:
    """The chunk at the offset; for events of text, so much that a character is complete, if there is more."""
    chunk = node.read_from(name, offset)
    while form is Form.EVENT and not chunk.up_to_date and not _complete(chunk)[0]:
        more = node.read_from(name, chunk.manifest.offset(chunk.end))
        chunk = replace(more, body=chunk.body + more.body, start=chunk.start)
    return chunk


def show(key: Key, chunk: Chunk, form: Form) -> Shown:
    kept = replace(chunk, body=b"")
    content_type = chunk.manifest.content_type
    if form is Form.BODY:
        return Shown(key, kept, to_shown(chunk.body, content_type), chunk.end)
    if not chunk.body:
        return Shown(key, kept, b"", chunk.end)
    if not is_text(content_type):
        return Shown(key, kept, b"event: data\ndata:%s\n" % base64.b64encode(chunk.body), chunk.end)
    text, left = _complete(chunk)
    return Shown(key, kept, _event(text) if text else b"", chunk.end - left)


def _complete(chunk: Chunk) -> tuple[bytes, int]:
    """The text of a chunk in UTF-8, and the number of bytes at its end that begin a character."""
    if is_json(chunk.manifest.content_type):
        return to_shown(chunk.body, chunk.manifest.content_type), 0
    if not is_text(chunk.manifest.content_type):
        return chunk.body, 0
    try:
        chunk.body.decode()
    except UnicodeDecodeError:
        decoder = getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(chunk.body, final=chunk.closed)
        return text.encode(), len(decoder.getstate()[0])
    return chunk.body, 0


def _event(text: bytes) -> bytes:
    """An event ends each line with a line feed, whichever ends the text has."""
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return b"event: data\ndata:%s\n" % text.replace(b"\n", b"\ndata:")
