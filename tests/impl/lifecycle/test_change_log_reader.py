"""A server's change log as a sweep reads it: strictly past a position, up to what is settled."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.lifecycle.cursors import before, position
from fencepost.impl.lifecycle.engine import Class, classify
from fencepost.impl.lifecycle.log import ChangeLogReader, Event
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.reconcile import reconcile
from fencepost.impl.store.requests import ANYTHING, CreateUpload, Delete, Metadata, Outcome

BUCKET = "bucket-one"
SHARD = ChangeLogReader.SHARD


@pytest.fixture
def buckets(tmp_path: Path) -> Iterator[Buckets]:
    found = Buckets(str(tmp_path), SeededEnvironment(1))
    found.create(BUCKET)
    reconcile(found)
    yield found
    found.close()


@pytest.fixture
def log(buckets: Buckets) -> ChangeLogReader:
    return ChangeLogReader(buckets.log, buckets.index)


def put(buckets: Buckets, key: str, body: bytes = b"x") -> None:
    assert buckets.store(BUCKET).put(key, body, when=ANYTHING).outcome is Outcome.DONE


def read(log: ChangeLogReader, after: str = "", until_ns: int = 2**63 - 1) -> list[Event]:
    log.settled_ns(SHARD)
    return list(log.events(SHARD, after, until_ns))


def test_events_are_strictly_past_a_position(buckets: Buckets, log: ChangeLogReader) -> None:
    for key in "abc":
        put(buckets, key)
    first, second, third = read(log)
    assert [one.change.key for one in (first, second, third)] == ["a", "b", "c"]
    assert read(log, first.position) == [second, third]
    assert read(log, third.position) == []
    assert sorted({first.position, second.position, third.position}) == [
        first.position,
        second.position,
        third.position,
    ]


def test_a_position_before_a_time_is_before_its_event(buckets: Buckets, log: ChangeLogReader) -> None:
    put(buckets, "a")
    put(buckets, "b")
    first, second = read(log)
    assert read(log, before(second.ts_ns)) == [second]
    assert read(log, before(second.ts_ns + 1)) == []
    assert read(log, before(first.ts_ns)) == [first, second]
    assert read(log, position(second.ts_ns, 0)) == []


def test_events_end_with_a_time_and_its_event(buckets: Buckets, log: ChangeLogReader) -> None:
    put(buckets, "a")
    put(buckets, "b")
    first, second = read(log)
    assert read(log, "", second.ts_ns) == [first, second]
    assert read(log, "", second.ts_ns - 1) == [first]
    assert read(log, "", first.ts_ns - 1) == []


def test_what_is_settled_is_there(buckets: Buckets, log: ChangeLogReader) -> None:
    """And nothing later than what is settled is read, because an earlier one may come."""
    put(buckets, "a")
    settled_ns = log.settled_ns(SHARD)
    (event,) = log.events(SHARD, "", 2**63 - 1)
    assert event.ts_ns <= settled_ns
    assert (log.shards(), log.ends(SHARD), log.retention_ns) == ([SHARD], None, None)


def test_changes_are_of_their_classes(buckets: Buckets, log: ChangeLogReader) -> None:
    put(buckets, "a")
    put(buckets, "a", b"yy")
    buckets.store(BUCKET).send(Delete("a", ANYTHING))
    created, overwritten, removed = [one.change for one in read(log)]
    assert [classify(one) for one in (created, overwritten, removed)] == [
        Class.AGE,
        Class.AGE,
        Class.REMOVAL,
    ]
    assert created.old is None
    assert overwritten.old == created.new
    assert overwritten.new is not None
    assert overwritten.new.size == 2
    assert (created.bucket, created.is_upload) == (BUCKET, False)


def test_the_same_bytes_again_are_another_content(buckets: Buckets, log: ChangeLogReader) -> None:
    """An age begins anew, even in the same moment."""
    put(buckets, "a")
    put(buckets, "a")
    first, second = [one.change.new for one in read(log)]
    assert first is not None
    assert second is not None
    assert first.content != second.content


def test_an_upload_that_begins_is_an_event(buckets: Buckets, log: ChangeLogReader) -> None:
    assert log.has_uploads
    assert buckets.store(BUCKET).begin_upload(CreateUpload("u"), Metadata()).upload
    (event,) = read(log)
    assert (event.change.key, event.change.is_upload) == ("u", True)
    assert classify(event.change) is Class.AGE


def test_it_shows_where_it_begins(buckets: Buckets, log: ChangeLogReader) -> None:
    put(buckets, "a")
    (event,) = read(log)
    assert log.begins_ns(SHARD) <= event.ts_ns
    buckets.log.begin(event.ts_ns + 1)
    assert log.begins_ns(SHARD) == event.ts_ns + 1
