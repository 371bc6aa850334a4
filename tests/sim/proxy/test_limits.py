"""The proxy bounds its clients as the servers do: connections, heads, bodies, memory, unread replies."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from fencepost.impl.http.limits import Limits
from fencepost.sim.proxy import Delay, Plan, Upstream, running
from fencepost.sim.proxy.server import LATE_BYTES, Proxy
from tests.sim.proxy.upstream import OK, send_raw, upstream
from tests.sim.proxy.upstream import Upstream as Scripted

KIB, MIB = 1 << 10, 1 << 20
HALF = b"GET /b/k HTTP/1.1\r\nHost:"
GET = b"GET /b/k HTTP/1.1\r\nHost: h\r\n\r\n"
LAST = b"GET /b/k HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"


@pytest.fixture
def behind() -> Iterator[Scripted]:
    with upstream() as one:
        yield one


@contextlib.contextmanager
def proxied(behind: Scripted, limits: Limits, **more: object) -> Iterator[Proxy]:
    with running(Plan(Upstream.of(behind.url), **more), limits=limits) as proxy:  # type: ignore[arg-type] # of Plan
        yield proxy
        until(lambda: not proxy._clients)
        known = proxy._connections
        for rest in (known._open, known._heads, known._by_address, known._idle, known._ending):
            assert not rest, "a connection that is gone is remembered"
        assert proxy._requests.held == proxy._replies.held == 0


def connect(proxy: Proxy, sent: bytes = b"", host: str = "127.0.0.1") -> socket.socket:
    port = int(proxy.url.rpartition(":")[2])
    one = socket.create_connection(("127.0.0.1", port), timeout=10, source_address=(host, 0))
    one.sendall(sent)
    return one


def read(one: socket.socket) -> bytes:
    with contextlib.suppress(ConnectionError):
        return one.recv(65536)
    return b""


def is_open(one: socket.socket) -> bool:
    one.settimeout(0.05)
    try:
        return bool(one.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return True
    finally:
        one.settimeout(10)


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def put(size: int, body: bytes = b"", close: bool = True) -> bytes:
    ends = "Connection: close\r\n" if close else ""
    return f"PUT /b/k HTTP/1.1\r\nHost: h\r\n{ends}Content-Length: {size}\r\n\r\n".encode() + body


# Connections.


def test_half_sent_heads_leave_their_places(behind: Scripted) -> None:
    limits = Limits(connections=4, linger_s=0.1)
    with proxied(behind, limits) as proxy, contextlib.ExitStack() as held:
        halves = []
        for _ in range(9):
            halves.append(held.enter_context(connect(proxy, HALF)))
            time.sleep(0.005)
        assert send_raw(proxy.url, LAST) == OK
        for half in halves[:6]:
            assert read(half).startswith(b"HTTP/1.1 503 "), "the client reads why"
        halves[8].sendall(b" h\r\n\r\n")
        assert read(halves[8]) == OK, "the newest ones still have theirs"
    assert proxy.statistics.refused == {"busy": 6}


def test_an_idle_connection_leaves_its_place_after_the_half_sent_ones(behind: Scripted) -> None:
    limits = Limits(connections=3, linger_s=0.1)
    with proxied(behind, limits) as proxy, contextlib.ExitStack() as held:
        idle = [held.enter_context(connect(proxy)) for _ in range(2)]
        for one in idle:
            one.sendall(GET)
            assert read(one) == OK
        half = held.enter_context(connect(proxy, HALF))
        time.sleep(0.02)
        third = held.enter_context(connect(proxy, GET))
        assert read(third) == OK
        assert read(half).startswith(b"HTTP/1.1 503 ")
        assert send_raw(proxy.url, LAST) == OK
        assert read(idle[0]) == b"", "the one that was idle for longest is closed"
        idle[1].sendall(GET)
        assert read(idle[1]) == OK


def test_a_head_that_is_begun_later_is_half_sent_as_well(behind: Scripted) -> None:
    limits = Limits(connections=2, linger_s=0.1)
    with proxied(behind, limits) as proxy, contextlib.ExitStack() as held:
        idle, half = (held.enter_context(connect(proxy, GET)) for _ in range(2))
        assert read(idle) == read(half) == OK
        half.sendall(HALF)
        time.sleep(0.02)
        assert send_raw(proxy.url, LAST) == OK
        assert read(half).startswith(b"HTTP/1.1 503 ")
        idle.sendall(GET)
        assert read(idle) == OK


def test_a_connection_with_a_request_keeps_its_place(behind: Scripted) -> None:
    behind.gate = threading.Semaphore(0)
    with proxied(behind, Limits(connections=2, linger_s=0.1)) as proxy, contextlib.ExitStack() as held:
        busy = [held.enter_context(connect(proxy, GET)) for _ in range(2)]
        until(lambda: behind.inside == 2)
        assert send_raw(proxy.url, b"").startswith(b"HTTP/1.1 503 ")
        behind.gate.release(2)
        assert [read(one) for one in busy] == [OK, OK]


def test_one_address_has_a_share_of_the_unfinished_heads(behind: Scripted) -> None:
    limits = Limits(connections=100, client_heads=2, linger_s=0.1)
    with proxied(behind, limits) as proxy, contextlib.ExitStack() as held:
        other = held.enter_context(connect(proxy, HALF, "127.0.0.2"))
        halves = [held.enter_context(connect(proxy, HALF)) for _ in range(5)]
        assert all(read(half).startswith(b"HTTP/1.1 503 ") for half in halves[:3])
        for one in (other, *halves[3:]):
            one.sendall(b" h\r\n\r\n")
            assert read(one) == OK


def test_refused_connections_linger_in_a_bounded_number(behind: Scripted) -> None:
    behind.gate = threading.Semaphore(0)
    limits = Limits(connections=4, linger_s=30)
    with proxied(behind, limits) as proxy, contextlib.ExitStack() as held:
        for _ in range(4):
            held.enter_context(connect(proxy, GET))
        until(lambda: behind.inside == 4)
        for _ in range(40):
            held.enter_context(connect(proxy))
        until(lambda: proxy.statistics.refused["busy"] == 40)
        until(lambda: len(proxy._clients) <= 4 + limits.lingering)
        behind.gate.release(4)


# Deadlines.


@pytest.mark.parametrize("sent", [b"", HALF])
def test_a_head_has_its_time(behind: Scripted, sent: bytes) -> None:
    with proxied(behind, Limits(header_s=0.1)) as proxy, connect(proxy, sent) as one:
        assert read(one).startswith(b"HTTP/1.1 408 ")
    assert proxy.statistics.refused == {"too_slow": 1}


def test_a_later_head_has_its_time_once_it_is_begun(behind: Scripted) -> None:
    with proxied(behind, Limits(header_s=0.1)) as proxy, connect(proxy, GET) as one:
        assert read(one) == OK
        time.sleep(0.2)
        one.sendall(b"G")
        time.sleep(0.05)
        one.sendall(GET[1:])
        assert read(one) == OK
        one.sendall(b"G")
        assert read(one).startswith(b"HTTP/1.1 408 ")


def test_an_idle_connection_ends(behind: Scripted) -> None:
    with proxied(behind, Limits(idle_s=0.1)) as proxy, connect(proxy, GET) as one:
        assert read(one) == OK
        assert read(one) == b""
    assert not proxy.statistics.refused


@pytest.mark.parametrize(
    "sent", [put(10, b"part"), b"PUT /b/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbo"]
)
def test_a_body_has_its_time(behind: Scripted, sent: bytes) -> None:
    with proxied(behind, Limits(body_s=0.1)) as proxy, connect(proxy, sent) as one:
        assert read(one).startswith(b"HTTP/1.1 408 ")
    assert behind.seen == []


def test_a_body_that_is_too_long_is_refused_before_it_is_sent(behind: Scripted) -> None:
    wanted = put(MIB).replace(b"Host", b"Expect: 100-continue\r\nHost")
    with proxied(behind, Limits(linger_s=0.1), body_bytes_max=1000) as proxy:
        assert send_raw(proxy.url, wanted).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("trickle", [False, True])
def test_a_client_that_does_not_read_is_reset(behind: Scripted, trickle: bool) -> None:
    behind.reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (30 * MIB) + bytes(30 * MIB)
    limits = Limits(write_s=0.2, read_bytes_s=60 * MIB) if trickle else Limits(write_s=0.2)
    with proxied(behind, limits) as proxy:
        port = int(proxy.url.rpartition(":")[2])
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect(("127.0.0.1", port))
            one.sendall(GET)
            deadline = time.monotonic() + 10
            while proxy.statistics.refused["unread"] == 0 and time.monotonic() < deadline:
                if trickle:
                    one.settimeout(10)
                    with contextlib.suppress(ConnectionError):
                        one.recv(16 * KIB)
                time.sleep(0.01)
            until(lambda: not proxy._clients)
    assert proxy.statistics.refused == {"unread": 1}


# Memory.


def test_bodies_beyond_the_memory_wait_in_their_clients(behind: Scripted) -> None:
    behind.gate = threading.Semaphore(0)
    size = 300 * KIB
    with proxied(behind, Limits(memory_bytes=MIB), cap=1) as proxy, contextlib.ExitStack() as held:
        hosts = ("127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3", "127.0.0.4")
        all_of_it = put(size, bytes(size))

        def send(host: str) -> None:
            one = held.enter_context(connect(proxy, host=host))
            one.sendall(all_of_it)
            answers.append(read(one))

        answers: list[bytes] = []
        threads = [threading.Thread(target=send, args=(host,)) for host in hosts]
        for thread in threads:
            thread.start()
        until(lambda: behind.inside == 1)
        until(lambda: len(proxy._requests._waiting) >= 1)
        most = 0
        for _ in threads:
            most = max(most, proxy._requests.held)
            assert send_raw(proxy.url, b"GET / HTTP/1.0\r\n\r\n", reads=0) == b""
            behind.gate.release(2)
            time.sleep(0.02)
        behind.gate.release(20)
        for thread in threads:
            thread.join(20)
        assert answers == [OK] * len(hosts)
        assert 0 < most <= MIB


def test_the_time_of_a_body_does_not_pass_while_it_waits_for_room(behind: Scripted) -> None:
    size = 300 * KIB
    behind.gate = threading.Semaphore(0)
    limits = Limits(memory_bytes=512 * KIB, body_s=0.3)
    with proxied(behind, limits, cap=1) as proxy, contextlib.ExitStack() as held:
        first = held.enter_context(connect(proxy, GET))
        until(lambda: behind.inside == 1)  # it has the only place
        second = held.enter_context(connect(proxy, put(size, bytes(size))))
        until(lambda: proxy.statistics.waiting == 1)
        third = held.enter_context(connect(proxy, put(size)))
        until(lambda: proxy._requests._waiting)
        time.sleep(0.5)
        assert is_open(third)
        behind.gate.release(3)
        assert read(first) == read(second) == OK
        third.sendall(bytes(size))
        assert read(third) == OK


def test_replies_beyond_the_memory_wait_in_the_upstream(behind: Scripted) -> None:
    body = bytes(300 * KIB)
    behind.reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    most = 0
    with proxied(behind, Limits(memory_bytes=MIB), reply_latency={"": Delay(0.05, 0.05)}, cap=8) as proxy:
        answers: list[bytes] = []
        threads = [
            threading.Thread(target=lambda: answers.append(send_raw(proxy.url, LAST))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            most = max(most, proxy._replies.held)
            time.sleep(0.002)
        assert answers == [behind.reply] * 8
    assert 0 < most <= MIB


def test_room_is_given_back_once_it_is_known_how_much_is_needed(behind: Scripted) -> None:
    chunk = bytes(100 * KIB)
    behind.reply = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(chunk) + chunk + b"\r\n0\r\n\r\n"
    )
    behind.gate = threading.Semaphore(0)
    with (
        proxied(behind, Limits(), reply_latency={"": Delay(0.2, 0.2)}) as proxy,
        connect(proxy, put(len(chunk), chunk)) as one,
    ):
        until(lambda: behind.inside == 1)
        until(lambda: not proxy._requests.held)
        behind.gate.release()
        until(lambda: len(chunk) <= proxy._replies.held < len(chunk) + KIB)
        assert read(one)


def test_requests_and_replies_do_not_wait_for_each_other(behind: Scripted) -> None:
    """If they shared their room, bodies that wait for a place in flight would keep all replies waiting."""
    body = bytes(200 * KIB)
    behind.reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with proxied(behind, Limits(memory_bytes=256 * KIB), cap=2) as proxy:
        answers: list[bytes] = []
        threads = [
            threading.Thread(target=lambda: answers.append(send_raw(proxy.url, put(len(body), body))))
            for _ in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert answers == [behind.reply] * 12


@pytest.mark.parametrize("chunked", [False, True])
def test_many_small_replies_are_under_way_at_once(behind: Scripted, chunked: bool) -> None:
    """A chunked reply may become as long as any: it must not take that much room from the start."""
    if chunked:
        behind.reply = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
    with proxied(behind, Limits(), reply_latency={"": Delay(0.1, 0.1)}) as proxy:
        begun = time.monotonic()
        threads = [threading.Thread(target=send_raw, args=(proxy.url, LAST)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert time.monotonic() - begun < 1.5, "one after the other they take 2 s"
        assert proxy.statistics.in_flight_max >= 10


def test_late_requests_are_bounded_by_memory(behind: Scripted) -> None:
    late = {"late": {"": 1.0}, "late_after": Delay(0.2, 0.2)}
    limits = Limits(memory_bytes=8 * LATE_BYTES)
    with proxied(behind, limits, **late) as proxy, contextlib.ExitStack() as held:
        for _ in range(12):
            held.enter_context(connect(proxy, GET))
        until(lambda: proxy._requests._waiting)
        assert len(proxy._late) <= 4, "half of the memory is for one address"
        until(lambda: proxy.statistics.landed_late["get 200"] == 12)


def test_a_client_that_leaves_while_it_waits_for_room_leaves_nothing(behind: Scripted) -> None:
    size = 300 * KIB
    with proxied(behind, Limits(memory_bytes=512 * KIB, body_s=0.3)) as proxy:
        with connect(proxy, put(size)), connect(proxy, put(size)):
            until(lambda: proxy._requests._waiting)
        assert send_raw(proxy.url, put(size, bytes(size))) == OK
