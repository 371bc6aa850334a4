"""Rollups: every accepted batch counts once, with any number of owners, passes and late batches."""

import contextlib
import math
from typing import Any

import pytest

from fencepost.impl.ingest import (
    Accepted,
    Identity,
    Point,
    encode,
    full_audit,
    keys,
    roll_up,
    rollups,
    totals,
)
from fencepost.impl.ingest.errors import Damaged, StoreUnavailable
from fencepost.impl.ingest.rollups import Aggregate, Rollups, entries, pack, unpack
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.layers import Effect, Fault, Faulty
from fencepost.impl.store.memory import MemoryStore
from tests.impl.publish.scripted import Crashed, Scripted

from .given import SETTINGS, bucket, collector

HOUR = 3600 * 10**9


def send(store: MemoryStore, number: int, *points: Point, follow_up: bool = True) -> Any:
    identity = Identity("agent-a", "boot-1", number, number)
    points = points or (Point("cpu", {}, store.env.now_ns(), float(number)),)
    ann = collector(store)
    answer = ann.accept(identity, encode(identity, points))
    assert isinstance(answer, Accepted)
    if follow_up:
        ann.follow_up(answer.manifest)
    return answer.manifest


def rolled(store: Any, **options: Any) -> Any:
    return roll_up(store, store.env, SETTINGS, **options)


def count(store: MemoryStore) -> tuple[int, float]:
    found = [one for series in totals(store, store.env, SETTINGS).values() for one in series.values()]
    return sum(one.count for one in found), sum(one.sum for one in found)


def test_points_are_summed_by_metric_hour_and_labels() -> None:
    store = bucket()
    now = store.env.now_ns()
    hour, next_hour = keys.hour_path(now), keys.hour_path(now + HOUR)
    send(
        store,
        1,
        Point("cpu/load:1m", {"host": "a"}, now, 1.0),
        Point("cpu/load:1m", {"host": "a"}, now + 1, 3.0),
        Point("cpu/load:1m", {"host": "b"}, now, math.inf),
        Point("cpu/load:1m", {"host": "a"}, now + HOUR, 5.0),
        Point("mem", {}, now, math.nan),
    )
    send(store, 2, Point("cpu/load:1m", {"host": "a"}, now, -1.0))
    assert rolled(store).batches == 2
    found = totals(store, store.env, SETTINGS)
    assert found == {
        ("cpu/load:1m", hour): {
            (("host", "a"),): Aggregate(3, 3.0, -1.0, 3.0),
            (("host", "b"),): Aggregate(1, math.inf, math.inf, math.inf),
        },
        ("cpu/load:1m", next_hour): {(("host", "a"),): Aggregate(1, 5.0, 5.0, 5.0)},
        ("mem", hour): {(): Aggregate(0, 0.0, math.inf, -math.inf, 1)},
    }


def test_a_second_pass_counts_nothing_again() -> None:
    store = bucket()
    for number in range(1, 5):
        send(store, number)
    for _ in range(3):
        rolled(store)
        store.env.sleep(1)
    assert count(store) == (4, 10.0)


def test_a_late_batch_is_a_further_chunk_and_changes_none() -> None:
    store = bucket()
    send(store, 1)
    rolled(store)
    before = {key: body for key, body in store.contents().items() if key.startswith(keys.ROLLUP)}
    store.env.sleep(1)
    send(store, 2)
    assert rolled(store).chunks == 1
    after = {key: body for key, body in store.contents().items() if key.startswith(keys.ROLLUP)}
    assert before.items() < after.items()
    assert count(store) == (2, 3.0)


def test_a_batch_found_long_after_is_counted() -> None:
    """Its collector died at once; the audit finds it days behind the cursor, and marks its hour."""
    store = bucket()
    send(store, 1, follow_up=False)
    store.env.sleep(3 * 86400)
    send(store, 2)
    rolled(store)
    assert count(store) == (1, 2.0)
    assert full_audit(store, store.env, SETTINGS).hours_marked == 1
    result = rolled(store)
    assert (result.batches, count(store)) == (1, (2, 3.0))
    assert not [key for key in store.contents() if key.startswith(keys.QUEUE)]
    assert full_audit(store, store.env, SETTINGS).hours_marked == 0


def test_an_audit_marks_only_hours_behind_the_cursor() -> None:
    """The pass will find batches ahead of it; marking every hour would list all of them."""
    store = bucket()
    send(store, 1)
    assert full_audit(store, store.env, SETTINGS).hours_marked == 0
    rolled(store)
    store.env.sleep(2 * 3600)
    send(store, 2)
    assert full_audit(store, store.env, SETTINGS).hours_marked == 0


def test_an_hour_marked_again_meanwhile_stays_marked() -> None:
    store = bucket()
    send(store, 1)
    rolled(store)
    mark = keys.queue_key(keys.hour_path(store.env.now_ns()))
    store.put(mark, b"one", when=ANYTHING)
    script = Scripted(store)
    script.before("delete", keys.QUEUE, lambda: store.put(mark, b"two", when=ANYTHING))
    rolled(script)
    assert store.contents()[mark] == b"two"


@pytest.mark.parametrize("kind", ["put", "get", "list"])
@pytest.mark.parametrize("prefix", [keys.ROLLED, keys.ROLLUP, keys.BY_TIME, keys.CURSORS, keys.RAW])
@pytest.mark.parametrize("after", [False, True])
def test_an_owner_that_dies_anywhere_does_no_harm(kind: str, prefix: str, after: bool) -> None:
    store = bucket()
    for number in range(1, 4):
        send(store, number)
    script = Scripted(store)
    (script.crash_after if after else script.crash_before)(kind, prefix)
    with contextlib.suppress(Crashed):
        rolled(script)
    rolled(store)
    assert count(store) == (3, 6.0)


@pytest.mark.parametrize("effect", [Effect.REPLY_LOST, Effect.REQUEST_LOST, Effect.LATE])
def test_a_fault_counts_nothing_twice(effect: Effect) -> None:
    store = bucket()
    for number in range(1, 4):
        send(store, number)
    faulty = Faulty(store, [Fault(effect, {"put"}, keys.ROLLED, times=1, delay=3)])
    rolled(faulty)
    faulty.land_all()
    rolled(store)
    assert count(store) == (3, 6.0)


def test_two_owners_do_no_harm() -> None:
    """One is slow between its chunks and its entry; the other counts the same batches, and more."""
    store = bucket()
    send(store, 1)
    script = Scripted(store)

    def other() -> None:
        send(store, 2)
        Rollups(store, store.env, SETTINGS, owner="other").once()

    script.before("put", keys.ROLLED, other)
    result = rolled(script)
    assert result.races == 1
    assert count(store) == (2, 3.0)
    named = {chunk for entry in entries(collector(store).blobs) for chunk in entry.chunks}
    orphans = {key for key in store.contents() if key.startswith(keys.ROLLUP)} - named
    assert len(orphans) == 1, "no entry names the slow owner's chunk, so it counts for nothing"


def test_a_batch_without_data_is_reported_and_counted_once_restored() -> None:
    store = bucket()
    manifest = send(store, 1)
    body = store.contents()[manifest.raw_blob_key]
    store.put(manifest.raw_blob_key, body + b"x", when=ANYTHING)
    send(store, 2)
    result = rolled(store)
    assert result.batches == 1
    assert "has another hash" in result.missing[0]
    store.env.sleep(86400)
    assert "has another hash" in rolled(store).missing[0]
    store.put(manifest.raw_blob_key, body, when=ANYTHING)
    assert rolled(store).batches == 1
    assert count(store) == (2, 3.0)


def test_the_cursor_passes_only_counted_or_marked_hours() -> None:
    """Only the mark represents a batch that cannot be counted; it must not get lost."""
    store = bucket()
    manifest = send(store, 1)
    store.delete(manifest.raw_blob_key, when=ANYTHING)
    with pytest.raises(StoreUnavailable):
        rolled(Faulty(store, [Fault(Effect.REQUEST_LOST, {"put"}, keys.QUEUE)]))
    assert f"{keys.CURSORS}rollup.json" not in store.contents()
    rolled(Faulty(store, [Fault(Effect.REQUEST_LOST, {"put"}, keys.QUEUE, times=2)]))
    assert [key for key in store.contents() if key.startswith(keys.QUEUE)]


def test_a_chunk_is_zstd_as_its_name_says() -> None:
    series = {
        (("a", "b"),): Aggregate(2, 3.0, 1.0, 2.0),
        (): Aggregate(1, -math.inf, -math.inf, -math.inf, 4),
    }
    body = pack("cpu", "date=2026-11-18/hour=14/", series)
    assert body.startswith(b"\x28\xb5\x2f\xfd")
    assert unpack(body, "k") == series
    for end in range(len(body)):
        with pytest.raises(Damaged, match="k is not a rollup chunk"):
            unpack(body[:end], "k")


@pytest.mark.parametrize("body", [b"", b"junk", b"\x28\xb5\x2f\xfd junk"])
def test_an_invalid_chunk_is_reported(body: bytes) -> None:
    with pytest.raises(Damaged, match="is not a rollup chunk"):
        unpack(body, "k")


def test_many_batches_of_an_hour_make_several_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.impl.ingest.rollups.BATCHES_MAX", 3)
    store = bucket()
    for number in range(1, 9):
        send(store, number)
    rolled(store)
    assert [len(entry.members) for entry in entries(collector(store).blobs)] == [3, 3, 2]
    assert count(store) == (8, 36.0)


def test_passes_that_are_always_stopped_make_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pass makes an entry: otherwise a small share of time would never suffice."""
    monkeypatch.setattr(rollups, "BATCHES_MAX", 10)
    store = bucket()
    for number in range(45):
        send(store, number)
    owner = Rollups(store, store.env, SETTINGS)
    assert [owner.once(lambda: True).batches for _ in range(6)] == [10, 10, 10, 10, 5, 0]
    series = totals(store, store.env, SETTINGS).values()
    assert sum(one.count for found in series for one in found.values()) == 45
