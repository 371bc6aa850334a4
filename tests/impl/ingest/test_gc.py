"""Garbage collection deletes orphans and nothing else."""

import dataclasses
from typing import Any

import pytest

from fencepost.impl.ingest import Accepted, SettingsError, collect, full_audit, keys
from fencepost.impl.ingest.context import agree
from fencepost.impl.ingest.errors import StoreUnavailable
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.layers import Effect, Fault, Faulty, Metered
from fencepost.impl.store.memory import MemoryStore

from .given import LONG_S, SETTINGS, batch, bucket, collector, sha256

BOTH = pytest.mark.parametrize("versioned", [False, True], ids=["plain", "versioned"])


def orphan(store: MemoryStore, number: int = 9) -> str:
    """A blob whose collector died before it created the manifest."""
    _, body = batch(number)
    return collector(store).blobs.keep(sha256(body), body).key


def gc(store: Any, **options: Any) -> Any:
    return collect(store, store.env, SETTINGS, **options)


def audit(store: Any) -> None:
    full_audit(store, store.env, SETTINGS)


@BOTH
def test_only_old_orphans_are_deleted(versioned: bool) -> None:
    store = bucket(versioned=versioned)
    ann = collector(store)
    for number in range(3):
        ann.accept(*batch(number))
    identity, _ = batch(0)
    ann.accept(identity, batch(0, 7.0)[1])
    old = orphan(store)
    store.env.sleep(LONG_S)
    young = orphan(store, 8)
    before = store.contents()
    audit(store)
    result = gc(store)
    assert result.deleted == [old]
    assert (result.blobs, result.referenced, result.young, result.unproven) == (6, 4, 1, 0)
    gone = {key for key in before if key not in store.contents()}
    assert gone == {old}
    assert young in store.contents()
    if versioned:
        assert not store.list_versions(old).versions


@BOTH
def test_an_old_audit_proves_nothing(versioned: bool) -> None:
    store = bucket(versioned=versioned)
    orphan(store)
    audit(store)
    store.env.sleep(LONG_S)
    assert gc(store).unproven == 1
    audit(store)
    assert len(gc(store).deleted) == 1


@BOTH
def test_young_blobs_are_kept(versioned: bool) -> None:
    store = bucket(versioned=versioned)
    orphan(store)
    for _ in range(4):
        store.env.sleep(SETTINGS.horizon_s / 4 - 1)
        audit(store)
        assert not gc(store).deleted


def test_a_dry_run_reports_and_deletes_nothing() -> None:
    store = bucket()
    key = orphan(store)
    store.env.sleep(LONG_S)
    audit(store)
    assert gc(store, dry_run=True).deleted == [key]
    assert key in store.contents()


def test_foreign_objects_are_never_touched() -> None:
    store = bucket()
    for key in ("raw-blobs/v1/sha256/readme.txt", keys.raw_key("ab" * 32)):
        store.put(key, b"x", when=ANYTHING)
    store.env.sleep(10 * LONG_S)
    audit(store)
    assert gc(store).foreign == 2
    assert keys.raw_key("ab" * 32) in store.contents()


def test_a_delete_marker_is_not_a_blob() -> None:
    """An operator deleted the blob by hand; only an operator may remove the marker."""
    store = bucket(versioned=True)
    key = orphan(store)
    store.delete(key, when=ANYTHING)
    store.env.sleep(LONG_S)
    audit(store)
    result = gc(store)
    assert (result.foreign, len(result.deleted)) == (1, 1)
    assert [one.marker for one in store.list_versions(key).versions] == [True]


def test_a_delete_with_an_unknown_outcome_is_reported() -> None:
    store = bucket()
    key = orphan(store)
    store.env.sleep(LONG_S)
    audit(store)
    result = gc(Faulty(store, [Fault(Effect.REPLY_LOST, {"delete"})]))
    assert (result.deleted, result.unclear) == ([], [key])


def test_a_listing_that_fails_ends_the_pass() -> None:
    """A missing page of references would look like missing references."""
    store = bucket()
    answer = collector(store).accept(*batch())
    assert isinstance(answer, Accepted)
    store.env.sleep(LONG_S)
    audit(store)
    with pytest.raises(StoreUnavailable):
        gc(Faulty(store, [Fault(Effect.REQUEST_LOST, {"list"}, keys.BY_BLOB)]))
    assert answer.manifest.raw_blob_key in store.contents()


def test_a_pass_costs_pages_not_blobs() -> None:
    store = Metered(bucket())
    ann = collector(store)
    for number in range(100):
        ann.accept(*batch(number))
    store.env.sleep(LONG_S)
    audit(store)
    with store.operation("gc") as cost:
        assert gc(store).referenced == 100
    assert cost.requests < 8


def test_a_process_with_another_horizon_is_refused() -> None:
    """A generation counts horizons: with a shorter one a young blob would look old, and be deleted."""
    store = bucket()
    agree(store, store.env, SETTINGS)
    agree(store, store.env, SETTINGS)
    key = orphan(store)
    audit(store)
    shorter = dataclasses.replace(SETTINGS, horizon_s=SETTINGS.horizon_s / 12)
    for _ in range(2):
        with pytest.raises(SettingsError, match=r"horizon_s is 300.*used with 3600"):
            collect(store, store.env, shorter)
    assert key in store.contents()
    store.delete(keys.AGREEMENT, when=ANYTHING)
    assert collect(store, store.env, shorter).deleted == [key], "otherwise it would be deleted"


def test_the_first_process_sets_the_times() -> None:
    store = bucket()
    faulty = Faulty(store, [Fault(Effect.REPLY_LOST, {"put"}, keys.AGREEMENT, times=1)])
    agree(faulty, store.env, SETTINGS)
    with pytest.raises(SettingsError, match="skew_bound_s"):
        agree(store, store.env, dataclasses.replace(SETTINGS, skew_bound_s=1.0))


def test_abandoned_uploads_are_aborted() -> None:
    """No listing shows them, and every part is paid for."""
    store = bucket()
    store.create_upload(keys.raw_key("ab" * 32, 7))
    store.create_upload("elsewhere")
    assert gc(store).aborted == 0
    store.env.sleep(LONG_S)
    young = store.create_upload(keys.raw_key("cd" * 32, 7)).upload
    assert gc(store, dry_run=True).aborted == 1
    assert gc(store).aborted == 1
    left = store.list_uploads().uploads
    assert {(one.key, one.upload == young) for one in left} == {
        ("elsewhere", False),
        (keys.raw_key("cd" * 32, 7), True),
    }


def test_orphans_among_many_are_all_found() -> None:
    """Both listings run side by side in the order of hashes; no blob is skipped at the border of a page."""
    store = bucket()
    ann = collector(store)
    orphans = set()
    for number in range(120):
        if number % 3:
            ann.accept(*batch(number))
        else:
            orphans.add(orphan(store, number))
    store.env.sleep(LONG_S)
    audit(store)
    assert set(gc(store).deleted) == orphans
