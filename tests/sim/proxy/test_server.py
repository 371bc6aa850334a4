"""The proxy passes requests on as they are, and does to them what the plan says and nothing else."""

import asyncio
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.sim.proxy import Delay, Plan, Upstream, running
from tests.sim.proxy.upstream import OK, send_raw, upstream
from tests.sim.proxy.upstream import Upstream as Scripted
from tests.smuggling import CHUNKED, MESSAGES

CLOSE = b"Connection: close\r\n"
GET = b"GET /b/k HTTP/1.1\r\nHost: 127.0.0.1:9\r\n" + CLOSE + b"\r\n"
PUT = b"PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n" + CLOSE + b"\r\nbody"


@pytest.fixture
def behind() -> Iterator[Scripted]:
    with upstream() as one:
        yield one


class Sleeps:
    """Remembers for how long, and sleeps until let go on."""

    def __init__(self, *, held: bool = False) -> None:
        self.seconds: list[float] = []
        self.asleep = threading.Semaphore(0)
        self._held = held

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.asleep.release()
        while self._held:
            await asyncio.sleep(0.001)

    def wake(self) -> None:
        self._held = False


def plan(behind: Scripted, **more: Any) -> Plan:
    return Plan(Upstream.of(behind.url), **more)


@pytest.mark.parametrize(
    "message",
    [
        GET,
        PUT,
        b"GET /b/k?versionId=1&x=%2F HTTP/1.1\r\nhOST:  spaced \r\nX-Amz-Date: 1\r\nx-amz-meta-e: \xfc\r\n"
        + CLOSE + b"\r\n",
        b"PUT /b/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n" + CLOSE
        + b"\r\n4;chunk-signature=ab\r\nbody\r\n0\r\n\r\n",
        b"DELETE /b/k HTTP/1.1\r\nHost: h\r\nIf-Match: \"e\"\r\n" + CLOSE + b"\r\n",
    ],
)  # fmt: skip
def test_requests_and_replies_pass_byte_for_byte(behind: Scripted, message: bytes) -> None:
    """If this fails, signatures break: they cover the head, the Host field among others."""
    with running(plan(behind)) as proxy:
        assert send_raw(proxy.url, message) == OK
    assert behind.seen == [message]


@pytest.mark.parametrize(
    ("method", "reply"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n"),
        ("DELETE", b"HTTP/1.1 204 No Content\r\n\r\n"),
        (
            "GET",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Trailer: t\r\n\r\n",
        ),
        ("GET", b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
    ],
)
def test_every_kind_of_reply_ends_where_it_ends(behind: Scripted, method: str, reply: bytes) -> None:
    """If this fails, the next reply on the connection is taken for a part of this one."""
    behind.reply = reply
    message = f"{method} /b/k HTTP/1.1\r\nHost: h\r\n\r\n".encode()
    with running(plan(behind)) as proxy:
        assert send_raw(proxy.url, message * 3, reads=3 * len(reply)) == reply * 3
    assert behind.connections == 1, "the connection is used again"


def test_a_reply_that_ends_with_its_connection_passes(behind: Scripted) -> None:
    behind.reply, behind.closes = b"HTTP/1.1 200 OK\r\n\r\nall of it", True
    with running(plan(behind)) as proxy:
        assert send_raw(proxy.url, GET) == behind.reply


def test_an_expect_header_is_answered_by_the_proxy(behind: Scripted) -> None:
    requesting = PUT.replace(b"Host: h\r\n", b"Expect: 100-continue\r\nHost: h\r\n")
    with running(plan(behind)) as proxy:
        assert send_raw(proxy.url, requesting) == b"HTTP/1.1 100 Continue\r\n\r\n" + OK
    assert behind.seen == [PUT], "the upstream gets it whole and is asked nothing"


def test_a_connection_the_upstream_closed_is_replaced(behind: Scripted) -> None:
    with running(plan(behind)) as proxy:
        assert send_raw(proxy.url, GET) == OK
        behind.hang_up()
        send_raw(
            proxy.url, GET
        )  # perhaps lost: nobody can know that the connection is closed before a reply says so
        assert send_raw(proxy.url, GET) == OK
    assert behind.connections >= 2


def test_without_a_reply_the_client_gets_none_and_nothing_is_sent_twice(behind: Scripted) -> None:
    """If this fails, a write whose reply was lost is made twice."""
    behind.reply, behind.closes = b"", True
    with running(plan(behind)) as proxy:
        assert send_raw(proxy.url, PUT) == b""
    assert behind.seen == [PUT]
    assert proxy.statistics.fates["put"] == {"upstream gave no reply": 1}


# What it does to requests.


def test_latency_is_by_kind_and_direction(behind: Scripted) -> None:
    sleeps = Sleeps()
    wanted = plan(
        behind,
        latency={"": Delay(0.02), "put": Delay(0.08)},
        reply_latency={"get": Delay(0.005)},
    )
    with running(wanted, sleeps) as proxy:
        for message in (GET, PUT, GET.replace(b"/b/k", b"/b/"), GET.replace(b"/b/k", b"/b/k?uploadId=u")):
            assert send_raw(proxy.url, message) == OK
    assert sleeps.seconds == [0.02, 0.005, 0.08, 0.02, 0.02]


def test_the_cap_holds_with_latency_and_upstream(behind: Scripted) -> None:
    behind.gate = threading.Semaphore(0)
    with running(plan(behind, cap=2)) as proxy:
        threads = [threading.Thread(target=send_raw, args=(proxy.url, GET)) for _ in range(5)]
        for thread in threads:
            thread.start()
        assert all(behind.arrived.acquire(timeout=20) for _ in range(2))
        while proxy.statistics.waiting < 3:  # the others have come, and wait
            threading.Event().wait(0.001)
        assert behind.inside == 2
        behind.gate.release(5)
        for thread in threads:
            thread.join(20)
    assert (behind.inside_max, len(behind.seen)) == (2, 5)
    assert (proxy.statistics.in_flight_max, proxy.statistics.waiting_max) == (2, 3)
    assert proxy.statistics.in_flight == proxy.statistics.waiting == 0


def test_slow_down_is_s3_s_and_reaches_nobody(behind: Scripted) -> None:
    with running(plan(behind, throttled={"put": 1.0})) as proxy:
        answer = send_raw(proxy.url, PUT)
        assert send_raw(proxy.url, GET) == OK
        assert b"503 Slow Down" in send_raw(proxy.url, PUT)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"<Code>SlowDown</Code>" in body
    assert f"Content-Length: {len(body)}".encode() in head
    assert behind.seen == [GET]


def test_a_dropped_reply_is_of_a_request_that_landed(behind: Scripted) -> None:
    with running(plan(behind, reply_lost={"": 1.0})) as proxy:
        assert send_raw(proxy.url, PUT) == b""
    assert behind.seen == [PUT]
    assert proxy.statistics.fates["put"] == {"landed, reply lost": 1}


def test_what_is_late_lands_after_its_sender_was_hung_up_on(behind: Scripted) -> None:
    sleeps = Sleeps(held=True)
    with running(plan(behind, late={"put": 1.0}, late_after=Delay(5.0)), sleeps) as proxy:
        assert send_raw(proxy.url, PUT) == b""
        assert sleeps.asleep.acquire(timeout=20)
        assert send_raw(proxy.url, GET) == OK
        assert behind.seen == [GET], "it is not there yet"
        sleeps.wake()
        assert all(behind.arrived.acquire(timeout=20) for _ in range(2))
    assert behind.seen == [GET, PUT]
    assert sleeps.seconds == [5.0]


def test_what_is_late_when_the_proxy_stops_never_lands(behind: Scripted) -> None:
    with running(plan(behind, late={"": 1.0}, late_after=Delay(5.0)), Sleeps(held=True)) as proxy:
        assert send_raw(proxy.url, PUT) == b""
    assert behind.seen == []
    assert proxy.statistics.fates["put"] == {"closed, to land late": 1, "late, never landed": 1}


def fates(behind: Scripted, *messages: bytes, **more: Any) -> list[bool]:
    """Which of the requests were answered 503."""
    with running(plan(behind, **more)) as proxy:
        return [send_raw(proxy.url, message).startswith(b"HTTP/1.1 503") for message in messages]


def test_the_seed_decides(behind: Scripted) -> None:
    half = {"throttled": {"": 0.5}}
    both = (GET, PUT) * 20
    first = fates(behind, *both, seed=1, **half)
    assert first == fates(behind, *both, seed=1, **half)
    assert first != fates(behind, *both, seed=2, **half)
    assert 5 < sum(first) < 35
    alone = fates(behind, *both[::2], seed=1, throttled={"get": 0.5})
    assert alone == first[::2], "what befalls one kind does not depend on the others"


# What it refuses.


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (b"PUT /b/k HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"PUT /b/k HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nbody", 400),
        (b"PUT /b/k HTTP/1.1\r\nContent-Length: -4\r\n\r\n", 400),
        (b"PUT /b/k HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
        (b"GET /b/k HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", 501),
        (b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", 501),
        (b"HTTP/1.1 200 OK\r\n\r\n", 400),
        (CHUNKED + b"1;" + b"x" * 2000 + b"\r\n", 400),
        (CHUNKED + b"0\r\n" + b"X: y\r\n" * 200, 413),
        (b"PUT /b/k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"PUT /b/k HTTP/1.1\r\nHost : h\r\n\r\n", 400),
        (b"PUT /b/k HTTP/1.1\r\n folded\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /b/k HTTP/2.0\r\n\r\n", 400),
        (b"PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n", 413),
        (CHUNKED + b"3e9\r\n", 413),
        (b"GET /b/k HTTP/1.1\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", 431),
    ],
)
def test_what_has_no_clear_end_is_refused(behind: Scripted, message: bytes, status: int) -> None:
    with running(plan(behind, body_bytes_max=1000)) as proxy:
        assert send_raw(proxy.url, message).startswith(f"HTTP/1.1 {status} ".encode())
        assert send_raw(proxy.url, GET) == OK, "the next one is served"
    assert behind.seen == [GET]


@pytest.mark.parametrize("name", MESSAGES)
def test_a_request_with_two_meanings_is_refused_as_by_the_servers(behind: Scripted, name: str) -> None:
    """Bare LF and CR, two hosts, and chunks of `0x1` and `1_0` reached the store."""
    with running(plan(behind)) as proxy:
        found = send_raw(proxy.url, MESSAGES[name] + GET)
    assert re.match(rb"HTTP/1.1 (400|413|501) ", found), name
    assert len(re.findall(rb"HTTP/1.1 \d", found)) == 1
    assert behind.seen == []


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"1" * 5000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n0123456789",
        b"HTTP/1.1 200 OK\r\nX: a\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
        b"HTTP/1.1 \xd9\xa2\xd9\xa0\xd9\xa0 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"nonsense\r\n\r\n",
    ],
)
def test_a_reply_with_two_meanings_is_no_reply(behind: Scripted, reply: bytes) -> None:
    """A client that reuses the connection would take the rest for its next reply."""
    behind.reply = reply
    with running(plan(behind)) as proxy:
        assert send_raw(proxy.url, GET) == b""
        behind.reply = OK
        assert send_raw(proxy.url, GET) == OK


def test_a_client_that_goes_in_the_middle_is_nobody_s_harm(behind: Scripted) -> None:
    with running(plan(behind)) as proxy:
        send_raw(proxy.url, PUT[:-2], reads=0)
        assert send_raw(proxy.url, GET) == OK
    assert behind.seen == [GET]
