"""Group commit is serializable: a draft whose reads an earlier draft of its group changed begins again.

If this fails, acknowledged updates are lost although every commit succeeded.
"""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from fencepost.impl.publish import Catalog, GroupCommit, Published, StaleView, Transaction
from tests.impl.publish.scripted import graph


def counting(store: Any = None) -> Catalog:
    catalog = Catalog.open(store or graph())
    with catalog.transaction() as txn:
        txn.create_table("counter", {"id": "int64", "n": "int64"}, key="id")
        txn.append("counter", [{"id": 1, "n": 0}, {"id": 2, "n": 0}])
    return catalog


def increment(draft: Transaction, key: int = 1) -> None:
    current = {row["id"]: row["n"] for row in draft.read("counter")}
    draft.upsert("counter", [{"id": key, "n": current[key] + 1}])


def value(catalog: Catalog, key: int = 1) -> int:
    row = catalog.snapshot().get("counter", key)
    assert row is not None
    count: int = row["n"]
    return count


def test_the_second_increment_of_a_group_is_refused() -> None:
    """Both read 0 and write 1: a lost update, if both are acknowledged."""
    catalog = counting()
    drafts = [catalog.draft(), catalog.draft()]
    for draft in drafts:
        increment(draft)
    first, second = catalog.publish_all(drafts)
    assert isinstance(first, Published)
    assert isinstance(second, StaleView)
    assert value(catalog) == 1


def test_write_skew_by_reads_alone_is_refused() -> None:
    """Each reads the table that the other writes."""
    catalog = Catalog.open(graph())
    one, other = catalog.draft(), catalog.draft()
    one.read("person")
    one.append("place", [{"id": 1, "name": "no second Ada"}])
    other.read("place")
    other.append("person", [{"id": 3, "name": "Ada"}])
    first, second = catalog.publish_all([one, other])
    assert isinstance(first, Published)
    assert isinstance(second, StaleView)
    assert len(catalog.snapshot().rows("person")) == 2


def test_drafts_that_read_nothing_the_others_changed_share_a_commit() -> None:
    """Blind writes of one table, and reads of tables that no earlier draft touched, are no conflict."""
    catalog = counting()
    blind = [catalog.draft() for _ in range(3)]
    for number, draft in enumerate(blind):
        draft.append("place", [{"id": number, "name": "blind"}])
    reader = catalog.draft()
    increment(reader)
    results = catalog.publish_all([*blind, reader])
    assert all(isinstance(result, Published) for result in results)
    assert len({result.id for result in results if isinstance(result, Published)}) == 1
    assert value(catalog) == 1


def test_a_refused_draft_is_no_reason_to_refuse_the_next() -> None:
    """The first draft is invalid and changes nothing, so the second has read what is still there."""
    catalog = counting()
    invalid, good = catalog.draft(), catalog.draft()
    invalid.upsert("counter", [{"id": 1, "n": 7}])
    invalid.append("nowhere", [{"id": 1}])
    increment(good)
    results = catalog.publish_all([invalid, good])
    assert isinstance(results[1], Published)
    assert value(catalog) == 1


def test_compaction_changes_no_row_that_a_draft_has_read() -> None:
    catalog = counting()
    compaction, good = catalog.draft(), catalog.draft()
    compaction.rewrite("counter")
    increment(good)
    assert all(isinstance(result, Published) for result in catalog.publish_all([compaction, good]))
    assert value(catalog) == 1


@pytest.mark.parametrize("threads", [2, 8])
def test_every_acknowledged_increment_counts(threads: int) -> None:
    """Threads read, add one and publish through one group, and begin again when they are refused."""
    catalog = counting()
    group, together = GroupCommit(catalog), threading.Barrier(threads)

    def work(_: int) -> int:
        acknowledged = 0
        together.wait(10)
        for _ in range(10):
            draft = catalog.draft()
            increment(draft)
            with suppress(StaleView):  # another thread was first
                acknowledged += isinstance(group.publish(draft), Published)
        return acknowledged

    with ThreadPoolExecutor(threads) as pool:
        acknowledged = sum(pool.map(work, range(threads)))
    assert acknowledged > 0
    assert value(catalog) == acknowledged


@pytest.mark.parametrize("seed", range(4))
def test_random_groups_equal_their_drafts_one_after_another(seed: int) -> None:
    """The naive counterpart runs each acknowledged draft alone, in order, on what it finds there."""
    dice = random.Random(seed)
    catalog = counting()
    expected = {1: 0, 2: 0}
    acknowledged = refused = 0
    for _ in range(30):
        drafts, programs = [], []
        for _ in range(dice.randint(1, 5)):
            draft, program = catalog.draft(), (dice.choice(["move", "add", "set"]), dice.choice([1, 2]))
            _run(draft, *program)
            drafts.append(draft)
            programs.append(program)
        for program, result in zip(programs, catalog.publish_all(drafts), strict=True):
            if isinstance(result, Published):
                _run_alone(expected, *program)
                acknowledged += 1
            else:
                assert isinstance(result, StaleView)
                refused += 1
        assert {key: value(catalog, key) for key in (1, 2)} == expected
    assert min(acknowledged, refused) > 20, "otherwise the run tests only one side"


def _run(draft: Transaction, verb: str, key: int) -> None:
    match verb:
        case "add":
            increment(draft, key)
        case "move":  # writes one row after reading the other
            current = {row["id"]: row["n"] for row in draft.read("counter")}
            draft.upsert("counter", [{"id": key, "n": current[3 - key] + 10}])
        case "set":
            draft.upsert("counter", [{"id": key, "n": 100}])


def _run_alone(rows: dict[int, int], verb: str, key: int) -> None:
    rows[key] = {"add": rows[key] + 1, "move": rows[3 - key] + 10, "set": 100}[verb]
