"""The requests of a publish do not grow with history or with untouched tables."""

from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import Catalog
from fencepost.impl.store.layers import Cost, Metered
from fencepost.impl.store.memory import MemoryStore

from .scripted import Crashed, Scripted

HOPS_MAX = 3
REQUESTS_MAX = 7
REQUESTS_PER_TABLE_MAX = 3


def opened(tables: int) -> tuple[Catalog, Metered]:
    metered = Metered(MemoryStore(env=SeededEnvironment(1)))
    catalog = Catalog.open(metered, author="meter", create=True)
    with catalog.transaction() as txn:
        for number in range(tables):
            txn.create_table(f"t{number}", {"id": "int64", "n": "int64"}, key="id")
            txn.append(f"t{number}", [{"id": 0, "n": 0}])
    return catalog, metered


def verb(name: str, txn: Any, table: str, number: int) -> None:
    match name:
        case "append":
            txn.append(table, [{"id": number, "n": 1}])
        case "upsert":
            txn.upsert(table, [{"id": 0, "n": number}, {"id": number, "n": number}])
        case "overwrite":
            txn.overwrite(table, [{"id": 0, "n": number}])
        case "delete":
            txn.upsert(table, [{"id": 99, "n": number}])
            txn.delete(table, [99])
            txn.delete(table, [0])
        case "delete-and-append":
            txn.delete(table, [0])
            txn.append(table, [{"id": number, "n": 1}, {"id": -number, "n": 2}])
        case "add-column":
            txn.add_column(table, "more", "string")


VERBS = ["append", "upsert", "overwrite", "delete", "delete-and-append", "add-column"]


def publish(catalog: Catalog, metered: Metered, name: str, tables: int, number: int) -> Cost:
    with metered.operation(name) as cost, catalog.transaction() as txn:
        for table in range(tables):
            verb(name, txn, f"t{table}", number)
    return cost


@pytest.mark.parametrize("name", VERBS)
def test_a_warm_publish_of_one_table(name: str) -> None:
    """Three serial hops and seven requests, whatever the verb: sidecar, heads, manifest."""
    catalog, metered = opened(5)
    cost = publish(catalog, metered, name, 1, 1000)
    assert cost.serial_hops == HOPS_MAX
    assert cost.requests <= REQUESTS_MAX
    assert cost.by_kind["list"] == 0


@pytest.mark.parametrize("name", VERBS)
def test_a_further_table_adds_requests_but_no_hop(name: str) -> None:
    costs = []
    for tables in (1, 2, 3):
        catalog, metered = opened(5)
        costs.append(publish(catalog, metered, name, tables, 1000))
    assert {cost.serial_hops for cost in costs} == {HOPS_MAX}
    more = {costs[1].requests - costs[0].requests, costs[2].requests - costs[1].requests}
    assert len(more) == 1
    assert max(more) <= REQUESTS_PER_TABLE_MAX


def profile(cost: Cost) -> list[tuple[str, str, tuple[int, ...]]]:
    """The requests without the names in their keys: kind, family, and the requests before each."""
    return [(sent.kind, sent.key.split("/")[0], sent.after) for sent in cost.sent]


def test_cost_does_not_depend_on_history() -> None:
    """Depth 10, 100, 1,000 without any compaction or cleanup: the same requests in the same shape."""
    catalog, metered = opened(2)
    profiles: dict[str, list[Any]] = {"append": [], "upsert": [], "delete-and-append": []}
    for wanted in (10, 100, 1000):
        while catalog.manifest.id < wanted:
            with catalog.transaction() as txn:
                txn.upsert("t1", [{"id": 1, "n": wanted}])
        for at, name in enumerate(profiles):
            profiles[name].append(profile(publish(catalog, metered, name, 1, wanted * 10 + at)))
    for ten, hundred, thousand in profiles.values():
        assert ten == hundred == thousand
        assert len(ten) <= REQUESTS_MAX


def test_cost_does_not_depend_on_untouched_tables() -> None:
    """5, 50, 500 tables: the same requests; only the manifest's bytes grow."""
    profiles, received = [], []
    for tables in (5, 50, 500):
        catalog, metered = opened(tables)
        cost = publish(catalog, metered, "append", 1, 1000)
        profiles.append(profile(cost))
        received.append(cost.bytes_received)
    assert profiles[0] == profiles[1] == profiles[2]
    assert len(profiles[0]) <= REQUESTS_MAX
    assert received == [0, 0, 0], "a warm write reads nothing back"


def test_the_budget_is_tight() -> None:
    """A case just outside: a handle that has to catch up pays more, and the meter shows it."""
    catalog, metered = opened(2)
    other = Catalog.open(metered, mode="join")
    with catalog.transaction() as txn:
        txn.append("t1", [{"id": 7, "n": 7}])
    assert publish(other, metered, "append", 1, 1).serial_hops > HOPS_MAX


def test_recovery_is_listed_on_open_only() -> None:
    catalog, metered = opened(2)
    with metered.operation("open") as cost:
        Catalog.open(metered, mode="join")
    assert [sent.key for sent in cost.sent if sent.kind == "list"].count("recovery/") == 1
    with metered.operation("work") as cost:
        for number in range(20):
            catalog.write(lambda txn, n=number: txn.upsert("t0", [{"id": n, "n": n}]))
    assert cost.by_kind["list"] == 0


@pytest.mark.parametrize("tables", [5, 50])
def test_a_branch_is_created_with_one_object(tables: int) -> None:
    catalog, metered = opened(tables)
    before = len(metered.inner.contents())  # type: ignore[attr-defined] - the memory store's
    catalog.close()
    with metered.operation("branch") as cost:
        catalog.create_branch("dev")
    assert len(metered.inner.contents()) == before  # type: ignore[attr-defined] - one sidecar less, one manifest more
    created = [sent.key for sent in cost.sent if sent.kind == "put" and sent.key.startswith("branch/")]
    assert created == ["branch/dev/manifest/00000000000000000001.json"]
    assert cost.requests <= 10


FRESH_HOPS = 6
"""List; read manifest and version; read fragments; stage; heads; manifest."""


@pytest.mark.parametrize(("tables", "depth"), [(4, 1), (4, 100), (4, 500), (217, 1)])
def test_a_new_process_commits_in_six_hops(tables: int, depth: int) -> None:
    """Whatever the number of tables and of commits before. Deleting its sidecar is one hop more."""
    catalog, metered = opened(tables)
    for number in range(depth):
        catalog.write(lambda txn, n=number: txn.upsert("t0", [{"id": 1, "n": n}]))
    catalog.close()
    with metered.operation("put") as cost:
        with Catalog.open(metered, mode="join", tables=["t0"]) as fresh:
            fresh.write(lambda txn: txn.append("t0", [{"id": 1000, "n": 1}]))
            assert cost.serial_hops == FRESH_HOPS
        assert cost.serial_hops == FRESH_HOPS + 1
    fragments = sum(sent.kind == "get" and sent.key.startswith("data/") for sent in cost.sent)
    assert cost.requests - fragments == 13


def test_a_guess_of_another_version_costs_a_hop_and_nothing_else() -> None:
    """A version that no manifest pins is the newest of its lineage: what was read ahead is not used."""
    catalog, metered = opened(2)
    scripted = Scripted(metered)
    scripted.crash_before("put", "branch/main/manifest/")
    with pytest.raises(Crashed):
        Catalog.open(scripted, mode="join").write(lambda txn: txn.append("t0", [{"id": 7, "n": 7}]))
    with metered.operation("read") as cost:
        other = Catalog.open(metered, mode="join", tables=["t0"])
        assert [row["id"] for row in other.snapshot().rows("t0")] == [0]
    assert cost.serial_hops == FRESH_HOPS - 3 + 1
    assert catalog.refresh().id == other.manifest.id


def test_reading_the_catalog_is_one_get() -> None:
    """The manifest is flat and lists every table. Catching up is two requests."""
    catalog, metered = opened(50)
    with metered.operation("refresh") as cost:
        catalog.refresh()
    assert (cost.serial_hops, cost.requests) == (1, 2)
    with metered.operation("tables") as cost:
        assert len(catalog.snapshot().tables) == 50
    assert cost.requests == 0
