"""An audit by a report: the report is old and any key in it may be outdated, and nothing is lost."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.impl.ingest import (
    Accepted,
    Conflict,
    Manifest,
    collect,
    full_audit,
    keys,
    reconcile_once,
    roll_up,
    totals,
)
from fencepost.impl.ingest.audit import LATEST, REPORTED, audit_by_report, proof_began_ns
from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.errors import InventoryError, StoreUnavailable
from fencepost.impl.ingest.indexes import derived
from fencepost.impl.ingest.inventory import Report, report_in
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.layers import Effect, Fault, Faulty, Traced
from fencepost.impl.store.memory import MemoryStore

from . import reports
from .given import LONG_S, SETTINGS, accepted, batch, bucket, collector, sha256, table

BOTH = pytest.mark.parametrize("versioned", [False, True], ids=["plain", "versioned"])


def orphan(store: MemoryStore, number: int = 9) -> str:
    _, body = batch(number)
    return collector(store).blobs.keep(sha256(body), body).key


def taken(store: MemoryStore, reported: Iterable[str] | None = None, **options: Any) -> Report:
    """A report of the current keys, or of other keys."""
    elsewhere = bucket()
    found = reports.report(
        list(store.contents()) if reported is None else reported, at_ns=store.env.now_ns(), **options
    )
    for key, body in found.items():
        elsewhere.put(key, body, when=ANYTHING)
    return report_in(elsewhere, elsewhere.env, reports.MANIFEST)


def audited(store: Any, report: Report, **options: Any) -> Any:
    return audit_by_report(store, store.env, SETTINGS, report=report, **options)


def gc(store: Any, **options: Any) -> Any:
    return collect(store, store.env, SETTINGS, **options)


def indexes(store: MemoryStore, manifest: Manifest) -> int:
    return sum(put.key in store.contents() for put in derived(manifest))


def without(store: MemoryStore, *gone: str) -> list[str]:
    return [key for key in store.contents() if not key.startswith(gone)]


def test_unindexed_batches_are_found_and_repaired() -> None:
    store = bucket()
    for number in range(3):
        accepted(store, number)
    lost = accepted(store, 7, follow_up=False)
    result = audited(store, taken(store))
    assert (result.accepted, result.repaired, result.missing, result.gone) == (4, 2, [], [])
    assert indexes(store, lost) == 2
    assert audited(store, taken(store)).repaired == 0


@pytest.mark.parametrize("missing", range(2))
def test_any_missing_index_object_is_found(missing: int) -> None:
    store = bucket()
    manifest = accepted(store)
    store.delete(derived(manifest)[missing].key, when=ANYTHING)
    assert audited(store, taken(store)).repaired == 1
    assert indexes(store, manifest) == 2


def test_no_long_prefix_is_listed() -> None:
    """This is the purpose of a report."""
    store = bucket()
    for number in range(30):
        accepted(store, number)
    store.env.sleep(LONG_S)
    accepted(store, 31)  # so that the reconciler's overlap does not hold the others
    reconcile_once(store, store.env, SETTINGS)
    report = taken(store)
    seen: list[Any] = []
    audited(Traced(store, seen.append, process="audit"), report)
    requests = [one for one in seen if one.phase == "request"]
    listed = {one.key for one in requests if one.kind == "list"}
    assert listed == {keys.BY_TIME, keys.QUARANTINE, keys.QUARANTINE_BY_BLOB}
    assert len(requests) < 15


def test_keys_missing_in_the_report_are_checked_before_they_are_written() -> None:
    """A rolling snapshot lacks recent keys: that is no reason to write them again."""
    store = bucket()
    manifest = accepted(store)
    seen: list[Any] = []
    report = taken(store, [manifest.key])
    result = audited(Traced(store, seen.append, process="audit"), report)
    assert (result.accepted, result.repaired, result.missing) == (1, 0, [])
    assert {one.key for one in seen if one.kind == "put"} == {"audits/v1/reported.json"}


def test_batches_accepted_since_are_found_by_their_place_in_time() -> None:
    store = bucket()
    accepted(store)
    report = taken(store)
    store.env.sleep(3600)
    since = accepted(store, 2, follow_up=False)
    store.send(derived(since)[0])  # and its collector died
    result = audited(store, report)
    assert (result.accepted, result.since, result.repaired) == (1, 2, 1)
    assert indexes(store, since) == 2


def test_batches_behind_the_reconciler_are_not_checked_again() -> None:
    store = bucket()
    accepted(store)
    report = taken(store)
    for number in range(2, 7):
        store.env.sleep(3600)
        accepted(store, number)
    assert audited(store, report).since == 6
    reconcile_once(store, store.env, SETTINGS)
    assert audited(store, report).since == 1


def test_unindexed_batches_accepted_since_are_left_to_the_next_report() -> None:
    store = bucket()
    accepted(store)
    report = taken(store)
    store.env.sleep(3600)
    lost = accepted(store, 2, follow_up=False)
    audited(store, report)
    assert indexes(store, lost) == 0
    assert proof_began_ns(IngestContext(store, store.env, SETTINGS), REPORTED) == report.began_ns
    audited(store, taken(store))
    assert indexes(store, lost) == 2


def test_a_deleted_manifest_is_an_alarm_and_no_damage() -> None:
    """Nothing below accepted/ may be deleted; but a deleted manifest protects nothing."""
    store = bucket()
    manifest = accepted(store, follow_up=False)
    accepted(store, 2)
    report = taken(store)
    store.delete(manifest.key, when=ANYTHING)
    result = audited(store, report)
    assert (result.gone, result.damaged, result.repaired) == ([manifest.key], [], 0)
    assert result.complete
    assert indexes(store, manifest) == 0


@pytest.mark.parametrize("deep", [False, True])
def test_an_index_object_deleted_since_is_found_by_a_deep_audit_or_the_next_report(deep: bool) -> None:
    store = bucket()
    manifest = accepted(store)
    store.env.sleep(LONG_S)
    report = taken(store)
    store.delete(manifest.by_blob_key, when=ANYTHING)
    assert audited(store, report, deep=deep).repaired == (1 if deep else 0)
    assert audited(store, taken(store)).repaired == (0 if deep else 1)


def test_a_blob_deleted_since_is_found_by_a_deep_audit() -> None:
    store = bucket()
    manifest = accepted(store)
    report = taken(store)
    store.delete(manifest.raw_blob_key, when=ANYTHING)
    assert audited(store, report, deep=True).missing == [manifest.key]
    assert audited(store, taken(store)).missing == [manifest.key]


def test_a_blob_written_since_is_no_alarm() -> None:
    store = bucket()
    accepted(store)
    assert audited(store, taken(store, without(store, keys.RAW))).missing == []


def test_an_unreadable_manifest_is_damage_and_proves_nothing() -> None:
    store = bucket()
    accepted(store)
    store.put(f"{keys.ACCEPTED}agent=61/boot=62/{1:020d}-{2:020d}.json", b"{", when=ANYTHING)
    result = audited(store, taken(store))
    assert "is not JSON" in result.damaged[0]
    assert proof_began_ns(IngestContext(store, store.env, SETTINGS), REPORTED) is None


def test_quarantine_is_listed_and_up_to_date() -> None:
    """Conflicts are few, and each needs an operator."""
    store = bucket()
    ann = collector(store)
    ann.accept(*batch(1))
    report = taken(store)
    conflict = ann.accept(batch(1)[0], batch(1, 7.0)[1])
    assert isinstance(conflict, Conflict)
    reference = keys.quarantine_by_blob_key(conflict.offered.frame_sha256, conflict.offered.identity)
    store.delete(reference, when=ANYTHING)
    assert audited(store, report).quarantined == 1
    assert reference in store.contents()


@BOTH
def test_gc_checks_blobs_that_only_a_report_covers(versioned: bool) -> None:
    """Keys of every kind come and go between the scan and the audit; S3 promises nothing about them."""
    store = bucket(versioned=versioned)
    good = accepted(store, 1)
    unseen = accepted(
        store, 2, follow_up=False
    )  # stood at the scan, the report lacks it, and it shows nowhere
    went = accepted(store, 3)  # its reference existed at the scan, and was deleted since
    old = orphan(store)
    ann = collector(store)
    parked = ann.accept(batch(1)[0], batch(1, 7.0)[1])
    assert isinstance(parked, Conflict)
    store.env.sleep(LONG_S)
    report = taken(store, [key for key in store.contents() if key != unseen.key])
    audited(store, report)
    store.delete(went.by_blob_key, when=ANYTHING)
    store.delete(keys.quarantine_by_blob_key(parked.offered.frame_sha256, batch(1)[0]), when=ANYTHING)
    assert gc(store, dry_run=True).deleted == [old]
    result = gc(store)
    assert result.deleted == [old]
    assert result.referenced == 4
    standing = store.contents()
    assert {good.raw_blob_key, unseen.raw_blob_key, went.raw_blob_key, parked.offered.raw_blob_key} <= set(
        standing
    )


@BOTH
def test_a_report_proves_nothing_after_its_scan_began(versioned: bool) -> None:
    store = bucket(versioned=versioned)
    accepted(store)
    orphan(store)
    report = taken(store)
    store.env.sleep(LONG_S)
    audited(store, report)
    assert gc(store).unproven == 1
    audited(store, taken(store))
    assert len(gc(store).deleted) == 1


def test_after_an_audit_by_listing_gc_reads_no_blob() -> None:
    store = bucket()
    accepted(store)
    orphan(store)
    store.env.sleep(LONG_S)
    audited(store, taken(store))
    full_audit(store, store.env, SETTINGS)
    seen: list[Any] = []
    assert len(gc(Traced(store, seen.append, process="gc")).deleted) == 1
    assert not [one for one in seen if one.kind == "get" and one.key.startswith(keys.RAW)]


@pytest.mark.parametrize("body", [b"no frame", None], ids=["no frame", "another frame"])
def test_an_orphan_without_a_readable_frame_is_kept(body: bytes | None) -> None:
    store = bucket()
    accepted(store)
    key = orphan(store)
    store.put(key, batch(8)[1] if body is None else body, when=ANYTHING)
    store.env.sleep(LONG_S)
    audited(store, taken(store))
    result = gc(store)
    assert (result.deleted, result.unproven) == ([], 1)


def test_an_orphan_whose_identity_belongs_to_another_batch_is_deleted() -> None:
    """Its collector died before it recorded the conflict: the agent tries again."""
    store = bucket()
    accepted(store)
    _, other = batch(1, 7.0)
    key = collector(store).blobs.keep(sha256(other), other).key
    store.env.sleep(LONG_S)
    audited(store, taken(store))
    assert gc(store).deleted == [key]


def test_an_orphan_with_an_unreadable_manifest_is_kept() -> None:
    store = bucket()
    accepted(store)
    orphan(store)
    identity, _ = batch(9)
    store.env.sleep(LONG_S)
    audited(store, taken(store))
    store.put(keys.accepted_key(identity), b"{", when=ANYTHING)
    result = gc(store)
    assert (result.deleted, result.unproven) == ([], 1)


def test_an_orphan_deleted_meanwhile_is_not_deleted_again() -> None:
    store = bucket()
    accepted(store)
    key = orphan(store)
    store.env.sleep(LONG_S)
    audited(store, taken(store))

    class Racing(Traced):
        def send(self, request: Any) -> Any:
            if request.kind == "get" and request.key == key:
                store.delete(key, when=ANYTHING)
            return super().send(request)

    assert gc(Racing(store, lambda _: None, process="gc")).deleted == []


def test_a_check_without_an_answer_ends_the_pass() -> None:
    store = bucket()
    manifest = accepted(store, follow_up=False)
    store.env.sleep(LONG_S)
    accepted(store, 2)
    audited(store, taken(store, [key for key in store.contents() if key != manifest.key]))
    with pytest.raises(StoreUnavailable):
        gc(Faulty(store, [Fault(Effect.REQUEST_LOST, {"get"}, keys.ACCEPTED)]))
    assert manifest.raw_blob_key in store.contents()


def test_the_record_only_goes_forward_and_is_no_audit_of_the_bucket() -> None:
    store = bucket()
    accepted(store)
    old = taken(store)
    store.env.sleep(3600)
    new = taken(store)
    audited(store, new)
    audited(store, old)
    assert proof_began_ns(IngestContext(store, store.env, SETTINGS), REPORTED) == new.began_ns
    assert proof_began_ns(IngestContext(store, store.env, SETTINGS), LATEST) is None


def test_a_report_without_accepted_batches_is_refused() -> None:
    store = bucket()
    accepted(store)
    for reported in ([], without(store, keys.ACCEPTED)):
        with pytest.raises(InventoryError, match="nothing below accepted/"):
            audited(store, taken(store, reported))
    audited(bucket(), taken(bucket(), []))


def test_a_report_from_the_future_is_refused() -> None:
    store = bucket()
    report = taken(store)
    early = MemoryStore(env=type(store.env)(1, store.env.now_ns() - 10**12))
    with pytest.raises(InventoryError, match="ahead of this clock"):
        audited(early, report)


def test_keys_below_another_prefix_are_ignored() -> None:
    store = bucket()
    lost = accepted(store, follow_up=False)
    reported = [f"prod/{key}" for key in store.contents()] + ["test/accepted/v1/x.json"]
    result = audited(store, taken(store, reported), prefix="prod/")
    assert (result.accepted, result.repaired) == (1, 2)
    assert indexes(store, lost) == 2


def test_batches_found_behind_the_rollups_are_rolled_up() -> None:
    """One batch has a late place in time; another gets its place only by this audit."""
    store = bucket()
    lost = accepted(store, 1, follow_up=False)
    store.env.sleep(7200)
    hidden = accepted(store, 2)
    store.delete(hidden.by_time_key, when=ANYTHING)
    for number in range(3, 6):
        store.env.sleep(7200)
        accepted(store, number)
    roll_up(store, store.env, SETTINGS)
    store.send(derived(hidden)[0])  # late, behind the cursor, and in the report
    result = audited(store, taken(store))
    assert result.hours_marked == 2
    assert roll_up(store, store.env, SETTINGS).batches == 2
    series = totals(store, store.env, SETTINGS).values()
    assert sum(one.count for found in series for one in found.values()) == 5
    assert indexes(store, lost) == 2


def test_an_unreadable_report_changes_nothing() -> None:
    store = bucket()
    accepted(store, follow_up=False)
    report = taken(store)
    report.place._context.store.put(f"{reports.BASE}/data/part-0.csv.gz", b"x", when=ANYTHING)  # type: ignore[attr-defined]  # where the test put it
    before = store.contents()
    with pytest.raises(InventoryError):
        audited(store, report)
    assert store.contents() == before


def test_foreign_keys_are_ignored() -> None:
    store = bucket()
    accepted(store)
    for prefix in (keys.BY_BLOB, keys.BY_TIME, keys.RAW):
        store.put(f"{prefix}readme.txt", b"x", when=ANYTHING)
    assert audited(store, taken(store)).repaired == 0
    assert full_audit(store, store.env, SETTINGS).complete


LIVES = st.lists(
    st.tuples(
        st.integers(0, 3),  # which batch
        st.integers(0, 1),  # which bytes under that name
        st.sets(st.integers(0, 1)),  # which of its indexes its collector got to write
        st.sampled_from([0, 600, 4000]),  # and how long until the next
    ),
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(
    before=LIVES,
    after=LIVES,
    late=LIVES,
    versioned=st.booleans(),
    lost=st.integers(0),
    old=st.sets(st.integers(0, 7)),
)
def test_no_referenced_blob_is_deleted_in_any_history(
    before: Any, after: Any, late: Any, versioned: bool, lost: int, old: set[int]
) -> None:
    """And every batch in the report has its indexes. `lost`: the keys that the report lacks, as bits."""
    store = bucket(versioned=versioned)
    accepted(store, 9)
    _live(store, before)
    for number in old:
        orphan(store, number)
    store.env.sleep(LONG_S)
    standing = sorted(store.contents())
    reported = [
        key
        for at, key in enumerate(standing)
        if not lost >> at & 1
        or key.startswith(f"{keys.ACCEPTED}agent=6167656e742d61/boot=626f6f742d31/{90:020d}")
    ]
    report = taken(store, reported)
    _live(store, after)
    audited(store, report)
    for key in reported:
        if key.startswith(keys.ACCEPTED):
            assert indexes(store, Manifest.read(store.contents()[key], key)) == 2
    _live(store, late)
    gc(store)
    standing_now = store.contents()
    for key, body in standing_now.items():
        if key.startswith(keys.ACCEPTED):
            assert Manifest.read(body, key).raw_blob_key in standing_now
        if key.startswith(keys.QUARANTINE):
            assert _record(body)["submitted_raw_blob_key"] in standing_now


def _live(store: MemoryStore, lives: Any) -> None:
    for number, other, written, pause_s in lives:
        answer = collector(store).accept(batch(number)[0], batch(number, float(other))[1])
        if isinstance(answer, Accepted) and not answer.duplicate:
            for at in written:
                store.send(derived(answer.manifest)[at])
        elif isinstance(answer, Conflict) and not written:
            store.delete(
                keys.quarantine_by_blob_key(answer.offered.frame_sha256, answer.offered.identity),
                when=ANYTHING,
            )
        store.env.sleep(pause_s)


def _record(body: bytes) -> Any:
    import json

    return json.loads(body)


def test_without_the_check_data_would_be_lost() -> None:
    """The same history, with a garbage collection that trusts a report like an audit."""
    store = bucket()
    unseen = accepted(store, follow_up=False)
    store.env.sleep(LONG_S)
    accepted(store, 2)
    audited(store, taken(store, [key for key in store.contents() if key != unseen.key]))
    assert gc(store).deleted == []
    assert gc(store, safeguards=table("gc-audit-before-trust")).deleted == [unseen.raw_blob_key]
