"""The server process: connections with deadlines, signals, and a graceful stop.

On SIGTERM or SIGINT the server accepts no more connections, closes idle ones, finishes the requests in flight
and ends. A second SIGINT ends it at once; requests that hang longer than `drain_s` are aborted. On SIGUSR1 it
drains: another process takes over its listening socket, and no client is to notice.

uvicorn limits how long a connection is idle between requests. This module adds the missing deadlines:

    waiting for                            ends after        how
    the end of a TLS handshake             header_s          reset; see `handshakes`
    the first request's headers            header_s          408
    a later request's headers, once begun  header_s          408
    the body                               body_s            408, by `limits.read_body`
    the rest of a refused body             linger_s          closed
    the client to read its response        write_s           aborted
    a free connection                      at once           503, Retry-After; see `places`
    a response, from a stopping server     at once           503, Retry-After

The response to bytes that are not HTTP is JSON like every other. Closing a connection takes two steps:
the server ends its own side, then it reads and discards further input for `linger_s`. If it closed the
connection with unread bytes, the system would reset it, and the client might never see the response.
"""

import asyncio
import contextlib
import enum
import logging
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

import uvicorn
from starlette.types import Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from fencepost.impl.http.answers import ABORT
from fencepost.impl.http.handshakes import Handshake, context_of
from fencepost.impl.http.heads import is_clear
from fencepost.impl.http.limits import Limits
from fencepost.impl.http.memory import PIECE
from fencepost.impl.http.places import Places
from fencepost.impl.http.refusals import Refusal, to_json
from fencepost.impl.http.service import Head, Service, raw_response
from fencepost.impl.http.sockets import bound_unsent, reset

HEADER_BYTES = 16 * 1024
"""A longer head is no request: without a limit a client could fill the memory with one."""
DRAIN_IDLE_S = 1.0
"""The time in seconds that a draining server keeps a connection without a request."""
_STOPPING = (signal.SIGTERM, signal.SIGINT)


class Server(uvicorn.Server):
    """uvicorn with our connections and signals. `on_listening` receives the address it listens on."""

    def __init__(
        self,
        service: Service,
        *,
        on_listening: Callable[[str], None] = lambda _: None,
        certificate: str | None = None,
        key: str | None = None,
    ) -> None:
        limits = service.limits
        made = protocol(limits, service.count_refused, lambda: self.should_exit, self._at_once)
        self._is_secure = certificate is not None
        self._service = service
        self._draining = False
        logging.getLogger("uvicorn.error").addFilter(_is_of_the_server)
        super().__init__(
            uvicorn.Config(
                self._closing,
                interface="asgi3",
                http=made if certificate is None else over_tls(made, context_of(certificate, key)),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=max(1, round(limits.idle_s)),
                timeout_graceful_shutdown=max(1, round(limits.drain_s)),
            )
        )
        self._on_listening = on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets=sockets)
        assert sockets is not None, "the caller binds the socket, so that its port is known"
        self._on_listening(address(sockets[0], secure=self._is_secure))

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._on_signal) for number in _STOPPING}
        before[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, self._on_drain)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: object) -> None:
        if self.should_exit and number == signal.SIGINT:
            self.force_exit = True
        else:
            self.stop()

    async def _closing(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The service; a server that drains closes each connection after its response."""

        async def closing(message: Message) -> None:
            if self._draining and message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
            await send(message)

        await self._service(scope, receive, closing)

    def _at_once(self, head: Head) -> bytes | None:
        return None if self._draining else self._service.at_once(head)

    def _on_drain(self, number: int, frame: object) -> None:
        self._draining = True
        self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        """Accept no more, answer every request, and end when no connection is left. Another process listens
        on the same socket, so no client is refused; one that leaves its connection idle for long loses it."""
        for listening in self.servers:
            listening.close()
        self._drain_task = self._loop.create_task(self._end_drained(), name="drain")

    async def _end_drained(self) -> None:
        deadline = self._loop.time() + DRAIN_IDLE_S
        while self.server_state.connections and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        self.should_exit = True

    def stop(self) -> None:
        """Finish the requests in flight, and end."""
        self._service.stop()
        self.should_exit = True


def _is_of_the_server(record: logging.LogRecord) -> bool:
    """Return False for the line about bytes that are not HTTP: any client could fill the log with it.

    They are counted among the refused.
    """
    return record.msg != "Invalid HTTP request received."


def listener(host: str, port: int) -> socket.socket:
    """A socket that is bound to `host` and `port`; 0 takes a free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm only if the protocol is given, and a response leaves in two pieces:
    # with Nagle the second piece waits 40 ms for the client's acknowledgement of the first.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except BaseException:
        bound.close()
        raise
    return bound


def address(bound: socket.socket, *, secure: bool = False) -> str:
    host, port = bound.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{shown}:{port}"


def protocol(
    limits: Limits,
    count_refused: Callable[[str], object],
    stopping: Callable[[], bool] = lambda: False,
    at_once: Callable[[Head], bytes | None] = lambda _: None,
) -> "type[GuardedConnection]":
    """The class of which uvicorn makes one instance per connection."""
    places = Places(limits)

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
            self.places = places
            self.count_refused = count_refused
            self.stopping = stopping
            self.at_once = at_once

    return Guarded


def over_tls(made: "type[GuardedConnection]", tls: ssl.SSLContext) -> type[asyncio.Protocol]:
    """The class of which uvicorn makes one instance per connection, each with a handshake before it."""

    class Secure(Handshake):
        def __init__(self, **given: Any) -> None:
            one = made(**given)
            super().__init__(one, one.places, one.limits, one.count_refused, tls)

    return Secure


class _Reading(enum.Enum):
    """The next input that a connection waits for."""

    NOTHING = enum.auto()
    """Not a byte of a request has come, or every request has ended."""
    HEAD = enum.auto()
    BODY = enum.auto()


class _NotHttp(Exception):
    """Raised in a callback of the parser, which then reports an error."""


class GuardedConnection(HttpToolsProtocol):
    limits: Limits
    places: Places
    count_refused: Callable[[str], object]
    stopping: Callable[[], bool]
    at_once: Callable[[Head], bytes | None]
    _timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _over = False
    """The last response is written; further input is discarded."""
    _reading = _Reading.NOTHING
    _begun = 0
    """The number of requests begun."""
    _head_bytes = _raw_bytes = 0
    """Of the present head: those that were parsed, and those that arrived."""
    _answered = False
    """The present request was answered at once: it has no cycle."""
    _served: RequestResponseCycle | None = None
    """The request in progress, or the last one; `cycle` is the last one read, which may wait for it."""
    _broken = False
    """The input after the requests read so far is not HTTP; those are answered first."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn does
        super().connection_made(transport)
        bound_unsent(transport, PIECE // 2)
        refusal = self._refusal()
        if refusal is None:
            self._arm(self.limits.header_s, self._too_slow)
        else:
            self.connections.discard(self)  # the server does not wait for it
            self._refuse_and_end(refusal)

    def _refusal(self) -> Refusal | None:
        if self.stopping():
            # The system accepted it just before we stopped listening. Nothing else would end it, and a client
            # that keeps sending requests would keep the server from ending.
            return self._refuse_with("draining", "this server is about to stop; try another one")
        if not self.places.enter(self, self._address()):
            open_now = self.limits.connections
            return self._refuse_with("busy", f"this server has {open_now} connections open; try another one")
        return None

    def _refuse_with(self, kind: str, message: str) -> Refusal:
        return Refusal(kind, message, retry_after_s=self.limits.retry_after_s)

    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def evict(self, *, is_idle: bool) -> None:
        """End, because another connection needs the place of this one."""
        if is_idle:
            self.count_refused("busy")
            self.places.end(self)
            self._close()
        else:
            text = "another connection took the place of this one, which has sent no whole request; try again"
            self._refuse_and_end(self._refuse_with("busy", text))

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self.places.leave(self)
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._over or self._broken:
            return
        before, begun = self._reading, self._begun
        super().data_received(data)
        if self._reading is _Reading.HEAD and not self._over:
            if not self._is_busy():
                self.places.begin(self, self._address())
            # The parser reports no part of a header. Of what follows other requests, the first piece is free.
            if self._begun - begun == (before is not _Reading.HEAD) and before is not _Reading.BODY:
                self._raw_bytes += len(data)
            if self._raw_bytes > HEADER_BYTES:
                self.send_400_response("")
        if self._timer is not None or self._reading is not _Reading.NOTHING:
            self._watch()

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._reading = _Reading.HEAD
        self._head_bytes = self._raw_bytes = 0
        self._begun += 1
        self._answered = False

    def on_url(self, url: bytes) -> None:
        self.url += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count_head(len(name) + len(value))

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEADER_BYTES:
            raise _NotHttp

    def on_headers_complete(self) -> None:
        version = self.parser.get_http_version()
        hosts = has_body = 0
        for name, value in self.headers:
            hosts += name == b"host"
            has_body += name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        if not is_clear(version, hosts, self.url):
            raise _NotHttp
        self._reading = _Reading.BODY
        self.places.work(self)
        raw_path, _, query = self.url.partition(b"?")
        head = Head(self.parser.get_method().decode(), raw_path, query, self.headers, self.client)
        # No other protocol is spoken here, and the parser reads nothing behind a request that wants one.
        keeps = version == "1.1" and self.parser.should_keep_alive() and not self.parser.should_upgrade()
        is_alone = not self._is_busy()
        if is_alone and keeps and not has_body and not self.flow.write_paused and not self.stopping():
            answer = self.at_once(head)
            if answer is not None:
                self._answered = True
                self.transport.write(answer)
                return
        self.scope = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme or "http",
            "root_path": "",
            "headers": self.headers,
            "state": self.app_state.copy(),
            "method": head.method,
            "path": unquote(raw_path.decode()),  # for logs: servers decode the raw path, see `targets`
            "raw_path": raw_path,
            "query_string": query,
            "extensions": {ABORT: {"act": self._unread, "cut": self.abort}},
        }
        self.cycle = RequestResponseCycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=keeps,
            on_response=self.on_response_complete,
        )
        if is_alone:
            self._start_asgi_task(self.cycle, self.app)
        else:  # it waits for the end of those before it
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def on_body(self, body: bytes) -> None:
        if not self._answered:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._reading = _Reading.NOTHING
        if self._answered:
            self.on_response_complete()
        else:
            super().on_message_complete()

    # Deadlines.

    def _watch(self) -> None:
        """Set the deadline for whatever this connection waits for now."""
        if self._over:
            return
        if self._refused_midway():
            if self._timer is None:
                self._arm(self.limits.linger_s, self._close)
        elif self._reading is not _Reading.HEAD or self._is_busy():
            self._disarm()
        elif self._timer is None:
            self._arm(self.limits.header_s, self._too_slow)

    def _is_busy(self) -> bool:
        """Return True if a response is not complete yet."""
        return self._served is not None and not self._served.response_complete

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._served = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_busy() and not self._over and not self.transport.is_closing():
            if self._reading is _Reading.NOTHING:
                self.places.rest(self)
            elif self._reading is _Reading.HEAD:
                self.places.begin(self, self._address())
        if self._broken and not self._is_busy():
            self.send_400_response("")
        elif self._reading is not _Reading.NOTHING and not self.transport.is_closing():
            self._watch()

    def send_400_response(self, msg: str) -> None:
        """The bytes are not HTTP, or no longer are."""
        in_body = self._reading is _Reading.BODY and not self._answered
        if self._is_busy() and not (in_body and self.cycle is self._served):
            self._broken = True
            if in_body:
                self.pipeline.popleft()
            return
        self._refuse_and_end(
            Refusal(
                "bad_request",
                f"this is not an HTTP/1.1 request, or its headers are longer than {HEADER_BYTES} bytes",
            )
        )

    def shutdown(self) -> None:
        if self._over or self.transport.is_closing():
            return
        super().shutdown()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.limits.write_s, self._unread)

    def _unread(self) -> None:
        """The client has left its response unread for too long."""
        self.count_refused("unread")
        self.abort()

    def resume_writing(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        self._close()

    def _refused_midway(self) -> bool:
        """The response is complete and the request is not: its sender does not know yet."""
        return self._reading is _Reading.BODY and not self._answered and not self._is_busy()

    def _arm(self, seconds: float, act: Any) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, act)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._refuse_and_end(
            Refusal(
                "too_slow", f"the headers did not arrive within {self.limits.header_s:g} s; send them at once"
            )
        )

    def _refuse_and_end(self, refusal: Refusal) -> None:
        """Respond with `refusal` if a response is still possible, and end the connection."""
        self._over = True
        self.places.end(self)
        self._unset_keepalive_if_required()
        begun = self._served
        responding = begun is not None and begun.response_started and not begun.response_complete
        if begun is not None:
            begun.disconnected = True  # ends the work on the current request
            begun.message_event.set()
        if not responding and not self.transport.is_closing():
            self.count_refused(refusal.kind)
            headers = {**refusal.headers(), "content-type": "application/json", "connection": "close"}
            self.transport.write(raw_response(refusal.status, headers, to_json(refusal.body())))
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()
            self._arm(self.limits.linger_s, self._close)
        else:
            self._close()

    def _close(self) -> None:
        """Close the connection once the response is sent; abort it if the client does not read."""
        self._disarm()
        if not self.transport.is_closing():
            self.transport.close()
            self._arm(self.limits.write_s, self.abort)

    def abort(self) -> None:
        reset(self.transport)
