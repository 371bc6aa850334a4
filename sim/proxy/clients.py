"""The connections of clients to a proxy, with the places, deadlines and limits of the servers (`impl/http`).

waiting for                            ends after        how
the first request's head               header_s          408
a later request's head, once begun     header_s          408
another request                        idle_s            closed
the body                               body_s            408
the client to read its reply           write_s           reset; the same for less than read_bytes_s
the rest of what a refused one sends   linger_s          closed
a free connection                      at once           503; see `impl.http.places`
"""

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import TypeVar

from fencepost.impl.http.limits import Limits
from fencepost.impl.http.memory import PIECE, Memory, Room, cut
from fencepost.impl.http.places import Places, address_of
from fencepost.impl.http.sockets import bound_unsent, reset
from fencepost.sim.proxy.http import BadMessage, Gone, Head, read_body, read_head, size_at_most

T = TypeVar("T")
_READ_BYTES = 64 * 1024


class Refused(BadMessage):
    """The client is refused by a limit. `kind` is as with the servers."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(status, message)
        self.kind = kind


class Unread(Gone):
    """The client left its reply unread, and its connection was reset."""


class BodyRoom:
    """The room in memory of a body that is not small."""

    def __init__(self, memory: Memory, address: str) -> None:
        self._memory = memory
        self._address = address
        self._room: Room | None = None

    async def admit(self, size: int) -> None:
        """Wait for room, and take it."""
        self._room = await self._memory.enter(self._address, size)

    def fit(self, size: int) -> None:
        """The body is known, and has this size."""
        if self._room is not None:
            self._room.resize(size)

    def release(self) -> None:
        self.fit(0)


class Client:
    """One connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, places: Places, limits: Limits
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._places = places
        self._limits = limits
        self._deadline: asyncio.Timeout | None = None
        """That of the head that is waited for."""
        self._has_served = False
        self._is_evicted = False
        host, port = (writer.get_extra_info("peername") or ("client", ""))[:2]
        self._host = str(host)
        self.name = f"{host}:{port}"
        self.address = address_of(self._host)
        bound_unsent(writer.transport, 0)

    def enter(self) -> None:
        """Take a place."""
        if not self._places.enter(self, self._host):
            text = f"this proxy has {self._limits.connections} connections open"
            raise Refused(503, "busy", text)

    # Called by the places.

    def evict(self, *, is_idle: bool) -> None:
        self._is_evicted = True
        self._places.end(self)
        if self._deadline is not None:
            with contextlib.suppress(RuntimeError):  # its time ends just now
                self._deadline.reschedule(asyncio.get_running_loop().time())

    def abort(self) -> None:
        reset(self._writer.transport)

    # One request.

    async def read_head(self) -> Head | None:
        """The next head; None if the client sends no other."""
        begun = b""
        if self._has_served:
            self._places.rest(self)
            try:
                begun = await self._in_time(self._reader.read(1), self._limits.idle_s, "another request")
            except Refused:
                return None
            if not begun:
                return None
            self._places.begin(self, self._host)
        head = await self._in_time(read_head(self._reader, begun), self._limits.header_s, "a whole head")
        if head is not None:
            self._has_served = True
            self._places.work(self)
        return head

    async def read_body(self, head: Head, bytes_max: int, room: BodyRoom) -> bytes:
        """The body, whose time does not pass while it waits for room."""
        size_at_most(head, bytes_max)  # before the client is bidden to send it
        if head.fields.get("expect", "").lower() == "100-continue":
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")

        async def admit(size: int) -> None:
            assert self._deadline is not None
            self._deadline.reschedule(None)
            await room.admit(size)
            self._deadline.reschedule(asyncio.get_running_loop().time() + self._limits.body_s)

        body = await self._in_time(
            read_body(self._reader, head, bytes_max, admit), self._limits.body_s, "its body"
        )
        room.fit(len(body))
        return body

    async def _in_time(self, reading: Awaitable[T], seconds: float, what: str) -> T:
        try:
            async with asyncio.timeout(seconds) as self._deadline:
                found = await reading
        except TimeoutError:
            self._check_place()
            text = f"the client did not send {what} within {seconds:g} s"
            raise Refused(408, "too_slow", text) from None
        self._check_place()
        return found

    def _check_place(self) -> None:
        if self._is_evicted:
            raise Refused(503, "busy", "another connection took the place of this one; try again") from None

    async def send(self, *parts: bytes) -> None:
        """Send a reply, and reset the connection if the client takes too little of it."""
        if sum(map(len, parts)) <= PIECE:
            parts = (b"".join(parts),)
        limits = self._limits
        try:
            async with asyncio.timeout(limits.write_s + sum(map(len, parts)) / limits.read_bytes_s):
                for part in parts:
                    for piece in cut(part):
                        self._writer.write(piece)
                        async with asyncio.timeout(limits.write_s):
                            await self._writer.drain()
        except TimeoutError:
            self.abort()
            raise Unread from None

    # The end.

    async def refuse(self, reply: bytes) -> None:
        """Send a last reply, and discard what the client still sends: if the connection were closed at once,
        its system would drop the reply."""
        self._places.end(self)
        with contextlib.suppress(OSError):  # a TimeoutError is one
            async with asyncio.timeout(self._limits.linger_s):
                self._writer.write(reply)
                if self._writer.can_write_eof():
                    self._writer.write_eof()
                while await self._reader.read(_READ_BYTES):
                    pass

    def close(self) -> None:
        self._places.leave(self)
        if self._writer.transport.get_write_buffer_size():
            self.abort()  # its client does not read
        else:
            self._writer.close()
