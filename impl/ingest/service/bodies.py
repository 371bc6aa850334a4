"""Reading a request's body: whole, within the limits, or not at all.

What the headers say is judged before a byte is read, so that a client that waits for `100 Continue` is spared
the sending. What they do not say (a chunked body tells no length) is counted while it comes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from fencepost.impl.ingest.service.answers import Refusal
from fencepost.impl.ingest.service.limits import Limits

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Headers = Iterable[tuple[bytes, bytes]]

BINARY = "application/octet-stream"


class Gone(Exception):
    """The client went away; there is nobody to answer."""


def check_encoding(headers: Headers, content_type: str) -> None:
    """Refuse a body that is not sent as it is: the hash that names a batch is over the bytes on the wire."""
    given = _values(headers, b"content-encoding")
    if given:
        raise Refusal(
            "unsupported_encoding",
            f"Content-Encoding {_told(given)} is not taken; send the frame as it is",
        )
    given = _values(headers, b"content-type")
    kind = given[0].partition(b";")[0].strip().lower() if given else b""
    if len(given) != 1 or kind != content_type.encode():
        raise Refusal("unsupported_encoding", f"Content-Type is {_told(given)}; send {content_type}")


def check_length(headers: Headers, limit: int) -> None:
    """Refuse a body that says it is too long, and one that does not say how it ends."""
    lengths = _values(headers, b"content-length")
    chunked = bool(_values(headers, b"transfer-encoding"))
    if lengths and chunked:
        # Two answers to where the body ends are how requests are smuggled past a proxy.
        raise Refusal("bad_request", "the request has Content-Length and Transfer-Encoding; send one of them")
    if not lengths and not chunked:
        raise Refusal(
            "length_required", "the request has no Content-Length; send one, or send the body chunked"
        )
    if lengths and (not lengths[0].isdigit() or len(lengths[0]) > 18):
        raise Refusal("bad_request", f"Content-Length {_told(lengths)} is no number")
    if lengths and int(lengths[0]) > limit:
        raise _too_large(limit)


async def read_body(headers: Headers, receive: Receive, limits: Limits, *, limit: int | None = None) -> bytes:
    """The whole body; raises `Refusal`, or `Gone` when the client left before its end."""
    most = limits.body_bytes if limit is None else limit
    check_length(headers, most)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_s):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Gone
                body += message.get("body", b"")
                if len(body) > most:
                    raise _too_large(most)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise Refusal(
            "too_slow",
            f"after {limits.body_s:g} s only {len(body)} bytes of the body were here; send faster, or less",
            retry_after_s=limits.retry_after_s,
        ) from None


def _too_large(limit: int) -> Refusal:
    return Refusal("body_too_large", f"the body has more than {limit} bytes; send smaller ones")


def _values(headers: Headers, name: bytes) -> list[bytes]:
    return [value for found, value in headers if found.lower() == name]


def _told(values: list[bytes]) -> str:
    return repr(", ".join(value.decode("latin-1") for value in values)[:80]) if values else "missing"
