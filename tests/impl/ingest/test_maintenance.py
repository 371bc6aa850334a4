"""Maintenance: one process at a time, and every accepted batch reaches its indexes and one rollup."""

from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.ingest import Accepted, Manifest, keys, totals
from fencepost.impl.ingest.errors import StoreUnavailable
from fencepost.impl.ingest.indexes import derived
from fencepost.impl.ingest.maintenance import LEASE, Maintenance
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.layers import Effect, Fault, Faulty
from fencepost.impl.store.memory import MemoryStore

from .given import SETTINGS, batch, bucket, collector

EVERY_S = 60.0


def accepted(store: MemoryStore, number: int, written: int) -> Manifest:
    """Accepted by a collector that died after writing so many index objects."""
    answer = collector(store).accept(*batch(number))
    assert isinstance(answer, Accepted)
    for put in derived(answer.manifest)[:written]:
        store.send(put)
    return answer.manifest


def maintenance(store: Any, holder: str = "ann", **options: Any) -> Maintenance:
    options = {"every_s": EVERY_S, "search_every_s": 3600.0} | options
    return Maintenance(store, options.pop("env", store.env), holder, SETTINGS, **options)


def counted(store: MemoryStore) -> int:
    series = totals(store, store.env, SETTINGS).values()
    return sum(one.count for found in series for one in found.values())


def test_every_batch_reaches_its_indexes_and_one_rollup_unattended() -> None:
    """Four hours of one collector that dies after every batch, and another that only does maintenance."""
    store = bucket()
    bob = maintenance(store, "bob")
    manifests = []
    for minute in range(240):
        if minute < 120:
            manifests.append(accepted(store, minute, minute % 4))
        store.env.sleep(EVERY_S)
        done = bob.run_once()
        assert done is not None
        assert not [*done.missing, *done.damaged, *done.failed]
    contents = store.contents()
    assert all(put.key in contents for manifest in manifests for put in derived(manifest))
    assert counted(store) == 120


def test_one_process_at_a_time_holds_the_lease() -> None:
    store = bucket()
    ann, bob = maintenance(store, "ann"), maintenance(store, "bob")
    assert ann.run_once() is not None
    for _ in range(5):
        store.env.sleep(EVERY_S)
        assert bob.run_once() is None
        assert ann.run_once() is not None


def test_the_lease_of_a_dead_process_is_taken() -> None:
    store = bucket()
    maintenance(store, "ann").run_once()
    bob = maintenance(store, "bob")
    store.env.sleep(2 * EVERY_S)
    assert bob.run_once() is None
    store.env.sleep(EVERY_S)
    assert bob.run_once() is not None
    assert maintenance(store, "ann").run_once() is None


def test_a_released_lease_is_free() -> None:
    store = bucket()
    ann = maintenance(store, "ann")
    ann.run_once()
    ann.release()
    bob = maintenance(store, "bob")
    assert bob.run_once() is not None
    ann.release()
    assert ann.run_once() is None, "only its holder releases it"


def test_a_lease_from_a_clock_far_ahead_is_ignored() -> None:
    store = bucket()
    ahead = SeededEnvironment(2, store.env.now_ns() + 10**17)
    assert maintenance(store, "ann", env=ahead).run_once() is not None
    assert maintenance(store, "bob").run_once() is not None


def test_of_two_that_acquire_at_once_one_wins() -> None:
    store = bucket()
    bob = maintenance(store, "bob")
    taken: list[Any] = []

    class Racing(Faulty):
        def send(self, request: Any) -> Any:
            if request.kind == "put" and request.key == LEASE and not taken:
                taken.append(bob.run_once())
            return super().send(request)

    assert maintenance(Racing(store, []), "ann").run_once() is None
    assert taken[0] is not None


@pytest.mark.parametrize("where", [f"{keys.CURSORS}reconcile.json", f"{keys.CURSORS}search.json"])
def test_a_failing_task_does_not_stop_the_others(where: str) -> None:
    store = bucket()
    lost = accepted(store, 1, 0)
    halfway = accepted(store, 2, 1)
    store.env.sleep(120)
    store.put(where, b"{", when=ANYTHING)
    done = maintenance(store).run_once()
    assert done is not None
    assert len(done.failed) == 1
    assert where in done.failed[0]
    contents = store.contents()
    repaired = halfway if "search" in where else lost
    assert all(put.key in contents for put in derived(repaired))


def test_an_unavailable_store_is_reported() -> None:
    store = bucket()
    with pytest.raises(StoreUnavailable):
        maintenance(Faulty(store, [Fault(Effect.REQUEST_LOST, {"get"}, LEASE)])).run_once()
    done = maintenance(Faulty(store, [Fault(Effect.REQUEST_LOST, {"list"})])).run_once()
    assert done is not None
    assert len(done.failed) == 3


def test_a_round_ends_in_time_and_the_next_continues() -> None:
    """A store so slow that the work of a round does not fit into a round."""
    store = bucket()
    for number in range(450):
        accepted(store, number, 1)

    class Slow(Faulty):
        def send_all(self, requests: Any) -> Any:
            store.env.sleep(3)
            return super().send_all(requests)

    ann = maintenance(Slow(store, []), "ann")
    begun_ns = store.env.now_ns()
    first = ann.run_once()
    assert first is not None
    assert 0 < first.seen < 450
    assert store.env.now_ns() - begun_ns < 3 * EVERY_S * 10**9, "the lease is still ours"
    for _ in range(30):
        ann.run_once()
    assert counted(store) == 450


def test_lost_data_is_reported_once_per_batch() -> None:
    store = bucket()
    gone = accepted(store, 1, 1)
    store.delete(gone.raw_blob_key, when=ANYTHING)
    store.env.sleep(120)
    done = maintenance(store).run_once()
    assert done is not None
    assert done.missing == [gone.key]
    assert len(done.damaged) == 1, "and it cannot be added up"
