"""Limits on rows with the same values, and edges that cascade: no commit breaks them, alone or in a race."""

import itertools
import struct
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.impl.publish import Catalog, Dangling, Invalid, Published, StaleView, Transaction, verify
from fencepost.impl.publish.constraints import TABLE, Constraint
from fencepost.impl.store.memory import MemoryStore

from .scripted import Scripted

MANIFEST = "branch/main/manifest/"
Verbs = Callable[[Transaction], object]


def person(key: int, mail: str | None = None) -> dict[str, Any]:
    return {"id": key, "mail": mail}


def knows(key: int, src: int, dst: int) -> dict[str, Any]:
    return {"id": key, "src": src, "dst": dst}


def founded(*declare: Verbs) -> MemoryStore:
    store = MemoryStore()
    with Catalog.open(store, author="founder", create=True) as catalog:
        with catalog.transaction() as txn:
            txn.create_table("person", {"id": "int64", "mail": "string"}, key="id")
            edges = {"src": "person", "dst": "person"}
            txn.create_table("knows", {"id": "int64", "src": "int64", "dst": "int64"}, key="id", edges=edges)
            txn.append("person", [person(1, "a"), person(2, "b"), person(3)])
            txn.append("knows", [knows(1, 1, 2), knows(2, 2, 3)])
        for verbs in declare:
            with catalog.transaction() as txn:
                verbs(txn)
    return store


def unique(txn: Transaction) -> None:
    txn.limit("person", ["mail"])


def two_edges(txn: Transaction) -> None:
    txn.limit("knows", ["src"], at_most=2)


def cascading(txn: Transaction) -> None:
    txn.cascade("knows", "src")
    txn.cascade("knows", "dst")


def refused(store: MemoryStore, verbs: Verbs) -> str:
    """The text of the refusal; nothing is published."""
    with Catalog.open(store, author="w", mode="join") as catalog:
        before = catalog.manifest.id
        with pytest.raises(Invalid) as raised, catalog.transaction() as txn:
            verbs(txn)
        assert catalog.refresh().id == before
    return str(raised.value)


def accepted(store: MemoryStore, verbs: Verbs) -> dict[str, list[Any]]:
    with Catalog.open(store, author="w", mode="join") as catalog:
        with catalog.transaction() as txn:
            verbs(txn)
        assert verify(catalog).faults == ()
        tables = catalog.snapshot().load()
        return {name: [row["id"] for row in rows] for name, rows in tables.items() if name != TABLE}


@pytest.mark.parametrize(
    "verbs",
    [
        lambda txn: txn.append("person", [person(4, "a")]),
        lambda txn: txn.upsert("person", [person(3, "b")]),
        lambda txn: txn.append("person", [person(4, "x"), person(5, "x")]),
        lambda txn: txn.overwrite("person", [person(1, "x"), person(2, "x"), person(3)]),
        lambda txn: (txn.append("person", [person(4, "x")]), txn.append("person", [person(5, "x")])),
    ],
)
def test_no_verb_gives_two_rows_one_value(verbs: Verbs) -> None:
    text = refused(founded(unique), verbs)
    assert "table person: more than 1 row with mail '" in text
    assert "'person(mail) at most'" in text


@pytest.mark.parametrize(
    "verbs",
    [
        lambda txn: txn.append("person", [person(4, "c"), person(5), person(6)]),
        lambda txn: txn.upsert("person", [person(1, "a")]),
        lambda txn: txn.upsert("person", [person(1, "b"), person(2, "a")]),
        lambda txn: (txn.append("person", [person(4, "a")]), txn.upsert("person", [person(1, "z")])),
        lambda txn: (txn.append("person", [person(4, "a")]), txn.delete("person", [4])),
        lambda txn: (
            txn.append("person", [person(4, "a")]),
            txn.drop_constraint("person(mail) at most"),
        ),
    ],
)
def test_only_the_rows_at_the_end_of_a_transaction_count(verbs: Verbs) -> None:
    """Empty values are not counted, and two rows may exchange theirs."""
    accepted(founded(unique), verbs)


def test_a_value_is_free_again_after_its_row_is_gone() -> None:
    store = founded(unique)
    accepted(store, lambda txn: (txn.delete("knows", [1]), txn.delete("person", [1])))
    accepted(store, lambda txn: txn.append("person", [person(4, "a")]))


def test_a_limit_counts_to_its_number() -> None:
    store = founded(two_edges)
    accepted(store, lambda txn: txn.append("knows", [knows(3, 1, 3)]))
    assert "more than 2 rows with src 1" in refused(store, lambda txn: txn.append("knows", [knows(4, 1, 1)]))
    accepted(store, lambda txn: txn.append("knows", [knows(4, 3, 1)]))


def test_a_limit_over_two_columns_counts_pairs() -> None:
    store = founded(lambda txn: txn.limit("knows", ["src", "dst"]))
    accepted(store, lambda txn: txn.append("knows", [knows(3, 1, 3)]))
    assert "src 1, dst 2" in refused(store, lambda txn: txn.append("knows", [knows(4, 1, 2)]))


def measured(*values: float | None) -> MemoryStore:
    """A catalog of measurements with these values, of which no two may be equal."""
    store = MemoryStore()
    with Catalog.open(store, author="founder", create=True) as catalog:
        with catalog.transaction() as txn:
            txn.create_table("m", {"id": "int64", "x": "float64", "y": "float64"}, key="id")
            txn.append("m", [{"id": key, "x": x, "y": 1.0} for key, x in enumerate(values)])
        with catalog.transaction() as txn:
            txn.limit("m", ["x", "y"])
    return store


NAN = float("nan")
OTHER_NAN = struct.unpack("<d", b"\x01\x00\x00\x00\x00\x00\xf8\xff")[0]
"""Another sign and another payload."""


@pytest.mark.parametrize(("first", "second"), [(NAN, NAN), (NAN, OTHER_NAN), (0.0, -0.0), (1.5, 1.5)])
def test_equal_numbers_are_equal_to_a_limit(first: float, second: float) -> None:
    """NaN equals NaN, although no NaN equals itself as a number."""
    store = measured(first, None, None)
    text = refused(store, lambda txn: txn.append("m", [{"id": 9, "x": second, "y": 1.0}]))
    assert "more than 1 row with x" in text
    refused(store, lambda txn: txn.upsert("m", [{"id": 1, "x": second, "y": 1.0}]))
    with Catalog.open(store, author="w", mode="join") as catalog:
        catalog.write(lambda txn: txn.append("m", [{"id": 9, "x": second, "y": 2.0}]))
        catalog.write(lambda txn: txn.delete("m", [0]))
        catalog.write(lambda txn: txn.append("m", [{"id": 10, "x": second, "y": 1.0}]))
        assert not verify(catalog).faults
    with pytest.raises(Invalid, match="more than 1 row with x"):
        measured(first, second)


def test_a_limit_that_is_already_exceeded_cannot_be_declared() -> None:
    store = founded(lambda txn: txn.append("person", [person(4, "a")]))
    assert "more than 1 row with mail 'a'" in refused(store, unique)
    assert "more than 1 row" in refused(
        founded(), lambda txn: (unique(txn), txn.append("person", [person(9, "a")]))
    )


@pytest.mark.parametrize(
    ("verbs", "says"),
    [
        (lambda txn: txn.limit("nobody", ["mail"]), "nobody has no such table"),
        (lambda txn: txn.limit("person", ["male"]), "no such column 'male'"),
        (lambda txn: txn.limit("person", ["mail"], at_most=0), "is no constraint"),
        (lambda txn: txn.limit("person", ["mail", "mail"]), "names a column twice"),
        (lambda txn: txn.limit("person", []), "no such column ''"),
        (lambda txn: txn.cascade("person", "mail"), "the column is no edge"),
        (lambda txn: txn.create_table(TABLE, {"id": "int64"}, key="id"), "is for constraints"),
    ],
)
def test_what_cannot_be_declared_is_named(verbs: Verbs, says: str) -> None:
    assert says in refused(founded(), verbs)


@pytest.mark.parametrize(
    ("verbs", "says"),
    [
        (lambda txn: txn.drop_column("person", "mail"), "person has no such column 'mail' (any more)"),
        (lambda txn: txn.drop_edge("knows", "src"), "the column is no edge"),
        (lambda txn: txn.drop_table("knows"), "knows has no such table (any more)"),
    ],
)
def test_what_a_constraint_needs_cannot_go_without_it(verbs: Verbs, says: str) -> None:
    assert says in refused(founded(unique, cascading), verbs)


def test_an_edge_restricts_unless_it_cascades() -> None:
    with pytest.raises(Dangling):
        accepted(founded(), lambda txn: txn.delete("person", [2]))
    with pytest.raises(Dangling):
        accepted(founded(lambda txn: txn.cascade("knows", "src")), lambda txn: txn.delete("person", [2]))
    found = accepted(founded(cascading), lambda txn: txn.delete("person", [2]))
    assert found == {"person": [1, 3], "knows": []}


def test_a_cascade_goes_on_over_tables() -> None:
    def notes(txn: Transaction) -> None:
        txn.create_table("note", {"id": "int64", "on": "int64"}, key="id", edges={"on": "knows"})
        txn.append("note", [{"id": 1, "on": 1}, {"id": 2, "on": 2}, {"id": 3, "on": None}])
        txn.cascade("note", "on")

    found = accepted(founded(cascading, notes), lambda txn: txn.delete("person", [1]))
    assert found == {"person": [2, 3], "knows": [2], "note": [2, 3]}


def test_overwriting_does_not_cascade() -> None:
    """The rows that an overwrite leaves out may be a mistake; the document's restrict is kept for it."""
    with pytest.raises(Dangling):
        accepted(founded(cascading), lambda txn: txn.overwrite("person", [person(1), person(3)]))


def test_a_merge_that_breaks_a_limit_is_refused() -> None:
    """Each branch keeps the limit; their union does not."""
    store = founded(unique)
    with Catalog.open(store, author="w", mode="join") as main:
        main.create_branch("dev")
        with main.on("dev") as dev:
            with dev.transaction() as txn:
                txn.append("person", [person(8, "x")])
            with main.transaction() as txn:
                txn.append("person", [person(9, "x")])
            with pytest.raises(Invalid, match="more than 1 row with mail 'x'"):
                main.merge("dev")
            with dev.transaction() as txn:
                txn.upsert("person", [person(8, "y")])
            assert isinstance(main.merge("dev"), Published)
        assert verify(main).faults == ()


def test_a_merge_brings_a_limit_that_the_rows_here_must_keep() -> None:
    store = founded()
    with Catalog.open(store, author="w", mode="join") as main:
        main.create_branch("dev")
        with main.on("dev") as dev, dev.transaction() as txn:
            unique(txn)
        with main.transaction() as txn:
            txn.append("person", [person(9, "a")])
        with pytest.raises(Invalid, match="more than 1 row with mail 'a'"):
            main.merge("dev")


def test_verify_names_a_limit_that_is_broken() -> None:
    """Rows that were written by code without the check."""
    store = founded(unique)
    with Catalog.open(store, author="w", mode="join") as catalog:
        saved, Constraint.broken_by = Constraint.broken_by, lambda *_: None  # type: ignore[method-assign,assignment]
        try:
            with catalog.transaction() as txn:
                txn.append("person", [person(4, "a")])
        finally:
            Constraint.broken_by = saved  # type: ignore[method-assign]
        assert any("more than 1 row with mail 'a'" in fault for fault in verify(catalog).faults)


RACES: dict[str, tuple[Verbs, Verbs, tuple[Verbs, ...]]] = {
    "unique": (
        lambda txn: txn.append("person", [person(8, "x")]),
        lambda txn: txn.append("person", [person(9, "x")]),
        (unique,),
    ),
    "cardinality": (
        lambda txn: txn.append("knows", [knows(8, 1, 1)]),
        lambda txn: txn.append("knows", [knows(9, 1, 3)]),
        (two_edges,),
    ),
    "declared meanwhile": (unique, lambda txn: txn.append("person", [person(9, "a")]), ()),
    "declared after a race": (lambda txn: txn.append("person", [person(9, "a")]), unique, ()),
    "cascade": (
        lambda txn: txn.append("knows", [knows(8, 3, 1)]),
        lambda txn: txn.delete("person", [1]),
        (cascading,),
    ),
    "cascade withdrawn": (
        lambda txn: txn.drop_constraint("knows(src) cascades"),
        lambda txn: txn.delete("person", [1]),
        (cascading,),
    ),
}
"""What the first writer commits while the second one is about to, and what was declared before."""


STAGING = ("unique", "cardinality", "declared meanwhile")
"""Races whose second writer stages a fragment."""


@pytest.mark.parametrize(
    ("race", "place"),
    [
        *itertools.product(RACES, [MANIFEST, "table/", "recovery/"]),
        *itertools.product(STAGING, ["data/"]),
    ],
)
def test_of_two_writers_who_break_a_constraint_together_one_is_stale(race: str, place: str) -> None:
    first, second, declare = RACES[race]
    inner = founded(*declare)
    slow = Scripted(inner)
    one, two = Catalog.open(inner, author="one", mode="join"), Catalog.open(slow, author="two", mode="join")
    two.snapshot().load()

    def win() -> None:
        with one.transaction() as txn:
            first(txn)

    slow.before("put", place, win)
    with pytest.raises(StaleView), two.transaction() as txn:
        second(txn)
    assert slow.spent
    assert verify(Catalog.open(inner, mode="read")).faults == ()


def test_of_two_drafts_of_a_group_the_second_is_refused() -> None:
    """They were decided on one snapshot, and become one commit."""
    with Catalog.open(founded(unique), author="w", mode="join") as catalog:
        drafts = [catalog.draft(), catalog.draft()]
        for key, draft in enumerate(drafts, 8):
            draft.append("person", [person(key, "x")])
        first, second = catalog.publish_all(drafts)
        assert isinstance(first, Published)
        assert isinstance(second, Invalid)
        assert "more than 1 row with mail 'x'" in str(second)
