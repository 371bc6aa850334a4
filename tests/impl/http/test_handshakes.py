"""A TLS handshake has a place among the connections, and a deadline."""

import asyncio
import contextlib
import http.client
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import Response

from fencepost.impl.http.limits import Limits
from fencepost.impl.http.places import Places
from fencepost.impl.http.server import Server, listener
from fencepost.impl.http.service import Service, json_response
from tests.impl.ingest_service.test_tls import self_signed


class Served:
    def __init__(self, port: int, service: Service, server: Server, places: Places) -> None:
        self.port = port
        self.service = service
        self.server = server
        self.hold = threading.Event()
        self.places = places

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def client(self) -> http.client.HTTPSConnection:
        context = ssl._create_unverified_context()
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=context)

    def status(self, path: str = "/healthz") -> int:
        with contextlib.closing(self.client()) as client:
            client.request("GET", path)
            return client.getresponse().status

    def requests(self) -> int:
        return len(self.server.server_state.tasks)

    def open(self) -> int:
        """The connections that have places."""
        return len(self.places._open)

    def refused(self, kind: str) -> int:
        found = f'fencepost_tls_refused_total{{kind="{kind}"}} '
        lines = self.service.metrics.exposition().decode().splitlines()
        return sum(int(float(line.removeprefix(found))) for line in lines if line.startswith(found))


@contextlib.contextmanager
def serving(folder: Path, limits: Limits) -> Iterator[Served]:
    async def held(_: Request) -> Response:
        await asyncio.to_thread(served.hold.wait, 10)
        return json_response({})

    certificate, key = self_signed(folder)
    service = Service("tls", {"/held": {"GET": held}}, verify=lambda: None, openapi=dict, limits=limits)
    bound = listener("127.0.0.1", 0)
    up = threading.Event()
    places = Places(limits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fencepost.impl.http.server.Places", lambda _: places)
        server = Server(service, on_listening=lambda _: up.set(), certificate=str(certificate), key=str(key))
    served = Served(bound.getsockname()[1], service, server, places)
    thread = threading.Thread(target=server.run, args=([bound],))
    thread.start()
    try:
        assert up.wait(20)
        yield served
    finally:
        served.hold.set()
        server.stop()
        thread.join(20)
        service.close()
        assert not thread.is_alive()


def ended(connection: socket.socket, within_s: float) -> bool:
    connection.settimeout(within_s)
    try:
        return connection.recv(100) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_begun_handshakes_leave_their_places_to_the_next_connection(tmp_path: Path) -> None:
    with serving(tmp_path, Limits(connections=4)) as served, contextlib.ExitStack() as held:
        begun = [held.enter_context(served.connect()) for _ in range(9)]
        assert served.status() == 200
        assert all(ended(one, 5) for one in begun[:5]), "the oldest have ended"
        assert not ended(begun[8], 0.05)
        assert served.refused("busy") == 6


def test_a_handshake_has_the_time_of_a_head(tmp_path: Path) -> None:
    """asyncio gives it 60 seconds."""
    with serving(tmp_path, Limits(header_s=0.2)) as served:
        for sent in (b"", b"\x16\x03\x01\x02\x00\x01"):
            with served.connect() as one:
                begin = time.monotonic()
                one.sendall(sent)
                assert ended(one, 5)
                assert 0.1 < time.monotonic() - begin < 4
        assert served.status() == 200


def test_handshakes_of_one_address_have_their_share(tmp_path: Path) -> None:
    with serving(tmp_path, Limits(connections=100, client_heads=2)) as served, contextlib.ExitStack() as held:
        begun = [held.enter_context(served.connect()) for _ in range(5)]
        assert all(ended(one, 5) for one in begun[:3])
        assert not ended(begun[4], 0.05)


def test_without_a_place_the_handshake_is_followed_by_the_reason(tmp_path: Path) -> None:
    with serving(tmp_path, Limits(connections=2)) as served, contextlib.ExitStack() as held:
        for number in range(2):
            client = held.enter_context(contextlib.closing(served.client()))
            client.request("GET", "/held")
            while served.requests() < number + 1:
                time.sleep(0.005)
        assert served.status() == 503


def test_clients_that_leave_within_the_handshake_leave_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, Limits(connections=4)) as served:
        for sent in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01"):
            for linger in (0, 1):
                with served.connect() as one:
                    one.sendall(sent)
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", linger, 0))
        assert served.status() == 200
        deadline = time.monotonic() + 5
        while served.open() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not served.open()


def test_a_request_that_comes_with_the_end_of_the_handshake_is_served(tmp_path: Path) -> None:
    """With TLS 1.3 a client sends its request behind its last part of the handshake."""
    context = ssl._create_unverified_context()
    with serving(tmp_path, Limits()) as served, served.connect() as one:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                one.sendall(outgoing.read())
                incoming.write(one.recv(65536))
        tls.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        one.sendall(outgoing.read())
        while True:
            incoming.write(one.recv(65536))
            with contextlib.suppress(ssl.SSLWantReadError):
                assert tls.read().startswith(b"HTTP/1.1 200 ")
                break


@pytest.fixture(autouse=True)
def _needs_certificates() -> None:
    pytest.importorskip("cryptography.x509")
