"""The server: S3 requests in, S3 responses out, over the operations on one root directory.

The event loop never waits for the disk: it collects pieces of a body and hands them to a thread, and a
thread reads the pieces of a response that are not in memory, which the system can say. So a body of any
size passes in bounded memory. A small object that is in memory is answered without a thread. A request
takes these steps, and the first that fails answers with one of S3's codes:

    place      bucket and key, from the path or from the host (virtual-host style)
    codec      the operation and its parameters; parameters that are not implemented are refused
    signature  the caller
    access     what the caller may do (see `access`), before the body
    body       decoded, and compared with its digests, before anything is published
    operation
"""

import asyncio
import errno
import functools
import itertools
import json
import logging
import os
import re
import secrets as _secrets  # noqa: TID251  request ids are not part of any protocol
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message as Event
from starlette.types import Receive, Scope, Send

from fencepost.impl.http.answers import SLICE
from fencepost.impl.http.limits import ClientGone, Limits, TooSlow, arriving, client_watched
from fencepost.impl.http.refusals import Refusal
from fencepost.impl.http.service import Head, Service, json_response, raw_response
from fencepost.impl.http.targets import path_of
from fencepost.impl.http.tokens import Headers, Holder, Tokens
from fencepost.impl.objects.access import authorize
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.credentials import Caller, Credentials, Origin
from fencepost.impl.objects.handoff_metrics import families
from fencepost.impl.objects.operations import Content, Receiving
from fencepost.impl.objects.rest import PREFIX, Rest, id_of_request
from fencepost.impl.objects.surface import KNOWN, act
from fencepost.impl.objects.wire import codec, cors, form
from fencepost.impl.objects.wire.body import Body, headers_of_body
from fencepost.impl.objects.wire.elements import http_moment
from fencepost.impl.objects.wire.errors import S3Error, error_answer, error_body, refuse
from fencepost.impl.objects.wire.requests import bucket_of_host, parse_query, place
from fencepost.impl.objects.wire.signature import Message, Signed, is_signed, verify
from fencepost.impl.objects.wire.signature_v2 import is_signed_v2, verify_v2
from fencepost.impl.recording.asgi import recorded
from fencepost.impl.recording.http import HttpRecording
from fencepost.impl.store.errors import Misuse, StoreError, Unusable
from fencepost.impl.store.files.disk import WouldWait

PUT_BYTES_MAX = 5 << 30
"""S3's limit on one put."""
WAIT_S_MAX, POLL_S = 20.0, 0.5
"""How long a request beside S3 may wait for an answer that is worth it, and how often that is looked for."""
SMALL_BYTES_MAX = 1 << 16
"""The largest body that the event loop copies and sends at once."""
KEEP_ALIVE_S = 5.0
"""The time in seconds without a byte after which a client may give up a completion."""
_AT_ONCE = getattr(os, "RWF_NOWAIT", 0)
_META = "x-amz-meta-"
_STEP = 1 << 20
"""The number of bytes that one thread writes or reads at a time."""
_OURS = re.compile(r"/(healthz|livez|readyz|metrics)")
_STREAMS_IN = frozenset({"PutObject", "UploadPart"})
_STREAMS_OUT = frozenset({"GetObject", "HeadObject"})


@dataclass(frozen=True)
class _Request(Message):
    """The same, with its place."""

    bucket: str
    key: str
    kept_headers: Mapping[str, str]
    """The headers, with the bytes of metadata as they were sent: they come back so."""


class Extension(Protocol):
    """Requests beside S3, below a name that no bucket can have: it begins with `_`."""

    place: str

    def answer(self, bucket: str, operation: str, body: bytes) -> tuple[Mapping[str, Any], float]:
        """Return the answer, and for how many seconds the client would wait for another one."""


class ObjectServer(Service):
    """An ASGI callable. `domain` is the host below which buckets have names of their own, if any.

    Without `answers_unsigned` nothing is public, whatever buckets and objects say.
    """

    def __init__(
        self,
        buckets: Buckets,
        credentials: Credentials,
        *,
        domain: str = "",
        limits: Limits | None = None,
        tokens: Tokens[Holder] | None = None,
        recording: HttpRecording | None = None,
        extensions: Callable[[], Iterable[Extension]] = tuple,
        answers_unsigned: bool = True,
    ) -> None:
        self._make_extensions = extensions
        super().__init__(
            "objects", {"/livez": {"GET": _alive}}, verify=buckets.verify, openapi=dict, limits=limits
        )
        self.metrics.families(lambda: families(buckets.root))
        self._buckets = buckets
        self._credentials = credentials
        self._domain = domain
        self._tokens = tokens
        self.answers_unsigned = answers_unsigned
        self._log = logging.getLogger("fencepost.objects")
        self._access = logging.getLogger("fencepost.objects.access")
        self._process, self._count = _secrets.token_hex(4).upper(), itertools.count()
        self._rest = Rest(self, buckets, credentials, self._log, tokens, answers_unsigned=answers_unsigned)
        self._records = recording is not None
        self._answer_s3 = self._s3 if recording is None else recorded(self._s3, recording)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_http = scope["type"] == "http"
        is_host = is_http and self._bucket_of_host(scope["headers"]) is not None
        # With other methods it is a bucket, whose name is refused with the reason.
        is_ours = is_http and _OURS.fullmatch(scope["path"]) and scope["method"] in ("GET", "HEAD")
        if not is_host and (not is_http or is_ours):
            await super().__call__(scope, receive, identified(scope, send) if is_http else send)
        else:
            is_rest = scope["path"].startswith(PREFIX) and not is_host
            await self.observed(self._rest if is_rest else self._answer_s3, scope, receive, send)

    def at_once(self, head: Head) -> bytes | None:
        """Small objects that are in memory; every other request, and every refusal, takes the usual way."""
        if head.method not in ("GET", "HEAD") or self._records:
            return None
        begun = time.perf_counter()
        try:
            request = self.take_apart(head.method, head.raw_path, head.query, head.headers)
            if not self._is_s3(request, head.headers):
                return None
            if "origin" in request.headers:
                return None
            address = head.client[0] if head.client else ""
            with self.gate.enter(address):
                answer = self._small_object(request, address)
            if answer is None:
                return None
            date = http_moment(self._buckets.env.now_ns() // 10**9)  # uvicorn adds it to the others
            headers = {"Date": date, **self.common_headers(self.new_id(), head.headers), **answer.headers}
            length = int(headers.pop("Content-Length"))
            raw = raw_response(answer.status, headers, answer.body, length)
        except (S3Error, Refusal, Misuse, StoreError, WouldWait):
            return None
        except Exception:  # noqa: BLE001  a bug of ours: logged, and perhaps there is none on the usual way
            self._log.exception("a request could not be answered at once")
            return None
        self.count(head.method, request.path, head.query, answer.status, begun, head.headers)
        return raw

    def _is_s3(self, request: _Request, headers: Headers) -> bool:
        if self._bucket_of_host(headers) is not None:
            return True
        return not request.path.startswith(PREFIX) and not _OURS.fullmatch(request.path)

    def _small_object(self, request: _Request, address: str) -> codec.Answer | None:
        call = _call(request)
        if call.operation not in _STREAMS_OUT:
            return None
        caller, _ = self.authenticate(request, address)
        caller = self.authorize(caller, call, wait=False)
        codec.refuse_unknown(call, KNOWN[call.operation])
        reading = act(call.operation, self._buckets, caller, wait=False)
        content: Content
        with reading(call.parameters) as content:
            body = b""
            if call.operation == "GetObject" and content.start < content.stop:
                body = _read_cached(content)
            answer = codec.write(call.operation, content.values, content.status)
            return codec.Answer(answer.status, answer.headers, body)

    def count(
        self,
        method: str,
        path: str,
        query: bytes,
        status: int,
        begun: float,
        headers: Iterable[tuple[bytes, bytes]],
    ) -> None:
        super().count(method, path, query, status, begun, headers)
        if self._access.isEnabledFor(logging.INFO):
            self._access.info("%s %a %d", method[:20], path[:200], status)

    async def _s3(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = self.new_id()
        exchange = _Exchange(self, scope, receive, send, request_id)
        try:
            await exchange.serve()
        except ClientGone:
            return
        except Exception as error:  # noqa: BLE001  every failure has a response
            await exchange.fail(self.error_of(error, request_id))

    # For an exchange.

    @functools.cached_property
    def _extensions(self) -> Mapping[str, Extension]:
        """Made at the first request for one: their modules would delay the start."""
        return {extension.place: extension for extension in self._make_extensions()}

    def extension(self, place: str) -> Extension | None:
        """Return the extension at a place; the name of every place begins with what no bucket's name does."""
        return self._extensions.get(place) if place.startswith("_") else None

    def error_of(self, error: BaseException, request_id: str) -> S3Error:
        """Return S3's error for a failure."""
        match error:
            case S3Error():
                return error
            case Refusal():  # too many requests in flight
                self.count_refused(error.kind)
                return S3Error("SlowDown", error.message)
            case Misuse():
                code = "KeyTooLongError" if "bytes in UTF-8" in str(error) else "InvalidArgument"
                return S3Error(code, str(error))
            case Unusable():
                self._log.error("the store cannot be used: %s", error)
                full = getattr(error.__cause__, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
                return S3Error("InsufficientStorage" if full else "InternalError")
            case StoreError():
                self._log.error("the store failed: %s", error)
            case _:  # a bug of ours: logged with its traceback, answered with 500
                self._log.error("request %s failed", request_id, exc_info=error)
        return S3Error("InternalError")

    def take_apart(self, method: str, raw_path: bytes, query_string: bytes, given: Headers) -> _Request:
        headers: dict[str, str] = {}
        as_sent: dict[str, str] = {}
        for raw_name, value in given:
            name, text = raw_name.decode("latin-1"), _text(value)
            headers[name] = f"{headers[name]},{text}" if name in headers else text
            if not text.isascii() and name.startswith(_META):
                as_sent[name] = value.decode("utf-8", "surrogateescape")
        try:
            path = path_of(raw_path)
            query = parse_query(query_string.decode("ascii"))
        except (UnicodeDecodeError, ValueError):
            refuse("InvalidURI")
        bucket, key = place(path, self._bucket_of_host(given))
        return _Request(method, path, tuple(query), headers, bucket, key, {**headers, **as_sent})

    def _bucket_of_host(self, headers: Headers) -> str | None:
        """The bucket that is part of the host (virtual-host style); there every path is a key."""
        if not self._domain:
            return None
        host = next((value.decode("latin-1") for name, value in headers if name == b"host"), "")
        return bucket_of_host(host.rsplit(":", 1)[0].lower(), self._domain.lower())

    def rules_for_pages(self, bucket: str) -> Sequence[cors.Rule] | None:
        """Return the rules of a bucket for requests of pages of other origins."""
        try:
            text = self._buckets.document(bucket).cors if bucket else ""
        except S3Error:
            return None
        return json.loads(text) if text else None

    def location(self, bucket: str, key: str) -> str:
        return self._buckets.location(bucket, key)

    def permission_of(self, fields: Mapping[str, str], bucket: str) -> form.Permission | None:
        return form.permission_of(fields, bucket, self._credentials.secret, self.now())

    def authenticate(
        self, request: _Request, address: str, *, secure: bool = False
    ) -> tuple[Caller, Signed | None]:
        """Return the sender; one who did not sign is anonymous, if this server answers such at all."""
        origin = Origin(address, secure, request.headers.get("referer"), request.headers.get("user-agent"))
        is_v2 = is_signed_v2(request)
        if not is_v2 and not is_signed(request) and self.answers_unsigned:
            return Caller("", origin=origin), None
        if is_v2:
            host_bucket = "" if request.path.startswith(f"/{request.bucket}") else request.bucket
            signed = verify_v2(request, host_bucket, self._credentials.secret, self.now())
        else:
            signed = verify(request, self._credentials.secret, self.now())
        caller = self.caller(signed.scope.access_key)
        return replace(caller, origin=origin), signed

    def caller(self, access_key: str) -> Caller:
        """Return the caller with an access key whose signature was verified."""
        holder = self._tokens.holder if self._tokens is not None else lambda _: None
        caller = self._credentials.caller(access_key, holder)
        if caller is None:
            refuse("InvalidAccessKeyId")
        return caller

    def authorize(self, caller: Caller, call: codec.Call, *, wait: bool = True) -> Caller:
        return authorize(self._buckets, caller, call.operation, call.parameters, wait=wait)

    def new_id(self) -> str:
        """Of a request: no other process or request has it."""
        return f"{self._process}{next(self._count):08X}"

    def common_headers(self, request_id: str, headers: Headers) -> dict[str, str]:
        named = id_of_request(headers) or request_id
        return {"x-amz-request-id": request_id, "x-request-id": named, "Server": "Fencepost"}

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._buckets.env.now_ns() / 1e9, UTC)

    def act(self, operation: str, caller: Caller) -> Callable[..., Any]:
        return act(operation, self._buckets, caller)


class _Exchange:
    """One request and its response."""

    def __init__(
        self, server: ObjectServer, scope: Scope, receive: Receive, send: Send, request_id: str
    ) -> None:
        self._server = server
        self._scope = scope
        self._receive = receive
        self._send = send
        self._id = request_id
        self._begun = False
        self._for_pages: Mapping[str, str] = {}
        """Headers that let a page of another origin see the response."""

    async def serve(self) -> None:
        scope = self._scope
        request = self._server.take_apart(
            scope["method"], scope["raw_path"], scope["query_string"], scope["headers"]
        )
        with self._server.gate.enter(self._client()):
            if "origin" in request.headers or request.method == "OPTIONS":
                rules = await self._server.in_thread(self._server.rules_for_pages, request.bucket)
                if request.method == "OPTIONS":
                    await self._answer(codec.Answer(200, cors.preflight(rules, request.headers)))
                    return
                method = request.headers.get("access-control-request-method", request.method)
                self._for_pages = cors.allowed(rules or (), request.headers["origin"], method) or {}
            boundary = form.boundary_of(request.headers.get("content-type", ""))
            if request.method == "POST" and boundary and not request.key and not request.query:
                await self._post_form(request, form.Form(boundary))
                return
            await self._serve(request)

    def _client(self) -> str:
        client = self._scope.get("client")
        return client[0] if client else ""

    async def _extend(self, extension: "Extension", request: _Request) -> None:
        """Answer a request beside S3: /PLACE/v1/BUCKET/OPERATION, signed by one who may use the bucket."""
        version, _, place = request.key.partition("/")
        bucket, _, operation = place.partition("/")
        if request.method != "POST" or version != "v1" or not bucket:
            refuse("MethodNotAllowed")
        if is_signed_v2(request):
            refuse("AccessDenied")  # it signs no body
        caller, signed = self._server.authenticate(request, self._client())
        if signed is None or caller.holder is not None or not caller.may_use(bucket):
            refuse("AccessDenied")
        body = await self._small_body(operation, request, signed)
        clock = asyncio.get_running_loop().time
        begun_s = clock()
        while True:
            found, wait_s = await self._server.in_thread(extension.answer, bucket, operation, body)
            if clock() + POLL_S - begun_s > min(wait_s, WAIT_S_MAX):
                break
            await asyncio.sleep(POLL_S)
        headers = {"Content-Type": "application/json"}
        await self._answer(codec.Answer(200, headers, json.dumps(found).encode()))

    async def _serve(self, request: _Request) -> None:
        extension = self._server.extension(request.bucket)
        if extension is not None:
            await self._extend(extension, request)
            return
        call = _call(request)
        secure = self._scope.get("scheme") == "https"
        caller, signed = self._server.authenticate(request, self._client(), secure=secure)
        caller = await self._authorized(caller, call)
        if call.operation not in KNOWN:
            refuse("NotImplemented", f"{call.operation} is not implemented")
        codec.refuse_unknown(call, KNOWN[call.operation])
        act = self._server.act(call.operation, caller)
        if call.operation in _STREAMS_IN:
            await self._put(call, act, request, signed)
        elif call.operation in _STREAMS_OUT:
            await self._get(call, act)
        else:
            content = await self._small_body(call.operation, request, signed)
            working = self._server.in_thread(lambda: act(codec.read_body(call, content)))
            if call.operation == "CompleteMultipartUpload":
                await self._answer_later(call.operation, asyncio.ensure_future(working))
            else:
                await self._answer(codec.write(call.operation, await working))

    async def _answer_later(self, operation: str, working: "asyncio.Future[Any]") -> None:
        """Answer what may take minutes: once `KEEP_ALIVE_S` have passed, with 200 and white space until it
        has ended, as S3 does. Clients and proxies would take silence for a dead connection. The document then
        tells how it ended."""
        try:
            ended, _ = await asyncio.wait({working}, timeout=KEEP_ALIVE_S)
            if ended:
                await self._answer(codec.write(operation, working.result()))
                return
            await self._start(200, {"Content-Type": "application/xml"})
            await self._send({"type": "http.response.body", "body": codec.DECLARATION, "more_body": True})
            while not ended:
                ended, _ = await asyncio.wait({working}, timeout=KEEP_ALIVE_S)
                if not ended:
                    await self._send({"type": "http.response.body", "body": b" ", "more_body": True})
        finally:
            if not working.done():  # its result is not needed any more
                working.add_done_callback(lambda one: one.cancelled() or one.exception())
        failure = working.exception()
        if failure is None:
            body = codec.write(operation, working.result()).body
        else:
            error = self._server.error_of(failure, self._id)
            body = error_body(error, self._scope["path"], self._id)
        await self._send({"type": "http.response.body", "body": body.removeprefix(codec.DECLARATION)})

    async def _authorized(self, caller: Caller, call: codec.Call) -> Caller:
        try:
            return self._server.authorize(caller, call, wait=False)
        except WouldWait:
            return await self._server.in_thread(self._server.authorize, caller, call)

    # Bodies.

    async def _small_body(self, operation: str, request: _Request, signed: Signed | None) -> bytes:
        """A body that is XML, or nothing."""
        headers = request.headers
        if "content-length" not in headers and "transfer-encoding" not in headers:
            return b""
        body = Body(headers_of_body(operation, headers), signed)
        if body.length > codec.XML_BYTES_MAX:
            refuse("MalformedXML")
        pieces: list[bytes] = []
        async for piece in self._arriving():
            pieces += body.feed(piece)
        body.finish()
        return b"".join(pieces)

    async def _arriving(self) -> AsyncIterator[bytes]:
        try:
            async for piece in arriving(self._receive, self._server.limits):
                yield piece
        except TooSlow:
            refuse("RequestTimeout")

    async def _put(
        self,
        call: codec.Call,
        act: Callable[..., AbstractContextManager[Receiving]],
        request: _Request,
        signed: Signed | None,
    ) -> None:
        unmeasured = "chunked" in request.headers.get("transfer-encoding", "").lower()
        unmeasured = unmeasured and not {"content-length", "x-amz-decoded-content-length"} & {
            *request.headers
        }
        body = Body(request.headers, signed, length=PUT_BYTES_MAX if unmeasured else None)
        if body.length > PUT_BYTES_MAX:
            refuse("EntityTooLarge", proposed_size=str(body.length), max_size_allowed=str(PUT_BYTES_MAX))
        values = await self._store(act(call.parameters), body)
        await self._answer(codec.write(call.operation, values))

    async def _store(
        self,
        context: AbstractContextManager[Receiving],
        body: Body | form.FormBody,
        arriving: AsyncIterator[bytes] | None = None,
    ) -> Any:
        """Store the body that arrives; returns the values of the response."""
        in_thread = self._server.in_thread
        waiting: list[bytes] = []
        size = 0
        receiving: Receiving | None = None
        try:
            async for piece in arriving or self._arriving():
                waiting.append(piece)
                size += len(piece)
                if size >= _STEP:
                    if receiving is None:
                        receiving = await in_thread(context.__enter__)
                    await in_thread(_write, receiving, body, waiting)
                    waiting, size = [], 0
            if receiving is None:  # one visit to a thread does it all
                values = await in_thread(_put_at_once, context, body, waiting)
            else:
                values = await in_thread(_finish, receiving, body, waiting)
        except BaseException as error:
            if receiving is not None:
                await asyncio.shield(in_thread(context.__exit__, type(error), error, error.__traceback__))
            raise
        if receiving is not None:
            await in_thread(context.__exit__, None, None, None)
        return values

    async def _post_form(self, request: _Request, posted: form.Form) -> None:
        """`POST` of an object by a form of a browser, which its policy allows."""
        arriving = self._arriving()
        early: list[bytes] = []
        async for piece in arriving:
            early += posted.feed(piece)
            if posted.in_file:
                break
        if not posted.in_file:
            posted.finish()
        fields = posted.fields
        if not fields.get("key"):
            message = (
                "Bucket POST must contain a field named 'key'.  If it is specified, please check the order"
            )
            refuse("InvalidArgument", message, argument="key")
        fields["key"] = fields["key"].replace("${filename}", posted.file_name)
        permission = self._server.permission_of(fields, request.bucket)
        origin = Origin(self._client(), self._scope.get("scheme") == "https", request.headers.get("referer"))
        if permission is None:
            if not self._server.answers_unsigned:
                refuse("AccessDenied")
            caller = Caller("", origin=origin)
        else:
            caller = replace(self._server.caller(permission.access_key), origin=origin)
        headers = form.headers_of(fields)
        call = codec.Call(
            "PutObject", codec.parameters_of("PutObject", request.bucket, fields["key"], {}, headers)
        )
        if "tagging" in fields:
            call.parameters["Tagging"] = codec.tagging_header(fields["tagging"])
        caller = await self._authorized(caller, call)
        codec.refuse_unknown(call, KNOWN["PutObject"])
        body = form.FormBody(posted, Body(headers, None, length=PUT_BYTES_MAX), permission, early)
        context = self._server.act("PutObject", caller)(call.parameters)
        values = await self._store(context, body, _after_nothing(arriving))
        location = self._server.location(request.bucket, fields["key"])
        status, more, content = form.answer(fields, request.bucket, values["ETag"], location)
        headers = {"ETag": values["ETag"], **more}
        if values.get("VersionId"):
            headers["x-amz-version-id"] = values["VersionId"]
        await self._answer(codec.Answer(status, headers, content))

    async def _get(self, call: codec.Call, act: Callable[..., AbstractContextManager[Content]]) -> None:
        in_thread = self._server.in_thread
        context = act(call.parameters)
        content = await in_thread(context.__enter__)
        try:
            answer = codec.write(call.operation, content.values, content.status)
            await self._start(answer.status, answer.headers)
            if call.operation == "HeadObject" or content.start == content.stop:
                await self._send({"type": "http.response.body", "body": b""})
                return
            at = content.start
            async with client_watched(self._receive) as has_gone:
                while at < content.stop and not has_gone():
                    left = content.stop - at
                    piece: bytes | bytearray | None = _read_at_once(content.fd, min(SLICE, left), at)
                    if piece is None:
                        piece = await in_thread(_read, content.fd, min(_STEP, left), at)
                    else:
                        await asyncio.sleep(0)  # others have their turn, however fast this client reads
                    at += len(piece)
                    await self._send(
                        {"type": "http.response.body", "body": piece, "more_body": at < content.stop}
                    )
        finally:
            await asyncio.shield(in_thread(context.__exit__, None, None, None))

    # Responses.

    async def _answer(self, answer: codec.Answer) -> None:
        await self._start(answer.status, {**answer.headers, "Content-Length": str(len(answer.body))})
        await self._send({"type": "http.response.body", "body": answer.body})

    async def _start(self, status: int, headers: Mapping[str, str]) -> None:
        self._begun = True
        common = self._server.common_headers(self._id, self._scope["headers"])
        found = {**common, **self._for_pages, **headers}
        if status == 204:
            found.pop("Content-Length", None)
        message = {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (name.lower().encode(), text.encode("utf-8", "surrogateescape"))
                for name, text in found.items()
            ],
        }
        await self._send(message)

    async def fail(self, error: S3Error) -> None:
        if self._begun:  # the response is on its way: ending the connection is all that is left
            raise ClientGone
        path = self._scope["path"]
        status, headers, body = error_answer(error, self._scope["method"], path, self._id)
        if status == 503:
            headers["Retry-After"] = "1"
        await self._start(status, headers)
        await self._send({"type": "http.response.body", "body": body})


async def _alive(_: Request) -> Response:
    return json_response({"status": "ok"})


def identified(scope: Scope, send: Send) -> Send:
    """Return what sends responses with the id of their request."""
    found = (id_of_request(scope["headers"]) or _secrets.token_hex(16)).encode()

    async def identified(message: Event) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"x-request-id", found)]}
        await send(message)

    return identified


def _put_at_once(
    context: AbstractContextManager[Receiving], body: Body | form.FormBody, pieces: list[bytes]
) -> dict[str, Any]:
    with context as receiving:
        return _finish(receiving, body, pieces)


async def _after_nothing(arriving: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Begin with an empty piece, which moves on a body that has some content already."""
    yield b""
    async for piece in arriving:
        yield piece


def _write(receiving: Receiving, body: Body | form.FormBody, pieces: list[bytes]) -> None:
    for piece in pieces:
        for content in body.feed(piece):
            receiving.write(content)


def _finish(receiving: Receiving, body: Body | form.FormBody, pieces: list[bytes]) -> dict[str, Any]:
    _write(receiving, body, pieces)
    checksums = body.finish()
    return receiving.finish(body.md5.hexdigest(), checksums)


def _read(fd: int, size: int, at: int) -> bytes:
    piece = os.pread(fd, size, at)
    if not piece:
        refuse("InternalError")
    return piece


def _read_cached(content: Content) -> bytes:
    """The bytes of a small object that are in memory; raises `WouldWait`."""
    size = content.stop - content.start
    body = _read_at_once(content.fd, size, content.start) if size <= SMALL_BYTES_MAX else None
    if body is None:
        raise WouldWait
    return bytes(body)


def _read_at_once(fd: int, size: int, at: int) -> bytearray | None:
    """Return bytes of a file that are in memory; None if the disk would have to be waited for, or perhaps."""
    if not _AT_ONCE:
        return None
    body = bytearray(size)
    try:
        found = os.preadv(fd, [body], at, _AT_ONCE)
    except OSError:  # not in memory, or this file system cannot say so
        return None
    return body if found == size else None


def _call(request: _Request) -> codec.Call:
    return codec.read(request.method, request.bucket, request.key, dict(request.query), request.kept_headers)


def _text(value: bytes) -> str:
    """Headers are UTF-8 where they can be, as SDKs send them."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
