"""A body is read whole, within the limits, or not at all.

The headers are checked before a byte is read, so that a client that waits for `100 Continue` need not send a
body that would be refused. What headers cannot show (a chunked body has no declared length) is counted while
it arrives.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fencepost.impl.http.limits import Limits
from fencepost.impl.http.refusals import Refusal
from fencepost.impl.http.tokens import Headers

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class ClientGone(Exception):
    """The client closed the connection; no response can reach it."""


def check_encoding(headers: Headers, content_type: str) -> None:
    """Refuse a body that is encoded or of another type: hashes are taken over the bytes on the wire."""
    values = _values(headers, b"content-encoding")
    if values:
        raise Refusal(
            "unsupported_encoding",
            f"Content-Encoding {_shown(values)} is not supported; send the body without one",
        )
    values = _values(headers, b"content-type")
    kind = values[0].partition(b";")[0].strip().lower() if values else b""
    if len(values) != 1 or kind != content_type.encode():
        raise Refusal("unsupported_encoding", f"Content-Type is {_shown(values)}; send {content_type}")


async def read_body(headers: Headers, receive: Receive, limits: Limits, *, limit: int | None = None) -> bytes:
    """The whole body; raises `Refusal`, or `ClientGone` when the client left before its end."""
    most = limits.body_bytes if limit is None else limit
    _check_length(headers, most)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_s):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                body += message.get("body", b"")
                if len(body) > most:
                    raise _too_large(most)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise Refusal(
            "too_slow",
            f"only {len(body)} bytes of the body arrived in {limits.body_s:g} s; send faster, or less",
            retry_after_s=limits.retry_after_s,
        ) from None


def _check_length(headers: Headers, limit: int) -> None:
    """Refuse a body that declares too great a length, and one without a declared end."""
    lengths = _values(headers, b"content-length")
    chunked = bool(_values(headers, b"transfer-encoding"))
    if lengths and chunked:
        # With two ways to find the end of a body, a request can be smuggled past a proxy.
        raise Refusal("bad_request", "the request has Content-Length and Transfer-Encoding; send one of them")
    if not lengths and not chunked:
        raise Refusal(
            "length_required", "the request has no Content-Length; send one, or send the body chunked"
        )
    if lengths and (not lengths[0].isdigit() or len(lengths[0]) > 18):
        raise Refusal("bad_request", f"Content-Length {_shown(lengths)} is not a number")
    if lengths and int(lengths[0]) > limit:
        raise _too_large(limit)


def _too_large(limit: int) -> Refusal:
    return Refusal("body_too_large", f"the body has more than {limit} bytes; send smaller ones")


def _values(headers: Headers, name: bytes) -> list[bytes]:
    return [value for other, value in headers if other.lower() == name]


def _shown(values: list[bytes]) -> str:
    return repr(", ".join(value.decode("latin-1") for value in values)[:80]) if values else "missing"
