"""A collector put together from its parts, and taken apart in the right order."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fencepost.impl.environment import Environment
from fencepost.impl.ingest.authority import Authority
from fencepost.impl.ingest.maintenance import Maintenance
from fencepost.impl.ingest.operator import Blocklist
from fencepost.impl.ingest.search import EVERY_S as SEARCH_EVERY_S
from fencepost.impl.ingest.service.acceptance import Acceptance, Strict
from fencepost.impl.ingest.service.app import Collector
from fencepost.impl.ingest.service.blocking import REFRESH_S, Refresher
from fencepost.impl.ingest.service.followups import FollowUps
from fencepost.impl.ingest.service.keeper import Keeper
from fencepost.impl.ingest.service.landing import Lander, LocalSpool
from fencepost.impl.ingest.service.limits import Limits
from fencepost.impl.ingest.service.metrics import Metrics
from fencepost.impl.ingest.service.tokens import Tokens
from fencepost.impl.ingest.settings import STANDARD_SETTINGS, Mode, Settings
from fencepost.impl.store.interface import Store

LANDING_S = 5.0


@dataclass(frozen=True)
class Plan:
    """What a collector is made of."""

    store: Store
    env: Environment
    tokens: Tokens
    collector_id: str
    settings: Settings = STANDARD_SETTINGS
    limits: Limits = Limits()  # noqa: RUF009 - frozen
    spool: Path | None = None
    """The disk that accepts, in `local_spool` mode."""
    landing_s: float = LANDING_S
    blocks_s: float = REFRESH_S
    maintenance_s: float = 0.0
    """How often it takes a turn at keeping the bucket in order, see `maintenance`; 0: never."""
    search_s: float = SEARCH_EVERY_S


@contextlib.contextmanager
def collecting(plan: Plan) -> Iterator[Collector]:
    """A collector that can be served. At the end all it works on is finished; the store stays open."""
    metrics = Metrics()
    authority = Authority(plan.store, plan.env, plan.collector_id, plan.settings)
    with contextlib.ExitStack() as parts:
        if plan.settings.acceptance is Mode.LOCAL_SPOOL:
            acceptance: Acceptance = _local(plan, authority, metrics, parts)
        else:
            acceptance = _strict(authority, metrics, parts)
        parts.callback(Refresher(acceptance.blocklist, plan.blocks_s).close)
        if plan.maintenance_s:
            parts.callback(_keeper(plan, metrics).close)
        collector = Collector(acceptance, plan.tokens, plan.limits, metrics)
        parts.callback(collector.close)
        yield collector


def _strict(authority: Authority, metrics: Metrics, parts: contextlib.ExitStack) -> Acceptance:
    name = "fencepost_ingest_follow_ups_dropped_total"
    metrics.counter(name, "Batches whose indexes were left to the reconciler.")
    follow_ups = FollowUps(authority, dropped=lambda: metrics.count(name))
    parts.callback(follow_ups.close)
    return Strict(authority, follow_ups, Blocklist(authority.store, authority.env, authority.settings))


def _keeper(plan: Plan, metrics: Metrics) -> Keeper:
    # A collector may be called the same in every life, and in two places by mistake: a holder is called once.
    holder = f"{plan.collector_id} {plan.env.new_id()}"
    maintenance = Maintenance(
        plan.store, plan.env, holder, plan.settings, every_s=plan.maintenance_s, search_every_s=plan.search_s
    )
    return Keeper(maintenance, metrics)


def _local(plan: Plan, authority: Authority, metrics: Metrics, parts: contextlib.ExitStack) -> Acceptance:
    assert plan.spool is not None, "local_spool needs a disk"
    spool = LocalSpool(plan.spool, authority, plan.env)
    parts.callback(spool.close)
    metrics.gauge("fencepost_ingest_landing_backlog", "Batches that have not landed.", lambda: spool.backlog)
    lander = Lander(spool, plan.landing_s)
    parts.callback(lander.close)
    return spool
