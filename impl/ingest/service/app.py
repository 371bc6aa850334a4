"""The collector's HTTP application.

    POST /v1/batches               one batch: identity in the query, the frame's bytes as the body   agent
    GET  /v1/resolution            what was decided about a batch that the agent parked              agent
    GET  /v1/conflicts             what agents parked and an operator must see to                    operator
    POST /v1/conflicts/resolve     what stands is right: the parked batch may be dropped             operator
    GET, POST, DELETE /v1/blocks   agents and boots that are quarantined                             operator
    GET  /healthz                  the process answers                                               anybody
    GET  /readyz                   and so does its store                                             anybody
    GET  /metrics                  Prometheus                                                        anybody
    GET  /openapi.json             all this, for programs                                            anybody

A request for a batch is judged in the order of what judging costs: token, query, headers, room, body; only
then does a thread read the frame and speak with the store. The loop that serves never waits for either. What
the collector counts and logs about a batch it does after the answer is known, and nobody depends on it:
whatever must follow an acceptance is found in the bucket by the reconciler.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fencepost.impl.ingest.errors import IngestError, StoreUnavailable
from fencepost.impl.ingest.service import asking
from fencepost.impl.ingest.service.acceptance import Acceptance, Answer
from fencepost.impl.ingest.service.answers import Refusal, as_json
from fencepost.impl.ingest.service.bodies import BINARY, Gone, check_encoding, read_body
from fencepost.impl.ingest.service.document import document
from fencepost.impl.ingest.service.gate import Gate
from fencepost.impl.ingest.service.limits import Limits
from fencepost.impl.ingest.service.metrics import CONTENT_TYPE, Metrics
from fencepost.impl.ingest.service.operators import Desk
from fencepost.impl.ingest.service.tokens import Tokens
from fencepost.impl.store.errors import StoreError

_LOG = logging.getLogger("fencepost.ingest")
T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]

OPERATOR_BYTES_MAX = 16 * 1024
READY_S = 2.0
"""How long an answer of `/readyz` is good for: however often it is asked, the store is asked this often."""


class Collector:
    """The application, an ASGI callable, and what its routes share."""

    def __init__(
        self,
        acceptance: Acceptance,
        tokens: Tokens,
        limits: Limits | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.gate = Gate(self.limits)
        self.metrics = metrics or Metrics()
        _count_what(self.metrics, self.gate)
        self._acceptance = acceptance
        self._tokens = tokens
        self._desk = Desk(acceptance.store, acceptance.env, acceptance.blocklist)
        self._pool = ThreadPoolExecutor(self.limits.threads, thread_name_prefix="ingest")
        self._ready = _Ready(acceptance.verify)
        self._app = self._routed()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # there is nothing else to serve
        await _watched(self._app, self.metrics, scope, receive, send)

    def told(self, kind: str) -> None:
        """Count what was refused before it was a request."""
        self.metrics.count("fencepost_ingest_refused_total", kind=kind)

    def stop(self) -> None:
        """Take no more batches; those that are being worked on are finished."""
        self.gate.closed = True

    def wait_idle(self) -> None:
        """Return when what was accepted is followed up; for tests, and before a listing."""
        self._acceptance.wait_idle()

    def close(self) -> None:
        self._pool.shutdown(wait=True)
        self._ready.close()

    def _routed(self) -> Starlette:
        desk = self._desk
        places: dict[str, dict[str, Endpoint]] = {
            "/v1/batches": {"POST": self._batch},
            "/v1/resolution": {"GET": self._resolution},
            "/v1/conflicts": {"GET": self._operates(lambda raw, _, __: desk.conflicts(raw))},
            "/v1/conflicts/resolve": {"POST": self._operates(lambda _, body, who: desk.resolve(body, who))},
            "/v1/blocks": {
                "GET": self._operates(lambda raw, _, __: desk.blocks(raw)),
                "POST": self._operates(lambda _, body, who: desk.block(body, who)),
                "DELETE": self._operates(lambda raw, _, __: desk.release(raw)),
            },
            "/healthz": {"GET": self._healthz},
            "/readyz": {"GET": self._readyz},
            "/metrics": {"GET": self._metrics_page},
            "/openapi.json": {"GET": self._openapi},
        }
        routes = [Route(path, self._answered(acts), methods=list(acts)) for path, acts in places.items()]
        app = Starlette(routes=routes, exception_handlers={HTTPException: _no_such_place})
        app.router.redirect_slashes = False
        return app

    def _answered(self, acts: Mapping[str, Endpoint]) -> Endpoint:
        """Whatever happens is an answer: a refusal as it is, a failure of ours as 500, its why in the log."""

        async def endpoint(request: Request) -> Response:
            try:
                # The router answers HEAD where there is GET.
                return await acts["GET" if request.method == "HEAD" else request.method](request)
            except Refusal as refusal:
                self.told(refusal.kind)
                return refusal.response()
            except Gone:
                return Response(status_code=400)  # nobody listens
            except (StoreError, StoreUnavailable) as wrong:
                _LOG.error("the store cannot be used: %s", wrong)
                return self._unavailable("the store cannot be used; the collector's log says why")
            except Exception:  # noqa: BLE001 - ours: logged with its traceback, answered as 500
                _LOG.exception("a request failed")
                self.told("internal")
                return Refusal("internal", "the collector failed; its log says how").response()

        return endpoint

    def _unavailable(self, message: str) -> Response:
        self.told("store_unavailable")
        return Refusal("store_unavailable", message, retry_after_s=self.limits.retry_after_s).response()

    async def _in_thread(self, act: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, act, *args)

    async def _batch(self, request: Request) -> Response:
        headers = request.headers.raw
        agent = asking.agent(headers, self._tokens)
        identity = asking.identity(request.scope["query_string"])
        if identity.agent != agent:
            raise Refusal("wrong_agent", f"this token belongs to another agent than {identity.agent[:80]!a}")
        check_encoding(headers, BINARY)
        with self.gate.enter(agent):
            body = await read_body(headers, request.receive, self.limits)
            begun = asyncio.get_running_loop().time()
            answer = await self._in_thread(self._acceptance.accept, agent, identity, body)
            self.metrics.time("fencepost_ingest_accept_seconds", asyncio.get_running_loop().time() - begun)
        return self._batch_answer(answer, len(body))

    def _batch_answer(self, answer: Answer, size: int) -> Response:
        self.metrics.count("fencepost_ingest_batches_total", result=answer.result)
        if answer.result == "accepted":
            self.metrics.count("fencepost_ingest_bytes_total", size)
        if answer.refusal is not None:
            if answer.result in ("conflict", "unavailable"):
                _LOG.warning("%s: %s", answer.result, answer.refusal.message)
            raise answer.refusal
        return as_json(answer.body)

    async def _resolution(self, request: Request) -> Response:
        agent = asking.agent(request.headers.raw, self._tokens)
        return as_json(await self._in_thread(self._desk.resolution, agent, request.scope["query_string"]))

    def _operates(self, act: Callable[[bytes, bytes, str], Any]) -> Endpoint:
        """An operator's request: `act(query, body, who)` in a thread."""

        async def endpoint(request: Request) -> Response:
            headers, raw, body = request.headers.raw, request.scope["query_string"], b""
            who = asking.operator(headers, self._tokens)
            if request.method == "POST":
                check_encoding(headers, "application/json")
                asking.query(raw, ())
                body = await read_body(headers, request.receive, self.limits, limit=OPERATOR_BYTES_MAX)
            done = await self._in_thread(act, raw, body, who)
            if request.method != "GET":
                _LOG.info("operator %r, %s %s: %r", who, request.method, request.url.path, done)
            return as_json(done)

        return endpoint

    async def _healthz(self, request: Request) -> Response:
        return as_json({"status": "ok"})

    async def _readyz(self, request: Request) -> Response:
        if self.gate.closed:
            raise Refusal(
                "draining", "this collector is about to stop", retry_after_s=self.limits.retry_after_s
            )
        if await self._ready.asked():
            return self._unavailable("the store does not answer; the collector's log says how")
        return as_json({"status": "ok"})

    async def _metrics_page(self, request: Request) -> Response:
        return Response(self.metrics.text(), media_type=CONTENT_TYPE)

    async def _openapi(self, request: Request) -> Response:
        return as_json(document(self.limits))


class _Ready:
    """Asks whether the store is there, one question at a time, in a thread that no batch can occupy."""

    def __init__(self, verify: Callable[[], None]) -> None:
        self._verify = verify
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ready")
        self._asking: asyncio.Lock | None = None
        self._known_until = 0.0
        self._wrong = ""

    async def asked(self) -> str:
        """What is wrong; empty when nothing is."""
        loop = asyncio.get_running_loop()
        self._asking = self._asking or asyncio.Lock()
        async with self._asking:
            if loop.time() >= self._known_until:
                self._wrong = await loop.run_in_executor(self._pool, self._ask)
                self._known_until = loop.time() + READY_S
        return self._wrong

    def _ask(self) -> str:
        try:
            self._verify()
        except (StoreError, IngestError) as wrong:
            if str(wrong) != self._wrong:
                _LOG.error("not ready: %s", wrong)
            return str(wrong)
        return ""

    def close(self) -> None:
        self._pool.shutdown(wait=False)


async def _no_such_place(request: Request, wrong: Exception) -> Response:
    """404 and 405, which the router raises."""
    assert isinstance(wrong, HTTPException)
    if wrong.status_code == 405:
        refusal = Refusal(
            "method_not_allowed", f"{request.url.path[:80]!a} has no method {request.method[:20]!a}"
        )
    else:
        refusal = Refusal("not_found", f"there is nothing at {request.url.path[:80]!a}; see /openapi.json")
    return as_json(refusal.body(), refusal.status, wrong.headers)


async def _watched(app: ASGIApp, metrics: Metrics, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one request, count it and write one line about it: never a header, never a body."""
    status = 0

    async def seen(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        await send(message)

    begun = asyncio.get_running_loop().time()
    try:
        await app(scope, receive, seen)
    finally:
        seconds = asyncio.get_running_loop().time() - begun
        metrics.count("fencepost_ingest_requests_total", status=str(status))
        asked = f"{scope['method'][:20]} {scope['path'][:80]!a} {scope['query_string'][:400]!a}"
        _LOG.debug("%s %d %.1f ms", asked, status, seconds * 1e3)


def _count_what(found: Metrics, gate: Gate) -> None:
    found.counter(
        "fencepost_ingest_requests_total", "HTTP requests, by the status they were answered with.", ()
    )
    results = ("accepted", "duplicate", "conflict", "unavailable", "refused")
    found.counter(
        "fencepost_ingest_batches_total",
        "Batches, by what became of them.",
        [{"result": result} for result in results],
    )
    found.counter("fencepost_ingest_bytes_total", "Bytes of the frames that were accepted here.")
    found.counter(
        "fencepost_ingest_refused_total", "Requests and connections that were refused, by kind.", ()
    )
    found.histogram("fencepost_ingest_accept_seconds", "From the whole body to the answer.")
    found.gauge("fencepost_ingest_requests_in_flight", "Batches being worked on.", lambda: gate.inside)
