"""The HTTP server of streams, as an ASGI callable: what its responses look like on the wire."""

import asyncio
from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.streams import Configuration, Node
from fencepost.impl.streams.app import StreamServer


@pytest.fixture
def server() -> StreamServer:
    env = SeededEnvironment()
    return StreamServer(Node(MemoryStore(env=env), env), sse_s=0.0)


def pieces(server: StreamServer, path: str, query: str) -> list[bytes]:
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

    asyncio.run(server(scope, receive, send))
    return sent


def test_an_event_of_data_and_its_offset_are_sent_in_one_piece(server: StreamServer) -> None:
    """A reader that stops at the first piece, or loses the connection behind it, knows where to resume."""
    server.node.create("/s", Configuration("text/plain"), b"start\revent: control\rend")
    (piece,) = pieces(server, "/s", "offset=-1&live=sse")
    assert piece.startswith(b"event: data\ndata:start\ndata:event: control\n")
    assert b'\n\nevent: control\ndata:{"streamNextOffset":' in piece
    server.close()
