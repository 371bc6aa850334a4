"""A server without a socket: bytes go into the class that serves a connection, and bytes come out.

All of our code runs as it does behind a socket, from the parser of heads to the threads of a service, and a
request costs a fraction of a millisecond.
"""

import asyncio
import logging
import re
from dataclasses import dataclass, field
from typing import Any

import httptools
import uvicorn
from uvicorn.server import ServerState

from fencepost.impl.http.server import GuardedConnection, protocol
from fencepost.impl.http.service import Service

ANSWER_S = 60.0


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self, client: tuple[str, int]) -> None:
        super().__init__({"peername": client, "sockname": ("127.0.0.1", 80)})
        self.written = bytearray()
        self.changed = asyncio.Event()
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.written += data
        self.changed.set()

    def close(self) -> None:
        self.is_closed = True
        self.changed.set()

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_protocol(self, _: asyncio.BaseProtocol) -> None: ...

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0


@dataclass
class Answer:
    """A response, as a strict parser reads it."""

    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    is_whole: bool = False

    def header(self, name: str) -> str:
        return next((value.decode("latin-1") for known, value in self.headers if known == name.encode()), "")


class _Reader:
    def __init__(self) -> None:
        self.answer = Answer()
        self.parser = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.answer.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self.answer.body += body

    def on_headers_complete(self) -> None:
        self.answer.status = self.parser.get_status_code()

    def on_message_complete(self) -> None:
        self.answer.is_whole = True


def read(raw: bytes, method: bytes) -> Answer:
    """The response in `raw`; raises `httptools.HttpParserError` if it is none, or more than one.

    Without a `method` the request may have become several: of their responses only the first line is read.
    """
    reader = _Reader()
    while raw.startswith(b"HTTP/1.1 100 "):
        raw = raw.partition(b"\r\n\r\n")[2]
    if not method:
        found = re.match(rb"HTTP/1.1 ([0-9]{3}) ", raw)
        assert found, raw[:200]
        return Answer(int(found[1]), is_whole=True)
    if method == b"HEAD":
        head, _, rest = raw.partition(b"\r\n\r\n")
        assert not rest, "a body behind the response to HEAD"
        framing = (b"content-length", b"transfer-encoding")
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(framing)]
        raw = b"\r\n".join([*lines, b"content-length: 0", b"", b""])
    reader.parser.feed_data(raw)
    assert reader.answer.status, raw[:200]
    return reader.answer


class Wire:
    """Connections to a service, in this event loop."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.state = ServerState()
        self._made = protocol(service.limits, service.count_refused, at_once=service.at_once)
        self._config = uvicorn.Config(
            service, interface="asgi3", http=self._made, ws="none", lifespan="off", log_config=None,
            access_log=False, server_header=False, proxy_headers=False,
        )  # fmt: skip
        self._config.load()

    async def send(self, sent: bytes, method: bytes) -> Answer:
        """The response to the bytes of one request."""
        transport = Transport(("127.0.0.1", 1))
        connection: GuardedConnection = self._made(self._config, self.state, {})
        connection.connection_made(transport)
        try:
            connection.data_received(sent)
            async with asyncio.timeout(ANSWER_S):
                while not transport.is_closed and (connection._is_busy() or not transport.written):
                    transport.changed.clear()
                    await asyncio.sleep(0)
                    if connection._is_busy() or not transport.written:
                        await transport.changed.wait()
        finally:
            transport.close()
            connection.connection_lost(None)
        return read(bytes(transport.written), method)


class Log(logging.Handler):
    """Keeps the records of failures."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.failures: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno >= logging.CRITICAL or "Traceback" in record.getMessage():
            self.failures.append(self.format(record))
