"""The HTTP server of the Durable Streams protocol: one node, on any store.

    PUT /name       create, or fork            POST /name     append, close
    GET /name       read, long-poll, SSE       HEAD /name     what there is
    DELETE /name    delete; data is reaped later

Every path is a stream, but /healthz, /readyz, /metrics and /openapi.json. Requests work in threads; a reader
that waits holds none, see `tailing`.
"""

import asyncio
import base64
import json
import logging
import re
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from fencepost.impl.http.limits import ClientGone, Limits, read_body
from fencepost.impl.http.refusals import Refusal as HttpRefusal
from fencepost.impl.http.service import Service, json_response
from fencepost.impl.store.errors import StoreError
from fencepost.impl.streams import framing
from fencepost.impl.streams.errors import Fenced, Refusal, Refused, RetentionError, StreamError, other_type
from fencepost.impl.streams.manifest import Manifest
from fencepost.impl.streams.node import Node
from fencepost.impl.streams.stream import Chunk, Configuration
from fencepost.impl.streams.tailing import Tailing

T = TypeVar("T")
BUSY_S = 3.0
"""Seconds for which a request waits for a reap of its stream."""
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
COMMON = {"x-content-type-options": "nosniff", "cross-origin-resource-policy": "cross-origin"}
CORS = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, POST, PUT, DELETE, HEAD, OPTIONS",
    "access-control-allow-headers": "*",
    "access-control-expose-headers": "*",
}
NO_STORE = {"cache-control": "no-store"}
CACHED = {"cache-control": "public, max-age=60, stale-while-revalidate=300"}


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
    ) -> None:
        super().__init__(
            "streams", {}, verify=node.store.verify, openapi=dict, limits=limits, unavailable=(StoreError,)
        )
        self.node = node
        self._long_poll_s, self._sse_s = long_poll_s, sse_s
        self._log = logging.getLogger("fencepost.streams")
        self._tailing = Tailing(node, self._patient, lambda: self.gate.closed, poll_s=poll_s)
        node.on_change = self._tailing.changed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _OURS.fullmatch(scope["path"]):
            await super().__call__(scope, receive, send)
        else:
            await self.observed(self._serve, scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            with self.gate.enter(request.client.host if request.client else ""):
                response = await self._answer(request)
            for name, value in {**COMMON, **CORS}.items():
                response.headers.setdefault(name, value)
        except ClientGone:
            return
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
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
            return await act(request, unquote(request.url.path))
        except Refused as error:
            return _refused(error)
        except HttpRefusal as error:
            self.count_refused(error.kind)
            return json_response(error.body(), error.status, error.headers())
        except RetentionError as error:
            self._log.info("a creation waits for retention: %s", error)
            return _refusal(503, "retention_in_progress", str(error), {"retry-after": "1"})
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

    async def _put(self, request: Request, name: str) -> Response:
        headers = request.headers
        body = await self._body(request)
        wanted, kind = _configuration(headers), headers.get("content-type", "")
        if headers.get("stream-forked-from"):
            manifest, created = await self._patient(self._fork, name, headers, wanted, kind, body)
        else:
            if headers.get("stream-fork-offset") or headers.get("stream-fork-sub-offset"):
                raise Refused(Refusal.INVALID, "Stream-Fork-Offset needs Stream-Forked-From")
            stored = framing.to_stored(body, wanted.content_type, empty_allowed=True)
            manifest, created = await self._patient(self.node.create, name, wanted, stored)
        found = {
            "content-type": manifest.content_type,
            "stream-next-offset": manifest.offset(manifest.tail),
            **_closed(manifest),
            **_lifetime(manifest),
        }
        if created:
            found["location"] = str(request.url)
        return Response(status_code=201 if created else 200, headers=found)

    def _fork(
        self, name: str, headers: Mapping[str, str], wanted: Configuration, kind: str, body: bytes
    ) -> tuple[Manifest, bool]:
        offset, sub = headers.get("stream-fork-offset"), headers.get("stream-fork-sub-offset")
        if sub is not None and offset is None:
            offset = None
        return self.node.fork(
            name,
            unquote(headers["stream-forked-from"]),
            offset,
            framing.integer("Stream-Fork-Sub-Offset", sub) if sub is not None else 0,
            wanted,
            kind,
            body,
        )

    # Appends.

    async def _post(self, request: Request, name: str) -> Response:
        headers = request.headers
        body = await self._body(request)
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

    async def _body(self, request: Request) -> bytes:
        headers = request.headers
        if "content-length" not in headers and "transfer-encoding" not in headers:
            return b""
        return await read_body(headers.raw, request.receive, self.limits)

    async def _delete(self, request: Request, name: str) -> Response:
        await self._patient(self.node.delete, name)
        return Response(status_code=204)

    # Reads.

    async def _head(self, request: Request, name: str) -> Response:
        stream = await self._patient(self.node.visible, name)
        manifest = self.node.check_visible(stream)
        found = {
            "content-type": manifest.content_type,
            "stream-next-offset": manifest.offset(self.node.tail_of(stream, manifest)),
            **_closed(manifest),
            **_lifetime(manifest),
            **NO_STORE,
        }
        return Response(status_code=200, headers=found)

    async def _get(self, request: Request, name: str) -> Response:
        query = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
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
            first = await self._patient(self.node.read_from, name, offset)
            return self._sse(name, first, cursor)
        if live == "long-poll":
            return await self._long_poll(name, offset, cursor)
        chunk = await self._patient(self.node.read_from, name, offset)
        found = _headers(chunk)
        if offset == "now":
            return Response(framing.to_shown(b"", chunk.manifest.content_type), 200, {**found, **NO_STORE})
        closed = ":c" if chunk.closed else ""
        tag = f'"{chunk.manifest.incarnation}:{chunk.start}:{chunk.end}{closed}"'
        found |= {"etag": tag, **CACHED}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={**found, "content-type": ""})
        return Response(framing.to_shown(chunk.body, chunk.manifest.content_type), 200, found)

    async def _long_poll(self, name: str, offset: str, cursor: str) -> Response:
        chunk = await self._tailing.next(name, offset, self._long_poll_s)
        found = _headers(chunk) | {"stream-cursor": self._cursor(cursor)}
        if not chunk.body:
            found.pop("content-type")
            return Response(status_code=204, headers={**found, **NO_STORE})
        return Response(framing.to_shown(chunk.body, chunk.manifest.content_type), 200, {**found, **CACHED})

    def _sse(self, name: str, first: Chunk, cursor: str) -> Response:
        text = framing.is_text(first.manifest.content_type)
        headers = {"content-type": "text/event-stream", "cache-control": "no-cache"}
        if not text:
            headers["stream-sse-data-encoding"] = "base64"
        return StreamingResponse(self._events(name, first, cursor, text=text), 200, headers)

    async def _events(self, name: str, chunk: Chunk, cursor: str, *, text: bool) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._sse_s
        first = True
        # A character may begin in one append and end in the next: the offset stays before it.
        characters = getincrementaldecoder("utf-8")("replace")
        while True:
            events, begun = b"", 0
            if chunk.body or chunk.closed:
                shown = framing.to_shown(chunk.body, chunk.manifest.content_type) if chunk.body else b""
                if text:
                    data = characters.decode(shown, final=chunk.closed)
                    begun = len(characters.getstate()[0])
                else:
                    data = base64.b64encode(shown).decode()
                events = _event("data", data) if data else b""
            if chunk.body or first or chunk.closed:
                cursor = self._cursor(cursor)
                control: dict[str, Any] = {"streamNextOffset": chunk.manifest.offset(chunk.end - begun)}
                if chunk.closed:
                    control |= {"upToDate": True, "streamClosed": True}
                else:
                    control["streamCursor"] = cursor
                    if chunk.up_to_date:
                        control["upToDate"] = True
                # In one piece: a reader that has the data has the offset behind it.
                yield events + _event("control", json.dumps(control, separators=(",", ":")))
            first = False
            left_s = until - loop.time()
            if chunk.closed or left_s <= 0 or self.gate.closed:
                return
            try:
                chunk = await self._tailing.next(name, chunk.manifest.offset(chunk.end), left_s)
            except (StreamError, StoreError):
                return  # deleted, or out of reach: the client asks again, and learns why

    def _cursor(self, given: str) -> str:
        now = (self.node.now_ns() // 10**9 - CURSOR_EPOCH_S) // CURSOR_INTERVAL_S
        if given.isdigit() and int(given) >= now:
            jitter_s = self.node.env.stream("cursors").randint(1, JITTER_MAX_S)
            return str(int(given) + max(1, jitter_s // CURSOR_INTERVAL_S))
        return str(now)


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


def _headers(chunk: Chunk) -> dict[str, str]:
    found = {
        "content-type": chunk.manifest.content_type,
        "stream-next-offset": chunk.manifest.offset(chunk.end),
    }
    if chunk.up_to_date:
        found["stream-up-to-date"] = "true"
    if chunk.closed:
        found["stream-closed"] = "true"
    return found


def _event(name: str, data: str) -> bytes:
    lines = "".join(f"data:{line}\n" for line in re.split(r"\r\n|\r|\n", data))
    return f"event: {name}\n{lines}\n".encode()


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
