"""Requests that arrive together on one connection, below any service."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from fencepost.impl.http.limits import Limits
from fencepost.impl.http.server import HEADER_BYTES, protocol
from fencepost.impl.http.service import Head
from tests.smuggling import MESSAGES

LIMITS = Limits(linger_s=0.05)


def get(path: str) -> bytes:
    return b"GET %s HTTP/1.1\r\nhost: x\r\n\r\n" % path.encode()


def replies(sent: bytes, at_once: Callable[[Head], bytes | None] = lambda _: None) -> bytes:
    """What a client receives that sends all this and then reads to the end."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message["body"]
            if not message["more_body"]:
                break
        await asyncio.sleep(0)  # others may come in between
        content = scope["raw_path"] + b" " + body
        length = str(len(content)).encode()
        start = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]}
        await send(start)
        await send({"type": "http.response.body", "body": content})

    async def connect() -> bytes:
        made = protocol(LIMITS, lambda _: None, at_once=at_once)
        config = uvicorn.Config(app, http=made, ws="none", lifespan="off", log_config=None)
        config.load()
        state = ServerState()
        server = await asyncio.get_running_loop().create_server(
            lambda: made(config, state, {}), "127.0.0.1", 0
        )
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(sent)
        found = await reader.read()
        writer.close()
        server.close()
        return found

    return asyncio.run(connect())


CLOSE = b"GET /last HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
PUT = b"PUT /put HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nbody"


def quick(head: Head) -> bytes | None:
    if not head.raw_path.startswith(b"/quick"):
        return None
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(head.raw_path), head.raw_path)


def contents(found: bytes) -> list[bytes]:
    return [part for part in found.replace(b"HTTP/1.1", b"\r\n\r\n").split(b"\r\n\r\n") if part[:1] == b"/"]


def test_requests_that_come_together_are_answered_in_order() -> None:
    sent = get("/quick-1") + PUT + get("/quick-2") + get("/slow") + get("/quick-3") + CLOSE
    found = [content.strip() for content in contents(replies(sent, quick))]
    assert found == [b"/quick-1", b"/put body", b"/quick-2", b"/slow", b"/quick-3", b"/last"]


def test_what_is_not_http_behind_a_request_spares_its_response() -> None:
    """The work on the request may be done: a refusal in place of its response would deny it."""
    for garbage in (
        b"\0\0\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"PUT /x HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ):
        found = replies(PUT + garbage, quick)
        assert contents(found) == [b"/put body"]
        assert (found.count(b"HTTP/1.1 2"), found.count(b"HTTP/1.1 4")) == (1, 1)


def test_a_head_is_bounded_however_it_arrives() -> None:
    long = b"x: " + b"y" * HEADER_BYTES + b"\r\n"
    for sent in (
        get("/quick")[:-2] + long,
        get("/quick")[:-2] + long + b"\r\n",
        get("/" + "a" * HEADER_BYTES),
    ):
        found = replies(sent, quick)
        assert found.startswith(b"HTTP/1.1 400 ")
        assert found.count(b"HTTP/1.1 400") == 1


def test_only_a_request_without_a_body_that_keeps_the_connection_is_answered_at_once() -> None:
    seen: list[bytes] = []

    def watched(head: Head) -> bytes | None:
        seen.append(head.raw_path)
        return quick(head)

    heads = [
        b"GET /quick HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n",
        b"GET /quick/body HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nx",
        b"GET /quick/chunks HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /quick/close HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    ]
    assert len(contents(replies(b"".join(heads), watched))) == len(heads)
    assert seen == [b"/quick"]
    replies(b"GET /quick/old HTTP/1.0\r\n\r\n", watched)
    replies(b"GET /quick/other HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n", watched)
    assert seen == [b"/quick"]


@pytest.mark.parametrize("name", MESSAGES)
def test_a_request_with_two_meanings_is_refused(name: str) -> None:
    found = replies(MESSAGES[name] + get("/smuggled"))
    assert found.startswith(b"HTTP/1.1 400 "), name
    assert b"/smuggled" not in found
    assert len(re.findall(rb"HTTP/1.1 \d", found)) == 1
