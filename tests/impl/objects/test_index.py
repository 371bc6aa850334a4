"""The listing index: it answers as the directory does, never loses what was acknowledged, and is repaired."""

import contextlib
import os
import random
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.objects import index as indexing
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.index import Index
from fencepost.impl.objects.maintenance import Maintenance
from fencepost.impl.objects.reconcile import reconcile
from fencepost.impl.objects.recorded import RecordedStore
from fencepost.impl.store.errors import Unusable
from fencepost.impl.store.files import FileStore
from fencepost.impl.store.files.attributes import Attributes
from fencepost.impl.store.requests import ABSENT, ANYTHING, Delete, List, Outcome

BUCKET = "bucket-one"


@pytest.fixture
def buckets(tmp_path: Path) -> Iterator[Buckets]:
    found = Buckets(str(tmp_path))
    found.create(BUCKET)
    reconcile(found)
    yield found
    found.close()


@pytest.fixture
def store(buckets: Buckets) -> RecordedStore:
    return buckets.store(BUCKET)


def tree(store: RecordedStore) -> FileStore:
    """The same directory without the index."""
    return FileStore(store.path)


def keys(store: FileStore, **request: Any) -> list[str]:
    return [info.key for info in store.send(List("", **request)).objects]


def listed(buckets: Buckets) -> list[str]:
    page = buckets.index.page(BUCKET, List(""))
    assert page is not None, "trusted"
    return [info.key for info in page.objects]


def put(store: FileStore, key: str, body: bytes = b"x") -> None:
    assert store.put(key, body, when=ANYTHING).outcome is Outcome.DONE


# Listings.


@pytest.mark.parametrize("seed", range(4))
def test_pages_equal_those_of_the_directory(store: RecordedStore, seed: int) -> None:
    draw = random.Random(seed)
    parts = ["a", "b", "a b", "é", "\U0001f600", "a/", "/", "~", "0"]
    for _ in range(40):
        put(store, "".join(draw.choices(parts, k=draw.randint(1, 4))))
    files = tree(store)
    everything = [info.key for info in files.send(List("")).objects]
    assert len(everything) > 20
    for _ in range(40):
        prefix = draw.choice(["", "a", "a/", "é", "zzz", draw.choice(everything)])
        request = {
            "delimiter": draw.choice(["", "/", "a", "a/"]),
            "limit": draw.randint(1, 7),
            "after": draw.choice(["", "", "a", draw.choice(everything)]),
        }
        ours, theirs = (pages(one, prefix, request) for one in (store, files))
        assert ours == theirs, (prefix, request)


def pages(store: FileStore, prefix: str, request: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    token = ""
    while True:
        page = store.send(List(prefix, token=token, **request))
        found.append((page.objects, page.prefixes))
        token = page.next
        if not token:
            return found


def test_a_group_costs_the_same_whatever_it_holds(store: RecordedStore, buckets: Buckets) -> None:
    def cost() -> int:
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        with buckets.index.tables.reading() as rows:
            rows.connection.set_progress_handler(count, 1)
            found = rows.page(BUCKET, List("", delimiter="/"))
            rows.connection.set_progress_handler(None, 1)
        assert [*found.prefixes] == ["a/", "b/"]
        return steps

    fill(buckets, [f"a/{number:06d}" for number in range(3)] + ["b/x"])
    few = cost()
    fill(buckets, [f"a/{number:06d}" for number in range(3000)])
    assert cost() <= few + 50


def fill(buckets: Buckets, names: list[str]) -> None:
    """Rows alone: the files take long."""
    with buckets.index._lock, buckets.index.writing() as rows:
        rows.connection.executemany(
            "insert or replace into objects values (?,?,'','e',1,1,'f','[]')",
            [(BUCKET, name.encode()) for name in names],
        )


# Recording.


def test_a_change_is_listed_once_it_is_answered_by_every_process(
    store: RecordedStore, buckets: Buckets, tmp_path: Path
) -> None:
    other = Index(str(tmp_path), buckets.env)
    put(store, "a")
    page = other.page(BUCKET, List(""))
    assert page is not None
    assert [info.key for info in page.objects] == ["a"]
    store.send(Delete("a", ANYTHING))
    page = other.page(BUCKET, List(""))
    assert page is not None
    assert page.objects == ()
    other.close()


def test_a_refused_write_changes_no_row(store: RecordedStore, buckets: Buckets) -> None:
    put(store, "a")
    assert store.put("a", b"y", when=ABSENT).outcome is Outcome.EXISTS
    with store.incoming("a", ABSENT) as incoming:
        incoming.write(b"yy")
        assert incoming.publish(Attributes("e" * 32)).outcome is Outcome.EXISTS
    page = buckets.index.page(BUCKET, List(""))
    assert page is not None
    assert [info.size for info in page.objects] == [1]


def test_the_writer_that_records_last_records_the_newer_version(
    store: RecordedStore, buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writers publish; the one that published first records last."""
    record, late = RecordedStore.record, []
    monkeypatch.setattr(RecordedStore, "record", lambda _, *change: late.append(change))
    put(store, "a", b"1")
    monkeypatch.setattr(RecordedStore, "record", record)
    put(store, "a", b"22")
    store.record(*late[0])
    page = buckets.index.page(BUCKET, List(""))
    assert page is not None
    assert [info.size for info in page.objects] == [2]


def test_the_version_of_another_is_flushed_before_it_is_recorded(
    store: RecordedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    monkeypatch.setattr(RecordedStore, "flush", lambda _, key: flushed.append(key))
    with store.incoming("a", ANYTHING) as incoming:
        incoming.publish(Attributes("e" * 32))
    store.send(Delete("a", ANYTHING))
    assert flushed == []  # its own writes are durable already
    put(tree(store), "b")
    store.record("b")
    store.record("c")
    assert flushed == ["b", "c"]


def test_what_could_not_be_recorded_is_an_error_and_is_recorded_later(
    store: RecordedStore, buckets: Buckets
) -> None:
    put(store, "a")
    pages_used = limit(buckets, 1)
    with pytest.raises(Unusable, match="cannot record") as raised:
        fill_until_full(store)
    assert getattr(raised.value.__cause__, "errno", None) == 28
    assert len(listed(buckets)) < len(keys(tree(store)))
    limit(buckets, pages_used + 10_000)
    buckets.index.retry_owed()
    assert listed(buckets) == keys(tree(store))


def fill_until_full(store: FileStore) -> None:
    for number in range(300):
        put(store, f"b{number:03d}" + "x" * 200)


def limit(buckets: Buckets, pages_max: int) -> int:
    """Let the database have so many pages; SQLite never takes away those that it has."""
    with buckets.index._lock, buckets.index.writing() as rows:
        rows.connection.execute("select 1")
    writer = buckets.index.tables.writer
    assert writer is not None
    writer.execute(f"pragma max_page_count={pages_max}")
    return int(writer.execute("pragma page_count").fetchone()[0])


def test_one_unreadable_object_holds_up_no_other(store: RecordedStore, buckets: Buckets) -> None:
    put(store, "bad")
    os.setxattr(Path(store.path, "bad"), "user.fencepost", b"nonsense")
    with pytest.raises(Unusable, match="cannot record 'bad'"):
        store.record("bad")
    put(store, "good")
    assert "good" in listed(buckets)


# Reconciling.


def test_reconcile_finds_what_was_changed_beside_the_index(store: RecordedStore, buckets: Buckets) -> None:
    for key in ("removed", "replaced", "kept/a", "touched"):
        put(store, key)
    files = tree(store)
    put(files, "added/deep/down")
    put(files, "replaced", b"other")
    files.delete("removed", when=ANYTHING)
    Path(store.path, "stray").write_bytes(b"no attributes")
    os.setxattr(Path(store.path, "touched"), "user.fencepost", b'["00","m","text/x"]')
    found = reconcile(buckets)
    assert found is not None
    assert found.differences == 5
    assert pages(store, "", {}) == pages(files, "", {})
    again = reconcile(buckets)
    assert again is not None
    assert again.differences == 0


def test_what_a_killed_process_had_published_is_listed_after_reconcile(
    store: RecordedStore, buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(RecordedStore, "record", lambda *_: None)
        put(store, "a")
    assert listed(buckets) == []
    reconcile(buckets)
    assert listed(buckets) == ["a"]


def test_listings_come_from_the_directory_until_the_index_is_complete(
    store: RecordedStore, buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tree(store), "beside")
    assert keys(store) == []
    monkeypatch.setattr(indexing, "boot", lambda: "after a power loss")
    assert keys(store) == ["beside"]
    assert buckets.index.reconciled_ns() == 0
    reconcile(buckets)
    assert listed(buckets) == keys(store) == ["beside"]


def test_a_reconcile_that_another_has_done_is_left_out(buckets: Buckets) -> None:
    before_ns = buckets.env.now_ns()
    assert reconcile(buckets, unless_since_ns=before_ns) is not None
    assert reconcile(buckets, unless_since_ns=before_ns) is None


def test_an_object_without_a_row_keeps_its_bucket(store: RecordedStore, buckets: Buckets) -> None:
    put(tree(store), "beside")
    with pytest.raises(Exception, match="BucketNotEmpty"):
        buckets.delete(BUCKET)


def test_rows_of_a_bucket_that_is_gone_are_removed(buckets: Buckets) -> None:
    with buckets.index._lock, buckets.index.writing() as rows:
        rows.connection.execute("insert into objects values ('gone',x'61','','e',1,1,'f','[\"e\"]')")
    reconcile(buckets)
    assert buckets.index.buckets() == []


def test_a_database_that_is_none_is_made_anew(store: RecordedStore, buckets: Buckets, tmp_path: Path) -> None:
    put(store, "a")
    buckets.close()
    database = next(Path(tmp_path, ".index").glob("*.sqlite"))
    for file in Path(tmp_path, ".index").glob("*.sqlite*"):
        file.write_bytes(b"nonsense" * 1000)
    assert keys(store) == ["a"]  # from the directory
    reconcile(buckets)
    assert listed(buckets) == ["a"]
    sqlite3.connect(database).close()


def test_maintenance_goes_on_after_a_failure_of_the_database(
    buckets: Buckets, store: RecordedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full for a while is not the end of the change log."""
    put(store, "a")
    failures = [sqlite3.OperationalError("database or disk is full")] * 2
    monkeypatch.setattr(buckets.index, "settle", _failing(buckets, failures))
    maintenance = Maintenance(buckets, interval_s=0.01)
    for _ in range(500):
        if not buckets.index.outbox(buckets.index.node):
            break
        threading.Event().wait(0.01)
    maintenance.close()
    assert failures == []
    assert not buckets.index.outbox(buckets.index.node)


def _failing(buckets: Buckets, failures: list[sqlite3.OperationalError]) -> Any:
    settle = buckets.index.settle

    def act(times: list[int]) -> None:
        with contextlib.ExitStack() as stack:
            if failures:
                stack.enter_context(buckets.index._lock)
                stack.enter_context(buckets.index.writing())
                raise failures.pop()
        settle(times)

    return act
