"""The HTTP server of streams, as an ASGI callable: what its responses look like on the wire."""

import asyncio
import contextlib
from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Delete, Outcome
from fencepost.impl.streams import Configuration, Node, Reaper, Refused, Settings, app
from fencepost.impl.streams.app import StreamServer

from .counting import Counting
from .requests import ask


@pytest.fixture
def server() -> StreamServer:
    env = SeededEnvironment()
    return StreamServer(Node(MemoryStore(env=env), env), sse_s=0.0)


async def get(server: StreamServer, path: str, query: str) -> list[bytes]:
    """The pieces in which the body of a GET is sent."""
    sent: list[bytes] = []
    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "root_path": "",
        "query_string": query.encode(), "headers": [], "client": ("127.0.0.1", 1), "scheme": "http",
        "server": ("127.0.0.1", 80), "http_version": "1.1",
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError("nothing ends this wait but the end of the response")

    async def send(message: Any) -> None:
        if message.get("body"):
            sent.append(message["body"])

    await server(scope, receive, send)
    return sent


def test_an_event_of_data_and_its_offset_are_sent_in_one_piece(server: StreamServer) -> None:
    """A reader that stops at the first piece, or loses the connection behind it, knows where to resume."""
    server.node.create("/s", Configuration("text/plain"), b"start\revent: control\rend")
    (piece,) = asyncio.run(get(server, "/s", "offset=-1&live=sse"))
    assert piece.startswith(b"event: data\ndata:start\ndata:event: control\n")
    assert b'\n\nevent: control\ndata:{"streamNextOffset":' in piece
    server.close()


def test_a_character_in_two_appends_reaches_a_reader_of_text_whole() -> None:
    """The offset after the first part is before the character: who resumes there gets it whole, too."""
    env = SeededEnvironment()
    node = Node(MemoryStore(env=env), env, Settings(chunk_bytes=1))
    server = StreamServer(node, sse_s=60.0)
    node.create("/s", Configuration("text/plain"), b"ab\xc3")
    node.append("/s", b"\xa9z\xf0", content_type="text/plain", close=True)
    first, second = asyncio.run(get(server, "/s", "offset=-1&live=sse"))
    assert b"event: data\ndata:ab\n" in first
    assert b"_0000000000000002" in first
    assert "event: data\ndata:\u00e9z\ufffd\n".encode() in second, "the last one is never completed"
    assert b"_0000000000000006" in second
    server.close()


def test_a_body_of_another_type_is_refused_whatever_the_name_becomes_meanwhile() -> None:
    """Framed for the stream that was there, it must not be stored in one of its own type."""
    env = SeededEnvironment()
    node = Node(MemoryStore(env=env), env)
    server = StreamServer(node)
    for closed in (False, True):
        node.create("/s", Configuration("text/plain", closed=closed))
        append = node.append

        def recreated(*given: Any, append: Any = append, **how: Any) -> Any:
            node.delete("/s")
            node.create("/s", Configuration("application/json"))
            return append(*given, **how)

        node.append = recreated  # type: ignore[method-assign]  # what happens in between
        with pytest.raises(Refused):
            server._append("/s", b"[1]", "application/json", None, None, False)
        node.append = append  # type: ignore[method-assign]  # as it was
        with contextlib.suppress(Refused):
            assert node.read_from("/s").body == b""
            node.delete("/s")
    server.close()


READERS = 12


def waiting(server: StreamServer, act: Any) -> list[list[bytes]]:
    """What readers get that wait at the end of /s when `act` happens, in a thread."""

    async def run() -> list[list[bytes]]:
        gets = [asyncio.create_task(get(server, "/s", "offset=now&live=long-poll")) for _ in range(READERS)]

        def idle() -> int:
            tail = server._tailing._tails.get("/s")
            return sum(len(one.waiting) for one in tail.groups.values() if not one.reading) if tail else 0

        while idle() < READERS:
            await asyncio.sleep(0.001)
        await asyncio.to_thread(act)
        return await asyncio.gather(*gets)

    return asyncio.run(run())


def test_readers_that_wait_share_what_they_look_at() -> None:
    """A thousand readers of one stream would otherwise be a thousand requests for every append."""
    env = SeededEnvironment()
    store = Counting(MemoryStore(env=env))
    server = StreamServer(Node(store, env), long_poll_s=30.0, poll_s=30.0)
    server.node.create("/s", Configuration("text/plain"))
    store.sent.clear()
    got = waiting(server, lambda: server.node.append("/s", b"x", content_type="text/plain"))
    assert got == [[b"x"]] * READERS
    assert store.sent["get"] <= 4, "one read before the append, and one after it"
    assert not server._tailing._tails
    server.close()


def test_readers_learn_what_another_node_appends(server: StreamServer) -> None:
    server = StreamServer(server.node, long_poll_s=30.0, poll_s=0.01)
    server.node.create("/s", Configuration("text/plain"))
    other = Node(server.node.store, server.node.env)
    got = waiting(server, lambda: other.append("/s", b"x", content_type="text/plain"))
    assert got == [[b"x"]] * READERS
    server.close()


def test_readers_of_a_stream_that_is_deleted_are_answered(server: StreamServer) -> None:
    server = StreamServer(server.node, long_poll_s=30.0, poll_s=30.0)
    server.node.create("/s", Configuration("text/plain"))
    for pieces in waiting(server, lambda: server.node.delete("/s")):
        assert b'"kind": "missing"' in pieces[0]
    server.close()


@pytest.mark.parametrize("query", ["offset=-1", "offset=-1&live=sse", "offset=-1&live=long-poll"])
def test_a_live_stream_whose_data_is_missing_is_damaged(
    server: StreamServer, query: str, caplog: pytest.LogCaptureFixture
) -> None:
    """`try again` would be answered for ever, and nobody would look."""
    server.node.create("/s", Configuration("text/plain"), b"data")
    (key,) = (key for key in server.node.store.contents() if "/segments/" in key)
    server.node.ensure_deleted([key])
    server.node.drop_cached("")
    answer = ask(server, "GET", f"/s?{query}")
    assert answer.status == 500
    assert b'"kind": "damaged"' in answer.body
    assert key in caplog.text


def test_a_stream_that_is_reaped_while_it_is_read_is_missing_and_not_damaged(server: StreamServer) -> None:
    server.node.create("/s", Configuration("text/plain"), b"data")
    other = Node(server.node.store, server.node.env, Settings(landing_bound_s=0.0))
    segment = server.node.segment

    def reaped(*given: Any) -> bytes:
        other.delete("/s")
        assert list(Reaper(other).sweep()) == []
        server.node.drop_cached("")
        return segment(*given)

    server.node.segment = reaped  # type: ignore[method-assign]  # what happens in between
    assert ask(server, "GET", "/s?offset=-1").status == 404


class Undeletable(MemoryStore):
    """A store that refuses deletions for now."""

    is_busy = True

    def send(self, request: Any) -> Any:
        if self.is_busy and isinstance(request, Delete):
            return request.ends(Outcome.THROTTLED, "SlowDown")
        return super().send(request)


def test_a_creation_that_waits_for_retention_may_come_back_a_second_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name is deleted and its data are not gone: the client tries again, and gets the new stream."""
    monkeypatch.setattr(app, "BUSY_S", 0.0)
    env = SeededEnvironment()
    store = Undeletable(env=env)
    server = StreamServer(Node(store, env, Settings(backoff_s=0.0)))
    server.node.create("/s", Configuration("text/plain"), b"old")
    server.node.delete("/s")
    answer = ask(server, "PUT", "/s", content_type="text/plain")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert b"retention_in_progress" in answer.body
    store.is_busy = False
    assert ask(server, "PUT", "/s", content_type="text/plain").status == 201
    assert ask(server, "GET", "/s?offset=-1").body == b""
    server.close()
