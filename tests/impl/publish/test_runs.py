"""Runs stay few, rows are not written anew all the time, and what a table holds does not change by it."""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import Catalog, cache, tables
from fencepost.impl.publish.cache import Contents, Layer, TableReader, last_layers
from fencepost.impl.publish.documents import Pin, read_version
from fencepost.impl.publish.tables import BYTES_MAX, FAN_IN, KEYS_INLINE_MAX, ROWS_MAX, runs_to_merge
from fencepost.impl.store.memory import MemoryStore

DIGITS = 5
"""Sizes that runs can have before they are too large: 8^5 rows."""


def played(commits: list[int]) -> tuple[list[int], int]:
    """The sizes of the runs after commits of so many rows each, all new, and the rows written in all."""
    sizes: list[int] = []
    written = 0
    for rows in commits:
        taken = runs_to_merge([(size, size) for size in sizes], rows)
        size = rows + sum(sizes[len(sizes) - taken :])
        sizes[len(sizes) - taken :] = [size]
        written += size
    return sizes, written


def test_runs_count_like_digits() -> None:
    """The classic: after n commits of one row the runs spell n, to the base of eight."""
    sizes, _ = played([1] * 0o1234)
    assert sizes == [512] + [64] * 2 + [8] * 3 + [1] * 4


@given(st.lists(st.sampled_from([1, 1, 1, 2, 7, 8, 9, 60, 500]), max_size=600))
def test_runs_are_few_whatever_the_sizes_of_commits(commits: list[int]) -> None:
    sizes, written = played(commits)
    assert sum(sizes) == sum(commits)
    assert len(sizes) <= (FAN_IN - 1) * DIGITS + sum(commits) * FAN_IN / ROWS_MAX
    assert written <= (DIGITS + 1) * sum(commits)


def test_large_runs_are_left_alone() -> None:
    """Else a commit of one row would write a table of gigabytes anew."""
    large = [(ROWS_MAX // 4, 0)] * 20
    assert runs_to_merge(large, ROWS_MAX // 4) == 0
    assert runs_to_merge([(1, BYTES_MAX // 4)] * 20, 1) == 0
    assert runs_to_merge([*large, *[(1, 0)] * 7], 1) == 7
    assert runs_to_merge([*large, *[(1, 0)] * 6], 1) == 0, "the neighbour"


def test_a_commit_that_changes_no_row_takes_nothing_in() -> None:
    assert runs_to_merge([(1, 1)] * 100, 0) == 0


# In a catalog.


def catalog() -> tuple[MemoryStore, Catalog]:
    store = MemoryStore(env=SeededEnvironment(1))
    opened = Catalog.open(store, create=True)
    with opened.transaction() as txn:
        txn.create_table("t", {"id": "int64", "n": "int64"}, key="id")
    return store, opened


def append(opened: Catalog, *ids: int) -> None:
    opened.write(lambda txn: txn.append("t", [{"id": id_, "n": id_} for id_ in ids]))


def delete(opened: Catalog, *ids: int) -> None:
    opened.write(lambda txn: txn.delete("t", list(ids)))


def told(opened: Catalog) -> list[tuple[str, int]]:
    return [(run["holds"], run.get("rows") or len(run["keys"])) for run in opened.snapshot().runs("t")]


def stranger(store: MemoryStore) -> list[int]:
    return [row["id"] for row in Catalog.open(store, mode="read").snapshot().rows("t")]


def test_rows_that_come_and_go_leave_nothing() -> None:
    """A run that takes others in holds what they left, not what they did."""
    store, opened = catalog()
    append(opened, 100)
    for number in range(FAN_IN - 3):
        append(opened, number)
    delete(opened, 0, 1, 2, 100)
    opened.write(lambda txn: txn.upsert("t", [{"id": 4, "n": 0}]))
    assert told(opened) == [("rows", 2)]
    assert stranger(store) == [3, 4]


def test_what_was_there_before_is_removed_by_keys() -> None:
    store, opened = catalog()
    append(opened, *range(100))
    for number in range(100, 100 + FAN_IN - 2):
        append(opened, number)
    delete(opened, 5, 101)
    append(opened, 200)
    assert told(opened) == [("rows", 100), ("keys", 1), ("rows", FAN_IN - 2)]
    assert 5 not in stranger(store)
    assert len(stranger(store)) == 99 + FAN_IN - 2


def test_deletes_take_in_deletes_and_write_no_fragment() -> None:
    store, opened = catalog()
    append(opened, *range(100))
    append(opened, 100)
    before = sum(key.startswith("data/") for key in store.contents())
    for number in range(FAN_IN * FAN_IN):
        delete(opened, number)
    assert told(opened) == [("rows", 100), ("rows", 1), ("keys", FAN_IN * FAN_IN)]
    assert sum(key.startswith("data/") for key in store.contents()) == before
    assert stranger(store) == list(range(64, 101))


def test_too_many_keys_to_stand_in_the_document_are_not_runs_to_merge() -> None:
    store, opened = catalog()
    append(opened, *range(20_000))
    for number in range(FAN_IN):
        delete(opened, *range(number * 500, number * 500 + 500))
    assert told(opened) == [("rows", 20_000)] + [("keys", 500)] * FAN_IN
    assert sum(key.startswith("data/") for key in store.contents()) == 1, "deletes have no fragment"
    append(opened, *range(20_000, 20_500))
    assert max(len(run.get("keys", ())) for run in opened.snapshot().runs("t")) <= KEYS_INLINE_MAX
    assert told(opened)[0] == ("rows", 20_000), "nor is the table written anew for that"
    assert stranger(store) == list(range(FAN_IN * 500, 20_500))


def test_a_column_that_came_in_between_is_empty_in_older_rows() -> None:
    store, opened = catalog()
    for number in range(FAN_IN - 1):
        append(opened, number)
    opened.write(lambda txn: txn.add_column("t", "more", "string"))
    opened.write(lambda txn: txn.append("t", [{"id": 99, "n": 1, "more": "yes"}]))
    assert told(opened) == [("rows", FAN_IN)]
    rows = Catalog.open(store, mode="read").snapshot().rows("t")
    assert [row["more"] for row in rows] == [None] * (FAN_IN - 1) + ["yes"]


def test_old_snapshots_stay_what_they_were() -> None:
    store, opened = catalog()
    for number in range(30):
        append(opened, number)
    reader = Catalog.open(store, mode="read")
    for number in range(30):
        assert len(reader.snapshot(opened.manifest.id - 29 + number).rows("t")) == number + 1


# What is remembered of the last runs.


def test_of_the_last_runs_so_much_is_remembered_and_no_more() -> None:
    """In rows and in bytes, each to the limit and not past it; what comes before a large run is gone too."""
    small, half, large = (
        Layer({1: None}, 1),
        Layer(dict.fromkeys(range(ROWS_MAX // 2)), 1),
        Layer({}, BYTES_MAX),
    )
    assert last_layers([half, half]) == (half, half)
    assert last_layers([small, half, half]) == (half, half)
    assert last_layers([large]) == (large,)
    assert last_layers([small, large, small]) == (small,)
    assert last_layers([small, replace(large, bytes=BYTES_MAX - 1), small]) != (small,)
    assert last_layers([]) == ()


@pytest.mark.parametrize("rows_max", [6, 2**15])
def test_taking_runs_off_again_gives_the_rows_of_those_before(
    rows_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every length that is remembered, of every version, read or written, with a column that came."""
    monkeypatch.setattr(cache, "ROWS_MAX", rows_max)
    monkeypatch.setattr(tables, "FAN_IN", 3)
    dice = random.Random(5)
    lengths = 0
    for _ in range(5):
        store, opened = catalog()
        for number in range(25):
            _change(dice, opened, number)
            cold = TableReader(opened.context).contents(opened.manifest.tables)["t"]
            warm = opened._handle.reader.contents(opened.manifest.tables)["t"]
            for contents in (cold, warm):
                assert contents.rows == cold.rows
                lengths += _cut_everywhere(store, opened, contents)
    assert lengths > 100, "else nothing was tried"


def _change(dice: random.Random, opened: Catalog, number: int) -> None:
    keys = [dice.randint(1, 6) for _ in range(2)]
    more = any(name == "more" for name, _ in opened.snapshot().schema("t").columns)
    rows = [{"id": key, "n": number, **({"more": f"{number}"} if more else {})} for key in keys]
    draft = opened.draft()
    match dice.randint(0, 9):
        case 0 if not more:
            draft.add_column("t", "more", "string")
        case 1 | 2 | 3 if opened.snapshot().rows("t"):
            draft.delete("t", [dice.choice(opened.snapshot().rows("t"))["id"]])
        case _:
            draft.upsert("t", rows)
    opened.publish(draft)


def _cut_everywhere(store: MemoryStore, opened: Catalog, contents: Contents) -> int:
    entry = opened.manifest.tables["t"]
    pin = Pin(entry.location, entry.version)
    document = read_version(store.get(f"table/{pin.location}/version/{pin.version:020d}.json").body)
    least = len(contents.runs) - len(contents.tail)
    for run, layer in zip(contents.runs[least:], contents.tail, strict=True):
        assert layer.bytes == (len(store.get(run["path"]).body) if "path" in run else 0)
    for length in range(least, len(contents.runs) + 1):
        assert contents.cut(length).rows == _rows_of(store, document.columns, document.runs[:length])
        assert contents.cut(length).cut(least).rows == _rows_of(
            store, document.columns, document.runs[:least]
        )
    return len(contents.runs) - least


def _rows_of(store: MemoryStore, columns: Any, some: Any) -> Mapping[Any, Any]:
    """A second opinion: the runs folded in the plainest way."""
    from fencepost.impl.publish.schema import decode_rows

    rows: dict[Any, Any] = {}
    for run in some:
        if run["holds"] == "keys":
            for key in run["keys"]:
                rows.pop(key, None)
        else:
            for row in decode_rows(store.get(run["path"]).body, run["path"]):
                rows[row["id"]] = {name: row.get(name) for name, _ in columns}
    return rows
