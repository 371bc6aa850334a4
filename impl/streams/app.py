"""The HTTP server of the Durable Streams protocol: one node, on any store.

    PUT /name       create, or fork            POST /name     append, close
    GET /name       read, long-poll, SSE       HEAD /name     what there is
    DELETE /name    delete; data is reaped later

Every path is a stream, but /healthz, /readyz, /metrics and /openapi.json; `names` says which paths are names.
Requests work in threads; a reader that waits holds none, see `tailing`.

With tokens, `access` decides before anything else who may do what; a name of which a token covers nothing is
answered alike whether it exists or not.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from fencepost.impl.http.answers import client_of
from fencepost.impl.http.limits import LENGTH_MAX, ClientGone, Limits, read_body
from fencepost.impl.http.memory import PIECE, cut
from fencepost.impl.http.numbers import whole_number
from fencepost.impl.http.refusals import Refusal as HttpRefusal
from fencepost.impl.http.service import Service, json_response
from fencepost.impl.http.targets import encoded
from fencepost.impl.http.tokens import Holder
from fencepost.impl.store.errors import StoreError
from fencepost.impl.streams import framing
from fencepost.impl.streams.access import Access
from fencepost.impl.streams.errors import (
    Damaged,
    Fenced,
    Refusal,
    Refused,
    RetentionError,
    StreamError,
    other_type,
)
from fencepost.impl.streams.manifest import Manifest
from fencepost.impl.streams.names import name_of
from fencepost.impl.streams.node import Node
from fencepost.impl.streams.shown import Form, Shown
from fencepost.impl.streams.stream import Configuration
from fencepost.impl.streams.tailing import Reader, Tailing

T = TypeVar("T")
BUSY_S = 3.0
"""Seconds for which a request waits for a reap of its stream."""
CURSOR_MAX = 10**18 - 1
"""A greater cursor of a client is ignored."""
_OURS = re.compile(r"/(healthz|readyz|metrics|openapi\.json)")
CURSOR_EPOCH_S = 1_728_432_000
CURSOR_INTERVAL_S = 20
JITTER_MAX_S = 3600
STATUS = {
    Refusal.MISSING: 404,
    Refusal.GONE: 410,
    Refusal.EXISTS: 409,
    Refusal.CLOSED: 409,
    Refusal.CONTENT_TYPE: 409,
    Refusal.SEQUENCE: 409,
    Refusal.STALE_EPOCH: 403,
    Refusal.GAP: 409,
    Refusal.INVALID: 400,
}
COMMON = {"x-content-type-options": "nosniff"}
NO_STORE = {"cache-control": "no-store"}
Body = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(eq=False)
class _Call:
    """One request for a stream."""

    request: Request
    name: str
    holder: Holder | None
    client: str
    held: ExitStack
    """Releases memory after the response is sent."""


class _Sending:
    """The events that an event stream sends now, held in memory until they are sent."""

    def __init__(self, tailing: Tailing, shown: Shown) -> None:
        self._tailing = tailing
        self.shown = shown
        self._is_held = True

    def take(self, shown: Shown) -> None:
        self.shown, self._is_held = shown, True

    def release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._tailing.release(self.shown)


class _Long(Response):
    """A response whose body is sent by a function."""

    def __init__(self, send_body: Body, headers: Mapping[str, str], size: int | None = None) -> None:
        super().__init__(headers=headers)
        del self.headers["content-length"]
        if size is not None:
            self.headers["content-length"] = str(size)
        self._send_body = send_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = self.raw_headers
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        await self._send_body(scope, receive, send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class StreamServer(Service):
    """An ASGI callable. It sets the node's `on_change`."""

    def __init__(
        self,
        node: Node,
        *,
        long_poll_s: float = 20.0,
        poll_s: float = 0.5,
        sse_s: float = 60.0,
        limits: Limits | None = None,
        access: Access = Access(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(
            "streams", {}, verify=node.store.verify, openapi=dict, limits=limits, unavailable=(StoreError,)
        )
        self.node = node
        self._access = access
        self._long_poll_s, self._sse_s = long_poll_s, sse_s
        self._log = logging.getLogger("fencepost.streams")
        self._tailing = Tailing(
            node, self._patient, lambda: self.gate.closed, self.answers.memory, poll_s=poll_s
        )
        node.on_change = self._tailing.changed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _OURS.fullmatch(scope["path"]):
            await super().__call__(scope, receive, send)
        else:
            await self.observed(self._serve, scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, client = Request(scope, receive), client_of(scope)
        with ExitStack() as held:
            response = await self._answer(request, client, held)
            for name, value in {**COMMON, **self._access.headers(request)}.items():
                response.headers.setdefault(name, value)
            await response(scope, receive, send)

    async def _answer(self, request: Request, client: str, held: ExitStack) -> Response:
        act = {
            "PUT": self._put,
            "POST": self._post,
            "GET": self._get,
            "HEAD": self._head,
            "DELETE": self._delete,
        }.get(request.method)
        if request.method == "OPTIONS":
            return Response(status_code=204)
        if act is None:
            return _refusal(405, "method_not_allowed", f"{request.method[:20]} is not supported")
        try:
            with self.gate.enter(client):
                name = name_of(request.scope["raw_path"])
                holder = self._access.check(request, name)
                return await act(_Call(request, name, holder, client, held))
        except Refused as error:
            return _refused(error)
        except HttpRefusal as error:
            self.count_refused(error.kind)
            return json_response(error.body(), error.status, error.headers())
        except RetentionError as error:
            self._log.info("a creation waits for retention: %s", error)
            return _refusal(503, "retention_in_progress", str(error), {"retry-after": "1"})
        except Damaged as error:
            self._log.error("a stream is damaged: %s", error)
            text = (
                "data of this stream is missing in the store, or is not what was stored; the log has its key"
            )
            return _refusal(500, "damaged", text)
        except (Fenced, StreamError, StoreError) as error:
            self._log.error("the store cannot be used: %s", error)
            return _refusal(503, "unavailable", "try again", {"retry-after": "1"})
        except ClientGone:
            raise
        except Exception:  # noqa: BLE001 - a bug of ours: logged with its traceback, answered with 500
            self._log.exception("a request failed")
            return _refusal(500, "internal", "this server failed; its log has the reason")

    async def _patient(self, act: Callable[..., T], *args: Any) -> T:
        """Wait for a reap of the same name by this node, and for the margin of expiry."""
        until = asyncio.get_running_loop().time() + BUSY_S
        while True:
            try:
                return await self.in_thread(act, *args)
            except (Fenced, RetentionError):
                if asyncio.get_running_loop().time() >= until:
                    raise
                await asyncio.sleep(0.05)

    # Creation.

    async def _put(self, call: _Call) -> Response:
        headers, name = call.request.headers, call.name
        if headers.get("stream-forked-from"):
            source = name_of(headers["stream-forked-from"].encode("latin-1"))
            if call.holder is not None:
                call.holder.check("read", source)
        elif headers.get("stream-fork-offset") or headers.get("stream-fork-sub-offset"):
            raise Refused(Refusal.INVALID, "Stream-Fork-Offset needs Stream-Forked-From")
        else:
            source = ""
        body = await self._body(call)
        wanted, kind = _configuration(headers), headers.get("content-type", "")
        if source:
            manifest, created = await self._patient(self._fork, name, source, headers, wanted, kind, body)
        else:
            stored = await self.in_thread(_stored, body, wanted.content_type)
            manifest, created = await self._patient(self.node.create, name, wanted, stored)
        found = {
            "content-type": manifest.content_type,
            "stream-next-offset": manifest.offset(manifest.tail),
            **_closed(manifest),
            **_lifetime(manifest),
        }
        if created:
            url = call.request.url
            found["location"] = f"{url.scheme}://{url.netloc}{encoded(name)}"
        return Response(status_code=201 if created else 200, headers=found)

    def _fork(
        self,
        name: str,
        source: str,
        headers: Mapping[str, str],
        wanted: Configuration,
        kind: str,
        body: bytes,
    ) -> tuple[Manifest, bool]:
        offset, sub = headers.get("stream-fork-offset"), headers.get("stream-fork-sub-offset")
        position = framing.integer("Stream-Fork-Sub-Offset", sub) if sub is not None else 0
        return self.node.fork(name, source, offset, position, wanted, kind, body)

    # Appends.

    async def _post(self, call: _Call) -> Response:
        headers, name = call.request.headers, call.name
        body = await self._body(call)
        close = headers.get("stream-closed", "").lower() == "true"
        kind = headers.get("content-type", "")
        producer = framing.producer(
            [headers.get(one) for one in ("producer-id", "producer-epoch", "producer-seq")]
        )
        if not body and not close:
            await self._patient(self.node.visible, name)
            raise Refused(Refusal.INVALID, "the body is empty")
        if body and not kind:
            await self._patient(self.node.visible, name)
            raise Refused(Refusal.INVALID, "Content-Type is missing")
        done = await self._patient(self._append, name, body, kind, producer, headers.get("stream-seq"), close)
        found = {"stream-next-offset": done.offset}
        if done.closed:
            found["stream-closed"] = "true"
        if producer is not None:
            found |= {"producer-epoch": str(done.epoch), "producer-seq": str(done.seq)}
        new = producer is not None and not done.duplicate and bool(body)
        return Response(status_code=200 if new else 204, headers=found)

    def _append(
        self,
        name: str,
        body: bytes,
        kind: str,
        producer: tuple[str, int, int] | None,
        stream_seq: str | None,
        close: bool,
    ) -> Any:
        manifest = self.node.check_visible(self.node.visible(name))
        matches = framing.base_type(kind) == framing.base_type(manifest.content_type)
        if body and not manifest.closed:
            if not matches:
                raise other_type(manifest.content_type, kind)
            body = framing.to_stored(body, manifest.content_type)
        return self.node.append(
            name,
            body,
            # As the body was framed: the name may be another stream's by now.
            content_type=manifest.content_type if matches or not body else "",
            producer=producer,
            stream_seq=stream_seq,
            close=close,
        )

    async def _body(self, call: _Call) -> bytes:
        """The body, for which there is room in memory until the response is sent."""
        headers = call.request.headers
        if "content-length" not in headers and "transfer-encoding" not in headers:
            return b""
        declared = headers.get("content-length", "")
        length = whole_number(declared, LENGTH_MAX)
        size = self.limits.body_bytes if length is None else length
        if PIECE < size <= self.limits.body_bytes:
            room = await self.answers.memory.enter(call.client, size, self.limits.body_s)
            call.held.callback(room.release)
        return await read_body(headers.raw, call.request.receive, self.limits)

    async def _delete(self, call: _Call) -> Response:
        await self._patient(self.node.delete, call.name)
        return Response(status_code=204)

    # Reads.

    async def _head(self, call: _Call) -> Response:
        stream = await self._patient(self.node.visible, call.name)
        manifest = self.node.check_visible(stream)
        found = {
            "content-type": manifest.content_type,
            "stream-next-offset": manifest.offset(self.node.tail_of(stream, manifest)),
            **_closed(manifest),
            **_lifetime(manifest),
            **NO_STORE,
        }
        return Response(status_code=200, headers=found)

    async def _get(self, call: _Call) -> Response:
        query = parse_qsl(call.request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query)
        offsets = [value for key, value in query if key == "offset"]
        live = given.get("live")
        if len(offsets) > 1 or "" in offsets:
            raise Refused(Refusal.INVALID, "give one offset")
        if live not in (None, "long-poll", "sse"):
            raise Refused(Refusal.INVALID, f"live={live} is not known; use long-poll or sse")
        if live is not None and not offsets:
            raise Refused(Refusal.INVALID, "a live read needs an offset")
        offset = offsets[0] if offsets else "-1"
        cursor = given.get("cursor", "")
        if live == "sse":
            return await self._sse(call, offset, cursor)
        if live == "long-poll":
            return await self._long_poll(call, offset, cursor)
        shown = await self._read(call, offset, Form.BODY)
        chunk, found = shown.chunk, _headers(shown)
        if offset == "now":
            return Response(framing.to_shown(b"", chunk.manifest.content_type), 200, {**found, **NO_STORE})
        closed = ":c" if chunk.closed else ""
        tag = f'"{chunk.manifest.incarnation}:{chunk.start}:{chunk.end}{closed}"'
        found |= {"etag": tag, "cache-control": self._access.caching}
        if call.request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={**found, "content-type": ""})
        return self._body_of(shown, found)

    async def _read(self, call: _Call, offset: str, form: Form) -> Shown:
        """Return the bytes at the offset; they are released after the response."""
        shown = await self._tailing.read(call.name, offset, form, call.client, self.limits.body_s)
        call.held.callback(self._tailing.release, shown)
        return shown

    def _body_of(self, shown: Shown, headers: Mapping[str, str]) -> Response:
        if not shown.is_long:
            return Response(shown.data, 200, headers)

        async def send_body(scope: Scope, _: Receive, send: Send) -> None:
            await self.answers.send_in_pieces(scope, send, cut(shown.data), len(shown.data))

        return _Long(send_body, headers, len(shown.data))

    async def _long_poll(self, call: _Call, offset: str, cursor: str) -> Response:
        loop = asyncio.get_running_loop()
        shown: Shown | None = None
        with (
            self.answers.gate.enter(call.client),
            self._tailing.following(call.name, Form.BODY, call.client) as reader,
        ):
            until = loop.call_later(self._long_poll_s, reader.stop)
            try:
                known = await reader.now() if offset == "now" else None
                shown = await reader.next(known.offset if known else offset, known)
            finally:
                until.cancel()
        if shown is None:
            shown = await self._read(call, offset, Form.BODY)
        else:
            call.held.callback(self._tailing.release, shown)
        found = _headers(shown) | {"stream-cursor": self._cursor(cursor)}
        if shown.end == shown.chunk.start:
            found.pop("content-type")
            return Response(status_code=204, headers={**found, **NO_STORE})
        return self._body_of(shown, {**found, "cache-control": self._access.caching})

    async def _sse(self, call: _Call, offset: str, cursor: str) -> Response:
        first = await self._tailing.read(call.name, offset, Form.EVENT, call.client, self.limits.body_s)
        headers = {"content-type": "text/event-stream", "cache-control": "no-cache"}
        if not framing.is_text(first.chunk.manifest.content_type):
            headers["stream-sse-data-encoding"] = "base64"
        sending = _Sending(self._tailing, first)
        call.held.callback(sending.release)

        async def send_body(scope: Scope, receive: Receive, send: Send) -> None:
            loop = asyncio.get_running_loop()
            with self._tailing.following(call.name, Form.EVENT, call.client) as reader:
                gone = loop.create_task(_gone(receive))
                gone.add_done_callback(lambda _: reader.stop())
                until = loop.call_later(self._sse_s, reader.stop)
                try:
                    await self._events(scope, send, reader, sending, int(self._cursor(cursor)))
                except (StreamError, StoreError):
                    pass  # deleted, or out of reach: the client asks again, and learns why
                finally:
                    gone.cancel()
                    until.cancel()

        return _Long(send_body, headers)

    async def _events(
        self, scope: Scope, send: Send, reader: Reader, sending: "_Sending", least_cursor: int
    ) -> None:
        """Send events until the stream is closed, or the reader is to go."""
        while True:
            shown = sending.shown
            cursor = str(max(self._interval(), least_cursor))
            if shown.is_long:
                pieces = shown.pieces(cursor)
                await self.answers.send_in_pieces(scope, send, pieces, len(shown.data))
            else:
                await send({"type": "http.response.body", "body": shown.event(cursor), "more_body": True})
            if shown.chunk.closed or self.gate.closed:
                return
            sending.release()
            found = await reader.next(shown.offset, shown)
            if found is None:
                return
            sending.take(found)
            if not found.has_news:
                return

    def _interval(self) -> int:
        return (self.node.now_ns() // 10**9 - CURSOR_EPOCH_S) // CURSOR_INTERVAL_S

    def _cursor(self, given: str) -> str:
        now = self._interval()
        seen = whole_number(given, CURSOR_MAX)
        if seen is not None and seen >= now:
            jitter_s = self.node.env.stream("cursors").randint(1, JITTER_MAX_S)
            return str(seen + max(1, jitter_s // CURSOR_INTERVAL_S))
        return str(now)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _stored(body: bytes, content_type: str) -> bytes:
    return framing.to_stored(body, content_type, empty_allowed=True)


def _configuration(headers: Mapping[str, str]) -> Configuration:
    ttl, expires = headers.get("stream-ttl"), headers.get("stream-expires-at")
    if ttl is not None and expires is not None:
        raise Refused(Refusal.INVALID, "send Stream-TTL or Stream-Expires-At, not both")
    return Configuration(
        headers.get("content-type") or "application/octet-stream",
        framing.integer("Stream-TTL", ttl) if ttl is not None else None,
        expires or "",
        framing.moment_ns(expires) if expires is not None else None,
        headers.get("stream-closed", "").lower() == "true",
    )


def _closed(manifest: Manifest) -> dict[str, str]:
    return {"stream-closed": "true"} if manifest.closed else {}


def _lifetime(manifest: Manifest) -> dict[str, str]:
    found = {"stream-ttl": str(manifest.ttl_s)} if manifest.ttl_s is not None else {}
    return found | ({"stream-expires-at": manifest.expires_at} if manifest.expires_at else {})


def _headers(shown: Shown) -> dict[str, str]:
    chunk = shown.chunk
    found = {
        "content-type": chunk.manifest.content_type,
        "stream-next-offset": chunk.manifest.offset(chunk.end),
    }
    if chunk.up_to_date:
        found["stream-up-to-date"] = "true"
    if chunk.closed:
        found["stream-closed"] = "true"
    return found


def _refusal(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return json_response({"error": {"kind": kind, "message": message}}, status, headers)


def _refused(error: Refused) -> Response:
    headers = {}
    if error.kind is Refusal.CLOSED:
        headers = {"stream-closed": "true", "stream-next-offset": error.details["offset"]}
    elif error.kind is Refusal.STALE_EPOCH:
        headers = {"producer-epoch": error.details["epoch"]}
    elif error.kind is Refusal.GAP:
        headers = {
            "producer-expected-seq": error.details["expected"],
            "producer-received-seq": error.details["received"],
        }
    return _refusal(STATUS[error.kind], str(error.kind), str(error), headers)
