"""Long answers: no client, and no number of clients, makes a server keep more than its limits."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from fencepost.impl.http.limits import Limits
from fencepost.impl.http.memory import PIECE, SHARED, Memory
from fencepost.impl.http.refusals import Refusal
from fencepost.impl.http.server import protocol
from fencepost.impl.http.service import Service

MIB = 1 << 20


def memory(size: int) -> Memory:
    return Memory(Limits(memory_bytes=size))


def test_memory_is_held_up_to_its_limit_and_given_in_order() -> None:
    async def run() -> None:
        held = memory(100)
        first, second = await held.enter("a", 40), await held.enter("b", 40)
        third = asyncio.create_task(held.enter("c", 30))
        fourth = asyncio.create_task(held.enter("d", 10))
        await asyncio.sleep(0)
        assert not third.done()
        first.release()
        await asyncio.sleep(0)
        assert third.done()
        assert fourth.done(), "in order, and both fit"
        assert held.held == 80
        for room in (second, third.result(), fourth.result()):
            room.release()
        assert held.held == 0

    asyncio.run(run())


def test_one_client_holds_half_and_keeps_no_other_waiting() -> None:
    async def run() -> None:
        held = memory(100)
        await held.enter("greedy", 50)
        waiting = asyncio.create_task(held.enter("greedy", 10))
        await asyncio.sleep(0)
        await asyncio.wait_for(held.enter("other", 50), 1)
        assert not waiting.done()
        with pytest.raises(Refusal, match="limit"):
            await held.enter("third", 1, wait_s=0.01)
        waiting.cancel()
        await asyncio.sleep(0)
        assert held.held == 100, "who gave up holds nothing"

    asyncio.run(run())


def test_what_is_larger_than_everything_is_sent_alone() -> None:
    async def run() -> None:
        held = memory(100)
        room = await held.enter("a", 1000)
        other = asyncio.create_task(held.enter("b", 1))
        shared = asyncio.create_task(held.enter(SHARED, 70))
        await asyncio.sleep(0)
        assert not other.done()
        assert not shared.done()
        room.release()
        await asyncio.wait([other, shared])
        assert held.held == 71

    asyncio.run(run())


def test_what_was_given_to_one_who_is_cancelled_is_given_back() -> None:
    """It had the room and never learnt of it: the room would be lost for ever."""

    async def run() -> None:
        held = memory(100)
        room = await held.enter("a", 100)
        waiting = asyncio.create_task(held.enter("b", 60))
        await asyncio.sleep(0)
        room.release()
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        assert held.held == 0

    asyncio.run(run())


class Answering(Service):
    """A server whose every answer is a long one."""

    def __init__(self, size: int, **limits: Any) -> None:
        super().__init__("test", {}, verify=lambda: None, openapi=dict, limits=Limits(**limits))
        self.body = bytes(size)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.observed(self._send, scope, receive, send)

    async def _send(self, _: Any, __: Any, send: Any) -> None:
        length = str(len(self.body)).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
        await send({"type": "http.response.body", "body": self.body})


@contextlib.asynccontextmanager
async def listening(service: Service) -> AsyncIterator[tuple[str, int]]:
    made = protocol(service.limits, service.count_refused)
    config = uvicorn.Config(service, http=made, ws="none", lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: made(config, state, {}), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()
    finally:
        server.close()
        for one in list(state.connections):
            one.transport.abort()
        await asyncio.sleep(0)
        service.close()


GET = b"GET /x HTTP/1.1\r\nhost: x\r\n\r\n"


async def ask(
    address: tuple[str, int], limit: int = 1024
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """One request, of which nothing is read: the client keeps little by itself."""
    connected = socket.socket()
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connected.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connected, address)
    reader, writer = await asyncio.open_connection(sock=connected, limit=limit)
    writer.write(GET)
    return reader, writer


async def drained(reader: asyncio.StreamReader, pause_s: float) -> None:
    while await reader.read(1 << 14):
        await asyncio.sleep(pause_s)


async def settled(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def test_a_client_that_does_not_read_is_reset_and_gives_everything_back() -> None:
    """It kept the whole answer in memory, and its place, for as long as it liked."""

    async def run() -> None:
        service = Answering(8 * MIB, write_s=0.3)
        async with listening(service) as address:
            reader, writer = await ask(address)
            await settled(lambda: service.answers.memory.held)
            assert service.answers.memory.held == 8 * MIB
            assert service.answers.gate.inside == 1
            await settled(lambda: not service.answers.memory.held)
            assert service.answers.gate.inside == 0
            assert b'kind="unread"} 1.0' in service.metrics.exposition()
            with pytest.raises(ConnectionResetError):
                await drained(reader, 0.0)
            writer.close()

    asyncio.run(run())


def test_a_client_that_reads_a_little_is_cut_off_as_well() -> None:
    """Each byte that it takes puts off the end of its connection: the rate is bounded, too."""

    async def run() -> None:
        service = Answering(8 * MIB, write_s=0.5, read_bytes_s=16 * MIB)
        async with listening(service) as address:
            reader, writer = await ask(address, 1 << 14)
            with pytest.raises(ConnectionResetError):
                await drained(reader, 0.002)
            await settled(lambda: not service.answers.memory.held)
            writer.close()

    asyncio.run(run())


def test_a_client_that_reads_gets_everything() -> None:
    async def run() -> None:
        service = Answering(3 * MIB + 17)
        async with listening(service) as address:
            reader, writer = await ask(address)
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"content-length: %d" % (3 * MIB + 17) in head
            assert len(await reader.readexactly(3 * MIB + 17)) == 3 * MIB + 17
            writer.write(GET)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200"), "and may ask again"
            writer.close()

    asyncio.run(run())


def test_long_answers_are_limited_per_client_and_in_total() -> None:
    async def run(status: bytes, **limits: int) -> None:
        service = Answering(8 * MIB, **limits)
        async with listening(service) as address:
            first = await ask(address)
            await settled(lambda: service.answers.gate.inside == 1)
            reader, writer = await ask(address)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 " + status)
            assert b"retry-after: 1" in head
            writer.close()
            first[1].transport.abort()
            await settled(lambda: not service.answers.gate.inside)
            again = await ask(address)
            assert (await again[0].readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            again[1].transport.abort()

    asyncio.run(run(b"429", client_answers=1))
    asyncio.run(run(b"503", answers=1))


def test_short_answers_are_not_counted() -> None:
    async def run() -> None:
        service = Answering(PIECE, answers=1, client_answers=1)
        async with listening(service) as address:
            clients = [await ask(address) for _ in range(5)]
            for reader, writer in clients:
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
                writer.close()

    asyncio.run(run())
