"""The limits of a server, so that neither one client nor all together can exhaust it.

    connections      open at once; the next one takes the place of one without a whole request, see `places`
    client_heads     unfinished heads of one address; the next one takes the place of the oldest
    requests         in flight at once, all clients; the next one gets 503
    client_requests  the same for one client; the next one gets 429, so that no client starves the others
    threads          threads that wait for the store; requests beyond them wait in memory
    answers          long ones at once, see `answers`; the next one gets 503
    client_answers   the same for one client; the next one gets 429
    memory_bytes     what is in memory for all clients, where a server counts it; what is beyond it waits

The body of every request in flight may be in memory: at worst `requests` times `body_bytes`, and
`threads` times the size of such a body when unpacked.

A body is read whole, within the limits, or not at all. The headers are checked before a byte is read, so that
a client that waits for `100 Continue` need not send a body that would be refused. A body without a
declared length (chunked) is counted while it arrives.
"""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass, fields
from typing import Any

from fencepost.impl.http.numbers import whole_number
from fencepost.impl.http.refusals import Refusal
from fencepost.impl.http.tokens import Headers

LENGTH_MAX = 10**18
"""A greater `Content-Length` is no number of bytes."""

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Limits:
    """The defaults suit a small machine."""

    body_bytes: int = 8 * 1024 * 1024
    connections: int = 2000
    client_heads: int = 1000
    requests: int = 64
    client_requests: int = 16
    threads: int = 16
    answers: int = 2000
    client_answers: int = 1936
    memory_bytes: int = 256 * 1024 * 1024
    read_bytes_s: int = 8 * 1024
    """The bytes a second of a long answer that a client has to take at least, over each part of it; and of a
    body that is not read whole, that it has to send."""
    header_s: float = 10.0
    """From the start of a connection, or the first byte of a later request, to the end of its headers."""
    body_s: float = 30.0
    """For the whole body; for a body that is not read whole, see `arriving`."""
    idle_s: float = 30.0
    """Between requests."""
    write_s: float = 10.0
    """The time in seconds that a client may leave its response unread once the buffers are full."""
    linger_s: float = 2.0
    """The time in seconds during which the server reads and discards what a refused client still sends.

    If it closed at once, the client's system would drop the response that is on its way.
    """
    drain_s: float = 60.0
    """For the requests in flight when the server is stopped."""
    retry_after_s: int = 1
    """The `Retry-After` of a refused client."""

    @property
    def lingering(self) -> int:
        """The number of refused connections that stay open for `linger_s`."""
        return max(16, self.connections // 4)

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"the limit {field.name} is {getattr(self, field.name)}; give more than 0")


class Gate:
    """Counts the requests in flight, and refuses those beyond the limits.

    Only the thread of the event loop uses it, and never across an await: there is nothing to lock.
    """

    def __init__(self, limits: Limits, what: str = "requests") -> None:
        self._limits = limits
        self._what = what
        self._clients: Counter[str] = Counter()
        self.inside = 0
        self.closed = False

    @contextlib.contextmanager
    def enter(self, client: str) -> Iterator[None]:
        self._check(client)
        self.inside += 1
        self._clients[client] += 1
        try:
            yield
        finally:
            self.inside -= 1
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]

    def _check(self, client: str) -> None:
        wait = self._limits.retry_after_s
        if self.closed:
            raise Refusal("draining", "this server is about to stop; try another one", retry_after_s=wait)
        if self.inside >= self._limits.requests:
            raise Refusal(
                "busy",
                f"this server has {self.inside} {self._what} in flight; try again, or another one",
                retry_after_s=wait,
            )
        if self._clients[client] >= self._limits.client_requests:
            raise Refusal(
                "too_many_requests",
                f"{self._clients[client]} {self._what} of this client are in flight; wait for their ends",
                retry_after_s=wait,
            )


class ClientGone(Exception):
    """The client closed the connection; no response can reach it."""


@contextlib.asynccontextmanager
async def client_watched(receive: Receive) -> AsyncIterator[Callable[[], bool]]:
    """Yield a function that returns True once the client of a request, whose body was read, has disconnected.

    Without this, a response to it is discarded silently, however long it is.
    """
    import asyncio  # here, because the help of a command needs no event loop

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    watching = asyncio.create_task(gone())
    try:
        yield watching.done
    finally:
        watching.cancel()


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
    import asyncio  # here, because the help of a command needs no event loop

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


class TooSlow(Exception):
    """A client sends too little of its body. The message says how little."""


async def arriving(receive: Receive, limits: Limits) -> AsyncIterator[bytes]:
    """The pieces of a body of any length.

    Raises `ClientGone`, and `TooSlow` when nothing arrives for `body_s`, or, after as long, less than
    `read_bytes_s`. Time that the server takes for the pieces does not count.
    """
    import asyncio  # here, because the help of a command needs no event loop

    clock = asyncio.get_running_loop().time
    size = 0
    waited_s = 0.0
    while True:
        left_s = limits.body_s + size / limits.read_bytes_s - waited_s
        begun = clock()
        try:
            async with asyncio.timeout(min(limits.body_s, left_s)):
                message = await receive()
        except TimeoutError:
            waited_s += clock() - begun
            raise TooSlow(f"only {size} bytes of the body arrived in {waited_s:.3g} s") from None
        waited_s += clock() - begun
        if message["type"] == "http.disconnect":
            raise ClientGone
        if piece := message.get("body"):
            size += len(piece)
            yield piece
        if not message.get("more_body"):
            return


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
    length = whole_number(lengths[0], LENGTH_MAX) if lengths else 0
    if length is None:
        raise Refusal("bad_request", f"Content-Length {_shown(lengths)} is not a number")
    if length > limit:
        raise _too_large(limit)


def _too_large(limit: int) -> Refusal:
    return Refusal("body_too_large", f"the body has more than {limit} bytes; send smaller ones")


def _values(headers: Headers, name: bytes) -> list[bytes]:
    return [value for other, value in headers if other.lower() == name]


def _shown(values: list[bytes]) -> str:
    return repr(", ".join(value.decode("latin-1") for value in values)[:80]) if values else "missing"
