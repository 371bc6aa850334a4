"""The server for tests: an object server that fails by a script, and answers as other stores do.

    GET    /_fencepost/v1/faults          {script, struck}
    PUT    /_fencepost/v1/faults          a script (see `impl/store/faults`), whose counts begin at 0
    DELETE /_fencepost/v1/faults          no faults from now on
    GET    /_fencepost/v1/faults/trace    the script that repeats what was struck, request for request
    GET    /_fencepost/v1/quirks          {quirks, known, stores}
    PUT    /_fencepost/v1/quirks          {quirks: [names], stores: [names]}: see `quirks`

These take the root token as a bearer token. Without a script and quirks it is an object server like others.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from starlette.types import Message as Event
from starlette.types import Receive, Scope, Send

from fencepost.impl.http.answers import ABORT
from fencepost.impl.http.limits import ClientGone, arriving, read_body
from fencepost.impl.http.refusals import Refusal
from fencepost.impl.http.service import Head, json_response
from fencepost.impl.objects.app import ObjectServer, identified
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.credentials import ROOT, Caller, Credentials
from fencepost.impl.objects.quirks import QUIRKS, STORES, Around, Listings, named_quirks
from fencepost.impl.objects.surface import KNOWN, act
from fencepost.impl.objects.wire import codec
from fencepost.impl.objects.wire.errors import S3Error, error_answer
from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.faults import (
    BadScript,
    Effect,
    Fault,
    Injector,
    Phase,
    Script,
    Strike,
    kind_of,
    read_script,
)

ADMIN = "/_fencepost/v1/"
SCRIPT_BYTES_MAX = 1 << 20
HELD_S = 5.0
"""The longest time that a reordered request is held, if its fault has no other."""
BODY_BYTES_MAX = 64 << 20
"""The longest body of a request that is applied late, or twice."""
_ERRORS = {
    Effect.THROTTLED: "SlowDown",
    Effect.CONFLICT: "ConditionalRequestConflict",
    Effect.FAILED: "InternalError",
}


def script_of(text: str) -> Script:
    """Return the script in a text. Raises `BadScript`."""
    return read_script(text, KNOWN.__contains__)


class UnreliableServer(ObjectServer):
    def __init__(
        self,
        buckets: Buckets,
        credentials: Credentials,
        *,
        injector: Injector | None = None,
        quirks: tuple[str, ...] = (),
        on_strike: Callable[[Strike], None] = lambda _: None,
        **options: Any,
    ) -> None:
        self.injector = injector or Injector()
        self.quirks = quirks
        self._on_strike = on_strike
        self._listings = Listings()
        self._held: list[_Held] = []
        self._late: set[asyncio.Task[None]] = set()
        super().__init__(buckets, credentials, **options)

    @property
    def _is_reliable(self) -> bool:
        return not self.quirks and not self.injector.is_active

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(ADMIN):
            await self.observed(self._administer, scope, receive, identified(scope, send))
        else:
            await super().__call__(scope, receive, send)

    def at_once(self, head: Head) -> bytes | None:
        return super().at_once(head) if self._is_reliable else None

    # Quirks.

    def act(self, operation: str, caller: Caller) -> Callable[..., Any]:
        answering = super().act(operation, caller)
        if self.quirks:
            around = Around(self._buckets.env, self._etag, self._listings)
            for name in self.quirks:
                answering = QUIRKS[name].wrap(around, operation, answering)
        return answering

    def _etag(self, bucket: str, key: str) -> str | None:
        try:
            with act("HeadObject", self._buckets, Caller(ROOT))({"Bucket": bucket, "Key": key}) as content:
                return str(content.values["ETag"]).strip('"')
        except S3Error as error:
            if error.status != 404:
                raise
            return None

    # Faults.

    async def _s3(self, scope: Scope, receive: Receive, send: Send) -> None:
        send = self._with_quirks(send)
        place = self._placed(scope) if self.injector.is_active else None
        if place is None:
            await super()._s3(scope, receive, send)
            return
        kind, operation, bucket, key, reads = place
        strike = self.injector.strike(kind, operation, bucket, key, reads=reads)
        try:
            if strike is None:
                await super()._s3(scope, receive, send)
            else:
                self._on_strike(strike)
                await self._struck(strike.fault, scope, receive, send)
        finally:
            names = frozenset({kind, operation})
            for held in self._held:
                if strike is None and held.fault.fits(names, bucket, key, reads=reads):
                    held.pass_one()

    def _placed(self, scope: Scope) -> tuple[str, str, str, str, bool] | None:
        """Return kind, operation, bucket and key of a request, and if it only reads; None for a bad one."""
        try:
            request = self.take_apart(
                scope["method"], scope["raw_path"], scope["query_string"], scope["headers"]
            )
            level = codec.level_of(request.bucket, request.key)
            operation = codec.operation_of(request.method, level, dict(request.query), request.headers)
        except (S3Error, Misuse):
            return None
        target = f"/{request.bucket}/{request.key}?{scope['query_string'].decode('latin-1')}"
        reads = request.method in ("GET", "HEAD")
        return kind_of(request.method, target), operation, request.bucket, request.key, reads

    def _with_quirks(self, send: Send) -> Send:
        changes = [found for name in self.quirks if (found := QUIRKS[name].header) is not None]
        if not changes:
            return send

        async def changed(message: Event) -> None:
            if message["type"] == "http.response.start":
                headers = []
                for name, value in message["headers"]:
                    for change in changes if name == b"etag" else ():
                        value = change(value)
                    headers.append((name, value))
                message = {**message, "headers": headers}
            await send(message)

        return changed

    async def _struck(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that a fault strikes."""
        serve = super()._s3
        match fault.effect:
            case Effect.DELAYED if fault.phase is Phase.BEFORE:
                await asyncio.sleep(fault.seconds)
                await serve(scope, receive, send)
            case Effect.DELAYED:
                await serve(scope, receive, _Delaying(send, fault.seconds))
            case Effect.REORDERED:
                with self._holding(fault) as held:
                    await held.wait()
                await serve(scope, receive, send)
            case Effect.THROTTLED | Effect.CONFLICT | Effect.FAILED:
                if fault.phase is Phase.AFTER:
                    await serve(scope, receive, _nowhere)
                else:
                    await self._read(receive)
                await self._refuse_s3(_ERRORS[fault.effect], scope, send)
            case Effect.REQUEST_LOST:
                await self._read(receive)
                await _cut(scope)
            case Effect.REPLY_LOST:
                await serve(scope, receive, _nowhere)
                await _cut(scope)
            case Effect.TRUNCATED:
                await serve(scope, receive, _Truncating(scope, send))
            case Effect.LATE:
                again = _Again(await self._read(receive, keep=True))
                task = asyncio.get_running_loop().create_task(self._land(fault.seconds, scope, again))
                self._late.add(task)
                task.add_done_callback(self._late.discard)
                await _cut(scope)
            case Effect.DUPLICATED:
                body = await self._read(receive, keep=True)
                await serve(scope, _Again(body), _nowhere)
                await serve(scope, _Again(body, receive), send)

    async def _land(self, seconds: float, scope: Scope, receive: "_Again") -> None:
        await asyncio.sleep(seconds)
        await super()._s3(scope, receive, _nowhere)

    async def _read(self, receive: Receive, *, keep: bool = False) -> bytes:
        """Read the body to its end; returns it only if it is to be kept."""
        kept: list[bytes] = []
        size = 0
        async for piece in arriving(receive, self.limits):
            size += len(piece)
            if keep:
                kept.append(piece)
            if keep and size > BODY_BYTES_MAX:
                raise ClientGone  # nothing is applied, and the client learns nothing
        return b"".join(kept)

    async def _refuse_s3(self, code: str, scope: Scope, send: Send) -> None:
        request_id = self.new_id()
        status, headers, body = error_answer(S3Error(code), scope["method"], scope["path"], request_id)
        found = {**self.common_headers(request_id, scope["headers"]), **headers}
        raw = [(name.lower().encode(), value.encode()) for name, value in found.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": body})

    @contextlib.contextmanager
    def _holding(self, fault: Fault) -> Iterator["_Held"]:
        held = _Held(fault)
        self._held.append(held)
        try:
            yield held
        finally:
            self._held.remove(held)

    # Administration.

    async def _administer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._check_root(scope)
            body = b""
            if scope["method"] == "PUT":
                body = await read_body(scope["headers"], receive, self.limits, limit=SCRIPT_BYTES_MAX)
            found = self._administered(scope["method"], scope["path"].removeprefix(ADMIN), body)
            response = json_response(found)
        except Refusal as refusal:
            response = json_response(refusal.body(), refusal.status, refusal.headers())
        await response(scope, receive, send)

    def _check_root(self, scope: Scope) -> None:
        given = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
        scheme, _, token = given.partition(" ")
        caller = self._credentials.bearer(token.strip(), "") if scheme.lower() == "bearer" else None
        if caller is None:
            raise Refusal("unauthenticated", "this needs the root token: Authorization: Bearer TOKEN")

    def _administered(self, method: str, place: str, body: bytes) -> Mapping[str, Any]:
        match method, place:
            case "GET", "faults":
                pass
            case "PUT", "faults":
                try:
                    self.injector.load(script_of(body.decode()))
                except (BadScript, UnicodeDecodeError) as error:
                    raise Refusal("bad_request", str(error)) from None
            case "DELETE", "faults":
                self.injector.load(Script())
            case "GET", "faults/trace":
                return self.injector.trace().as_json()
            case "GET", "quirks":
                return self._quirks()
            case "PUT", "quirks":
                self.quirks = _read_quirks(body)
                return self._quirks()
            case _:
                raise Refusal("not_found", f"there is no {method} {ADMIN}{place}"[:200])
        struck = [strike.as_json() for strike in self.injector.strikes]
        return {"script": self.injector.script.as_json(), "struck": struck}

    def _quirks(self) -> dict[str, Any]:
        known = {name: quirk.text for name, quirk in QUIRKS.items()}
        return {"quirks": self.quirks, "known": known, "stores": STORES}


def _read_quirks(body: bytes) -> tuple[str, ...]:
    try:
        found = json.loads(body)
        names, stores = found.get("quirks", []), found.get("stores", [])
        return named_quirks([str(name) for name in names], [str(name) for name in stores])
    except (ValueError, AttributeError, TypeError) as error:
        raise Refusal("bad_request", f"the quirks cannot be read: {error}") from None


class _Held:
    """A request that waits for later ones."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self._left = fault.delay
        self._free = asyncio.Event()

    def pass_one(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self._free.set()

    async def wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.fault.seconds or HELD_S):
                await self._free.wait()


class _Again:
    """Receives a body that was read before, and then what `rest` receives, if anything."""

    def __init__(self, body: bytes, rest: Receive | None = None) -> None:
        self._body: bytes | None = body
        self._rest = rest

    async def __call__(self) -> Event:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        if self._rest is not None:
            return await self._rest()
        await asyncio.Event().wait()  # its client has gone, and is not to be noticed
        raise AssertionError


class _Delaying:
    """Sends a response later."""

    def __init__(self, send: Send, seconds: float) -> None:
        self._send = send
        self._seconds = seconds

    async def __call__(self, message: Event) -> None:
        if message["type"] == "http.response.start":
            await asyncio.sleep(self._seconds)
        await self._send(message)


class _Truncating:
    """Sends the head of a response and the first half of its first piece, and ends the connection."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send

    async def __call__(self, message: Event) -> None:
        if message["type"] == "http.response.start":
            await self._send(message)
            return
        body = message.get("body", b"")
        await self._send({"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True})
        await asyncio.sleep(0.01)  # what was sent is on its way
        await _cut(self._scope)


async def _nowhere(message: Event) -> None:
    """Send nothing."""
    del message


async def _cut(scope: Scope) -> None:
    """End the connection without a response."""
    abort = scope.get("extensions", {}).get(ABORT)
    if abort is not None:
        abort["cut"]()
    await asyncio.sleep(0)  # the server learns of it
    raise ClientGone
