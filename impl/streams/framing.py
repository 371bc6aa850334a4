"""Conversions between bytes and messages: JSON mode, the headers of a request, offsets in bodies.

A JSON stream stores each message as it was sent and followed by a comma, so a range between two offsets is a
list without its brackets. Every other content type stores what it was sent.
"""

from collections.abc import Sequence
from datetime import datetime

from fencepost.impl.http.numbers import whole_number
from fencepost.impl.streams import json_text
from fencepost.impl.streams.errors import Refusal, Refused

JSON = "application/json"
INTEGER_MAX = 2**53 - 1


def base_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def is_json(content_type: str) -> bool:
    return base_type(content_type) == JSON


def is_text(content_type: str) -> bool:
    return base_type(content_type).startswith("text/") or is_json(content_type)


def to_stored(body: bytes, content_type: str, *, empty_allowed: bool = False) -> bytes:
    """The bytes to append. A JSON array is flattened by one level."""
    if not is_json(content_type) or not body:
        return body
    try:
        stored = json_text.messages(body)
    except json_text.NotJson as error:
        raise Refused(Refusal.INVALID, f"the body is not valid JSON: {error}") from None
    if not stored and not empty_allowed:
        raise Refused(Refusal.INVALID, "an empty array appends nothing")
    return stored


def to_shown(body: bytes, content_type: str) -> bytes:
    """Convert stored bytes to the body of a response."""
    return b"[" + body.removesuffix(b",") + b"]" if is_json(content_type) else body


def inherited(body: bytes, content_type: str, sub_offset: int) -> int:
    """Return the length of the first `sub_offset` messages, or bytes. Raise `Refused` if there are fewer."""
    end = json_text.length_of(body, sub_offset) if is_json(content_type) else sub_offset
    if end is None or end > len(body):
        raise Refused(Refusal.INVALID, f"the source has no position {sub_offset} after the offset")
    return end


def integer(name: str, text: str) -> int:
    """A header that is a whole number without signs or leading zeros."""
    number = whole_number(text, INTEGER_MAX)
    if number is None or str(number) != text:
        raise Refused(Refusal.INVALID, f"{name} is {text[:40]!r}; send a whole number from 0 to 2^53 - 1")
    return number


def moment_ns(text: str) -> int:
    """An RFC 3339 time."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None or "T" not in text.upper():
        raise Refused(Refusal.INVALID, f"Stream-Expires-At is {text[:80]!r}; send an RFC 3339 time")
    return round(found.timestamp() * 1e9)


def producer(values: Sequence[str | None]) -> tuple[str, int, int] | None:
    """Producer-Id, Producer-Epoch and Producer-Seq: all of them, or none."""
    if all(value is None for value in values):
        return None
    name, epoch, seq = values
    if not name or epoch is None or seq is None:
        raise Refused(Refusal.INVALID, "send Producer-Id, Producer-Epoch and Producer-Seq, or none of them")
    return name, integer("Producer-Epoch", epoch), integer("Producer-Seq", seq)
