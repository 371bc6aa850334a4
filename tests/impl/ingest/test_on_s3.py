"""The two ways with blobs over HTTP, on buckets that keep versions and buckets that do not.

In memory stamps are exact; here they travel as dates of whole seconds.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.ingest import (
    Accepted,
    Authority,
    Conflict,
    Settings,
    collect,
    full_audit,
    keys,
    reconcile_once,
    roll_up,
    totals,
)
from fencepost.impl.store import Outcome, open_store
from fencepost.impl.store.interface import Store
from fencepost.impl.store.layers import Metered

from .given import batch, sha256

ENV = SystemEnvironment()
QUICK = Settings(horizon_s=1.0, landing_bound_s=0.2, skew_bound_s=0.1)


@pytest.fixture(params=[False, True], ids=["plain", "versioned"])
def store(request: pytest.FixtureRequest, honest_moto: Any) -> Iterator[Store]:
    with open_store(honest_moto.bucket(versioned=request.param)) as made:
        assert made.versioned() is request.param
        yield made


def test_cost_over_http(store: Store) -> None:
    metered = Metered(store)
    ann = Authority(metered, ENV, "ann")
    identity, body = batch(1)
    _, other = batch(1, 2.0)
    found = []
    for sent in (body, body, other, other):
        with metered.operation("accept") as cost:
            answer = ann.accept(identity, sent)
        found.append((type(answer), cost.serial_hops <= 4, cost.requests))
    assert found[0] == (Accepted, True, 2)
    assert [kind for kind, *_ in found] == [Accepted, Accepted, Conflict, Conflict]
    assert all(hops for _, hops, _ in found)
    assert [requests for *_, requests in found[1:]] <= [4, 5, 5]


@pytest.mark.slow
def test_gc_with_dates_in_whole_seconds(store: Store) -> None:
    ann = Authority(store, ENV, "ann", QUICK)
    identity, body = batch(1)
    accepted = ann.accept(identity, body)
    ann.accept(identity, batch(1, 2.0)[1])
    orphan = ann.blobs.keep(sha256(batch(2)[1]), batch(2)[1]).key
    assert isinstance(accepted, Accepted)
    ENV.sleep(5.0)
    assert full_audit(store, ENV, QUICK).repaired == 2
    young = ann.blobs.keep(sha256(batch(3)[1]), batch(3)[1]).key
    assert collect(store, ENV, QUICK).deleted == [orphan]
    assert store.head(young).done
    assert store.head(orphan).outcome is Outcome.MISSING
    assert reconcile_once(store, ENV, QUICK).seen == 1
    assert roll_up(store, ENV, QUICK).batches == 1
    assert [one.count for series in totals(store, ENV).values() for one in series.values()] == [1]


@pytest.mark.slow
def test_multipart_blob(store: Store) -> None:
    ann = Authority(store, ENV, "ann", Settings(multipart_bytes=5 << 20, part_bytes=5 << 20))
    body = bytes(range(256)) * (5 << 12) + b"and more"
    blob = ann.blobs.keep(sha256(body), body)
    assert store.get(blob.key).body == body
    assert ann.blobs.keep(sha256(body), body).existed
    assert not store.list_uploads(keys.RAW).uploads
