"""Connections that cannot be held against us: uvicorn's HTTP/1.1, with a deadline wherever it waits.

uvicorn limits how long a connection is idle between requests. What it leaves open is closed here:

    waiting for                            ends after        how
    the first request's headers            header_s          408
    a later request's headers, once begun  header_s          408
    the body                               body_s            408, by `bodies`, which reads it
    the rest of a refused body             linger_s          closed
    the client to read its answer          write_s           cut
    a free connection                      at once           503, Retry-After
    an answer, from a collector that stops at once           503, Retry-After

An answer to what is no HTTP is JSON like every other. A connection is closed in two steps, because closing
while unread bytes wait makes the system reset it, and the client may then never see why: first our side is
ended, then what still comes is read and thrown away for `linger_s`.
"""

import asyncio
import http
import socket
import struct
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from fencepost.impl.ingest.service.answers import Refusal, as_bytes
from fencepost.impl.ingest.service.limits import Limits

HEADER_BYTES = 16 * 1024
"""h11 keeps no more of a request's head than this."""


def protocol(
    limits: Limits, told: Callable[[str], object], stopping: Callable[[], bool] = lambda: False
) -> type[H11Protocol]:
    """The class that uvicorn makes one of for every connection. `told(kind)` counts what is refused here."""

    class Guarded(GuardedConnection):
        def __init__(
            self,
            config: Config,
            server_state: ServerState,
            app_state: dict[str, Any],
            _loop: asyncio.AbstractEventLoop | None = None,
        ) -> None:
            super().__init__(config, server_state, app_state, _loop)
            self.limits = limits
            self.told = told
            self.stopping = stopping

    return Guarded


class GuardedConnection(H11Protocol):
    """One connection."""

    limits: Limits
    told: Callable[[str], object]
    stopping: Callable[[], bool]
    _timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _over = False
    """We said our last word; what still comes is thrown away."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn does
        super().connection_made(transport)
        refusal = self._turned_away()
        if refusal is None:
            self._arm(self.limits.header_s, self._too_slow)
        else:
            self.connections.discard(self)  # while it lingers it takes nobody's place
            self._last_word(refusal)

    def _turned_away(self) -> Refusal | None:
        wait = self.limits.retry_after_s
        if self.stopping():
            # It was accepted by the system just before we stopped listening: nobody else would end it, and
            # a client that goes on asking would keep us from ending.
            return Refusal("draining", "this collector is about to stop; try another one", retry_after_s=wait)
        if len(self.connections) > self.limits.connections:
            open_now = self.limits.connections
            return Refusal(
                "busy", f"this collector has {open_now} connections open; try another one", retry_after_s=wait
            )
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._over:
            super().data_received(data)
            self._watch()

    def _watch(self) -> None:
        """Whatever this connection waits for now, it must not wait for ever."""
        if self._over:
            return
        if self._refused_midway():
            if self._timer is None:
                self._arm(self.limits.linger_s, self._close)
        elif not self._between_requests():
            self._disarm()
        elif self._timer is None:
            self._arm(self.limits.header_s, self._too_slow)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._refused_midway() and not self.transport.is_closing():
            self._arm(self.limits.linger_s, self._close)

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP, or no longer is."""
        self._last_word(
            Refusal(
                "bad_request",
                f"this is no request in HTTP/1.1, or its headers are longer than {HEADER_BYTES} bytes",
            )
        )

    def shutdown(self) -> None:
        if self._over or self.transport.is_closing():
            return
        super().shutdown()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.limits.write_s, self._cut)

    def resume_writing(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        self._close()

    def _between_requests(self) -> bool:
        return self.conn.their_state is h11.IDLE

    def _refused_midway(self) -> bool:
        """Our answer is complete and the request is not: its sender does not know yet."""
        return self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY

    def _arm(self, seconds: float, act: Any) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, act)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._last_word(
            Refusal(
                "too_slow", f"the headers were not there within {self.limits.header_s:g} s; send them at once"
            )
        )

    def _last_word(self, refusal: Refusal) -> None:
        """Answer with `refusal` if an answer can still be given, and end the connection."""
        self._over = True
        self._unset_keepalive_if_required()
        begun: RequestResponseCycle | None = self.cycle
        within_answer = begun is not None and begun.response_started and not begun.response_complete
        if begun is not None:
            begun.disconnected = True  # whoever works on a request here learns that nobody listens
            begun.message_event.set()
        if not within_answer and not self.transport.is_closing():
            self.told(refusal.kind)
            self.transport.write(_raw(refusal))
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()
            self._arm(self.limits.linger_s, self._close)
        else:
            self._close()

    def _close(self) -> None:
        """End the connection once our answer is out; who does not take it is cut."""
        self._disarm()
        if not self.transport.is_closing():
            self.transport.close()
            self._arm(self.limits.write_s, self._cut)

    def _cut(self) -> None:
        """End the connection now. Without a reset the system would keep what was not read, and go on offering
        it, long after we forgot the connection."""
        connected = self.transport.get_extra_info("socket")
        if connected is not None and connected.fileno() >= 0:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


def _raw(refusal: Refusal) -> bytes:
    body = as_bytes(refusal.body())
    headers = {
        **refusal.headers(),
        "content-type": "application/json",
        "content-length": str(len(body)),
        "connection": "close",
    }
    lines = [f"HTTP/1.1 {refusal.status} {http.HTTPStatus(refusal.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii") + body
