"""Garbage collection whose candidates come from a report or a log: whatever these say, what is live stays."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.impl.ingest import Accepted, collect, full_audit, keys
from fencepost.impl.ingest.errors import InventoryError
from fencepost.impl.ingest.gc import Collected, CollectorOfLog
from fencepost.impl.lifecycle.engine import Change, Seen
from fencepost.impl.lifecycle.log import MemoryLog
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.layers import Traced

from . import reports
from .given import LONG_S, SETTINGS, accepted, batch, bucket, collector, sha256, table
from .test_inventory_audit import orphan, taken

BOTH = pytest.mark.parametrize("versioned", [False, True], ids=["plain", "versioned"])
BY_REPORT = pytest.mark.parametrize("source", ["report", "log"])


class Named:
    """A bucket, and a log and reports of it."""

    def __init__(self, *, versioned: bool = False) -> None:
        self.store = bucket(versioned=versioned)
        self.log = MemoryLog(("changes",))
        self.held: list[int] = []
        self.log.hold = lambda needed: self.held.extend(needed.values())  # type: ignore[method-assign]  # recorded
        self.reported: list[str] | None = None
        self.known: set[str] = set()

    def note(self) -> None:
        """Have the log name what was written since."""
        for key in sorted(set(self.store.contents()) - self.known):
            self.known.add(key)
            self.event(key)

    def event(self, key: str) -> None:
        self.log.add("changes", self.store.env.now_ns(), Change("metrics", key, None, Seen("", "e", 1)))

    def collect(self, source: str, store: Any = None, **options: Any) -> Collected:
        used = store or self.store
        if source == "report":
            report = taken(self.store, self.reported)
            return collect(used, self.store.env, SETTINGS, report=report, **options)
        self.log.flush("changes", self.store.env.now_ns())
        return self.follow(used, **options).once()

    def follow(self, store: Any = None, **options: Any) -> CollectorOfLog:
        used = store or self.store
        return CollectorOfLog(used, self.store.env, SETTINGS, log=self.log, source="log", **options)

    def audit(self) -> None:
        full_audit(self.store, self.store.env, SETTINGS)


@BOTH
@BY_REPORT
def test_only_old_orphans_are_deleted(source: str, versioned: bool) -> None:
    """The same as a listing finds, without listing a blob."""
    named = Named(versioned=versioned)
    store = named.store
    for number in range(3):
        accepted(store, number)
    collector(store).accept(batch(0)[0], batch(0, 7.0)[1])  # a conflict: its blob is referenced by quarantine
    old = orphan(store)
    named.note()
    store.env.sleep(LONG_S)
    young = orphan(store, 8)
    named.note()
    named.audit()
    before = set(store.contents())
    seen: list[Any] = []
    result = named.collect(source, Traced(store, seen.append, process="gc"))
    assert result.deleted == [old]
    assert before - set(store.contents()) == {old}
    assert young in store.contents()
    assert result.young == (1 if source == "report" else 0), "the log is read up to the horizon"
    assert keys.RAW not in {one.key for one in seen if one.phase == "request" and one.kind == "list"}
    assert named.collect(source).deleted == []


@BY_REPORT
def test_without_an_audit_nothing_is_deleted(source: str) -> None:
    named = Named()
    orphan(named.store)
    named.note()
    named.store.env.sleep(LONG_S)
    before = named.store.contents()
    for _ in range(2):
        result = named.collect(source)
        assert (result.deleted, result.unproven) == ([], 1)
    assert {key: body for key, body in named.store.contents().items() if key in before} == before
    named.audit()
    assert len(named.collect(source).deleted) == 1, "the cursor has not passed it"


@BOTH
@BY_REPORT
def test_a_stale_source_deletes_nothing_that_became_live(source: str, versioned: bool) -> None:
    """When the report was taken, or the log written, the blob was an orphan; its batch was accepted since."""
    named = Named(versioned=versioned)
    store = named.store
    blob = orphan(store)
    named.note()
    named.reported = list(store.contents())
    identity, body = batch(9)
    ann = collector(store)
    answer = ann.accept(identity, body)
    assert isinstance(answer, Accepted)
    ann.follow_up(answer.manifest)
    assert answer.manifest.raw_blob_key == blob
    store.env.sleep(LONG_S)
    named.audit()
    result = named.collect(source)
    assert (result.deleted, result.referenced) == ([], 1)
    assert blob in store.contents()


@BOTH
@BY_REPORT
def test_what_is_gone_is_no_candidate(source: str, versioned: bool) -> None:
    named = Named(versioned=versioned)
    store = named.store
    blob = orphan(store)
    accepted(store, 1)
    named.note()
    named.reported = list(store.contents())
    store.env.sleep(LONG_S)
    for one in store.list_versions(blob).versions if versioned else [None]:
        store.delete(blob, when=ANYTHING, version=one.version if one else "")
    named.audit()
    result = named.collect(source)
    assert (result.deleted, result.gone) == ([], 1)


def test_a_torn_report_is_refused_before_anything_is_deleted() -> None:
    """Its last file does not have the MD5 of the manifest."""
    named = Named()
    store = named.store
    accepted(store)
    old = orphan(store)
    store.env.sleep(LONG_S)
    named.audit()
    elsewhere = bucket()
    objects = reports.report(list(store.contents()), at_ns=store.env.now_ns(), files=2)
    torn = max(key for key in objects if key.endswith(".gz"))
    for key, body in objects.items():
        elsewhere.put(key, body[: len(body) // 2] if key == torn else body, when=ANYTHING)
    from fencepost.impl.ingest.inventory import report_in

    with pytest.raises(InventoryError):
        collect(
            store,
            store.env,
            SETTINGS,
            report=report_in(elsewhere, elsewhere.env, reports.MANIFEST),
        )
    assert old in store.contents()


def test_a_report_without_blobs_is_refused() -> None:
    named = Named()
    orphan(named.store)
    named.store.env.sleep(LONG_S)
    named.audit()
    named.reported = ["accepted/v1/x"]
    with pytest.raises(InventoryError, match="names nothing below raw-blobs/"):
        named.collect("report")


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_no_report_has_anything_live_deleted(data: st.DataObject) -> None:
    """Reports that lack any keys and name any others, also foreign ones, over a bucket with live blobs."""
    versioned = data.draw(st.booleans())
    named = Named(versioned=versioned)
    store = named.store
    live = {accepted(store, number).raw_blob_key for number in range(3)}
    orphans = {orphan(store, number) for number in (7, 8)}
    everything = sorted(store.contents())
    store.env.sleep(LONG_S)
    named.audit()
    shown = data.draw(st.lists(st.sampled_from(everything), unique=True))
    odd = ["raw-blobs/v1/sha256/xx", f"{keys.BY_BLOB}short", f"{keys.RAW}aa/bb/{'ab' * 32}.lmbatch"]
    named.reported = [*shown, *data.draw(st.lists(st.sampled_from(odd), unique=True)), next(iter(orphans))]
    result = named.collect("report")
    assert set(result.deleted) == orphans & set(named.reported)
    assert live <= set(store.contents())


def test_the_log_is_followed_from_where_it_was_left() -> None:
    named = Named()
    store = named.store
    deleted = []
    for number in range(5, 9):
        orphan(store, number)
        accepted(store, number + 10)
        named.note()
        store.env.sleep(LONG_S)
        named.audit()
        result = named.collect("log")
        assert result.blobs == 2, "each is looked at once"
        deleted += result.deleted
    assert len(deleted) == 4
    assert named.held == sorted(named.held)
    assert len(named.held) == 4


def test_a_log_that_lost_its_beginning_says_so() -> None:
    named = Named()
    named.log.begins_ns = lambda shard: named.store.env.now_ns() - 1  # type: ignore[method-assign]  # a trimmed log
    old = orphan(named.store)
    named.note()
    named.store.env.sleep(LONG_S)
    named.audit()
    result = named.collect("log")
    assert result.lost
    assert old in named.store.contents()


@BY_REPORT
def test_a_dry_run_changes_nothing(source: str) -> None:
    named = Named()
    old = orphan(named.store)
    named.note()
    named.store.env.sleep(LONG_S)
    named.audit()
    before = named.store.contents()
    named.collect(source, dry_run=True)
    result = named.collect(source, dry_run=True)
    assert result.deleted == [old]
    changed = {key for key in named.store.contents() if named.store.contents()[key] != before.get(key)}
    assert changed <= {"agreement/v1/times.json", *(k for k in changed if k.startswith("agreement"))}


@BY_REPORT
@pytest.mark.parametrize("without", ["gc-age", "gc-audit-before-trust", "gc-quarantine-refs"])
def test_each_safeguard_of_gc_protects_named_candidates(source: str, without: str) -> None:
    """A collector without it deletes what it must keep, so the sources do not stand in for the safeguards."""
    named = Named()
    store = named.store
    keep = ""
    if without == "gc-quarantine-refs":
        accepted(store, 0)
        identity, body = batch(0, 7.0)
        collector(store).accept(identity, body)
        keep = next(k for k in store.contents() if k.startswith(keys.RAW) and sha256(body) in k)
    else:
        keep = orphan(store)
    named.note()
    if without != "gc-age":
        store.env.sleep(LONG_S)
    if without != "gc-audit-before-trust":
        named.audit()
    assert named.collect(source, dry_run=True).deleted == []
    if without == "gc-age" and source == "log":
        store.env.sleep(SETTINGS.horizon_s + 2 * SETTINGS.margin_ns / 1e9)
        named.audit()
    assert keep in named.collect(source, safeguards=table(without), dry_run=True).deleted
