"""The S3 endpoint of one process: connections on 127.0.0.1, requests that are held, replies.

Everything happens in the driver's thread, when it pumps: sockets do not block, and a reply that a client does
not read waits in a buffer. A request is complete before anybody sees it. It is then *held* until it gets a
reply, or its connection is closed.

Each process (each incarnation of one) has a port of its own, so a request needs no further sign of who sent
it, and after a crash nothing of the old incarnation can arrive. Nothing but 127.0.0.1 can connect.
"""

import selectors
import socket
from collections.abc import Mapping
from typing import Any

import h11

HEAD_BYTES_MAX = 64 << 10
BODY_BYTES_MAX = 64 << 20
CONNECTIONS_MAX = 256
"""Of one process at the same time."""
_CHUNK = 1 << 18


class Held:
    """A request that waits for its reply. `method`, `url`, `headers` and `body` are as the SDK has them."""

    __slots__ = ("body", "connection", "headers", "home", "method", "url")

    def __init__(self, connection: "Connection", request: h11.Request, body: bytes) -> None:
        fields: dict[str, str] = {}
        for raw, value in request.headers:
            name, text = raw.decode("latin-1"), value.decode("latin-1")
            fields[name] = f"{fields[name]},{text}" if name in fields else text
        self.connection = connection
        self.method = request.method.decode("latin-1")
        self.headers: Mapping[str, str] = fields
        self.home = fields.get("host", "")
        target = request.target.decode("latin-1")
        self.url = target if target.startswith("http") else f"http://{self.home}{target}"
        self.body = body

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
        """Whether the client closed the connection meanwhile."""
        return self.connection.closed


class Endpoint:
    """A listening socket, its connections, and the requests that arrived at it."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self.selector = selector
        self.arrived: list[Held] = []
        """Complete, and not taken yet."""
        self.connections: set[Connection] = set()
        self.events = 0
        """Grows with everything that comes from the process."""
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._listening.setblocking(False)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        selector.register(self._listening, selectors.EVENT_READ, self._accept)

    def _accept(self, _: int) -> None:
        try:
            accepted, _address = self._listening.accept()
        except (BlockingIOError, ConnectionError):
            return
        self.events += 1
        if len(self.connections) >= CONNECTIONS_MAX:
            accepted.close()
            return
        self.connections.add(Connection(accepted, self))

    @property
    def is_busy(self) -> bool:
        """Whether a request or a reply is on its way."""
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
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._request: h11.Request | None = None
        self._body = bytearray()
        self._out = bytearray()
        self._held: Held | None = None
        self._closing = False
        self.closed = False
        endpoint.selector.register(accepted, selectors.EVENT_READ, self._ready)

    @property
    def is_busy(self) -> bool:
        return bool(self._out) or (self._request is not None and self._held is None)

    def reply(self, held: Held, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Answer the request that is held. Does nothing when the client is gone."""
        if self.closed or held is not self._held:
            return
        self._held = self._request = None
        self._send_reply(status, headers, body)
        if self.closed:
            return
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._advance()
        else:
            self._close_when_sent()

    def _send_reply(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        try:
            fields = [(name, str(value)) for name, value in headers.items()]
            self._write(self._http.send(h11.Response(status_code=status, headers=fields)))
            if body:
                self._write(self._http.send(h11.Data(data=body)))
            self._write(self._http.send(h11.EndOfMessage()))
        except h11.LocalProtocolError:
            self.close()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
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
        if not data:
            self.close()
            return
        try:
            self._http.receive_data(data)
            self._advance()
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, str(error))

    def _advance(self) -> None:
        """Take what has arrived apart, up to the end of a request."""
        while self._held is None and not self.closed:
            event: Any = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
                return
            if event is h11.PAUSED or type(event) is h11.ConnectionClosed:
                return
            if type(event) is h11.Request:
                self._request, self._body = event, bytearray()
            elif type(event) is h11.Data:
                self._body += event.data
                if len(self._body) > BODY_BYTES_MAX:
                    self._refuse(413, f"a body of more than {BODY_BYTES_MAX} bytes")
                    return
            elif type(event) is h11.EndOfMessage:
                assert self._request is not None
                self._held = Held(self, self._request, bytes(self._body))
                self._endpoint.arrived.append(self._held)

    def _refuse(self, status: int, why: str) -> None:
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = why.encode()
            self._send_reply(status, {"Content-Length": str(len(body)), "Connection": "close"}, body)
        self._close_when_sent()

    def _close_when_sent(self) -> None:
        self._closing = True
        if not self._out:
            self.close()

    def _write(self, data: bytes | None) -> None:
        if data and not self.closed:
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
        if self._closing:
            self.close()

    def _watch(self, events: int) -> None:
        self._endpoint.selector.modify(self._socket, events, self._ready)


