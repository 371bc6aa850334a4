"""Readers share what they get, and none of them, however slow, costs the others anything."""

import asyncio
import gc
import itertools
import threading
from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.http.limits import Limits
from fencepost.impl.http.memory import PIECE
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.streams import Configuration, Node
from fencepost.impl.streams.app import StreamServer
from fencepost.impl.streams.stream import Stream
from fencepost.impl.streams.tailing import BATCH

from .counting import Counting
from .requests import ask, scope_of

MIB = 1 << 20
READERS = 150


def server_of(content_type: str = "text/plain", body: bytes = b"", **limits: Any) -> StreamServer:
    env = SeededEnvironment()
    node = Node(Counting(MemoryStore(env=env)), env)
    node.create("/s", Configuration(content_type), body)
    bounds = Limits(requests=10_000, client_requests=10_000, **limits)
    return StreamServer(node, poll_s=30.0, limits=bounds)


class Follower:
    """A reader by server-sent events. It takes one message after another, while it `reads`."""

    def __init__(self, server: StreamServer, target: str = "/s?offset=-1&live=sse") -> None:
        self._scope = scope_of("GET", target, {})
        self._server = server
        self.got: list[Any] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.gone = asyncio.Event()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async def receive() -> Any:
            await self.gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            self.got.append(message.get("body", b""))
            await self.reads.wait()

        await self._server(self._scope, receive, send)

    @property
    def text(self) -> bytes:
        return b"".join(bytes(one) for one in self.got)

    async def has(self, count: int, what: bytes = b"streamNextOffset") -> None:
        async with asyncio.timeout(20):
            while self.text.count(what) < count:
                await asyncio.sleep(0.001)


def append(server: StreamServer, body: bytes, kind: str = "text/plain") -> None:
    server.node.append("/s", body, content_type=kind)


def run(act: Any) -> None:
    asyncio.run(asyncio.wait_for(act(), 60))


def test_a_small_event_is_one_object_for_all_readers() -> None:
    """Each of 10,000 readers would otherwise read, encode and join for itself."""

    async def act() -> None:
        server = server_of()
        followers = [Follower(server) for _ in range(READERS)]
        for one in followers:
            await one.has(1)
        before = server.node.store.sent["get"]
        await asyncio.to_thread(append, server, b"hello")
        for one in followers:
            await one.has(2)
        assert server.node.store.sent["get"] - before <= 2
        assert len({id(one.got[-1]) for one in followers}) == 1
        for one in followers:
            one.gone.set()
        await asyncio.gather(*(one.task for one in followers))
        server.close()

    run(act)


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "application/json"])
def test_a_long_event_is_in_memory_once_while_nobody_reads_it(kind: str) -> None:
    """100 silent readers of appends of 4 MB took 1.5 GB."""

    async def act() -> None:
        server = server_of(kind)
        followers = [Follower(server) for _ in range(READERS)]
        for one in followers:
            await one.has(1)
            one.reads.clear()
        body = b'"' + b"x" * 2 * MIB + b'"'
        await asyncio.to_thread(append, server, body + (b"," if kind.endswith("json") else b""), kind)
        async with asyncio.timeout(20):
            while any(len(one.got) < 3 for one in followers):
                await asyncio.sleep(0.01)
        held = server.answers.memory.held
        assert 2 * MIB < held < 4 * MIB, "once, however many send it"
        owners = {id(one.got[-1].obj) for one in followers}
        assert len(owners) == 1, "and each sends a part of the same bytes"
        for one in followers:
            one.reads.set()
            one.gone.set()
        await asyncio.gather(*(one.task for one in followers))
        assert server.answers.memory.held == 0
        assert not server._tailing._long
        gc.collect()
        server.close()

    run(act)


@pytest.mark.parametrize("query", ["?offset=-1&live=sse", "?offset=-1"])
def test_readers_that_come_one_after_another_share_it_as_well(query: str) -> None:
    async def act() -> None:
        server = server_of("application/json", b'"' + b"x" * 2 * MIB + b'",')
        followers = []
        for _ in range(20):
            followers.append(one := Follower(server, f"/s{query}"))
            one.reads.clear()
            while len(one.got) < 1:
                await asyncio.sleep(0.001)
        for one in followers:
            one.reads.set()
        while any(len(one.got) < 2 for one in followers):
            await asyncio.sleep(0)
        assert len({id(one.got[1].obj) for one in followers}) == 1
        for one in followers:
            one.gone.set()
        await asyncio.gather(*(one.task for one in followers))
        assert server.answers.memory.held == 0
        server.close()

    run(act)


def test_readers_that_come_at_once_share_it_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each finds nothing that it could share before it reads."""

    async def act() -> None:
        server = server_of("text/plain", b"x" * 2 * MIB)
        show, all_have_read = server._tailing._show, threading.Barrier(4)

        def slowly(*args: Any) -> Any:
            found = show(*args)
            all_have_read.wait(20)
            return found

        monkeypatch.setattr(server._tailing, "_show", slowly)
        followers = [Follower(server) for _ in range(4)]
        for one in followers:
            one.reads.clear()
        async with asyncio.timeout(20):
            while not all(one.got for one in followers):
                await asyncio.sleep(0.001)
        assert server.answers.memory.held < 3 * MIB
        monkeypatch.setattr(server._tailing, "_show", show)
        for one in followers:
            one.reads.set()
            one.gone.set()
        await asyncio.gather(*(one.task for one in followers))
        assert server.answers.memory.held == 0
        server.close()

    run(act)


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "application/json"])
def test_a_long_event_arrives_whole_and_its_control_event_with_its_end(kind: str) -> None:
    async def act() -> None:
        body = b'"' + b"line\\n" * (PIECE // 2) + b'"'
        server = server_of(kind, body + (b"," if kind.endswith("json") else b""))
        one = Follower(server)
        await one.has(1)
        pieces = [bytes(piece) for piece in one.got if piece]
        assert len(pieces) > 2
        assert max(map(len, pieces)) <= PIECE + 200
        assert pieces[-1].count(b"\n\nevent: control\ndata:{") == 1
        assert not any(b"event: control" in piece for piece in pieces[:-1])
        short = Follower(server_of(kind, body[:99] + (b'",' if kind.endswith("json") else b"")))
        await short.has(1)
        assert one.text.split(b"data:")[0] == short.text.split(b"data:")[0] == b"event: data\n"
        for follower in (one, short):
            follower.gone.set()
            await follower.task
        server.close()

    run(act)


def test_readers_are_served_in_batches_between_which_others_have_their_turn() -> None:
    """With all of them at once, /healthz waits for the last of 10,000."""

    async def act() -> None:
        server = server_of()
        followers = [Follower(server) for _ in range(4 * BATCH)]
        for one in followers:
            await one.has(1)
        behind: list[int] = []

        async def watch() -> None:
            while True:
                behind.append(sum(len(one.got) > 2 for one in followers))
                await asyncio.sleep(0)

        watching = asyncio.create_task(watch())
        await asyncio.to_thread(append, server, b"x")
        for one in followers:
            await one.has(2)
            one.gone.set()
        watching.cancel()
        steps = {after - before for before, after in itertools.pairwise(behind)}
        assert max(steps) <= BATCH
        await asyncio.gather(*(one.task for one in followers))
        server.close()

    run(act)


def test_a_reader_behind_the_others_gets_every_byte_once_and_in_order() -> None:
    async def act() -> None:
        server = server_of()
        slow, quick = Follower(server), Follower(server)
        await slow.has(1)
        slow.reads.clear()
        words = [b"%05d" % number for number in range(60)]
        for word in words:
            await asyncio.to_thread(append, server, word)
        slow.reads.set()
        for one in (slow, quick):
            async with asyncio.timeout(20):
                while not one.text.endswith(b"\n\n") or b"00059" not in one.text:
                    await asyncio.sleep(0.001)
            data = [
                line[5:] for line in one.text.split(b"\n") if line.startswith(b"data:") and b"{" not in line
            ]
            assert b"".join(data) == b"".join(words)
            one.gone.set()
            await one.task
        server.close()

    run(act)


def test_reads_wait_for_memory_and_no_other_client_waits_with_them() -> None:
    """Readers at different places share nothing: without a limit each would have its megabytes."""

    async def act() -> None:
        server = server_of("text/plain", b"", memory_bytes=6 * MIB)
        for _ in range(8):
            await asyncio.to_thread(append, server, b"x" * MIB)
        followers = [Follower(server, f"/s?offset={offset}&live=sse") for offset in offsets(server, 8)]
        for one in followers:
            one.reads.clear()
        await asyncio.sleep(0.3)
        assert server.answers.memory.held <= 4 * MIB
        other = scope_of("GET", "/s?offset=-1", {}) | {"client": ("127.0.0.9", 1)}
        sizes: list[int] = []

        async def send(message: Any) -> None:
            sizes.append(len(message.get("body", b"")))

        async with asyncio.timeout(10):
            await server(other, asyncio.get_running_loop().create_future, send)
        assert sum(sizes) == MIB
        for one in followers:
            one.reads.set()
            one.gone.set()
        await asyncio.gather(*(one.task for one in followers))
        assert server.answers.memory.held == 0
        server.close()

    run(act)


def offsets(server: StreamServer, count: int) -> list[str]:
    manifest = server.node.load(Stream("/s"))
    assert manifest is not None
    return [manifest.offset(number * MIB) for number in range(count)]


def test_nothing_is_kept_of_readers_that_went() -> None:
    async def act() -> None:
        server = server_of()
        for _ in range(3):
            followers = [Follower(server) for _ in range(20)]
            for one in followers:
                await one.has(1)
                one.gone.set()
            await asyncio.gather(*(one.task for one in followers))
        assert not server._tailing._tails
        async with asyncio.timeout(20):
            while server.answers.memory.held:  # of a read that began before the last reader went
                await asyncio.sleep(0.001)
        assert server.answers.gate.inside == server.gate.inside == server.answers.memory.held == 0
        server.close()

    run(act)


def test_a_session_ends_and_is_complete() -> None:
    async def act() -> None:
        server = server_of("text/plain", b"x")
        server._sse_s = 0.05
        one = Follower(server)
        await one.task
        assert one.got[-1] == b"", "the end of the response, which a reset is not"
        assert one.text.count(b"event: control") == 1
        server.close()

    run(act)


def test_a_cursor_of_any_form_is_answered() -> None:
    """5,000 digits, or digits of other scripts, were an error of the server."""
    server = server_of("text/plain", b"x")
    for cursor in ("9" * 5000, "%EF%BC%91", "-1", "1e3", "x", "0"):
        answer = ask(server, "GET", f"/s?offset=-1&live=long-poll&cursor={cursor}")
        assert answer.status == 200
        assert int(answer.headers["stream-cursor"])
    for offset in ("9" * 5000, "%EF%BC%91" * 16 + "_" + "%EF%BC%91" * 16, "a,b"):
        assert ask(server, "GET", f"/s?offset={offset}").status == 400
    for name in ("stream_ttl", "stream_fork_sub_offset"):
        headers = {name: "9" * 5000, "stream_forked_from": "/s"}
        assert ask(server, "PUT", "/t", **headers).status == 400
    server.close()
