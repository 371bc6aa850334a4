"""The S3 endpoint of one process: connections on 127.0.0.1, requests that are held, replies.

Everything happens in the driver's thread, when it pumps: sockets do not block, and a reply that a client does
not read waits in a buffer. A request is complete before anybody sees it. It is then *held* until it gets a
reply, or its connection is closed.

Each process (each incarnation of one) has a port of its own, so a request needs no further sign of who sent
it, and after a crash nothing of the old incarnation can arrive. Nothing but 127.0.0.1 can connect.
"""

import selectors
import socket
from collections.abc import Generator, Mapping
from http import HTTPStatus
from typing import Any

from fencepost.impl.http.limits import Limits
from fencepost.impl.http.places import Places
from fencepost.sim.proxy.http import HEAD_BYTES_MAX, LINE_BYTES_MAX, BadMessage, Head, chunk_size, parse_head

BODY_BYTES_MAX = 64 << 20
TRAILERS_MAX = 100
"""Lines behind the last chunk."""
CONNECTIONS_MAX = 256
"""Of one process at once. The next one takes the place of one without a whole request, see `places`."""
HOST = "127.0.0.1"
_CHUNK = 1 << 18
Reader = Generator[None, None, Any]
"""Reads from a connection, and yields where it needs more than has arrived."""


class Held:
    """A request that waits for its reply. `method`, `url`, `headers` and `body` are as the SDK has them."""

    __slots__ = ("body", "connection", "headers", "home", "keeps_alive", "method", "url")

    def __init__(self, connection: "Connection", head: Head, body: bytes) -> None:
        self.connection = connection
        self.method, target = head.first[0], head.first[1]
        self.headers: Mapping[str, str] = head.fields
        self.home = head.fields.get("host", "")
        self.url = target if target.startswith("http") else f"http://{self.home}{target}"
        self.body = body
        self.keeps_alive = head.keeps_alive

    @property
    def place(self) -> tuple[str, str]:
        """In which order requests that arrived together are taken."""
        return (self.url, self.method)

    def reply(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.connection.reply(self, status, headers, body)

    def drop(self) -> None:
        """Close the connection: the client learns nothing."""
        self.connection.close()

    @property
    def gone(self) -> bool:
        """True if the client closed the connection meanwhile."""
        return self.connection.closed


class Endpoint:
    """A listening socket, its connections, and the requests that arrived at it."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self.selector = selector
        self.arrived: list[Held] = []
        """Complete, and not taken yet."""
        self.connections: set[Connection] = set()
        self.places = Places(Limits(connections=CONNECTIONS_MAX, client_heads=CONNECTIONS_MAX))
        self.events = 0
        """Grows with everything that comes from the process."""
        self._listening = socket.create_server((HOST, 0), backlog=128)
        self._listening.setblocking(False)
        self.url = f"http://{HOST}:{self._listening.getsockname()[1]}"
        selector.register(self._listening, selectors.EVENT_READ, self._accept)

    def _accept(self, _: int) -> None:
        try:
            accepted, _address = self._listening.accept()
        except (BlockingIOError, ConnectionError):
            return
        self.events += 1
        connection = Connection(accepted, self)
        self.connections.add(connection)
        if not self.places.enter(connection, HOST):
            connection.close()

    def take_arrived(self) -> list[Held]:
        """Hand over the requests that arrived since the last call."""
        arrived, self.arrived = self.arrived, []
        return arrived

    @property
    def is_busy(self) -> bool:
        """True if a request or a reply is on its way."""
        return any(connection.is_busy for connection in self.connections)

    def close(self) -> None:
        for connection in list(self.connections):
            connection.close()
        if self._listening.fileno() >= 0:
            self.selector.unregister(self._listening)
            self._listening.close()


class Connection:
    """One connection of a client, kept alive for many requests."""

    def __init__(self, accepted: socket.socket, endpoint: Endpoint) -> None:
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = accepted
        self._endpoint = endpoint
        self._in = bytearray()
        self._out = bytearray()
        self._reader = self._read()
        self._begun = False
        """True if a part of a request has arrived."""
        self._held: Held | None = None
        self._is_answering = False
        """True until the last reply is sent, or the next request is held."""
        self._closing = False
        self.closed = False
        endpoint.selector.register(accepted, selectors.EVENT_READ, self._ready)

    @property
    def is_busy(self) -> bool:
        return bool(self._out) or (self._held is None and (self._begun or bool(self._in)))

    def reply(self, held: Held, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Answer the request that is held. Does nothing when the client is gone."""
        if self.closed or held is not self._held:
            return
        self._held = None
        self._is_answering = True
        self._send_reply(status, headers, body)
        if not held.keeps_alive:
            self._close_when_sent()
        self._advance()

    def _send_reply(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        lines = [f"HTTP/1.1 {status} {_PHRASES.get(status, '')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        text = "\r\n".join(line.replace("\r", " ").replace("\n", " ") for line in lines)
        self._write(f"{text}\r\n\r\n".encode("latin-1", "replace") + body)

    def evict(self, *, is_idle: bool) -> None:
        self.close()

    def abort(self) -> None:
        self.close()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._endpoint.places.leave(self)
        self._endpoint.selector.unregister(self._socket)
        self._socket.close()
        self._endpoint.connections.discard(self)

    def _ready(self, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._flush()
        if self.closed or not mask & selectors.EVENT_READ:
            return
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._endpoint.events += 1
        self._in += data
        if not data or len(self._in) > BODY_BYTES_MAX + _CHUNK:
            self.close()
        else:
            self._advance()

    def _advance(self) -> None:
        """Take what has arrived apart, up to the end of a request."""
        while self._held is None and not self._closing and not self.closed:
            try:
                next(self._reader)
            except StopIteration as ended:
                self._held = Held(self, *ended.value)
                self._endpoint.places.work(self)
                self._is_answering = False
                self._endpoint.arrived.append(self._held)
                self._reader, self._begun = self._read(), False
            except BadMessage as error:
                body = str(error).encode()
                headers = {"Content-Length": str(len(body)), "Connection": "close"}
                self._send_reply(error.status, headers, body)
                self._close_when_sent()
            else:
                if self._in:
                    self._endpoint.places.begin(self, HOST)
                return

    def _read(self) -> Reader:
        """One request: its head and its body."""
        head = parse_head((yield from self._until(b"\r\n\r\n", HEAD_BYTES_MAX, 431)))
        self._begun = True
        if head.fields.get("expect", "").lower() == "100-continue" and not self._in:
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if head.chunked:
            return head, (yield from self._chunks(head))
        if (head.length or 0) > BODY_BYTES_MAX:
            raise BadMessage(413, f"a body of more than {BODY_BYTES_MAX} bytes")
        return head, (yield from self._exactly(head.length or 0))

    def _chunks(self, head: Head) -> Reader:
        body = bytearray()
        while True:
            line = yield from self._until(b"\r\n", LINE_BYTES_MAX, 400)
            length = chunk_size(line)
            if len(body) + length > BODY_BYTES_MAX:
                raise BadMessage(413, f"a body of more than {BODY_BYTES_MAX} bytes")
            part = (yield from self._exactly(length + 2)) if length else b""
            head.follow(line + part)
            if not length:
                break
            body += part[:-2]
        for _ in range(TRAILERS_MAX):
            line = yield from self._until(b"\r\n", LINE_BYTES_MAX, 400)
            head.follow(line, is_last=line == b"\r\n")
            if line == b"\r\n":
                return bytes(body)
        raise BadMessage(400, f"more than {TRAILERS_MAX} trailers")

    def _until(self, end: bytes, most: int, status: int) -> Reader:
        while (at := self._in.find(end)) < 0:
            if len(self._in) > most:
                raise BadMessage(status, f"more than {most} bytes without an end")
            yield
        return (yield from self._exactly(at + len(end)))

    def _exactly(self, count: int) -> Reader:
        while len(self._in) < count:
            yield
        found = bytes(self._in[:count])
        del self._in[:count]
        return found

    def _close_when_sent(self) -> None:
        self._closing = True
        if not self._out:
            self.close()

    def _write(self, data: bytes) -> None:
        if not self.closed:
            self._out += data
            self._flush()

    def _flush(self) -> None:
        try:
            while self._out:
                sent = self._socket.send(memoryview(self._out)[:_CHUNK].tobytes())
                del self._out[:sent]
        except BlockingIOError:
            self._watch(selectors.EVENT_READ | selectors.EVENT_WRITE)
            return
        except OSError:
            self.close()
            return
        self._watch(selectors.EVENT_READ)
        if self._is_answering:
            self._is_answering = False
            self._endpoint.places.rest(self)
        if self._closing:
            self.close()

    def _watch(self, events: int) -> None:
        self._endpoint.selector.modify(self._socket, events, self._ready)


_PHRASES = {status.value: status.phrase for status in HTTPStatus}
