"""Deletion by a predicate, with and without cascade: what is left is what a plain computation leaves."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import Catalog, Dangling, StaleView, verify
from fencepost.impl.store.memory import MemoryStore
from tests.depth import examples

TABLES = {"a": {}, "b": {"up": "a", "self": "b"}, "c": {"up": "b", "other": "a"}}
"""Edges by table: a chain, a table that points at itself, and one that points at two."""


def filled(draw: random.Random) -> tuple[Catalog, dict[str, dict[int, dict[str, Any]]]]:
    catalog = Catalog.open(MemoryStore(env=SeededEnvironment(1)), create=True)
    tables: dict[str, dict[int, dict[str, Any]]] = {}
    with catalog.transaction() as txn:
        for name, edges in TABLES.items():
            txn.create_table(name, {"id": "int64", **dict.fromkeys(edges, "int64")}, key="id", edges=edges)
            rows: dict[int, dict[str, Any]] = {}
            for id_ in range(draw.randrange(1, 8)):
                known = {**tables, name: rows}
                ends = {column: draw.choice([None, *known[to]]) for column, to in edges.items()}
                rows[id_] = {"id": id_, **ends}
            txn.append(name, rows.values())
            tables[name] = rows
    return catalog, tables


def without(tables: dict[str, dict[int, dict[str, Any]]], table: str, gone: set[int]) -> dict[str, set[int]]:
    """The keys that a cascade removes, one edge after the other until nothing changes."""
    removed: dict[str, set[int]] = {name: set() for name in tables}
    removed[table] = set(gone)
    while True:
        more = {
            (name, id_)
            for name, rows in tables.items()
            for id_, row in rows.items()
            for column, to in TABLES[name].items()
            if row[column] is not None and row[column] in removed[to] and id_ not in removed[name]
        }
        if not more:
            return removed
        for name, id_ in more:
            removed[name].add(id_)


@given(st.integers(0, 2**32))
@settings(max_examples=examples(30))
def test_a_cascade_removes_exactly_what_would_dangle(seed: int) -> None:
    draw = random.Random(seed)
    catalog, tables = filled(draw)
    table = draw.choice(list(TABLES))
    gone = {id_ for id_ in tables[table] if draw.random() < 0.4}
    expected = without(tables, table, gone)
    txn = catalog.draft()
    found = txn.delete_where(table, lambda row: row["id"] in gone, cascade=True)
    assert found == {name: sorted(ids) for name, ids in expected.items() if ids}
    if found:
        catalog.publish(txn)
    for name, rows in tables.items():
        assert {row["id"] for row in catalog.snapshot().rows(name)} == set(rows) - expected[name]
    assert verify(catalog).faults == ()


@given(st.integers(0, 2**32))
@settings(max_examples=examples(15))
def test_without_a_cascade_a_row_that_is_pointed_at_stays(seed: int) -> None:
    draw = random.Random(seed)
    catalog, tables = filled(draw)
    table = draw.choice(list(TABLES))
    gone = {id_ for id_ in tables[table] if draw.random() < 0.4}
    txn = catalog.draft()
    txn.delete_where(table, lambda row: row["id"] in gone)
    alone = without(tables, table, gone)
    if sum(map(len, alone.values())) > len(gone):
        with pytest.raises(Dangling):
            catalog.publish(txn)
    elif gone:
        catalog.publish(txn)
        assert {row["id"] for row in catalog.snapshot().rows(table)} == set(tables[table]) - gone


def test_a_row_that_joins_meanwhile_makes_the_deletion_stale() -> None:
    """A predicate was true of the rows that were read; another writer's row was not among them."""
    store = MemoryStore(env=SeededEnvironment(1))
    catalog = Catalog.open(store, create=True)
    catalog.write(lambda txn: txn.create_table("t", {"id": "int64"}, key="id"))
    catalog.write(lambda txn: txn.append("t", [{"id": 1}]))
    txn = catalog.draft()
    txn.delete_where("t", lambda row: row["id"] < 10)
    other = Catalog.open(store, mode="join")
    other.write(lambda change: change.append("t", [{"id": 2}]))
    catalog.refresh()
    with pytest.raises(StaleView):
        catalog.publish(txn)
