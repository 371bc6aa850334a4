"""The collector: its parts, and its HTTP routes.

    POST /v1/batches              agent      one batch: identity in the query, the frame as the body
    GET /v1/resolution            agent      the decision about a batch that the agent parked
    GET /v1/conflicts             operator   parked batches that need a decision
    POST /v1/conflicts/resolve    operator   keep the accepted batch: the agent may drop the parked one
    GET, POST, DELETE /v1/blocks  operator   quarantined agents and boots
    GET /v1/query/metrics         reader     the metrics of a window
    GET /v1/query/sums            reader     one metric by hour and labels
    GET /v1/query/points          reader     single points, a page at a time

and what `fencepost.impl.http.service` adds. A batch is checked in the order of what the checks cost: token,
query, headers, limits, body; then a thread parses the frame and uses the store. The collector counts and logs
after the result is known, and nothing depends on it: the reconciler finds in the bucket whatever must follow
an acceptance.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fencepost.impl.environment import Environment
from fencepost.impl.http.limits import Limits, check_encoding, read_body
from fencepost.impl.http.metrics import Metrics
from fencepost.impl.http.service import Endpoint, Service, json_response
from fencepost.impl.http.tokens import Principal, Tokens
from fencepost.impl.ingest.authority import Authority
from fencepost.impl.ingest.errors import StoreUnavailable
from fencepost.impl.ingest.maintenance import SEARCH_EVERY_S, Maintenance
from fencepost.impl.ingest.operator import Blocklist
from fencepost.impl.ingest.service.acceptance import Acceptance, Answer, OnAnswer, Strict
from fencepost.impl.ingest.service.background import REFRESH_S, FollowUps, Maintainer, landing, refreshing
from fencepost.impl.ingest.service.conflicts import Conflicts
from fencepost.impl.ingest.service.landing import LocalSpool
from fencepost.impl.ingest.service.openapi import document
from fencepost.impl.ingest.service.queries import Queries
from fencepost.impl.ingest.service.requests import (
    BINARY,
    IDENTITY,
    authenticated,
    check_owner,
    parse_identity,
    parse_query,
)
from fencepost.impl.ingest.settings import SPOOL_BOUND, STANDARD_SETTINGS, Mode, Settings, SpoolBound
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.interface import Store

_LOG = logging.getLogger("fencepost.ingest")

OPERATOR_BYTES_MAX = 16 * 1024
LANDING_S = 5.0


class Collector(Service):
    def __init__(
        self,
        acceptance: Acceptance,
        tokens: Tokens[Principal],
        limits: Limits | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._acceptance = acceptance
        self._tokens = tokens
        self._conflicts = conflicts = Conflicts(acceptance.store, acceptance.env, acceptance.blocklist)
        queries = Queries(acceptance)
        super().__init__(
            "ingest",
            {
                "/v1/batches": {"POST": self._batch},
                "/v1/resolution": {"GET": self._resolution},
                "/v1/conflicts": {"GET": self._operator(lambda query, _, __: conflicts.conflicts(query))},
                "/v1/conflicts/resolve": {"POST": self._operator(lambda _, *args: conflicts.resolve(*args))},
                "/v1/blocks": {
                    "GET": self._operator(lambda query, _, __: conflicts.blocks(query)),
                    "POST": self._operator(lambda _, *args: conflicts.block(*args)),
                    "DELETE": self._operator(lambda query, _, __: conflicts.release(query)),
                },
                "/v1/query/metrics": {"GET": self._reader(queries.metrics)},
                "/v1/query/sums": {"GET": self._reader(queries.sums)},
                "/v1/query/points": {"GET": self._reader(queries.points)},
            },
            verify=acceptance.verify,
            openapi=lambda: document(self.limits),
            limits=limits,
            metrics=metrics,
            unavailable=(StoreError, StoreUnavailable),
        )
        self._batches = self.metrics.counter(
            "fencepost_ingest_batches_total",
            "Batches, by result.",
            "result",
            ("accepted", "duplicate", "conflict", "unavailable", "refused"),
        )
        self._bytes = self.metrics.counter(
            "fencepost_ingest_bytes_total", "Bytes of the frames that this collector accepted."
        )
        self._seconds = self.metrics.histogram(
            "fencepost_ingest_accept_seconds", "Time from the whole body to the result."
        )

    def wait_idle(self) -> None:
        """Return when all follow-ups of accepted batches are done; for tests, and before a listing."""
        self._acceptance.wait_idle()

    async def _batch(self, request: Request) -> Response:
        headers = request.headers.raw
        agent = authenticated("agent", headers, self._tokens)
        identity = parse_identity(parse_query(request.scope["query_string"], IDENTITY, IDENTITY))
        check_owner(identity, agent)
        check_encoding(headers, BINARY)
        with self.gate.enter(agent):
            body = await read_body(headers, request.receive, self.limits)
            begun = asyncio.get_running_loop().time()
            answer = await self.in_thread(self._acceptance.accept, agent, identity, body)
            self._seconds.observe(asyncio.get_running_loop().time() - begun)
        return self._respond(answer, len(body))

    def _respond(self, answer: Answer, size: int) -> Response:
        self._batches.labels(answer.result).inc()
        if answer.result == "accepted":
            self._bytes.inc(size)
        if answer.refusal is not None:
            if answer.result in ("conflict", "unavailable"):
                _LOG.warning("%s: %s", answer.result, answer.refusal.message)
            raise answer.refusal
        return json_response(answer.body)

    async def _resolution(self, request: Request) -> Response:
        agent = authenticated("agent", request.headers.raw, self._tokens)
        query = request.scope["query_string"]
        return json_response(await self.in_thread(self._conflicts.resolution, agent, query))

    def _reader(self, answer: Callable[[bytes], Any]) -> Endpoint:
        """The endpoint of a reader's request: `answer(query)` in a thread."""

        async def endpoint(request: Request) -> Response:
            reader = authenticated("reader", request.headers.raw, self._tokens)
            with self.gate.enter(reader):
                return json_response(await self.in_thread(answer, request.scope["query_string"]))

        return endpoint

    def _operator(self, act: Callable[[bytes, bytes, str], Any]) -> Endpoint:
        """The endpoint of an operator's request: `act(query, body, operator)` in a thread."""

        async def endpoint(request: Request) -> Response:
            headers, query, body = request.headers.raw, request.scope["query_string"], b""
            operator = authenticated("operator", headers, self._tokens)
            if request.method == "POST":
                check_encoding(headers, "application/json")
                parse_query(query, ())
                body = await read_body(headers, request.receive, self.limits, limit=OPERATOR_BYTES_MAX)
            result = await self.in_thread(act, query, body, operator)
            if request.method != "GET":
                _LOG.info("operator %r, %s %s: %r", operator, request.method, request.url.path, result)
            return json_response(result)

        return endpoint


@dataclass(frozen=True)
class Plan:
    store: Store
    env: Environment
    tokens: Tokens[Principal]
    collector_id: str
    settings: Settings = STANDARD_SETTINGS
    limits: Limits = Limits()  # noqa: RUF009 - frozen
    spool: Path | None = None
    """The disk that accepts, in `local_spool` mode."""
    landing_s: float = LANDING_S
    blocks_s: float = REFRESH_S
    maintenance_s: float = 0.0
    """Seconds between two attempts to take the lease of the maintenance, see `maintenance`; 0: none."""
    search_s: float = SEARCH_EVERY_S
    spool_bound: SpoolBound = SPOOL_BOUND
    on_answer: OnAnswer | None = None
    """Is called with each answer, where the bucket accepts."""


@contextlib.contextmanager
def collecting(plan: Plan) -> Iterator[Collector]:
    """A collector, ready to be served. On exit all its work in progress is finished; the store stays open."""
    metrics = Metrics()
    authority = Authority(plan.store, plan.env, plan.collector_id, plan.settings)
    with contextlib.ExitStack() as parts:
        if plan.settings.acceptance is Mode.LOCAL_SPOOL:
            assert plan.spool is not None, "local_spool needs a disk"
            spool = LocalSpool(plan.spool, authority, plan.env, plan.spool_bound)
            parts.callback(spool.close)
            _count_landing(metrics, spool)
            parts.callback(landing(spool.land, plan.landing_s).close)
            acceptance: Acceptance = spool
        else:
            dropped = metrics.counter(
                "fencepost_ingest_follow_ups_dropped_total",
                "Batches whose indexes were left to the reconciler.",
            )
            follow_ups = FollowUps(authority, on_dropped=dropped.inc)
            parts.callback(follow_ups.close)
            blocklist = Blocklist(authority.store, authority.env, authority.settings)
            acceptance = Strict(authority, follow_ups, blocklist, plan.on_answer)
        parts.callback(refreshing(acceptance.blocklist, plan.blocks_s).close)
        if plan.maintenance_s:
            parts.callback(_maintainer(plan, metrics).close)
        collector = Collector(acceptance, plan.tokens, plan.limits, metrics)
        parts.callback(collector.close)
        yield collector


def _count_landing(metrics: Metrics, spool: LocalSpool) -> None:
    metrics.gauge("fencepost_ingest_landing_backlog", "Batches that have not landed.", lambda: spool.backlog)
    metrics.gauge(
        "fencepost_ingest_landing_backlog_bytes", "Bytes of their frames.", lambda: spool.backlog_bytes
    )
    metrics.gauge("fencepost_ingest_landed", "Batches that landed since the start.", lambda: spool.landed)


def _maintainer(plan: Plan, metrics: Metrics) -> Maintainer:
    # A collector may have one name in all its lives, and by mistake in two places: a holder's name is unique.
    holder = f"{plan.collector_id} {plan.env.new_id()}"
    maintenance = Maintenance(
        plan.store, plan.env, holder, plan.settings, every_s=plan.maintenance_s, search_every_s=plan.search_s
    )
    return Maintainer(maintenance, metrics)
