"""The reconciler and the full audit: every accepted batch reaches every index, whichever process died."""

from functools import partial
from typing import Any

import pytest

from fencepost.impl.ingest import (
    Accepted,
    Manifest,
    Reconciler,
    full_audit,
    keys,
    reconcile_once,
    roll_up,
    totals,
)
from fencepost.impl.ingest.audit import LATEST, audit_agents, proof_began_ns
from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.errors import StoreUnavailable
from fencepost.impl.ingest.indexes import derived
from fencepost.impl.ingest.rollups import Rollups
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.layers import Effect, Fault, Faulty, Metered
from fencepost.impl.store.memory import MemoryStore
from tests.impl.publish.scripted import Crashed, Scripted

from . import given
from .given import SETTINGS, batch, bucket, collector

accepted = partial(given.accepted, follow_up=False)


def indexes(store: MemoryStore, manifest: Manifest) -> int:
    return sum(put.key in store.contents() for put in derived(manifest))


def steady(store: Any) -> Any:
    return reconcile_once(store, store.env, SETTINGS)


def audited(store: Any, **options: Any) -> Any:
    return full_audit(store, store.env, SETTINGS, **options)


def test_indexes_of_a_collector_that_died_after_the_create_are_written() -> None:
    store = bucket()
    script = Scripted(store)
    script.crash_after("put", keys.ACCEPTED)
    with pytest.raises(Crashed):
        collector(script).accept(*batch())
    result = audited(store)
    assert (result.accepted, result.repaired) == (1, 2)
    (manifest,) = (Manifest.read(v, k) for k, v in store.contents().items() if k.startswith(keys.ACCEPTED))
    assert indexes(store, manifest) == 2
    assert audited(store).repaired == 0


@pytest.mark.parametrize("left", range(2))
def test_indexes_of_a_collector_that_died_halfway_are_written(left: int) -> None:
    """The steady pass finds batches with a place in time; the audit finds the rest."""
    store = bucket()
    manifest = accepted(store, follow_up=True)
    for at, put in enumerate(derived(manifest)):
        if at != left:
            store.delete(put.key, when=ANYTHING)
    if left == 0:
        assert steady(store).repaired == 1
    assert audited(store).repaired == (0 if left == 0 else 1)
    assert indexes(store, manifest) == 2


@pytest.mark.parametrize("missing", range(2))
def test_the_audit_finds_any_missing_index_object(missing: int) -> None:
    store = bucket()
    manifest = accepted(store, follow_up=True)
    store.delete(derived(manifest)[missing].key, when=ANYTHING)
    assert audited(store).repaired == 1
    assert indexes(store, manifest) == 2


def test_reconciling_again_changes_nothing() -> None:
    store = bucket()
    for number in range(5):
        accepted(store, number, follow_up=number % 2 == 0)
    audited(store)
    steady(store)
    before = {key: body for key, body in store.contents().items() if not key.startswith("audits/")}
    for _ in range(3):
        store.env.sleep(1)
        steady(store)
        audited(store)
    after = {key: body for key, body in store.contents().items() if not key.startswith("audits/")}
    assert after == before


def test_a_pass_costs_only_new_batches() -> None:
    """After a day of batches, a pass over one new batch is a few requests."""
    store = Metered(bucket())
    reconciler = Reconciler(store, store.env, SETTINGS)
    costs = []
    for number in range(40):
        ann = collector(store)
        answer = ann.accept(*batch(number))
        assert isinstance(answer, Accepted)
        ann.follow_up(answer.manifest)
        with store.operation("pass") as cost:
            assert reconciler.once().seen == 1
        costs.append(cost.requests)
        store.env.sleep(60)
    assert len(set(costs[1:])) == 1, costs


def test_the_cursor_stops_before_an_unrepaired_batch() -> None:
    store = bucket()
    first = accepted(store, 1, follow_up=True)
    store.env.sleep(1)
    accepted(store, 2, follow_up=True)
    store.delete(first.by_blob_key, when=ANYTHING)
    faulty = Faulty(store, [Fault(Effect.REQUEST_LOST, {"put"}, keys.BY_BLOB)])
    with pytest.raises(StoreUnavailable):
        steady(faulty)
    assert f"{keys.CURSORS}reconcile.json" not in store.contents()
    assert steady(store).repaired == 1


def test_after_a_reset_of_the_cursor_everything_is_checked_again() -> None:
    store = bucket()
    for number in range(3):
        accepted(store, number, follow_up=True)
        store.env.sleep(1)
    reconciler = Reconciler(store, store.env, SETTINGS)
    assert [reconciler.once().seen, reconciler.once().seen] == [3, 0]
    store.delete(f"{keys.CURSORS}reconcile.json", when=ANYTHING)
    assert [reconciler.once().seen, reconciler.once().seen] == [3, 0]


def test_a_clock_ahead_does_not_move_the_cursor() -> None:
    """Otherwise all batches of correct clocks would be behind it, beyond the overlap."""
    store = bucket()
    ahead = bucket()
    ahead.env.sleep(24 * 3600)
    ann = collector(store)
    ann.env = ahead.env
    ann.blobs.env = ahead.env
    early = ann.accept(*batch(1))
    assert isinstance(early, Accepted)
    collector(store).follow_up(early.manifest)
    honest = accepted(store, 2, follow_up=True)
    assert steady(store).position == honest.by_time_key
    late = accepted(store, 3)
    store.send(derived(late)[0])
    assert steady(store).repaired == 1


@pytest.mark.parametrize(("reader", "cursor"), [(Reconciler, "reconcile"), (Rollups, "rollup")])
def test_batches_later_than_the_beginning_of_a_pass_do_not_move_the_cursor(reader: Any, cursor: str) -> None:
    """While a long pass follows them, a late batch appears behind it, by more than the overlap in the end."""
    store = bucket()
    early = accepted(store, 1)
    store.send(derived(early)[0])

    class Slow(reader):  # type: ignore[misc]  # of two classes
        def list_keys(self, prefix: str, after: str = "") -> Any:
            yield from super().list_keys(prefix, after)
            if prefix == keys.BY_TIME:
                store.env.sleep(3 * SETTINGS.overlap_s)
                store.send(derived(accepted(store, 2))[0])
                yield from super().list_keys(prefix, early.by_time_key)

    Slow(store, store.env, SETTINGS).once()
    assert early.by_time_key in store.contents()[f"{keys.CURSORS}{cursor}.json"].decode()


@pytest.mark.parametrize("deep", [False, True])
def test_lost_data_is_an_alarm(deep: bool) -> None:
    store = bucket()
    manifest = accepted(store, follow_up=True)
    store.delete(manifest.raw_blob_key, when=ANYTHING)
    reconciler = Reconciler(store, store.env, SETTINGS)
    for _ in range(3):
        assert reconciler.once().missing == [manifest.key]
    assert audited(store, deep=deep).missing == [manifest.key]


def test_only_a_deep_check_sees_a_changed_blob() -> None:
    store = bucket()
    manifest = accepted(store, follow_up=True)
    body = store.contents()[manifest.raw_blob_key]
    store.put(manifest.raw_blob_key, body[:-1] + b"x", when=ANYTHING)
    assert audited(store).missing == []
    assert audited(store, deep=True).missing == [manifest.key]
    assert steady(store).missing == []
    store.delete(f"{keys.CURSORS}reconcile.json", when=ANYTHING)
    assert reconcile_once(store, store.env, SETTINGS, deep=True).missing == [manifest.key]


def test_an_audit_with_an_unreadable_object_proves_nothing() -> None:
    """An unreadable object may refer to any blob."""
    store = bucket()
    accepted(store)
    store.put(f"{keys.ACCEPTED}agent=61/boot=62/{1:020d}-{2:020d}.json", b"{", when=ANYTHING)
    result = audited(store)
    assert not result.complete
    assert "is not JSON" in result.damaged[0]
    assert proof_began_ns(IngestContext(store, store.env, SETTINGS), LATEST) is None
    assert result.repaired == 2


def test_a_manifest_under_another_name_is_damage() -> None:
    store = bucket()
    manifest = accepted(store)
    error = f"{keys.ACCEPTED}agent=61/boot=62/{1:020d}-{2:020d}.json"
    store.put(error, manifest.body(), when=ANYTHING)
    assert "holds the manifest of agent-a" in audited(store).damaged[0]


def test_the_record_of_audits_only_goes_forward() -> None:
    store = bucket()
    began = []
    for _ in range(3):
        began.append(audited(store).began_ns)
        store.env.sleep(1)
    assert proof_began_ns(IngestContext(store, store.env, SETTINGS), LATEST) == began[-1]
    slow = Scripted(store)
    slow.before("get", "audits/", lambda: (store.env.sleep(5), audited(store)))
    old = audited(slow)
    assert proof_began_ns(IngestContext(store, store.env, SETTINGS), LATEST) == old.began_ns + 5 * 10**9


def test_an_audit_reads_keys_not_bodies() -> None:
    store = Metered(bucket())
    for number in range(30):
        ann = collector(store)
        answer = ann.accept(*batch(number))
        assert isinstance(answer, Accepted)
        ann.follow_up(answer.manifest)
    with store.operation("audit") as cost:
        audited(store)
    assert cost.requests < 20


@pytest.mark.parametrize("boot", [None, "boot-1"])
def test_an_audit_of_some_agents_looks_at_no_others(boot: str | None) -> None:
    """It repairs what they lack, lists no index, and proves nothing to garbage collection."""
    memory = bucket()
    made = {}
    for agent in ("agent-a", "agent-b", "agent-c"):
        answer = collector(memory).accept(*batch(1, agent=agent))
        assert isinstance(answer, Accepted)
        made[agent] = answer.manifest
    for number in range(50):
        given.accepted(memory, 100 + number)
    store = Metered(memory)
    with store.operation("audit") as cost:
        result = audit_agents(store, store.env, SETTINGS, agents=["agent-b", "agent-c"], boot=boot)
    assert (result.accepted, result.repaired) == (2, 4)
    assert cost.requests < 20
    assert [made[agent].by_blob_key in memory.contents() for agent in sorted(made)] == [False, True, True]
    assert proof_began_ns(IngestContext(store, store.env, SETTINGS), LATEST) is None
    other = audit_agents(store, store.env, SETTINGS, agents=["agent-a"], boot="boot-2")
    assert (other.accepted, other.repaired) == (0, 0)


def test_an_audit_of_an_agent_has_its_late_batches_counted() -> None:
    store = bucket()
    lost = accepted(store, 1)
    for number in (2, 3):
        store.env.sleep(7200)
        accepted(store, number, follow_up=True)
    roll_up(store, store.env, SETTINGS)
    assert audit_agents(store, store.env, SETTINGS, agents=["agent-a"]).hours_marked == 1
    roll_up(store, store.env, SETTINGS)
    series = totals(store, store.env, SETTINGS).values()
    assert sum(one.count for found in series for one in found.values()) == 3
    assert indexes(store, lost) == 2
