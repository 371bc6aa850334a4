"""Runs stay few, rows are rewritten rarely, and merging runs changes no content."""

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
from tests.depth import examples

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
    """After n commits of one row the runs are the digits of n to the base of eight."""
    sizes, _ = played([1] * 0o1234)
    assert sizes == [512] + [64] * 2 + [8] * 3 + [1] * 4


@given(st.lists(st.sampled_from([1, 1, 1, 2, 7, 8, 9, 60, 500]), max_size=600))
def test_runs_are_few_whatever_the_sizes_of_commits(commits: list[int]) -> None:
    sizes, written = played(commits)
    assert sum(sizes) == sum(commits)
    assert len(sizes) <= (FAN_IN - 1) * DIGITS + sum(commits) * FAN_IN / ROWS_MAX
    assert written <= (DIGITS + 1) * sum(commits)


def test_large_runs_are_left_alone() -> None:
    """Otherwise a commit of one row would rewrite a table of gigabytes."""
    large = [(ROWS_MAX // 4, 0)] * 20
    assert runs_to_merge(large, ROWS_MAX // 4) == 0
    assert runs_to_merge([(1, BYTES_MAX // 4)] * 20, 1) == 0
    assert runs_to_merge([*large, *[(1, 0)] * 7], 1) == 7
    assert runs_to_merge([*large, *[(1, 0)] * 6], 1) == 0, "one run less"


def test_a_commit_that_changes_no_row_merges_no_run() -> None:
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


def runs_of(opened: Catalog) -> list[tuple[str, int]]:
    return [(run["holds"], run.get("rows") or len(run["keys"])) for run in opened.snapshot().runs("t")]


def cold_rows(store: MemoryStore) -> list[int]:
    return [row["id"] for row in Catalog.open(store, mode="read").snapshot().rows("t")]


def test_rows_added_and_removed_leave_no_trace_in_merged_runs() -> None:
    """A run that merges others contains their result, not their steps."""
    store, opened = catalog()
    append(opened, 100)
    for number in range(FAN_IN - 3):
        append(opened, number)
    delete(opened, 0, 1, 2, 100)
    opened.write(lambda txn: txn.upsert("t", [{"id": 4, "n": 0}]))
    assert runs_of(opened) == [("rows", 2)]
    assert cold_rows(store) == [3, 4]


def test_rows_of_unmerged_runs_are_removed_by_keys() -> None:
    store, opened = catalog()
    append(opened, *range(100))
    for number in range(100, 100 + FAN_IN - 2):
        append(opened, number)
    delete(opened, 5, 101)
    append(opened, 200)
    assert runs_of(opened) == [("rows", 100), ("keys", 1), ("rows", FAN_IN - 2)]
    assert 5 not in cold_rows(store)
    assert len(cold_rows(store)) == 99 + FAN_IN - 2


def test_deletes_merge_deletes_and_write_no_fragment() -> None:
    store, opened = catalog()
    append(opened, *range(100))
    append(opened, 100)
    before = sum(key.startswith("data/") for key in store.contents())
    for number in range(FAN_IN * FAN_IN):
        delete(opened, number)
    assert runs_of(opened) == [("rows", 100), ("rows", 1), ("keys", FAN_IN * FAN_IN)]
    assert sum(key.startswith("data/") for key in store.contents()) == before
    assert cold_rows(store) == list(range(64, 101))


def test_runs_of_too_many_keys_for_the_document_are_not_merged() -> None:
    store, opened = catalog()
    append(opened, *range(20_000))
    for number in range(FAN_IN):
        delete(opened, *range(number * 500, number * 500 + 500))
    assert runs_of(opened) == [("rows", 20_000)] + [("keys", 500)] * FAN_IN
    assert sum(key.startswith("data/") for key in store.contents()) == 1, "deletes write no fragment"
    append(opened, *range(20_000, 20_500))
    assert max(len(run.get("keys", ())) for run in opened.snapshot().runs("t")) <= KEYS_INLINE_MAX
    assert runs_of(opened)[0] == ("rows", 20_000), "the table is not rewritten for that"
    assert cold_rows(store) == list(range(FAN_IN * 500, 20_500))


def test_a_column_added_later_is_empty_in_older_rows() -> None:
    store, opened = catalog()
    for number in range(FAN_IN - 1):
        append(opened, number)
    opened.write(lambda txn: txn.add_column("t", "more", "string"))
    opened.write(lambda txn: txn.append("t", [{"id": 99, "n": 1, "more": "yes"}]))
    assert runs_of(opened) == [("rows", FAN_IN)]
    rows = Catalog.open(store, mode="read").snapshot().rows("t")
    assert [row["more"] for row in rows] == [None] * (FAN_IN - 1) + ["yes"]


def test_old_snapshots_do_not_change() -> None:
    store, opened = catalog()
    for number in range(30):
        append(opened, number)
    reader = Catalog.open(store, mode="read")
    for number in range(30):
        assert len(reader.snapshot(opened.manifest.id - 29 + number).rows("t")) == number + 1


# The recorded changes of the last runs.


def test_the_recorded_last_runs_are_bounded() -> None:
    """In rows and in bytes, each exactly to its limit; the runs before a large one are dropped too."""
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
def test_cutting_runs_off_gives_the_rows_before_them(rows_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every recorded length of every version, read or written, with a column added in between."""
    monkeypatch.setattr(cache, "ROWS_MAX", rows_max)
    monkeypatch.setattr(tables, "FAN_IN", 3)
    dice = random.Random(5)
    lengths = 0
    for _ in range(examples(2, 5)):
        store, opened = catalog()
        for number in range(25):
            _change(dice, opened, number)
            cold = TableReader(opened.context).contents(opened.manifest.tables)["t"]
            warm = opened._handle.reader.contents(opened.manifest.tables)["t"]
            for contents in (cold, warm):
                assert contents.rows == cold.rows
                lengths += _cut_everywhere(store, opened, contents)
    assert lengths > 100, "otherwise nothing was tested"


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
    """An independent oracle: the runs folded in the simplest way."""
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
