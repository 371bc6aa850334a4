"""The server of a catalog: its HTTP routes.

    POST /v1/branches/{branch}/commits   append    commit one change; it is answered when it is durable
    GET  /v1/branches/{branch}           read      the newest manifest, and the tables with keys and edges
    GET  /v1/objects/{key}               read      a piece of an object: a manifest, a version or a fragment
    GET  /v1/keys                        read      a page of the keys of objects

and what `fencepost.impl.http.service` adds. The last two are what a reader of the store would send, so a
client reads by the code that reads a store, and checks the same digests. Beside them a commit is all that a
server does: branches, merges and maintenance have the store itself.

Back-pressure: the orders in flight, of all and of one client, and the memory of their bodies are bounded;
what is beyond is answered 429 or 503 with `Retry-After`.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from fencepost.impl.http.limits import Gate, Limits, check_encoding, read_body
from fencepost.impl.http.metrics import Family, Metrics
from fencepost.impl.http.numbers import whole_number
from fencepost.impl.http.refusals import Refusal
from fencepost.impl.http.service import Service, json_response
from fencepost.impl.http.tokens import Holder, Tokens
from fencepost.impl.publish import keys
from fencepost.impl.publish.catalog import Catalog
from fencepost.impl.publish.commit import Published
from fencepost.impl.publish.context import STUCK_AFTER_S
from fencepost.impl.publish.documents import Manifest
from fencepost.impl.publish.errors import (
    Dangling,
    Invalid,
    PublishError,
    StoreUnavailable,
)
from fencepost.impl.publish.pressure import STANDARD as STANDARD_PRESSURE
from fencepost.impl.publish.pressure import Pressure
from fencepost.impl.publish.requests import Request
from fencepost.impl.publish.service import wire
from fencepost.impl.publish.service.committer import Again, Committer, End, Figures, Order
from fencepost.impl.publish.service.kinds import (
    ERRORS,
    LIMITS,
    TEXT_MAX,
    WAIT_S,
    WAIT_S_MAX,
    CatalogRefusal,
)
from fencepost.impl.publish.service.queue import Queue
from fencepost.impl.store.errors import Misuse, StoreError
from fencepost.impl.store.interface import Store
from fencepost.impl.store.layers.metered import Metered
from fencepost.impl.store.requests import Get, List, Outcome

JSON = "application/json"
PIECE_MAX = 8 << 20
"""Bytes of an object in one answer."""
PAGE_MAX = 1000
BRANCHES_MAX = 64
"""Branches with a handle of their own at once; one without work makes room for another."""
THREADS = 8
"""Branches that commit at the same moment."""
SERVED = (keys.BRANCHES, keys.TABLES, keys.DATA, keys.RECOVERY, keys.RETIRED)
"""The objects that readers read."""


@dataclass(frozen=True)
class Setup:
    store: Store
    author: str = ""
    tokens: Tokens[Holder] | None = None
    limits: Limits = LIMITS
    wait_s: float = WAIT_S
    stuck_after_s: float = STUCK_AFTER_S
    pressure: Pressure = STANDARD_PRESSURE


class CatalogServer(Service):
    def __init__(self, setup: Setup) -> None:
        self.figures = Figures()
        self._setup = setup
        self._meter = Metered(setup.store)
        self._queues: dict[str, Queue] = {}
        self._opening: dict[str, asyncio.Task[Queue]] = {}
        self._committers: dict[str, Committer] = {}
        self._work = ThreadPoolExecutor(THREADS, thread_name_prefix="commits")
        super().__init__(
            "catalog",
            {
                "/v1/branches/{branch}/commits": {"POST": self._commit},
                "/v1/branches/{branch}": {"GET": self._branch},
                "/v1/objects/{key:path}": {"GET": self._object},
                "/v1/keys": {"GET": self._keys},
            },
            verify=setup.store.verify,
            openapi=self._document,
            limits=setup.limits,
            unavailable=(StoreError, StoreUnavailable),
        )
        self._reads = Gate(setup.limits)
        self._declare(self.metrics)

    def _declare(self, metrics: Metrics) -> None:
        self._results = metrics.counter(
            "fencepost_catalog_orders_total",
            "Orders, by result.",
            "result",
            ("published", *(kind for _, kind in ERRORS), "undecided"),
        )
        self._seconds = metrics.histogram(
            "fencepost_catalog_commit_seconds", "Time from the whole body of an order to its result."
        )
        metrics.gauge(
            "fencepost_catalog_orders_waiting",
            "Orders that wait for the next group.",
            lambda: sum(len(queue) for queue in self._queues.values()),
        )
        metrics.families(self._families)

    def _families(self) -> list[Family]:
        found = self.figures.to_json()
        totals = {
            "storage_ops": (found["storage"]["ops"], "Requests to the store for commits."),
            "storage_stages": (found["storage"]["stages"], "Serial hops of commits."),
            "commits": (found["commits"], "Commits."),
            "duplicates": (found["duplicates"], "Orders that had been committed before."),
            "repeats": (found["repeats"], "Attempts in which others were first."),
        }
        by_label = (
            ("commit_hops", "hops", found["hops"], "Commits, by their serial hops."),
            ("groups", "orders", found["groups"], "Commits, by the number of orders in them."),
        )
        return [
            *(_family(name, text, (), {(): value}) for name, (value, text) in totals.items()),
            *(
                _family(name, text, (label,), {(one,): count for one, count in counts.items()})
                for name, label, counts, text in by_label
            ),
        ]

    def _document(self) -> Any:
        from fencepost.impl.publish.service.openapi import document

        return document(self.limits)

    # Commits.

    async def _commit(self, request: HttpRequest) -> Response:
        headers, branch = request.headers.raw, request.path_params["branch"]
        holder = self._allowed(request, "append", f"/{branch}")
        check_encoding(headers, JSON)
        with self.gate.enter(holder or _address(request)):
            size = _declared(headers, self.limits)
            async with self.answers.memory.room("", size, self.limits.body_s) as room:
                body = await read_body(headers, request.receive, self.limits)
                room.resize(len(body))
                begun = asyncio.get_running_loop().time()
                order, wait_s = await self.in_thread(_order, body, holder, self._setup.wait_s)
                queue = await self._queue(branch)
                end = await queue.commit(order, len(body), wait_s)
                self._seconds.observe(asyncio.get_running_loop().time() - begun)
        return self._respond(order, branch, end)

    def _respond(self, order: Order, branch: str, end: End) -> Response:
        if isinstance(end, Published):
            self._results.labels("published").inc()
            found = {"request": order.request.id, "branch": branch, "manifest": end.id, "plan": end.plan}
            return json_response({**found, "published": True})
        refusal = _refusal(end, self.limits.retry_after_s)
        self._results.labels(refusal.kind).inc()
        raise refusal

    async def _queue(self, branch: str) -> Queue:
        """The queue of a branch. Raises `Refusal` if there is no such branch."""
        queue = self._queues.get(branch)
        if queue is not None:
            return queue
        task = self._opening.get(branch)
        if task is None:
            self._make_room()
            task = asyncio.get_running_loop().create_task(self._open(branch), name="open")
            self._opening[branch] = task
            task.add_done_callback(lambda _: self._opening.pop(branch, None))
        return await asyncio.shield(task)

    async def _open(self, branch: str) -> Queue:
        loop = asyncio.get_running_loop()
        try:
            committer = await loop.run_in_executor(
                self._work, Committer, partial(self._join, branch), self._meter, self.figures
            )
        except StoreError as error:
            raise StoreUnavailable(str(error)) from error
        except PublishError as error:
            if isinstance(error, StoreUnavailable):
                raise
            raise _refusal(error, self.limits.retry_after_s) from error
        self._committers[branch] = committer
        queue = Queue(committer, partial(loop.run_in_executor, self._work))
        self._queues[branch] = queue
        return queue

    def _join(self, branch: str) -> Catalog:
        return Catalog.open(
            self._meter,
            author=self._setup.author,
            mode="join",
            branch=branch,
            stuck_after_s=self._setup.stuck_after_s,
            pressure=self._setup.pressure,
        )

    def _make_room(self) -> None:
        if len(self._queues) + len(self._opening) < BRANCHES_MAX:
            return
        idle = next((name for name, queue in self._queues.items() if queue.is_idle and not len(queue)), None)
        if idle is None:
            raise Refusal(
                "busy",
                f"{BRANCHES_MAX} branches are being written; try again, or at another server",
                retry_after_s=self.limits.retry_after_s,
            )
        del self._queues[idle]
        self._work.submit(self._committers.pop(idle).close)

    # Reading.

    async def _branch(self, request: HttpRequest) -> Response:
        branch = request.path_params["branch"]
        self._allowed(request, "read", f"/{branch}")
        with self._reads.enter(_address(request)):
            manifest = await self.in_thread(self._newest, branch)
        tables = {name: {"key": one.key, "edges": dict(one.edges)} for name, one in manifest.tables.items()}
        found = {"branch": branch, "manifest": manifest.id, "epoch": manifest.epoch, "tables": tables}
        return json_response(found)

    def _newest(self, branch: str) -> Manifest:
        try:
            with Catalog.open(self._setup.store, mode="read", branch=branch) as reader:
                return reader.manifest
        except StoreUnavailable:
            raise
        except PublishError as error:
            raise _refusal(error, self.limits.retry_after_s) from error

    async def _object(self, request: HttpRequest) -> Response:
        key = request.path_params["key"]
        self._allowed(request, "read", "/")
        start = _number(request, "start", 0)
        stop = min(_number(request, "stop", start + PIECE_MAX), start + PIECE_MAX)
        if not key.startswith(SERVED) or any(part in ("", ".", "..") for part in key.split("/")):
            raise Refusal("not_found", f"{key[:200]!a} is no object of the tables of this catalog")
        with self._reads.enter(_address(request)):
            async with self.answers.memory.room("", PIECE_MAX, self.limits.body_s) as room:
                reply = await self.in_thread(self._send, Get(key, start=start, stop=max(stop, start + 1)))
                room.resize(len(reply.body))
                if reply.outcome is Outcome.MISSING or reply.info is None:
                    raise Refusal("not_found", f"there is no object {key[:200]!a}")
                about = {"x-object-size": str(reply.info.size), "x-object-etag": reply.info.etag}
                return Response(reply.body, 200, {"cache-control": "no-store", **about})

    async def _keys(self, request: HttpRequest) -> Response:
        self._allowed(request, "read", "/")
        query = request.query_params
        prefix = query.get("prefix", "")
        if not prefix.startswith(SERVED):
            raise Refusal("bad_request", f"give a prefix that begins with one of {', '.join(SERVED)}")
        limit = max(1, min(_number(request, "limit", PAGE_MAX), PAGE_MAX))
        listing = List(
            prefix, after=query.get("after", ""), delimiter=query.get("delimiter", ""), limit=limit,
            token=query.get("token", ""),
        )  # fmt: skip
        with self._reads.enter(_address(request)):
            page = await self.in_thread(self._send, listing)
        found = [
            {"key": one.key, "etag": one.etag, "size": one.size, "modified_ns": one.modified_ns}
            for one in page.objects
        ]
        return json_response({"objects": found, "prefixes": [*page.prefixes], "next": page.next})

    def _send(self, request: Any) -> Any:
        try:
            reply = self._setup.store.send(request)
        except Misuse as error:
            raise Refusal("bad_request", str(error)) from None
        if reply.outcome in (Outcome.DONE, Outcome.MISSING, Outcome.PAST_END):
            return reply
        raise StoreUnavailable(f"{request.kind} {request.subject} was answered {reply.outcome.value}")

    # Access.

    def _allowed(self, request: HttpRequest, right: str, path: str) -> str:
        """The name of the sender; empty where no tokens are needed."""
        if self._setup.tokens is None:
            return ""
        holder = self._setup.tokens.authenticate(request.headers.raw)
        holder.check(right, path)
        return holder.name

    def close(self) -> None:
        super().close()
        self._work.shutdown(wait=True)
        for committer in self._committers.values():
            committer.close()


def _family(name: str, text: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]) -> Family:
    return Family(f"fencepost_catalog_{name}_total", text, labels, values)


def _address(request: HttpRequest) -> str:
    return request.client.host if request.client else ""


def _declared(headers: Any, limits: Limits) -> int:
    """The bytes to hold for a body before it arrives."""
    lengths = [value for name, value in headers if name == b"content-length"]
    found = whole_number(lengths[0], limits.body_bytes) if len(lengths) == 1 else None
    return limits.body_bytes if found is None else found


def _number(request: HttpRequest, name: str, default: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    found = whole_number(text, 10**15)
    if found is None:
        raise Refusal("bad_request", f"{name} is {text[:40]!a}; give a whole number")
    return found


def _order(body: bytes, holder: str, wait_s: float) -> tuple[Order, float]:
    """Read an order, and for how long its client waits; raises `Refusal`."""
    try:
        return _read_order(wire.parse(body), holder, wait_s)
    except Invalid as error:
        raise Refusal("bad_request", str(error)) from None


def _read_order(found: Any, holder: str, wait_s: float) -> tuple[Order, float]:
    if not isinstance(found, dict):
        raise Invalid("the body is no object")
    fields = dict(found)
    id_, since = fields.pop("request", None), fields.pop("since", None)
    author, message = fields.pop("author", ""), fields.pop("message", "")
    snapshot, wait = fields.pop("snapshot", None), fields.pop("wait_s", wait_s)
    changes = fields.pop("changes", None)
    if fields:
        raise Invalid(f"the body has a field {next(iter(fields))[:40]!r}, which no commit has")
    if not isinstance(id_, str) or not wire.REQUEST.fullmatch(id_):
        raise Invalid(
            "request is a text of 1 to 64 letters, digits, '_', '-' and '.'; make it unique for ever"
        )
    if type(since) is not int or since < 0:
        raise Invalid("since is the number of a manifest that you saw before you first sent this request")
    if snapshot is not None and (type(snapshot) is not int or snapshot < 1):
        raise Invalid("snapshot is the number of the manifest that you have read, or null")
    if not all(isinstance(text, str) and len(text) <= TEXT_MAX for text in (author, message)):
        raise Invalid(f"author and message are texts of at most {TEXT_MAX} characters")
    if type(wait) not in (int, float) or not 0 <= wait <= WAIT_S_MAX:
        raise Invalid(f"wait_s is a number from 0 to {WAIT_S_MAX:g}")
    made = wire.from_json(changes)
    author = holder or author
    text = f"{author}: {message}" if author and message else author or message
    request = Request(id_, since, wire.digest_of([{"of": changes, "on": snapshot, "text": text}]))
    return Order(request, made, text, snapshot), float(wait)


def _refusal(error: PublishError | Again, retry_after_s: float) -> CatalogRefusal:
    if isinstance(error, Again):
        text = f"perhaps published, perhaps not ({error.why}); send the same request again"
        return CatalogRefusal("undecided", text, retry_after_s=retry_after_s)
    kind = next((kind for kind_of, kind in ERRORS if isinstance(error, kind_of)), "internal")
    more: dict[str, Any] = {"type": type(error).__name__}
    if isinstance(error, Dangling):
        more |= {"table": error.table, "column": error.column, "value": error.value}
    return CatalogRefusal(kind, str(error), **more)
