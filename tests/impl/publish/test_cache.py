"""Cached tables equal what a process without a cache reads, and the cache is bounded."""

import random
from dataclasses import replace
from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import Catalog, PublishError, tables, verify
from fencepost.impl.publish.cache import LINEAGES_MAX, VERSIONS_MAX, Cache, Contents, Layer
from fencepost.impl.publish.documents import Pin, Version
from fencepost.impl.publish.schema import Schema
from fencepost.impl.publish.tables import FAN_IN
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.layers import Cost, Metered
from fencepost.impl.store.memory import MemoryStore
from tests.depth import examples

from .scripted import graph

COLUMNS = (("id", "int64"), ("n", "int64"))


def run(name: str) -> dict[str, Any]:
    return {"holds": "rows", "path": f"data/t/{name}.parquet", "rows": 1, "digest": name}


def contents(*names: str, columns: Any = COLUMNS) -> Contents:
    return Contents(Schema(columns, "id"), tuple(run(name) for name in names), {})


def version(*names: str, columns: Any = COLUMNS, location: str = "t~A") -> Version:
    return Version("t", location, 9, "P", 1, "", None, "id", (), columns, tuple(run(n) for n in names))


def cached(*known: Contents, location: str = "t~A") -> Cache:
    memory = Cache()
    for number, each in enumerate(known, 1):
        memory.put(Pin(location, number), each)
    return memory


def test_the_longest_beginning_is_found() -> None:
    short, long = contents("a"), contents("a", "b")
    assert cached(short, long).beginning(version("a", "b", "c")) is long
    assert cached(short, long).beginning(version("a", "x")) is short
    assert cached(short, long).beginning(version("a", "b")) is long


@pytest.mark.parametrize("names", [(), ("x",), ("x", "a", "b"), ("a",), ("b", "a")])
def test_a_version_without_a_cached_beginning_is_read_whole(names: tuple[str, ...]) -> None:
    """An overwrite, a compaction, a diverged branch: the number is higher, but the runs differ."""
    assert cached(contents("a", "b")).beginning(version(*names)) is None


def test_a_fragment_of_another_digest_is_another_fragment() -> None:
    changed = replace(version("a", "b"), runs=({**run("a"), "digest": "other"}, run("b")))
    assert cached(contents("a")).beginning(changed) is None


def test_an_added_column_keeps_the_beginning_and_a_dropped_one_does_not() -> None:
    """Values of a dropped column, or of a column with a new type, must not reappear."""
    more = (*COLUMNS, ("m", "string"))
    assert cached(contents("a")).beginning(version("a", columns=more)) is not None
    assert cached(contents("a", columns=more)).beginning(version("a")) is None
    assert cached(contents("a")).beginning(version("a", columns=(COLUMNS[0], ("n", "string")))) is None


def test_other_lineages_of_the_table_count_and_other_tables_do_not() -> None:
    """A branch forks a table under another location; its runs are the same fragments."""
    assert cached(contents("a"), location="t~B").beginning(version("a", "b")) is not None
    assert cached(contents("a"), location="u~A").beginning(version("a", "b")) is None


def test_the_cache_is_bounded_and_evicts_the_least_recently_used() -> None:
    memory = Cache()
    for number in range(LINEAGES_MAX + 10):
        for count in range(1, VERSIONS_MAX + 3):
            memory.put(Pin(f"t{number}~A", count), contents(*"abcdef"[:count]))
        memory.find(Pin("t0~A", VERSIONS_MAX + 2))
    found = [pin for number in range(LINEAGES_MAX + 10) for pin in _found(memory, f"t{number}~A")]
    assert len(found) == LINEAGES_MAX * VERSIONS_MAX
    assert Pin("t0~A", VERSIONS_MAX + 2) in found
    assert not any(pin.location == "t1~A" for pin in found)
    assert len(memory._locations) == LINEAGES_MAX


def _found(memory: Cache, location: str) -> list[Pin]:
    pins = [Pin(location, number) for number in range(1, VERSIONS_MAX + 3)]
    return [pin for pin in pins if memory.find(pin) is not None]


def test_reading_old_versions_does_not_evict_the_newest() -> None:
    """Otherwise a reader of old versions makes the next write read the table again."""
    memory = cached(contents("a"), contents("a", "b"), contents("a", "b", "c"))
    for number in (1, 2, 1, 2):
        memory.put(Pin("t~A", number), contents(*"ab"[:number]))
        assert memory.find(Pin("t~A", 3)) is not None
        assert memory.find(Pin("t~A", number)) is not None


def test_merged_runs_are_taken_off_a_cached_version() -> None:
    """Another writer merged the last runs into its own, and the table need not be read again."""
    was = {1: {"id": 1, "n": 0}}
    layers = (Layer({1: None}, 0), Layer({1: was[1], 2: None}, 0))
    known = replace(contents("a", "b", "c"), rows={1: {"id": 1, "n": 5}, 2: {"id": 2, "n": 5}}, tail=layers)
    found = cached(known).beginning(version("a", "b", "x"))
    assert found == Contents(known.schema, known.runs[:2], was, layers[:1])
    assert cached(known).beginning(version("a", "x")) == Contents(known.schema, known.runs[:1], {}, ())
    assert cached(known).beginning(version("x", "b", "c")) is None, (
        "the changes of run a are not recorded by themselves"
    )


# Compared with a process without a cache.


@pytest.mark.parametrize("fan_in", [2, FAN_IN])
def test_a_cached_read_equals_an_uncached_read(fan_in: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every verb by several handles on two branches, compaction, cleanup, columns and tables added and
    dropped: no cached table is ever stale.
    """
    monkeypatch.setattr(tables, "FAN_IN", fan_in)
    dice = random.Random(7)
    for _ in range(examples(8, 20)):
        _play(dice, graph())


def _play(dice: random.Random, store: MemoryStore) -> None:
    main = [Catalog.open(store, author=name, mode="join") for name in "ab"]
    main[0].create_branch("dev")
    handles = [*main, main[0].on("dev"), Catalog.open(store, mode="join", branch="dev")]
    for number in range(25):
        catalog = dice.choice(handles)
        try:
            catalog.refresh()
            _act(dice, catalog, number)
        except PublishError:
            pass  # the verb did not fit; only the snapshots afterwards matter
        for handle in dice.sample(handles, 2):
            handle.refresh()
            cold = Catalog.open(store, mode="read", branch=handle.branch)
            assert handle.snapshot().load() == cold.snapshot().load()


def _act(dice: random.Random, catalog: Catalog, number: int) -> None:
    table, key = dice.choice(["person", "place"]), dice.randint(1, 4)
    columns = {name for name, _ in catalog.snapshot().schema(table).columns}
    row = {"id": key, "name": f"{number}", **({"more": f"m{number}"} if "more" in columns else {})}
    match dice.choice(
        ["upsert", "upsert", "upsert", "delete", "overwrite", "compact", "column", "drop", "keep"]
    ):
        case "upsert":
            catalog.write(lambda txn: txn.upsert(table, [row]))
        case "delete":
            catalog.write(lambda txn: txn.delete(table, [key]))
        case "overwrite":
            catalog.write(lambda txn: txn.overwrite(table, [row]))
        case "compact":
            catalog.compact(table)
        case "column" if "more" in columns:
            catalog.write(lambda txn: txn.drop_column(table, "more"))
        case "column":
            catalog.write(lambda txn: txn.add_column(table, "more", "string"))
        case "drop":
            draft = catalog.draft()
            draft.drop_table("place")
            draft.create_table("place", {"id": "int64", "name": "string"}, key="id")
            catalog.publish(draft)
        case "keep":
            catalog.cleanup(2)


def test_returned_rows_are_copies() -> None:
    """A caller that edits a row and is refused must not read its own edit afterwards, nor write it."""
    store = graph()
    one, other = (Catalog.open(store, mode="join", author=name) for name in "ab")
    row: Any = one.snapshot().rows("person")[0]
    row["name"] = "edited"
    other.write(lambda txn: txn.append("person", [{"id": 3, "name": "Cyd"}]))
    one.refresh()
    assert one.snapshot().get("person", 1) == {"id": 1, "name": "Ada"}
    found: Any = one.snapshot().get("person", 2)
    found["name"] = "edited"
    assert one.snapshot().rows("person")[1] == {"id": 2, "name": "Bob"}


def cost_of_catching_up(metered: Metered, catalog: Catalog, table: str) -> Cost:
    catalog.refresh()
    with metered.operation("read") as cost:
        catalog.snapshot().rows(table)
    return cost


def deep(depth: int) -> tuple[Metered, Catalog, Catalog]:
    metered = Metered(MemoryStore(env=SeededEnvironment(1)))
    one = Catalog.open(metered, create=True)
    with one.transaction() as txn:
        txn.create_table("t", {"id": "int64", "n": "int64"}, key="id")
    for number in range(depth):
        one.write(lambda txn, n=number: txn.append("t", [{"id": n, "n": n}]))
    other = Catalog.open(metered, mode="join", author="other")
    other.snapshot().rows("t")
    return metered, one, other


def test_after_a_merge_others_read_only_the_new_fragments() -> None:
    """The merged table is in another lineage, and begins with the same fragments."""
    metered, one, other = deep(60)
    one.create_branch("dev")
    branch = one.on("dev")
    for number in (100, 101):
        branch.write(lambda txn, n=number: txn.append("t", [{"id": n, "n": n}]))
    one.merge("dev")
    cost = cost_of_catching_up(metered, other, "t")
    assert [sent.key.split("/")[0] for sent in cost.sent] == ["table", "data", "data"]


def test_a_new_column_does_not_invalidate_the_cache() -> None:
    metered, one, other = deep(60)
    one.write(lambda txn: txn.add_column("t", "more", "string"))
    one.write(lambda txn: txn.upsert("t", [{"id": 3, "n": 4, "more": "yes"}]))
    cost = cost_of_catching_up(metered, other, "t")
    assert cost.requests == 2
    assert other.snapshot().get("t", 2) == {"id": 2, "n": 2, "more": None}
    assert other.snapshot().get("t", 3) == {"id": 3, "n": 4, "more": "yes"}


def test_verification_reads_every_fragment_and_none_twice() -> None:
    """Damage in the store is found, whatever the handle has cached."""
    metered, one, _ = deep(40)
    with metered.operation("verify") as cost:
        assert verify(one).faults == ()
    read = [sent.key for sent in cost.sent if sent.kind == "get" and sent.key.startswith("data/")]
    inner: Any = metered.inner
    assert sorted(read) == sorted(key for key in inner.contents() if key.startswith("data/"))
    metered.inner.delete(read[7], when=ANYTHING)
    assert any(read[7] in fault for fault in verify(one).faults)
