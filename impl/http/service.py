"""The ASGI application of a server: its routes, and what every server of ours has beside them.

    GET /healthz        the process is alive
    GET /readyz         the store is reachable, too
    GET /metrics        Prometheus metrics
    GET /openapi.json   the interface, for programs

Every outcome of a route becomes a response: a `Refusal` as it is, a store that cannot be used as 503, and a
failure of ours as 500, with its reason in the log only. The event loop never waits for a body to be parsed or
for the store: routes call `in_thread` for both.
"""

import asyncio
import functools
import http
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import unquote_plus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fencepost.impl.http.answers import Answers, Outgoing
from fencepost.impl.http.limits import ClientGone, Gate, Limits
from fencepost.impl.http.metrics import CONTENT_TYPE, Metrics
from fencepost.impl.http.refusals import Refusal, to_json
from fencepost.impl.http.targets import text_path
from fencepost.impl.store.errors import StoreError

if TYPE_CHECKING:
    from fencepost.impl.http.spans import Spans

T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]
Routes = Mapping[str, Mapping[str, Endpoint]]
"""Path -> method -> endpoint."""

_SECRET = re.compile(r"(?i)signature|token")
"""Parameters that are secret: that of a presigned URL has the power of its signer's credentials."""
READY_S = 2.0
"""The time in seconds that `/readyz` reuses a result, which bounds its requests to the store."""


class Head(NamedTuple):
    """A request before its body, as it arrived; the names of headers are in lower case."""

    method: str
    raw_path: bytes
    query: bytes
    headers: list[tuple[bytes, bytes]]
    client: tuple[str, int] | None


def raw_response(status: int, headers: Mapping[str, str], body: bytes, length: int | None = None) -> bytes:
    """As it is sent. `length` is that of the body where that is not sent, as for HEAD."""
    values = "".join(headers.values())
    if _CONTROL.search(values):
        raise ValueError(f"a header has a control character: {values[:200]!a}")
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    size = len(body) if length is None else length
    head = f"{_status_line(status)}{''.join(lines)}content-length: {size}\r\n\r\n"
    return head.encode("utf-8", "surrogateescape") + body


def _shown(query: bytes) -> bytes:
    """A query without its secrets; their names may be encoded."""
    pairs = (pair.partition(b"=") for pair in query.split(b"&"))
    hidden = (
        name + equals + (b"-" if _SECRET.search(unquote_plus(name.decode("latin-1"))) else value)
        for name, equals, value in pairs
    )
    return b"&".join(hidden)[:400]


@functools.cache
def _status_line(status: int) -> str:
    return f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\n"


_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f]")


def json_response(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        to_json(body), status, {"cache-control": "no-store", **(headers or {})}, "application/json"
    )


class Service:
    """An ASGI callable. `name` is part of the names of its metrics, its logger and its threads.

    `verify` raises one of `unavailable` when the store cannot be used; so may any endpoint.
    """

    def __init__(
        self,
        name: str,
        routes: Routes,
        *,
        verify: Callable[[], None],
        openapi: Callable[[], Any],
        limits: Limits | None = None,
        metrics: Metrics | None = None,
        unavailable: tuple[type[Exception], ...] = (StoreError,),
    ) -> None:
        self.limits = limits or Limits()
        self.metrics = metrics or Metrics()
        self.gate = Gate(self.limits)
        self.answers = Answers(self.limits)
        prefix = f"fencepost_{name}"
        self._requests = self.metrics.counter(
            f"{prefix}_requests_total", "HTTP requests, by status of the response.", "status"
        )
        self._by_status: dict[int, Any] = {}
        """The counters of `_requests`, which takes long to find them."""
        self._durations = self.metrics.histogram(
            f"{prefix}_request_seconds", "Time from a request to the end of its response."
        )
        self._refused = self.metrics.counter(
            f"{prefix}_refused_total", "Refused requests and connections, by kind.", "kind"
        )
        self.metrics.gauge(
            f"{prefix}_requests_in_flight",
            "Requests in flight that count against the limit.",
            lambda: self.gate.inside,
        )
        self.metrics.gauge(
            f"{prefix}_long_answers",
            "Answers in progress that wait, or are long.",
            lambda: self.answers.gate.inside,
        )
        self.metrics.gauge(
            f"{prefix}_client_memory_bytes",
            "Bytes in memory for clients that count against the limit.",
            lambda: self.answers.memory.held,
        )
        self._log = logging.getLogger(f"fencepost.{name}")
        self.spans: Spans | None = None
        """Exports a span for each request; its maker closes it."""
        self._unavailable = unavailable
        self._pool = ThreadPoolExecutor(self.limits.threads, thread_name_prefix=name)
        self._readiness = _Readiness(verify, unavailable, self._log)
        self._app = self._routed(
            {
                **routes,
                "/healthz": {"GET": self._healthz},
                "/readyz": {"GET": self._readyz},
                "/metrics": {"GET": self._metrics_page},
                "/openapi.json": {"GET": _constant(openapi)},
            }
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self.observed(self._route, scope, receive, send)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            path = text_path(scope["raw_path"])  # else the router would match a path before a line feed
        except Refusal as refusal:
            await self._refuse(refusal)(scope, receive, send)
        else:
            await self._app({**scope, "path": path}, receive, send)

    def at_once(self, head: Head) -> bytes | None:
        """The whole response to a request without a body, if there is one that waits for nothing; else None,
        and the request is served like every other. Called in the event loop."""
        return None

    async def observed(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, count it, and log one line about it: never a header, never a body."""
        begun = time.perf_counter()
        answer = Outgoing(self.answers, scope, send, self.count_refused)
        if (b"expect", b"100-continue") in scope["headers"]:
            receive = answer.watching(receive)
        try:
            await app(scope, receive, answer.send)
        except ClientGone:
            pass
        finally:
            answer.close()
            self.count(
                *(scope["method"], scope["path"], scope["query_string"], answer.status, begun),
                scope["headers"],
            )

    def count(
        self,
        method: str,
        path: str,
        query: bytes,
        status: int,
        begun: float,
        headers: Iterable[tuple[bytes, bytes]],
    ) -> None:
        """Count a request that began at `begun` of the performance counter."""
        took_s = time.perf_counter() - begun
        counter = self._by_status.get(status)
        if counter is None:
            counter = self._by_status[status] = self._requests.labels(str(status))
        counter.inc()
        self._durations.observe(took_s)
        if self.spans is not None:
            self.spans.add(method, path, status, took_s, headers)
        if self._log.isEnabledFor(logging.DEBUG):
            self._log.debug(
                "%s %a %a %d %.1f ms", method[:20], path[:80], _shown(query), status, took_s * 1e3
            )

    async def in_thread(self, act: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, act, *args)

    def count_refused(self, kind: str) -> None:
        """Count a connection that was refused before it became a request."""
        self._refused.labels(kind).inc()

    def stop(self) -> None:
        """Refuse new work; requests in flight are finished."""
        self.gate.closed = True

    def close(self) -> None:
        self._pool.shutdown(wait=True)
        self._readiness.close()

    def _routed(self, routes: Routes) -> Starlette:
        app = Starlette(
            routes=[
                Route(path, self._guarded(methods), methods=list(methods)) for path, methods in routes.items()
            ],
            exception_handlers={HTTPException: _no_route},
        )
        app.router.redirect_slashes = False
        return app

    def _guarded(self, methods: Mapping[str, Endpoint]) -> Endpoint:
        """The endpoint of one path, in which every exception becomes a response."""

        async def endpoint(request: Request) -> Response:
            try:
                # The router accepts HEAD where there is GET.
                return await methods["GET" if request.method == "HEAD" else request.method](request)
            except Refusal as refusal:
                return self._refuse(refusal)
            except ClientGone:
                return Response(status_code=400)  # no client reads it
            except self._unavailable as error:
                self._log.error("the store cannot be used: %s", error)
                return self._store_unavailable(
                    "the store cannot be used; the log of this server has the reason"
                )
            except Exception:  # noqa: BLE001 - a bug of ours: logged with its traceback, answered with 500
                self._log.exception("a request failed")
                return self._refuse(Refusal("internal", "this server failed; its log has the reason"))

        return endpoint

    def _refuse(self, refusal: Refusal) -> Response:
        self.count_refused(refusal.kind)
        return json_response(refusal.body(), refusal.status, refusal.headers())

    def _store_unavailable(self, message: str) -> Response:
        return self._refuse(Refusal("store_unavailable", message, retry_after_s=self.limits.retry_after_s))

    async def _healthz(self, request: Request) -> Response:
        return json_response({"status": "ok"})

    async def _readyz(self, request: Request) -> Response:
        if self.gate.closed:
            raise Refusal("draining", "this server is about to stop", retry_after_s=self.limits.retry_after_s)
        if await self._readiness.check():
            return self._store_unavailable("the store does not answer; the log of this server has the reason")
        return json_response({"status": "ok"})

    async def _metrics_page(self, request: Request) -> Response:
        return Response(self.metrics.exposition(), media_type=CONTENT_TYPE)


class _Readiness:
    """Verifies the store, one request at a time, in a thread that no other work can occupy."""

    def __init__(
        self, verify: Callable[[], None], unavailable: tuple[type[Exception], ...], log: logging.Logger
    ) -> None:
        self._verify = verify
        self._unavailable = unavailable
        self._log = log
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ready")
        self._lock: asyncio.Lock | None = None
        self._known_until = 0.0
        self._problem = ""

    async def check(self) -> str:
        """The problem; empty when the store can be used."""
        loop = asyncio.get_running_loop()
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            if loop.time() >= self._known_until:
                self._problem = await loop.run_in_executor(self._pool, self._find_problem)
                self._known_until = loop.time() + READY_S
        return self._problem

    def _find_problem(self) -> str:
        try:
            self._verify()
        except self._unavailable as error:
            if str(error) != self._problem:
                self._log.error("not ready: %s", error)
            return str(error)
        return ""

    def close(self) -> None:
        self._pool.shutdown(wait=False)


def _constant(body: Callable[[], Any]) -> Endpoint:
    async def endpoint(_: Request) -> Response:
        return json_response(body())

    return endpoint


async def _no_route(request: Request, error: Exception) -> Response:
    """404 and 405, which the router raises."""
    assert isinstance(error, HTTPException)
    path = f"{request.url.path[:80]!a}"
    if error.status_code == 405:
        refusal = Refusal("method_not_allowed", f"{path} does not support {request.method[:20]!a}")
    else:
        refusal = Refusal("not_found", f"{path} does not exist; see /openapi.json")
    return json_response(refusal.body(), refusal.status, error.headers)
