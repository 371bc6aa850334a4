"""The search finds unindexed batches unattended, at a known cost."""

import contextlib
import dataclasses
from typing import Any

import pytest

from fencepost.impl.ingest import Manifest, full_audit, keys, reconcile_once, roll_up, totals
from fencepost.impl.ingest.errors import Damaged, StoreUnavailable
from fencepost.impl.ingest.indexes import derived
from fencepost.impl.ingest.maintenance import STATE, Search
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.layers import Effect, Fault, Faulty, Metered
from fencepost.impl.store.memory import MemoryStore
from tests.impl.publish.scripted import Crashed, Scripted

from . import given as given_
from .given import SETTINGS, Dying, accepted, bucket, table

EVERY_S = 6 * 3600.0
SETTLED_S = 61.0


def indexes(store: MemoryStore, manifest: Manifest) -> int:
    return sum(put.key in store.contents() for put in derived(manifest))


def search(store: Any, **options: Any) -> Search:
    return Search(store, store.env, SETTINGS, every_s=EVERY_S, **options)


def small_pages(monkeypatch: pytest.MonkeyPatch, size: int = 10) -> None:
    """Pages of `size` keys, so that few batches fill many pages."""
    real = given_.MemoryStore.send

    def send(self: MemoryStore, request: Any) -> Any:
        if request.kind == "list":
            request = dataclasses.replace(request, limit=size)
        return real(self, request)

    monkeypatch.setattr(given_.MemoryStore, "send", send)


def test_batches_in_no_index_are_found() -> None:
    store = bucket()
    for number in range(5):
        accepted(store, number)
    lost = accepted(store, 7, follow_up=False)
    store.env.sleep(SETTLED_S)
    result = search(store).step()
    assert (result.listed, result.found, result.repaired, result.ended) == (6, 1, 2, True)
    assert indexes(store, lost) == 2


def test_a_recent_batch_is_left_to_its_collector_and_found_by_the_next_search() -> None:
    store = bucket()
    lost = accepted(store, follow_up=False)
    assert search(store).step().found == 0
    store.env.sleep(EVERY_S)
    assert search(store).step().found == 1
    assert indexes(store, lost) == 2


def test_between_searches_a_step_costs_one_request() -> None:
    store = Metered(bucket())
    accepted(store)
    one = search(store)
    assert one.step().ended
    for _ in range(3):
        store.env.sleep(EVERY_S / 4)
        with store.operation("step") as cost:
            assert not one.step().ended
        assert cost.requests == 1
    store.env.sleep(EVERY_S / 4)
    assert one.step().ended


def test_a_search_costs_pages_and_the_unindexed_batches() -> None:
    store = Metered(bucket())
    for number in range(100):
        accepted(store, number)
    store.env.sleep(SETTLED_S)
    with store.operation("search") as cost:
        assert search(store).step().listed == 100
    assert cost.requests < 12
    accepted(store, 200, follow_up=False)
    store.env.sleep(EVERY_S)
    with store.operation("search") as again:
        assert search(store).step().found == 1
    assert again.requests < cost.requests + 15


def test_a_search_continues_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """In another process, too: its position is in the bucket."""
    store = bucket()
    lost = [accepted(store, number, follow_up=number % 7 > 0) for number in range(70)]
    store.env.sleep(SETTLED_S)
    small_pages(monkeypatch)
    found = 0
    one = search(store)
    for number in range(1, 60):
        result = one.step(lambda: True)
        found += result.found
        if result.ended:
            break
        if number % 14 == 0:
            one = search(store)
    assert result.ended
    assert number > 14
    assert found == 10
    assert all(indexes(store, manifest) == 2 for manifest in lost)


def test_a_batch_behind_the_position_is_left_to_the_next_search(monkeypatch: pytest.MonkeyPatch) -> None:
    store = bucket()
    for number in range(10, 40):
        accepted(store, number)
    store.env.sleep(SETTLED_S)
    small_pages(monkeypatch)
    one = search(store)
    stops = iter([False] * 3 + [True] * 100)
    assert not one.step(lambda: next(stops)).ended
    early = accepted(store, 1, follow_up=False)
    store.env.sleep(3600)  # longer than the margin: what counts is when the search began
    assert one.step().ended
    assert indexes(store, early) == 0
    store.env.sleep(EVERY_S)
    assert one.step().found == 1
    assert indexes(store, early) == 2


def test_two_searches_at_once_repeat_work_and_do_no_harm() -> None:
    store = bucket()
    lost = accepted(store, follow_up=False)
    store.env.sleep(SETTLED_S)
    script = Scripted(store)
    script.before("get", keys.ACCEPTED, lambda: search(store).step())
    result = search(script).step()
    assert indexes(store, lost) == 2
    assert not result.damaged
    store.env.sleep(EVERY_S)
    assert search(store).step().ended


def test_after_an_audit_a_search_checks_little() -> None:
    store = bucket()
    for number in range(30):
        accepted(store, number)
    for key in list(store.contents()):
        if key.startswith(keys.BY_TIME):
            store.delete(key, when=ANYTHING)
    store.env.sleep(3 * 3600)
    full_audit(store, store.env, SETTINGS)
    for key in list(store.contents()):
        if key.startswith(keys.BY_TIME):
            store.delete(key, when=ANYTHING)
    result = search(store).step()
    assert (result.listed, result.found) == (30, 0)


def test_a_batch_found_late_is_rolled_up_after_any_crash() -> None:
    """Rollups check nothing behind their cursor but marked hours: so a dying search must not lose the
    mark."""
    for crash in range(12):
        store = bucket()
        lost = accepted(store, 1, follow_up=False)
        for number in range(2, 5):
            store.env.sleep(7200)
            accepted(store, number)
        reconcile_once(store, store.env, SETTINGS)
        roll_up(store, store.env, SETTINGS)
        _step_and_crash(store, crash)
        roll_up(store, store.env, SETTINGS)  # meets the mark, if there is one, before the batch has its place
        search(store).step()
        roll_up(store, store.env, SETTINGS)
        series = totals(store, store.env, SETTINGS).values()
        assert sum(one.count for found in series for one in found.values()) == 4, crash
        assert indexes(store, lost) == 2


def _step_and_crash(store: MemoryStore, after: int) -> None:
    """A step whose process dies after so many writes."""
    try:
        search(Dying(store, after)).step()
    except Crashed:
        return


def test_lost_data_and_damage_are_reported() -> None:
    store = bucket()
    gone = accepted(store, follow_up=False)
    store.delete(gone.raw_blob_key, when=ANYTHING)
    store.put(f"{keys.ACCEPTED}agent=61/boot=62/{1:020d}-{2:020d}.json", b"{", when=ANYTHING)
    store.env.sleep(SETTLED_S)
    result = search(store).step()
    assert result.missing == [gone.key]
    assert "is not JSON" in result.damaged[0]


@pytest.mark.parametrize(
    "body", [b"{", b"{}", b'{"schema":"fencepost.ingest_search.v1","revision":1,"began_ns":"x"}']
)
def test_an_invalid_state_is_named(body: bytes) -> None:
    store = bucket()
    store.put(STATE, body, when=ANYTHING)
    with pytest.raises(Damaged, match=r"cursors/v1/search\.json"):
        search(store).step()


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [("put", STATE), ("list", keys.ACCEPTED), ("put", keys.BY_TIME), ("put", keys.QUEUE)],
)
@pytest.mark.parametrize("effect", [Effect.REQUEST_LOST, Effect.REPLY_LOST])
def test_an_unavailable_store_loses_nothing(kind: str, prefix: str, effect: Effect) -> None:
    store = bucket()
    lost = accepted(store, follow_up=False)
    store.env.sleep(SETTLED_S)
    found = (prefix, effect) == (STATE, Effect.REPLY_LOST)  # what the state says is looked for
    with contextlib.nullcontext() if found else pytest.raises(StoreUnavailable):
        search(Faulty(store, [Fault(effect, {kind}, prefix)])).step()
    search(store).step()
    assert indexes(store, lost) == 2


def test_without_reconciling_nothing_is_found() -> None:
    store = bucket()
    lost = accepted(store, follow_up=False)
    store.env.sleep(SETTLED_S)
    search(store, safeguards=table("reconcile")).step()
    assert indexes(store, lost) == 0
