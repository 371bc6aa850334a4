"""The endpoint as a server of HTTP: where a request ends, what is refused, and connections that live on."""

import contextlib
import selectors
import socket
from collections.abc import Iterator

import pytest

from fencepost.sim.over_http import endpoint as module
from fencepost.sim.over_http.endpoint import Endpoint

PUT = b"PUT /bucket/key?x=1 HTTP/1.1\r\nHost: h\r\n"


class Client:
    """One connection to an endpoint, and the pump of both."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.endpoint = Endpoint(self.selector)
        host, port = self.endpoint.url.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.settimeout(10)
        self.until(lambda: self.endpoint.connections)

    def until(self, condition) -> None:
        for _ in range(1000):
            if condition():
                return
            self.pump(10)
        raise AssertionError("it never came about")

    def pump(self, seconds: float = 0) -> None:
        while ready := self.selector.select(seconds):
            for key, mask in ready:
                key.data(mask)
            seconds = 0

    def send(self, data: bytes) -> list:
        before = self.endpoint.events
        self.socket.sendall(data)
        self.until(lambda: self.endpoint.events != before)
        arrived, self.endpoint.arrived = self.endpoint.arrived, []
        return arrived

    def received(self) -> bytes:
        return self.socket.recv(1 << 16)


@pytest.fixture
def client() -> Iterator[Client]:
    one = Client()
    yield one
    one.socket.close()
    one.endpoint.close()
    one.selector.close()


def test_a_request_is_held_when_it_is_complete_and_the_connection_lives_on(client) -> None:
    assert client.send(PUT + b"Content-Length: 4\r\n\r\nbo") == []
    assert client.endpoint.is_busy
    (held,) = client.send(b"dy")
    assert (held.method, held.url, held.body) == ("PUT", "http://h/bucket/key?x=1", b"body")
    assert not client.endpoint.is_busy
    held.reply(200, {"ETag": '"e"', "Content-Length": "0"}, b"")
    assert client.received() == b'HTTP/1.1 200 OK\r\nETag: "e"\r\nContent-Length: 0\r\n\r\n'
    (held,) = client.send(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    held.reply(204, {}, b"")
    assert client.received().startswith(b"HTTP/1.1 204")
    assert client.received() == b""


def test_the_second_of_two_requests_sent_together_waits_for_the_reply_to_the_first(client) -> None:
    get = b"GET /b/%d HTTP/1.1\r\nHost: h\r\n\r\n"
    (first,) = client.send(get % 1 + get % 2)
    first.reply(404, {"Content-Length": "0"}, b"")
    (second,) = client.endpoint.arrived
    assert second.url == "http://h/b/2"


def test_a_body_in_chunks_is_put_together(client) -> None:
    (held,) = client.send(
        PUT + b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nbod\r\n1\r\ny\r\n0\r\nX-Sum: 1\r\n\r\n"
    )
    assert held.body == b"body"


def test_a_client_that_waits_for_it_is_bidden_to_go_on(client) -> None:
    assert client.send(PUT + b"Expect: 100-continue\r\nContent-Length: 4\r\n\r\n") == []
    assert client.received() == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert len(client.send(b"body")) == 1


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (PUT + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", b"400"),
        (PUT + b"Content-Length: -4\r\n\r\n", b"400"),
        (PUT + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n", b"400"),
        (PUT + b"Content-Length: 65\r\n\r\n", b"413"),
        (PUT + b"Transfer-Encoding: chunked\r\n\r\n41\r\n", b"413"),
        (b"nonsense\r\n\r\n", b"400"),
        (PUT + b"X: " + b"x" * 70_000, b"431"),
    ],
)
def test_what_is_no_request_or_too_large_is_refused_and_the_connection_closed(
    client, sent, status, monkeypatch
) -> None:
    monkeypatch.setattr(module, "BODY_BYTES_MAX", 64)
    assert client.send(sent) == []
    assert client.received().startswith(b"HTTP/1.1 " + status)
    client.until(lambda: not client.endpoint.connections)


def test_a_reply_that_is_not_read_waits_and_blocks_nobody(client) -> None:
    body = b"x" * (8 << 20)
    (held,) = client.send(b"GET /b/k HTTP/1.1\r\nHost: h\r\n\r\n")
    held.reply(200, {"Content-Length": str(len(body))}, body)
    assert client.endpoint.is_busy
    left = len(body)
    while left > 0:
        left -= len(client.socket.recv(1 << 20))
        client.pump()
    assert not client.endpoint.is_busy


def test_a_client_that_leaves_is_known_to_be_gone(client) -> None:
    (held,) = client.send(b"GET /b/k HTTP/1.1\r\nHost: h\r\n\r\n")
    client.socket.close()
    client.until(lambda: held.gone)
    held.reply(200, {"Content-Length": "0"}, b"")


def test_half_sent_requests_and_idle_connections_leave_their_places(client, monkeypatch) -> None:
    """Any program of this machine can connect, and the one that is audited may leave connections open."""
    ended = []
    monkeypatch.setattr(
        module.Connection, "evict", lambda self, *, is_idle: (ended.append(is_idle), self.close())
    )
    address = client.endpoint._listening.getsockname()
    assert address[0] == "127.0.0.1"
    held = client.send(PUT + b"Content-Length: 0\r\n\r\n")
    with contextlib.ExitStack() as opened:

        def connect(sent: bytes) -> None:
            one = opened.enter_context(socket.create_connection(address))
            one.sendall(sent)
            client.pump(0.05)

        for _ in range(3):
            connect(PUT + b"Content-Length: 0\r\n\r\n")
        idle = client.endpoint.take_arrived()
        for one in idle:
            one.reply(200, {"Content-Length": "0"}, b"")
        assert len(idle) == 3
        for _ in range(module.CONNECTIONS_MAX - 4):
            connect(PUT)
        assert not ended
        for _ in range(module.CONNECTIONS_MAX - 4):
            connect(PUT + b"Content-Length: 0\r\n\r\n")
        assert ended == [False] * (module.CONNECTIONS_MAX - 4)
        for _ in range(3):
            connect(PUT + b"Content-Length: 0\r\n\r\n")
        assert ended[-3:] == [True] * 3, "idle ones after the half-sent ones"
        connect(b"")
        assert len(client.endpoint.connections) == module.CONNECTIONS_MAX
        assert len(client.endpoint.take_arrived()) == module.CONNECTIONS_MAX - 1
        held[0].reply(200, {"Content-Length": "0"}, b"")
        assert client.received().startswith(b"HTTP/1.1 200 "), "what is held keeps its place"
