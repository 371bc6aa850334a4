"""Cleanup deletes unneeded objects, and nothing else, during concurrent work."""

from typing import Any

import pytest

from fencepost.impl.publish import Absent, Catalog, Invalid, Published, StaleView

from .scripted import Crashed, Scripted, graph


def add(catalog: Catalog, key: int, table: str = "place") -> Any:
    with catalog.transaction() as txn:
        txn.upsert(table, [{"id": key, "name": str(key)}])
    return txn.result


def test_old_manifests_are_deleted_and_the_newest_retained() -> None:
    store = graph()
    main = Catalog.open(store)
    for key in range(10):
        add(main, key)
    expected = main.snapshot().load()
    cleaned = main.cleanup(keep=3)
    newest = main.manifest.id
    assert [manifest.id for manifest in main.log()] == [newest, newest - 1, newest - 2]
    assert (cleaned.manifests, cleaned.versions) == (newest - 3, 8)
    fresh = Catalog.open(store, mode="read")
    assert fresh.snapshot().load() == expected
    assert fresh.snapshot(newest - 2).rows("place") == expected["place"][:-2]
    with pytest.raises(Absent, match="cleaned up"):
        fresh.snapshot(2)
    assert main.cleanup(keep=3).manifests == 0


def test_compaction_and_cleanup_leave_one_plain_file() -> None:
    """One run is one file, which any Parquet reader can read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    store = graph()
    main = Catalog.open(store)
    for key in range(5):
        add(main, key)
    before = main.snapshot().rows("place")
    compacted = main.compact("place")
    assert (compacted.runs, compacted.done) == (5, True)
    assert main.snapshot().rows("place") == before
    store.env.sleep(100)
    main.cleanup(keep=1)
    (path,) = [key for key in store.contents() if key.startswith("data/place/")]
    assert [run["path"] for run in main.snapshot().runs("place")] == [path]
    assert pq.read_table(pa.BufferReader(store.contents()[path])).to_pylist() == before


def test_compaction_gives_up_when_writers_are_always_first() -> None:
    store = graph()
    script = Scripted(store)
    main, writer = Catalog.open(script, mode="join"), Catalog.open(store, mode="join")
    add(main, 1)
    add(main, 2)

    def be_first() -> None:
        script.before("put", "table/place", again)

    def again() -> None:
        writer.refresh()
        add(writer, 3)
        be_first()

    be_first()
    compacted = main.compact("place")
    assert not compacted.done
    assert "first 5 times" in compacted.text


def test_fragments_and_lineages_of_dead_plans_are_deleted() -> None:
    """A crash before the heads leaves a fragment; a crash of a create leaves a lineage."""
    store = graph()
    script = Scripted(store)
    dying = Catalog.open(script, mode="join")
    script.crash_amid("put", "table/")
    draft = dying.draft()
    draft.append("person", [{"id": 3, "name": "Cyd"}])
    draft.create_table("more", {"id": "int64"}, key="id")
    draft.append("more", [{"id": 1}])
    with pytest.raises(Crashed):
        dying.publish(draft)
    main = Catalog.open(store)
    garbage = {key for key in store.contents() if key.startswith(("data/more", "table/more"))}
    assert garbage
    main.cleanup(keep=100)
    assert garbage <= set(store.contents()), "too young: it may be a live write"
    store.env.sleep(100)
    assert main.cleanup(keep=100).swept
    assert not garbage & set(store.contents())
    assert main.snapshot().rows("person") == Catalog.open(store, mode="read").snapshot().rows("person")


def test_a_write_begun_before_a_sweep_never_commits() -> None:
    """Its fragments may be gone, so it must begin again. The decision compares ids and reads no clock."""
    store = graph()
    script = Scripted(store)
    slow, main = Catalog.open(script, mode="join"), Catalog.open(store, mode="join")

    def swept() -> None:
        store.env.sleep(100)
        assert main.cleanup(keep=100).swept

    script.before("put", "table/place", swept)
    with pytest.raises(StaleView, match="begun before the cleanup"):
        add(slow, 1)
    assert isinstance(add(slow, 1), Published)
    assert Catalog.open(store, mode="read").snapshot().rows("place") == [{"id": 1, "name": "1"}]


@pytest.mark.parametrize("family", ["table/", "data/", "recovery/", "branch/main/manifest/"])
def test_cleanup_at_any_moment_of_a_young_write_does_not_affect_it(family: str) -> None:
    store = graph()
    script = Scripted(store)
    writer, main = Catalog.open(script, mode="join"), Catalog.open(store, mode="join")
    script.before("put", family, lambda: main.cleanup(keep=1))
    assert isinstance(add(writer, 1), Published)
    assert Catalog.open(store, mode="read").snapshot().rows("place") == [{"id": 1, "name": "1"}]


@pytest.mark.parametrize("step", ["get", "list", "put", "delete"])
def test_writers_at_any_moment_of_a_cleanup(step: str) -> None:
    """A write from end to end inside cleanup, before its n-th request of each kind."""
    for number in range(12):
        store = graph()
        script = Scripted(store)
        cleaner, writer = Catalog.open(script, mode="join"), Catalog.open(store, mode="join")
        for key in range(4):
            add(writer, key)
        writer.compact("place")
        store.env.sleep(100)
        cleaner.refresh()

        def wait(left: int, script: Scripted = script, writer: Catalog = writer) -> None:
            if left:
                script.before(step, "", lambda: wait(left - 1))
            else:
                writer.write(lambda txn: txn.upsert("place", [{"id": 9, "name": "9"}]))

        script.before(step, "", lambda n=number: wait(n))
        cleaner.cleanup(keep=1)
        spent = script.spent
        rows = Catalog.open(store, mode="read").snapshot().load()["place"]
        assert len(rows) == (5 if spent else 4)
        if not spent:
            break


def test_reading_a_cleaned_up_snapshot_raises_stale_view() -> None:
    store = graph()
    reader = Catalog.open(store, mode="read")
    snapshot = reader.snapshot()
    main = Catalog.open(store)
    for key in range(5):
        with main.transaction() as txn:
            txn.overwrite("person", [{"id": key, "name": "x"}])
    store.env.sleep(100)
    main.cleanup(keep=1)
    with pytest.raises(StaleView, match="cleaned up"):
        snapshot.rows("person")
    reader.refresh()
    assert reader.snapshot().rows("person") == [{"id": 4, "name": "x"}]


def test_keep_at_least_the_newest() -> None:
    with pytest.raises(Invalid, match="at least 1"):
        Catalog.open(graph()).cleanup(keep=0)


def test_exactly_keep_manifests_are_retained() -> None:
    store = graph()
    catalog = Catalog.open(store)
    newest = catalog.manifest.id
    assert catalog.cleanup(newest).manifests == 0
    assert catalog.cleanup(newest - 1).manifests == 1
    assert [manifest.id for manifest in catalog.log()] == list(range(newest, 1, -1))
