"""The native REST interface below `/v1`: objects, listings and buckets in JSON, with bearer tokens.

    PUT GET HEAD DELETE PATCH POST  /v1/{bucket}/{key...}   write, read, describe, delete, move, copy
    GET                             /v1/{bucket}            list: ?prefix=&cursor=&limit=
    POST GET                        /v1/buckets             create, list; root only, as all of the next line
    GET PATCH DELETE                /v1/buckets/{name}
    GET                             /v1/openapi.json

Requests become the operations of the S3 interface, so both have the same conditions, versions and locks. A
token is the root token, that of one bucket, or of a file of tokens with rights below prefixes of /bucket/key
(for objects, `append` is to replace one or to change its access). Public objects are read without one.
`buckets` is a word of this interface: a bucket of that name is reached by S3 only.

Every response has `x-request-id`: the client's, if it sent one, else a new one. All bodies but those of PUT
are at most 64 KiB, and all requests but PUT end within 30 s (of a GET: its response begins).
"""

import asyncio
import base64
import contextlib
import errno
import hashlib
import json
import os
import re
import secrets as _secrets  # noqa: TID251  request ids are not part of any protocol
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, NoReturn, Protocol
from urllib.parse import parse_qs, quote

from starlette.types import Message, Receive, Scope, Send

from fencepost.impl.http.limits import ClientGone, Gate, Limits, TooSlow, arriving, client_watched, read_body
from fencepost.impl.http.numbers import whole_number
from fencepost.impl.http.refusals import COMMON, Kind, Refusal, to_json
from fencepost.impl.http.targets import path_of
from fencepost.impl.http.tokens import Forbidden, Holder, Tokens
from fencepost.impl.objects.access import authorize, is_public, kept, may_read, own_acl, with_access
from fencepost.impl.objects.buckets import Buckets, Document
from fencepost.impl.objects.credentials import ROOT, Caller, Credentials, Origin, holder_of
from fencepost.impl.objects.rest_description import describe
from fencepost.impl.objects.wire.codec import parse_time
from fencepost.impl.objects.wire.conditions import check_reading, quoted, range_of, unquoted
from fencepost.impl.objects.wire.errors import S3Error, refuse
from fencepost.impl.store.errors import Misuse, StoreError, Unusable
from fencepost.impl.store.files.attributes import Attributes
from fencepost.impl.store.files.reading import Opened
from fencepost.impl.store.requests import List, Metadata, Outcome

BODY_BYTES = 64 * 1024
TIME_S = 30.0
PAGE_MAX = 1000
PREFIX = "/v1/"
_STEP = 1 << 20
_META = "x-object-meta-"
_REQUEST_ID = re.compile(r"[\w.:-]{1,128}")


class RestRefusal(Refusal):
    kinds = {
        **COMMON,
        "forbidden": Kind(403, "stop", "The token does not allow this."),
        "conflict": Kind(409, "park", "The state of the bucket or key does not allow this."),
        "precondition_failed": Kind(412, "park", "A condition of the request does not hold."),
        "range_not_satisfiable": Kind(416, "park", "The range lies behind the end of the object."),
        "insufficient_storage": Kind(507, "retry", "The disk is full."),
    }


_BY_STATUS = {
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    412: "precondition_failed",
    416: "range_not_satisfiable",
    500: "internal",
    503: "busy",
    507: "insufficient_storage",
}


class Host(Protocol):
    """The part of the server that this interface uses."""

    gate: Gate
    limits: Limits

    def act(self, operation: str, caller: Caller) -> Callable[..., Any]: ...

    async def in_thread(self, act: Callable[..., Any], *args: Any) -> Any: ...


@dataclass(frozen=True)
class _Request:
    method: str
    bucket: str
    key: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    raw_headers: list[tuple[bytes, bytes]]
    receive: Receive
    origin: Origin


class Rest:
    def __init__(
        self,
        host: Host,
        buckets: Buckets,
        credentials: Credentials,
        log: Any,
        tokens: Tokens[Holder] | None = None,
        *,
        answers_unsigned: bool = True,
    ) -> None:
        self._host = host
        self._buckets = buckets
        self._credentials = credentials
        self._log = log
        self._tokens = tokens
        self._answers_unsigned = answers_unsigned

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(scope["method"], id_of_request(scope["headers"]) or _secrets.token_hex(16), send)
        client = scope.get("client")
        try:
            request = _request(scope, receive)
            with self._host.gate.enter(client[0] if client else ""):
                await self._answer(request, answer)
        except ClientGone:
            return
        except Exception as error:  # noqa: BLE001  every failure is a response
            await answer.refuse(self._refusal(error))

    def _refusal(self, error: Exception) -> Refusal | None:
        """None for what is not modified."""
        match error:
            case Refusal():
                return error
            case S3Error(code="NotModified"):
                return None
            case S3Error():
                return RestRefusal(_BY_STATUS.get(error.status, "bad_request"), error.message)
            case Misuse():
                return RestRefusal("bad_request", str(error))
            case TimeoutError():
                return RestRefusal("too_slow", f"the request did not end within {TIME_S:g} s")
            case Unusable() if getattr(error.__cause__, "errno", 0) in (errno.ENOSPC, errno.EDQUOT):
                self._log.error("the store is full: %s", error)
                return RestRefusal("insufficient_storage", "there is no room left for the object")
            case StoreError():
                self._log.error("the store failed: %s", error)
            case _:
                self._log.error("a request failed", exc_info=error)
        return RestRefusal("internal", "this server failed; its log has the reason")

    async def _answer(self, request: _Request, answer: "_Answer") -> None:
        if request.bucket == "openapi.json" and not request.key:
            handlers = {"GET": self._openapi}
        elif request.bucket == "buckets" and request.key:
            handlers = {
                "GET": self._get_bucket, "PATCH": self._change_bucket, "DELETE": self._delete_bucket,
            }  # fmt: skip
        elif request.bucket == "buckets":
            handlers = {"GET": self._list_buckets, "POST": self._create_bucket}
        elif not request.key:
            handlers = {"GET": self._list}
        else:
            handlers = {
                "PUT": self._put, "GET": self._get, "HEAD": self._get, "DELETE": self._delete,
                "PATCH": self._patch, "POST": self._copy,
            }  # fmt: skip
        handler: Callable[[_Request, _Answer], Awaitable[None]] | None = handlers.get(request.method)
        if handler is None:
            raise RestRefusal("method_not_allowed", f"this address supports {', '.join(handlers)}")
        if handler == self._put:
            await handler(request, answer)
            return
        async with asyncio.timeout(TIME_S) as deadline:
            answer.begun = lambda: deadline.reschedule(None)
            try:
                await handler(request, answer)
            finally:
                answer.begun = lambda: None

    # Authorization.

    def _caller(self, request: _Request, bucket: str) -> Caller:
        """Return the sender of a request about a bucket, by a token of root, of the bucket, or of a file."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        token = given.strip()
        if scheme.lower() == "bearer" and token:
            caller = self._credentials.bearer(token, bucket)
            holder = self._tokens.owner(token) if self._tokens is not None and caller is None else None
            if holder is not None:
                caller = holder_of(holder, token.partition(".")[0])
            if caller is not None:
                return replace(caller, origin=request.origin)
        raise RestRefusal("unauthenticated", "send Authorization: Bearer <token of root or this bucket>")

    def _reader(self, request: _Request) -> Caller:
        """The same, or everybody if the request has no token."""
        if "authorization" in request.headers or not self._answers_unsigned:
            return self._caller(request, request.bucket)
        return Caller("", origin=request.origin)

    def _authorize(self, caller: Caller, operation: str, p: Mapping[str, Any]) -> Caller:
        try:
            return authorize(self._buckets, caller, operation, p)
        except S3Error as error:
            if error.code != "AccessDenied" or caller.holder is None:
                raise
            name = caller.holder.name
            raise Forbidden(
                "forbidden", f"the token of {name!a} does not allow {operation} at {p.get('Key', '')[:200]!a}"
            ) from None

    def _authorize_all(self, caller: Caller, bucket: str, *wanted: tuple[str, Mapping[str, Any]]) -> None:
        for operation, p in wanted:
            if self._authorize(caller, operation, {"Bucket": bucket, **p}).only_public:
                raise RestRefusal("forbidden", f"the token does not allow to read {p.get('Key', '')[:200]!a}")

    def _root(self, request: _Request) -> Caller:
        name = request.key if request.bucket == "buckets" else request.bucket
        caller = self._caller(request, name)
        if caller.name != ROOT:
            raise RestRefusal("forbidden", "buckets are administered with the root token")
        return caller

    # Objects.

    async def _put(self, request: _Request, answer: "_Answer") -> None:
        in_thread = self._host.in_thread
        caller = self._caller(request, request.bucket)
        expected = _content_md5(request.headers)
        own = _acl(request.headers.get("x-object-access", ""))
        parameters = {
            **_place(request),
            **_conditions(request.headers),
            **({"ACL": own} if own else {}),
            "ContentType": request.headers.get("content-type", "application/octet-stream"),
            "Metadata": {
                name.removeprefix(_META): text
                for name, text in request.headers.items()
                if name.startswith(_META)
            },
        }
        await in_thread(self._authorize, caller, "PutObject", parameters)
        context: AbstractContextManager[Any] = self._host.act("PutObject", caller)(parameters)
        receiving = await in_thread(context.__enter__)
        digest = hashlib.md5(usedforsecurity=False)

        def write(pieces: list[bytes]) -> None:
            for piece in pieces:
                digest.update(piece)
                receiving.write(piece)

        def publish(pieces: list[bytes]) -> Any:
            write(pieces)
            if expected and digest.hexdigest() != expected:
                refuse("BadDigest")
            return receiving.finish(digest.hexdigest(), {})

        try:
            waiting: list[bytes] = []
            size = total = 0
            async for piece in _arriving(request.receive, self._host.limits):
                waiting.append(piece)
                size, total = size + len(piece), total + len(piece)
                if size >= _STEP:
                    await in_thread(write, waiting)
                    waiting, size = [], 0
            values = await in_thread(publish, waiting)
        except BaseException as error:
            await asyncio.shield(in_thread(context.__exit__, type(error), error, error.__traceback__))
            raise
        await in_thread(context.__exit__, None, None, None)
        document = await in_thread(self._buckets.document, request.bucket)
        is_open = own != "private" and is_public(
            replace(document, access="public" if own else document.access), {}
        )
        access = "public" if is_open else "private"
        body = {"key": request.key, "etag": unquoted(values["ETag"]), "size": total, "access": access}
        await answer.json(body, 200, {"etag": values["ETag"]})

    async def _get(self, request: _Request, answer: "_Answer") -> None:
        in_thread = self._host.in_thread
        context = self._reading(request)
        fd, status, headers, start, stop = await in_thread(context.__enter__)
        try:
            await answer.start(status, headers)
            async with client_watched(request.receive) as has_gone:
                while start < stop and request.method == "GET" and not has_gone():
                    piece = await in_thread(os.pread, fd, min(_STEP, stop - start), start)
                    if not piece:
                        raise ClientGone  # the file was cut short: ending the connection is all that is left
                    start += len(piece)
                    await answer.send(piece, more=start < stop)
            if not answer.complete:
                await answer.send(b"")
        finally:
            await asyncio.shield(in_thread(context.__exit__, None, None, None))

    @contextlib.contextmanager
    def _reading(self, request: _Request) -> Iterator[tuple[int, int, dict[str, str], int, int]]:
        """The open file, the status and headers of its response, and which bytes of it."""
        caller = self._reader(request)
        try:
            caller = self._authorize(caller, "GetObject", _place(request))
            with (
                self._buckets.entered(request.bucket) as (store, document),
                store.opened(request.key) as found,
            ):
                if caller.only_public and (
                    found is None or not may_read(caller, document, found.attributes.extra)
                ):
                    self._refuse_reading(request, caller)
                if found is None:
                    refuse("NoSuchKey")
                size, etag = found.found.st_size, found.attributes.etag
                check_reading(_conditions(request.headers), etag, found.found.st_mtime_ns)
                span = range_of(request.headers.get("range", ""), size)
                start, stop = span or (0, size)
                headers = {
                    **_headers(found, document),
                    "content-length": str(stop - start),
                    **({"content-range": f"bytes {start}-{stop - 1}/{size}"} if span else {}),
                }
                yield found.fd, 206 if span else 200, headers, start, stop
        except S3Error as error:
            if caller.is_anonymous and error.code in ("AccessDenied", "NoSuchBucket"):
                self._refuse_reading(request, caller)
            raise

    def _refuse_reading(self, request: _Request, caller: Caller) -> NoReturn:
        """Refuse what is not public, in the same way whether it exists or not."""
        if caller.is_anonymous:
            self._caller(request, request.bucket)
        name = "" if caller.holder is None else f" of {caller.holder.name!a}"
        raise Forbidden("forbidden", f"the token{name} does not allow to read {request.key[:200]!a}")

    async def _delete(self, request: _Request, answer: "_Answer") -> None:
        caller = self._caller(request, request.bucket)
        await self._host.in_thread(self._authorize, caller, "DeleteObject", _place(request))
        act = self._host.act("DeleteObject", caller)
        await self._host.in_thread(act, {**_place(request), **_conditions(request.headers)})
        await answer.start(204, {})
        await answer.send(b"")

    async def _patch(self, request: _Request, answer: "_Answer") -> None:
        caller, body = self._caller(request, request.bucket), await self._body(request, "key", "access")
        if len(body) != 1:
            raise RestRefusal("bad_request", 'send {"key": "new/key"} to move or {"access": "public"}')
        if "access" in body:
            _acl(body["access"])
            await self._host.in_thread(self._authorize, caller, "PutObjectAcl", _place(request))
            await self._host.in_thread(self._set_access, request, body["access"])
            key = request.key
        else:
            key = body["key"]
            await self._host.in_thread(self._move, request, caller, key)
        await answer.json(await self._host.in_thread(self._described, request.bucket, key))

    def _set_access(self, request: _Request, access: str) -> None:
        with self._buckets.entered(request.bucket) as (store, document):
            own = kept(_acl(access), document)

            def changed(found: Opened) -> Attributes:
                check_reading(_conditions(request.headers), found.attributes.etag, found.found.st_mtime_ns)
                return found.attributes._replace(extra=Metadata({**found.attributes.extra, "Access": own}))

            if store.change(request.key, "", changed) is Outcome.MISSING:
                refuse("NoSuchKey")

    def _move(self, request: _Request, caller: Caller, key: str) -> None:
        """Copy, then delete what was copied: a crash in between leaves both, never none."""
        target = {"Key": key, **_write_conditions(request)}
        at = {"Key": request.key}
        self._authorize_all(
            caller, request.bucket, ("GetObject", at), ("DeleteObject", at), ("PutObject", target)
        )
        with (
            self._buckets.entered(request.bucket) as (store, document),
            store.opened(request.key) as found,
        ):
            if found is None:
                refuse("NoSuchKey")
            if key == request.key:
                return
            etag, acl = quoted(found.attributes.etag), own_acl(document, found.attributes.extra)
        copy = _copying(request, request.key, key, acl) | {"CopySourceIfMatch": etag}
        self._host.act("CopyObject", caller)(copy)
        self._host.act("DeleteObject", caller)({**_place(request), "IfMatch": etag})

    async def _copy(self, request: _Request, answer: "_Answer") -> None:
        caller, body = self._caller(request, request.bucket), await self._body(request, "source")
        source = body.get("source", "")
        if not source:
            raise RestRefusal("bad_request", 'send {"source": "another/key"}')
        target = {"Key": request.key, **_write_conditions(request)}

        def copy() -> dict[str, Any]:
            self._authorize_all(caller, request.bucket, ("GetObject", {"Key": source}), ("PutObject", target))
            with self._buckets.entered(request.bucket) as (store, document), store.opened(source) as found:
                acl = "" if found is None else own_acl(document, found.attributes.extra)
            self._host.act("CopyObject", caller)(_copying(request, source, request.key, acl))
            return self._described(request.bucket, request.key)

        await answer.json(await self._host.in_thread(copy))

    def _described(self, bucket: str, key: str) -> dict[str, Any]:
        with self._buckets.entered(bucket) as (store, document), store.opened(key) as found:
            if found is None:
                refuse("NoSuchKey")
            return _json(document, key, found.found.st_size, found.found.st_mtime_ns, found.attributes)

    # Listings.

    async def _list(self, request: _Request, answer: "_Answer") -> None:
        caller = self._caller(request, request.bucket)
        limit = _number(request.query.get("limit", "100"), PAGE_MAX)
        prefix, cursor = request.query.get("prefix", ""), request.query.get("cursor", "")
        listing = {"Bucket": request.bucket, "Prefix": prefix, "MaxKeys": limit}
        await self._host.in_thread(self._authorize, caller, "ListObjectsV2", listing)
        await answer.json(
            await self._host.in_thread(self._page, request.bucket, prefix, cursor, limit),
        )

    def _page(self, bucket: str, prefix: str, cursor: str, limit: int) -> dict[str, Any]:
        with self._buckets.entered(bucket) as (store, document):
            entries = self._buckets.index.entries(bucket, prefix, cursor, limit + 1)
            if entries is not None:
                found = [
                    _json(document, key, one.size, one.modified_ns, one.described())
                    for key, one in entries[:limit]
                ]
                cursor_of_next = entries[limit - 1][0] if len(entries) > limit else None
            else:
                page = store.send(List(prefix, after=cursor, limit=limit))
                found = []
                for info in page.objects:
                    with contextlib.suppress(S3Error):  # deleted meanwhile
                        found.append(self._described(bucket, info.key))
                cursor_of_next = page.objects[-1].key if page.next else None
        return {"objects": found, "next_cursor": cursor_of_next}

    # Buckets.

    async def _create_bucket(self, request: _Request, answer: "_Answer") -> None:
        self._root(request)
        body = await self._body(request, "name", "access")
        name, access = body.get("name", ""), body.get("access", "private")
        _acl(access)
        if name in ("buckets", "openapi.json"):
            raise RestRefusal("bad_request", f"{name!r} is a word of this interface; choose another name")

        def create() -> dict[str, Any]:
            self._buckets.create(name, access="public" if access == "public" else "")
            return _bucket(name, self._buckets.document(name))

        await answer.json(await self._host.in_thread(create), 201)

    async def _list_buckets(self, request: _Request, answer: "_Answer") -> None:
        self._root(request)
        found = await self._host.in_thread(lambda: [_bucket(*one) for one in self._buckets.all()])
        await answer.json({"buckets": found})

    async def _get_bucket(self, request: _Request, answer: "_Answer") -> None:
        self._root(request)
        document = await self._host.in_thread(self._buckets.document, request.key)
        await answer.json(_bucket(request.key, document))

    async def _change_bucket(self, request: _Request, answer: "_Answer") -> None:
        self._root(request)
        access = (await self._body(request, "access")).get("access", "")
        _acl(access)

        def change() -> dict[str, Any]:
            self._buckets.change(request.key, lambda document: with_access(document, access))
            return _bucket(request.key, self._buckets.document(request.key))

        await answer.json(await self._host.in_thread(change))

    async def _delete_bucket(self, request: _Request, answer: "_Answer") -> None:
        self._root(request)
        await self._host.in_thread(self._buckets.delete, request.key)
        await answer.start(204, {})
        await answer.send(b"")

    async def _openapi(self, request: _Request, answer: "_Answer") -> None:
        await answer.json(describe(list(RestRefusal.kinds.items())))

    async def _body(self, request: _Request, *names: str) -> dict[str, str]:
        """A JSON object with some of these names, whose values are texts."""
        content = await read_body(request.raw_headers, request.receive, self._host.limits, limit=BODY_BYTES)
        try:
            body = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise RestRefusal("bad_request", f"the body is not JSON: {error}") from None
        if (
            not isinstance(body, dict)
            or body.keys() - {*names}
            or not all(isinstance(value, str) and value for value in body.values())
        ):
            raise RestRefusal("bad_request", f"send a JSON object with texts at: {', '.join(names)}")
        return body


class _Answer:
    """The response to one request."""

    def __init__(self, method: str, request_id: str, send: Send) -> None:
        self._method = method
        self._id = request_id
        self._send = send
        self._started = False
        self.complete = False
        self.begun: Callable[[], object] = lambda: None
        """Called when the response begins."""

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        self._started = True
        self.begun()
        everything = {"x-request-id": self._id, "server": "Fencepost", **headers}
        message: Message = {
            "type": "http.response.start",
            "status": status,
            "headers": [(name.encode(), text.encode()) for name, text in everything.items()],
        }
        await self._send(message)

    async def send(self, piece: bytes, *, more: bool = False) -> None:
        self.complete = not more
        body = b"" if self._method == "HEAD" else piece
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def json(self, body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        content = to_json(body)
        usual = {"content-type": "application/json", "content-length": str(len(content))}
        await self.start(status, {**usual, "cache-control": "no-store", **(headers or {})})
        await self.send(content)

    async def refuse(self, refusal: Refusal | None) -> None:
        if self._started:  # the response is on its way: ending the connection is all that is left
            raise ClientGone
        if refusal is None:
            await self.start(304, {})
            await self.send(b"")
        else:
            await self.json(refusal.body() | {"request_id": self._id}, refusal.status, refusal.headers())


def id_of_request(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the id that a client gave its request; empty if it has none, or one that cannot be shown."""
    sent = next((value.decode("latin-1") for name, value in headers if name == b"x-request-id"), "")
    return sent if _REQUEST_ID.fullmatch(sent) else ""


def _request(scope: Scope, receive: Receive) -> _Request:
    try:
        path = path_of(scope["raw_path"])
        query = parse_qs(scope["query_string"].decode("ascii"), keep_blank_values=True, errors="strict")
        headers = {name.decode("latin-1"): value.decode() for name, value in scope["headers"]}
    except ValueError:
        raise RestRefusal("bad_request", "the address and the headers must be UTF-8") from None
    bucket, _, key = path.removeprefix(PREFIX).partition("/")
    flat = {name: values[-1] for name, values in query.items()}
    client = scope.get("client")
    origin = Origin(
        client[0] if client else "",
        scope.get("scheme") == "https",
        headers.get("referer"),
        headers.get("user-agent"),
    )
    return _Request(scope["method"], bucket, key, flat, headers, scope["headers"], receive, origin)


async def _arriving(receive: Receive, limits: Limits) -> AsyncIterator[bytes]:
    try:
        async for piece in arriving(receive, limits):
            yield piece
    except TooSlow as error:
        raise RestRefusal("too_slow", str(error)) from None


def _place(request: _Request) -> dict[str, Any]:
    return {"Bucket": request.bucket, "Key": request.key}


def _copying(request: _Request, source: str, target: str, acl: str) -> dict[str, Any]:
    place = f"{request.bucket}/{quote(source)}"
    own = {"ACL": acl} if acl else {}
    return {
        "Bucket": request.bucket, "Key": target, "CopySource": place, **own, **_write_conditions(request),
    }  # fmt: skip


def _write_conditions(request: _Request) -> dict[str, Any]:
    found = _conditions(request.headers)
    return {name: found[name] for name in ("IfMatch", "IfNoneMatch") if name in found}


def _conditions(headers: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: headers[header]
        for name, header in (("IfMatch", "if-match"), ("IfNoneMatch", "if-none-match"))
        if header in headers
    }
    for name, header in (
        ("IfModifiedSince", "if-modified-since"), ("IfUnmodifiedSince", "if-unmodified-since"),
    ):  # fmt: skip
        with contextlib.suppress(ValueError, KeyError):  # a date that is none is ignored, as HTTP has it
            found[name] = parse_time(headers[header])
    return found


def _content_md5(headers: Mapping[str, str]) -> str:
    text = headers.get("content-md5", "")
    try:
        digest = base64.b64decode(text, validate=True)
    except ValueError:
        digest = b"?"
    if text and len(digest) != 16:
        refuse("InvalidDigest")
    return digest.hex()


def _acl(access: str) -> str:
    if access not in ("public", "private", ""):
        raise RestRefusal("bad_request", f"access {access[:20]!r} is neither public nor private")
    return {"public": "public-read", "private": "private", "": ""}[access]


def _number(text: str, most: int) -> int:
    number = whole_number(text, most, least=1)
    if number is None:
        raise RestRefusal("bad_request", f"limit {text[:20]!a} is not a number from 1 to {most}")
    return number


def _moment(ns: int) -> datetime:
    return datetime.fromtimestamp(ns // 10**9, UTC)


def _headers(found: Opened, document: Document) -> dict[str, str]:
    known = found.attributes
    return {
        "etag": quoted(known.etag),
        "content-type": known.content_type,
        "last-modified": format_datetime(_moment(found.found.st_mtime_ns), usegmt=True),
        "accept-ranges": "bytes",
        "x-object-access": "public" if is_public(document, known.extra) else "private",
        **{_META + name: text for name, text in known.metadata.items()},
    }


def _json(document: Document, key: str, size: int, modified_ns: int, known: Attributes) -> dict[str, Any]:
    return {
        "key": key,
        "size": size,
        "etag": known.etag,
        "content_type": known.content_type,
        "access": "public" if is_public(document, known.extra) else "private",
        "metadata": dict(known.metadata),
        "last_modified": _moment(modified_ns).isoformat(),
    }


def _bucket(name: str, document: Document) -> dict[str, Any]:
    created = _moment(document.created_ns).isoformat()
    return {"name": name, "access": document.access or "private", "created": created}
