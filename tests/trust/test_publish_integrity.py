"""Referential integrity of the catalog is decided on the final rows of a transaction.

If this fails, a transaction publishes an edge that points at a missing row, and only `verify` finds it.
"""

import random
from typing import Any

import pytest

from fencepost.impl.publish import Catalog, Dangling, Published, PublishError, verify
from tests.impl.publish.scripted import graph

EDGE = {"id": 1, "a": 1, "b": 99}
"""Its target 99 does not exist."""


def add_column(draft: Any) -> None:
    draft.add_column("knows", "more", "string")


def drop_column(draft: Any) -> None:
    draft.add_column("knows", "more", "string")
    draft.drop_column("knows", "more")


def drop_other_edge(draft: Any) -> None:
    draft.drop_column("knows", "a")


def rewrite(draft: Any) -> None:
    draft.rewrite("knows")


@pytest.mark.parametrize("alter", [add_column, drop_column, drop_other_edge, rewrite])
@pytest.mark.parametrize("verb", ["append", "upsert", "overwrite"])
def test_rows_changed_after_they_were_added_are_checked(verb: str, alter: Any) -> None:
    catalog = Catalog.open(graph())
    draft = catalog.draft()
    getattr(draft, verb)("knows", [EDGE])
    alter(draft)
    with pytest.raises(Dangling, match="person has no row 99"):
        catalog.publish(draft)
    assert verify(catalog).faults == ()


@pytest.mark.parametrize("alter", [add_column, drop_column])
def test_rows_under_a_new_edge_are_checked_after_later_changes(alter: Any) -> None:
    catalog = Catalog.open(graph())
    catalog.write(lambda txn: txn.drop_edge("knows", "b"))
    catalog.write(lambda txn: txn.append("knows", [EDGE]))
    draft = catalog.draft()
    draft.add_edge("knows", "b", "person")
    alter(draft)
    with pytest.raises(Dangling, match="person has no row 99"):
        catalog.publish(draft)


def test_a_row_that_is_corrected_in_the_same_transaction_is_accepted() -> None:
    """Only the final rows count: neither a row that was replaced, nor a target that came later."""
    catalog = Catalog.open(graph())
    draft = catalog.draft()
    draft.append("knows", [EDGE])
    add_column(draft)
    draft.append("person", [{"id": 99, "name": "Zoe"}])
    assert isinstance(catalog.publish(draft), Published)
    draft = catalog.draft()
    draft.upsert("knows", [{"id": 2, "a": 1, "b": 77}])
    draft.add_column("knows", "other", "string")
    draft.upsert("knows", [{"id": 2, "a": 1, "b": 2}])
    assert isinstance(catalog.publish(draft), Published)
    assert verify(catalog).faults == ()


@pytest.mark.parametrize("seed", range(3))
def test_random_transactions_leave_no_edge_without_its_row(seed: int) -> None:
    """Every verb in any order: whatever is published, verification accepts it."""
    dice = random.Random(seed)
    catalog = Catalog.open(graph())
    published = refused = 0
    for number in range(120):
        draft = catalog.draft()
        for _ in range(dice.randint(1, 5)):
            _random_verb(dice, draft, number)
        try:
            catalog.publish(draft)
            published += 1
        except PublishError:
            refused += 1
        assert _dangling(catalog) == []
    assert min(published, refused) > 20, "otherwise the run tests only one side"
    assert verify(catalog).faults == ()


def _random_verb(dice: random.Random, draft: Any, number: int) -> None:
    table = dice.choice(["person", "knows", "knows"])
    key = dice.randint(1, 4)
    if table == "person":
        row: dict[str, Any] = {"id": key, "name": f"{number}"}
    else:
        row = {"id": key, "a": dice.choice([None, 1, 2, 3]), "b": dice.choice([None, 1, 2, 3])}
    match dice.randint(0, 11):
        case 0 | 1 | 2:
            draft.upsert(table, [row])
        case 3 | 4:
            draft.append(table, [row])
        case 5:
            draft.overwrite(table, [row])
        case 6 | 7:
            draft.delete(table, [key])
        case 8:
            draft.add_column(table, f"c{dice.randint(0, 1)}", "string")
        case 9:
            draft.drop_column(table, f"c{dice.randint(0, 1)}")
        case 10:
            draft.drop_edge("knows", "b")
        case 11:
            draft.add_edge("knows", "b", "person")


def _dangling(catalog: Catalog) -> list[Any]:
    """The naive check: every edge of every visible row."""
    tables = catalog.snapshot().load()
    people = {row["id"] for row in tables["person"]}
    columns = [column for column, _ in catalog.snapshot().schema("knows").edges]
    return [row for row in tables["knows"] for column in columns if row[column] not in {None, *people}]
