"""Half-sent heads and idle connections leave their places to new connections."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from fencepost.impl.http.limits import Limits
from fencepost.impl.http.places import Places, address_of
from fencepost.impl.http.server import protocol

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nhost:"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Setting:
    """A server with these limits, and its clients; `hold` keeps requests unanswered."""

    def __init__(self, limits: Limits, port: int) -> None:
        self.limits = limits
        self.port = port
        self.hold = asyncio.Event()
        self.hold.set()
        self.refused: list[str] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.state = ServerState()

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        await self.hold.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def connect(self, sent: bytes = b"", host: str = "127.0.0.1") -> Streams:
        streams = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(host, 0))
        self.writers.append(streams[1])
        streams[1].write(sent)
        await asyncio.sleep(0.005)
        return streams

    async def answer(self, streams: Streams, sent: bytes = b"") -> bytes:
        streams[1].write(sent)
        return await asyncio.wait_for(streams[0].read(4096), 5)


def play(act: Callable[[Setting], Awaitable[None]], limits: Limits) -> Setting:
    async def run() -> Setting:
        setting = Setting(limits, 0)
        made = protocol(limits, setting.refused.append)
        config = uvicorn.Config(
            setting.app,
            interface="asgi3",
            http=made,
            ws="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
        )
        config.load()
        server = await asyncio.get_running_loop().create_server(
            lambda: made(config, setting.state, {}), "127.0.0.1", 0
        )
        setting.port = server.sockets[0].getsockname()[1]
        try:
            await act(setting)
            places: Places = next(iter(setting.state.connections)).places
        finally:
            setting.hold.set()
            for writer in setting.writers:
                writer.close()
            server.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    while setting.state.connections:
                        await asyncio.sleep(0.005)
        for known in (places._open, places._heads, places._by_address, places._idle, places._ending):
            assert not known, "a connection that is gone is remembered"
        return setting

    return asyncio.run(run())


LIMITS = Limits(connections=4, linger_s=0.1)


def test_a_half_sent_head_leaves_its_place_to_the_next_connection() -> None:
    """2,005 half-sent heads kept everybody out until the limit of 10 seconds for a head."""

    async def act(setting: Setting) -> None:
        halves = [await setting.connect(HALF) for _ in range(9)]
        assert await setting.answer(await setting.connect(), GET) == OK
        for half in halves[:6]:
            answer = await setting.answer(half)
            assert answer.startswith(b"HTTP/1.1 503 "), "the client learns why"
            assert b"retry-after: 1" in answer
        assert await setting.answer(halves[8], b" x\r\n\r\n") == OK, "the newest ones still have theirs"

    assert play(act, LIMITS).refused == ["busy"] * 6


def test_connections_that_send_nothing_leave_their_places_too() -> None:
    async def act(setting: Setting) -> None:
        for _ in range(30):
            await setting.connect()
        assert await setting.answer(await setting.connect(), GET) == OK

    play(act, LIMITS)


def test_an_idle_connection_leaves_its_place_after_the_half_sent_ones() -> None:
    async def act(setting: Setting) -> None:
        idle = [await setting.connect() for _ in range(3)]
        for streams in idle:
            assert await setting.answer(streams, GET) == OK
        half = await setting.connect(HALF)
        assert await setting.answer(await setting.connect(), GET) == OK
        assert (await setting.answer(half)).startswith(b"HTTP/1.1 503 ")
        assert await setting.answer(idle[0], GET) == OK
        assert await setting.answer(await setting.connect(), GET) == OK
        assert await setting.answer(idle[1]) == b"", "the one that was idle for longest is closed"
        assert await setting.answer(idle[0], GET) == OK

    play(act, LIMITS)


def test_a_connection_with_a_request_keeps_its_place() -> None:
    async def act(setting: Setting) -> None:
        setting.hold.clear()
        busy = [await setting.connect(GET) for _ in range(4)]
        refused = await setting.answer(await setting.connect())
        assert refused.startswith(b"HTTP/1.1 503 ")
        setting.hold.set()
        for streams in busy:
            assert await setting.answer(streams) == OK

    play(act, LIMITS)


def test_a_head_that_is_begun_behind_a_request_is_half_sent_once_that_is_answered() -> None:
    async def act(setting: Setting) -> None:
        setting.hold.clear()
        busy = [await setting.connect(GET + HALF) for _ in range(4)]
        setting.hold.set()
        for streams in busy:
            assert await setting.answer(streams) == OK
        assert await setting.answer(await setting.connect(), GET) == OK
        assert (await setting.answer(busy[0])).startswith(b"HTTP/1.1 503 ")

    play(act, LIMITS)


def test_one_address_has_a_share_of_the_unfinished_heads() -> None:
    async def act(setting: Setting) -> None:
        other = await setting.connect(HALF, host="127.0.0.2")
        halves = [await setting.connect(HALF) for _ in range(5)]
        for half in halves[:3]:
            assert (await setting.answer(half)).startswith(b"HTTP/1.1 503 ")
        assert await setting.answer(other, b" x\r\n\r\n") == OK, "another address is not concerned"
        for half in halves[3:]:
            assert await setting.answer(half, b" x\r\n\r\n") == OK

    play(act, Limits(connections=100, client_heads=2, linger_s=0.1))


def test_refused_connections_linger_in_a_bounded_number() -> None:
    """Each has an open file."""

    async def act(setting: Setting) -> None:
        setting.hold.clear()
        for _ in range(4):
            await setting.connect(GET)
        for _ in range(60):
            await setting.connect()
        await asyncio.sleep(0.05)
        assert len(setting.state.connections) <= 4 + limits.lingering

    limits = Limits(connections=4, linger_s=30)
    play(act, limits)


def test_of_connections_that_are_refused_at_once_each_is_aborted_in_its_turn() -> None:
    """The event loop accepts many before it tells one that it was aborted."""
    aborted = []

    class Refused:
        def evict(self, *, is_idle: bool) -> None:
            raise AssertionError

        def abort(self) -> None:
            aborted.append(self)

    limits = Limits(connections=4)
    places, made = Places(limits), [Refused() for _ in range(40)]
    for one in made:
        places.end(one)
    assert aborted == made[: 40 - limits.lingering]


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8:0:1::7", "20010db800000001"),
        ("2001:db8:0:1:ffff::1", "20010db800000001"),
        ("fe80::1%eth0", "fe80000000000000"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("", ""),
    ],
)
def test_a_client_with_a_network_of_addresses_counts_once(host: str, address: str) -> None:
    assert address_of(host) == address
