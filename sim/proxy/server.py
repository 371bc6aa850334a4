"""The proxy: a server that passes requests on, with the faults of its plan.

A request is read whole, by the rules of our servers. Then its fate is drawn, from a stream of its own for
each kind of request and each fault, so that another rate of one fault does not change which requests meet
another:


    slow down     waits its latency, is answered 503; never forwarded
    late          the connection is closed; after a time it is forwarded, and the reply thrown away
    otherwise     waits for a place in flight; waits its latency; is forwarded; waits the latency of the
                  reply; is answered - or, dropped, the connection is closed instead

A request holds its place in flight from before its latency until its reply has been handed on, as it would
at a store that far away. A late request holds one only while it is forwarded: its client has gone.

The memory for clients is bounded: that of the bodies of requests by `memory_bytes`, that of replies by as
much again. The next one waits, and is not read meanwhile. If both shared their room, bodies that wait for a
place in flight could keep all replies waiting, and with them those places.

A connection to the upstream that was closed while it was idle is replaced. One that breaks after a request
was written to it is not retried: the effect of the request is unknown, and the closed connection tells the
client so, as it would without the proxy.
"""

import asyncio
import contextlib
import os
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.http.limits import Limits
from fencepost.impl.http.memory import Memory
from fencepost.impl.http.places import Places
from fencepost.impl.objects.wire import codec
from fencepost.impl.objects.wire.errors import S3Error
from fencepost.impl.objects.wire.requests import parse_query, place
from fencepost.impl.recording.http import Exchange, HttpRecording, dechunked
from fencepost.impl.store.errors import Unusable
from fencepost.impl.store.faults import Effect, Fault, Injector, Phase, kind_of
from fencepost.sim.proxy.clients import BodyRoom, Client, Refused, Unread
from fencepost.sim.proxy.clock import precise_loop
from fencepost.sim.proxy.http import HEAD_BYTES_MAX, BadMessage, Gone, Head, read_reply
from fencepost.sim.proxy.plan import NONE, Delay, Plan
from fencepost.sim.proxy.statistics import Statistics

IDLE_MAX = 256
"""Connections to the upstream kept for the next requests."""

LATE_BYTES = 8 * 1024
"""The memory that a late request takes beside its body: with it the number of them is bounded."""

NOT_DELIVERED = "not delivered"
"""The note of an answer that the proxy kept from its client."""
_BY_PROXY = "by the proxy"

_LOST = (Gone, OSError, asyncio.IncompleteReadError)
"""The ways in which a connection is cut."""

_XML = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    "<Error><Code>{code}</Code><Message>{message}</Message><RequestId>fencepost-proxy</RequestId></Error>"
)
_ANSWERS = {
    400: ("Bad Request", "InvalidRequest"),
    408: ("Request Timeout", "RequestTimeout"),
    409: ("Conflict", "ConditionalRequestConflict"),
    413: ("Content Too Large", "EntityTooLarge"),
    431: ("Request Header Fields Too Large", "RequestHeaderSectionTooLarge"),
    500: ("Internal Server Error", "InternalError"),
    501: ("Not Implemented", "NotImplemented"),
    502: ("Bad Gateway", "BadGateway"),
    503: ("Slow Down", "SlowDown"),
}

_REFUSALS = {Effect.THROTTLED: 503, Effect.CONFLICT: 409, Effect.FAILED: 500}
Sleep = Callable[[float], Awaitable[None]]
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Request:
    """A request, and the room in memory of its body. `address` is that of its client, see `places`."""

    head: Head
    address: str
    room: BodyRoom
    body: bytes = b""

    @property
    def kind(self) -> str:
        return kind_of(self.head.first[0], self.head.first[1])

    def message(self) -> bytes:
        """The bytes that are passed on."""
        return (self.head.without("expect") if "expect" in self.head.fields else self.head.raw) + self.body

    def release(self) -> None:
        """Forget the body, and give its room back."""
        self.body = b""
        self.room.release()


class Proxy:
    """One proxy. `start` and `stop` are called in its event loop, `running` does so in a thread."""

    def __init__(
        self,
        plan: Plan,
        sleep: Sleep = asyncio.sleep,
        *,
        recording: HttpRecording | None = None,
        limits: Limits = Limits(),  # noqa: B008 - it is frozen
    ) -> None:
        self.plan = plan
        self._recording = recording
        self._sleep = sleep
        self.statistics = Statistics()
        self.url = ""
        self._chance = SeededEnvironment(plan.seed)
        self.injector = Injector(plan.script)
        self._limits = limits
        self._connections = Places(limits)
        self._requests = Memory(limits)
        self._replies = Memory(limits)
        self._places = asyncio.Semaphore(plan.cap) if plan.cap is not None else None
        self._idle: list[Connection] = []
        self._tls = ssl.create_default_context() if plan.upstream.tls else None
        self._clients: set[asyncio.Task[None]] = set()
        self._late: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen. Raises `Unusable` when that cannot be."""
        plan = self.plan
        try:
            self._server = await asyncio.start_server(
                self._accept, plan.listen, plan.port, limit=HEAD_BYTES_MAX, backlog=1024
            )
        except OSError as error:
            raise Unusable(
                f"cannot listen on {plan.listen}:{plan.port}: {error.strerror or error}; "
                "give another --listen"
            ) from error
        port = self._server.sockets[0].getsockname()[1]
        host = f"[{plan.listen}]" if ":" in plan.listen else plan.listen
        self.url = f"http://{host}:{port}"

    async def check_upstream(self) -> None:
        """Raise `Unusable` if there is no answer."""
        try:
            _, writer = await self._connected()
        except OSError as error:
            number = error.errno or 0
            why = os.strerror(number) if number > 0 else str(error)
            raise Unusable(
                f"nobody answers at {self.plan.upstream.url}: {why}; start the store first"
            ) from error
        writer.close()

    async def stop(self) -> None:
        """Close everything. Requests that are still late never land."""
        if self._server is not None:
            self._server.close()
        for task in (*self._clients, *self._late):
            task.cancel()
        await asyncio.gather(*self._clients, *self._late, return_exceptions=True)
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()

    # Clients.

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        client = Client(reader, writer, self._connections, self._limits)
        try:
            await self._serve_all(client)
        except Unread:
            self.statistics.refused["unread"] += 1
        except (*_LOST, asyncio.CancelledError):
            pass  # the client went, or we are to go
        finally:
            self._clients.discard(task)
            client.close()

    async def _serve_all(self, client: Client) -> None:
        """Every request of a connection, up to the first that is refused."""
        try:
            client.enter()
            while await self._serve(client):
                pass
        except Refused as error:
            self.statistics.refused[error.kind] += 1
            await client.refuse(_reply(error.status, str(error), close=True))
        except BadMessage as error:
            self.statistics.fates["other"][f"{error.status} by the proxy"] += 1
            await client.refuse(_reply(error.status, str(error), close=True))

    async def _serve(self, client: Client) -> bool:
        """One request; whether the connection goes on."""
        head = await client.read_head()
        if head is None:
            return False
        if head.first[0].startswith("HTTP/"):
            raise BadMessage(400, "it is a reply, and not a request")
        request = Request(head, client.address, BodyRoom(self._requests, client.address))
        with contextlib.ExitStack() as held:
            held.callback(request.release)
            request.body = await client.read_body(head, self.plan.body_bytes_max, request.room)
            return await self._decide(request, client, held)

    def _recorded(self, head: Head, body: bytes, name: str) -> Exchange | None:
        """The exchange in the trace, if there is one."""
        if self._recording is None:
            return None
        return self._recording.begin(head.first[0], head.first[1], head.fields, body, name)

    async def _decide(self, request: "Request", client: Client, held: contextlib.ExitStack) -> bool:
        """`held` ends when the reply is sent."""
        begun = time.perf_counter()
        kind, head = request.kind, request.head
        fate = self._fate(kind)
        exchange = self._recorded(head, request.body, client.name)
        fault = self._struck(kind, head) if self.injector.is_active else None
        if fault is not None:
            return await self._fail(fault, request, client, exchange, held)
        if fate == "late":
            await self._send_late(request, exchange)
            self.statistics.fates[kind]["closed, to land late"] += 1
            return False
        async with self._place():
            await self._wait("latency", kind)
            parts: tuple[bytes, ...]
            if fate == "throttled":
                self.statistics.fates[kind]["503 by the proxy"] += 1
                parts = (_reply(503, "Please reduce your request rate.", bare=head.first[0] == "HEAD"),)
                keeps = True
                if exchange is not None:
                    exchange.end(503, {}, b"<Error><Code>SlowDown</Code></Error>", _BY_PROXY)
            else:
                passed = await self._forward(request, held)
                if exchange is not None:
                    _end(exchange, passed, NOT_DELIVERED if fate == "reply_lost" else "")
                if passed is None or fate == "reply_lost":
                    name = "upstream gave no reply" if passed is None else "landed, reply lost"
                    self.statistics.fates[kind][name] += 1
                    return False
                await self._wait("reply_latency", kind)
                parts, keeps = (passed[0].raw, passed[1]), passed[2]
                self.statistics.fates[kind][passed[0].first[1]] += 1
            self.statistics.took(self.statistics.whole_s, kind, time.perf_counter() - begun)
        await client.send(*parts)
        return keeps and head.keeps_alive

    def _struck(self, kind: str, head: Head) -> Fault | None:
        """Return the fault of the script that strikes this request."""
        method, target = head.first[0], head.first[1]
        path, _, query = target.partition("?")
        try:
            bucket, key = place(unquote(path), None)
            named = dict(parse_query(query))
            operation = codec.operation_of(method, codec.level_of(bucket, key), named, head.fields)
        except (S3Error, ValueError):
            return None
        reads = method in ("GET", "HEAD")
        strike = self.injector.strike(kind, operation, bucket, key, reads=reads)
        return None if strike is None else strike.fault

    async def _fail(
        self,
        fault: Fault,
        request: "Request",
        client: Client,
        exchange: Exchange | None,
        held: contextlib.ExitStack,
    ) -> bool:
        """Serve a request that a fault strikes; returns whether the connection goes on."""
        kind, head = request.kind, request.head
        self.statistics.fates[kind][f"{fault.effect}, by the script"] += 1
        if fault.effect is Effect.LATE:
            await self._send_late(request, exchange, Delay(fault.seconds, fault.seconds))
            return False
        is_applied = fault.phase is Phase.AFTER or fault.effect in (Effect.REPLY_LOST, Effect.DELAYED)
        if fault.effect is Effect.DELAYED and fault.phase is Phase.BEFORE:
            await self._sleep(fault.seconds)
        async with self._place():
            passed = await self._forward(request, held) if is_applied else None
        if exchange is not None and is_applied:
            _end(exchange, passed, "" if fault.effect is Effect.DELAYED else NOT_DELIVERED)
        if fault.effect in _REFUSALS:
            status = _REFUSALS[fault.effect]
            if exchange is not None and not is_applied:
                exchange.end(
                    status, {}, f"<Error><Code>{_ANSWERS[status][1]}</Code></Error>".encode(), _BY_PROXY
                )
            await client.send(_reply(status, "The script says so.", bare=head.first[0] == "HEAD"))
            return head.keeps_alive
        if fault.effect is not Effect.DELAYED or passed is None:
            return False
        if fault.phase is Phase.AFTER:
            await self._sleep(fault.seconds)
        await client.send(passed[0].raw, passed[1])
        return passed[2] and head.keeps_alive

    def _fate(self, kind: str) -> str:
        """Return the fate of the next request of this kind."""
        drawn = self._stream("fate", kind).random()
        for way in ("throttled", "reply_lost", "late"):
            drawn -= self.plan.of(way, kind, 0.0)
            if drawn < 0:
                return way
        return ""

    def _stream(self, question: str, kind: str) -> Any:
        return self._chance.stream(f"{question} {kind}")

    async def _wait(self, way: str, kind: str) -> None:
        delay_s = self.plan.of(way, kind, NONE).draw(self._stream(way, kind))
        if delay_s > 0:
            await self._sleep(delay_s)

    @contextlib.asynccontextmanager
    async def _place(self) -> Any:
        """A place in flight."""
        if self._places is not None:
            self.statistics.wait(+1)
            try:
                await self._places.acquire()
            finally:
                self.statistics.wait(-1)
        self.statistics.enter()
        try:
            yield
        finally:
            self.statistics.leave()
            if self._places is not None:
                self._places.release()

    async def _send_late(
        self, request: "Request", exchange: Exchange | None, delay: Delay | None = None
    ) -> None:
        """Have the request land later. It has room in memory until then: its connection bounds it no more."""
        request.room.release()
        room = BodyRoom(self._requests, request.address)
        await room.admit(len(request.body) + LATE_BYTES)
        late = replace(request, room=room)
        task = asyncio.get_running_loop().create_task(
            self._land_late(late, exchange, delay or self.plan.late_after)
        )
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _land_late(self, request: "Request", exchange: Exchange | None, delay: Delay) -> None:
        kind = request.kind
        with contextlib.ExitStack() as held:
            held.callback(request.release)
            try:
                await self._sleep(delay.draw(self._stream("late_after", kind)))
            except asyncio.CancelledError:
                self.statistics.fates[kind]["late, never landed"] += 1
                raise
            async with self._place():
                passed = await self._forward(request, held)
            if exchange is not None:
                _end(exchange, passed, NOT_DELIVERED)
        status = "no reply" if passed is None else passed[0].first[1]
        # Counted apart: the request itself was counted when its connection was closed.
        self.statistics.landed_late[f"{kind} {status}"] += 1

    # The upstream.

    async def _forward(
        self, request: "Request", held: contextlib.ExitStack
    ) -> tuple[Head, bytes, bool] | None:
        """The reply, whose room in memory lasts as long as `held`; None when the upstream gave none."""
        begun = time.perf_counter()
        connection = None

        room = BodyRoom(self._replies, request.address)
        held.callback(room.release)
        try:
            connection = self._idling() or await self._connected()
            reader, writer = connection
            writer.write(request.message())
            await writer.drain()
            request.release()
            passed = await read_reply(reader, request.head.first[0], self.plan.body_bytes_max, room.admit)
            room.fit(len(passed[1]))
        except (*_LOST, BadMessage):
            if connection is not None:
                connection[1].close()
            return None
        except asyncio.CancelledError:
            if connection is not None:
                connection[1].close()
            raise
        self.statistics.took(self.statistics.there_s, request.kind, time.perf_counter() - begun)
        if passed[2] and len(self._idle) < IDLE_MAX:
            self._idle.append(connection)
        else:
            writer.close()
        return passed

    def _idling(self) -> Connection | None:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return None

    async def _connected(self) -> Connection:
        upstream = self.plan.upstream
        reader, writer = await asyncio.open_connection(
            upstream.host, upstream.port, ssl=self._tls, limit=HEAD_BYTES_MAX
        )
        writer.transport.set_write_buffer_limits(high=0)  # `drain` waits until all is with the system
        return reader, writer


def _end(exchange: Exchange, passed: tuple[Head, bytes, bool] | None, note: str) -> None:
    """Record the upstream's answer to an exchange, or that there was none."""
    if passed is None:
        exchange.end(None, {}, b"", "upstream gave no reply")
        return
    head, body, _ = passed
    content = dechunked(body) if head.chunked else body
    exchange.end(int(head.first[1]), head.fields, content, note)


def _reply(status: int, message: str, *, close: bool = False, bare: bool = False) -> bytes:
    """An answer of our own, as S3 would give it."""
    reason, code = _ANSWERS[status]
    body = _XML.format(code=code, message=message.replace("&", "&amp;").replace("<", "&lt;")).encode()
    lines = [
        f"HTTP/1.1 {status} {reason}",
        "Content-Type: application/xml",
        f"Content-Length: {len(body)}",
        "x-amz-request-id: fencepost-proxy",
        *(["Connection: close"] if close else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + (b"" if bare else body)


@contextlib.contextmanager
def running(
    plan: Plan,
    sleep: Sleep = asyncio.sleep,
    *,
    recording: HttpRecording | None = None,
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
) -> Iterator[Proxy]:
    """A proxy in a thread of its own, for as long as the context lasts."""
    loop = precise_loop()
    thread = threading.Thread(target=loop.run_forever, name="fencepost-proxy", daemon=True)
    thread.start()

    def call(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    proxy = Proxy(plan, sleep, recording=recording, limits=limits)
    try:
        call(proxy.start())
        try:
            yield proxy
        finally:
            call(proxy.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
