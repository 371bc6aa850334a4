"""Three-way merges: a table of all cases for one row, random histories, the base, and what is refused."""

import contextlib
import itertools
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import Absent, Catalog, Conflicted, Dangling, Invalid, Published, verify
from fencepost.impl.publish.documents import PublishPlan
from fencepost.impl.publish.errors import Unchanged
from fencepost.impl.store.memory import MemoryStore
from tests.depth import examples

from .scripted import Crashed, Scripted

STATES = (None, 1, 2, 3)
"""Of one row: missing, or its value."""


def opened(store: Any = None, *rows: dict[str, Any]) -> Catalog:
    store = store or MemoryStore(env=SeededEnvironment(1))
    catalog = Catalog.open(store, create=True, mode="join")
    with catalog.transaction() as txn:
        txn.create_table("t", {"id": "int64", "v": "int64"}, key="id")
        txn.append("t", rows)
    return catalog


def put(catalog: Catalog, id_: int, value: int | None, table: str = "t") -> None:
    """Set the value of a row, or remove it."""
    catalog.refresh()
    if value is None:
        change = lambda txn: txn.delete(table, [id_])  # noqa: E731 - one of two
    else:
        change = lambda txn: txn.upsert(table, [{"id": id_, "v": value}])  # noqa: E731 - as above
    with contextlib.suppress(Unchanged):
        catalog.write(change)


def shown(catalog: Catalog, table: str = "t") -> dict[int, Any]:
    catalog.refresh()
    return {row["id"]: row["v"] for row in catalog.snapshot().rows(table)}


def merged(base: Any, ours: Any, theirs: Any) -> Any:
    """The result for one row; "conflict" if there is none."""
    if theirs in (base, ours):
        return ours
    return theirs if ours == base else "conflict"


def test_every_case_of_one_row() -> None:
    """All 64 combinations at once: a row for each, so that a merge has all that do not conflict."""
    cases = list(enumerate(itertools.product(STATES, repeat=3)))
    for conflicting in (False, True):
        main = opened(None, *({"id": at, "v": base} for at, (base, _, _) in cases if base is not None))
        main.create_branch("dev")
        dev = main.on("dev")
        expected = {}
        named = set()
        for at, (base, ours, theirs) in cases:
            result = merged(base, ours, theirs)
            if result == "conflict":
                named.add(at)
                if not conflicting:
                    theirs, result = base, ours
            if result is not None:
                expected[at] = result
            put(main, at, ours)
            put(dev, at, theirs)
        if conflicting:
            before = shown(main)
            with pytest.raises(Conflicted, match="branches main and dev conflict: table t, row ") as refused:
                main.merge("dev")
            assert {one.key for one in refused.value.conflicts} <= named
            assert refused.value.count == len(named) > 20
            assert shown(main) == before
        else:
            assert isinstance(main.merge("dev"), Published)
            assert shown(main) == expected
            assert verify(main).faults == ()


@given(st.integers(0, 2**32))
@settings(max_examples=examples(20))
def test_histories_of_merges_end_as_a_plain_merge_of_sets_says(seed: int) -> None:
    """Commits and merges in both directions; the oracle keeps every state with its ancestors."""
    draw = random.Random(seed)
    main = opened(None, *({"id": id_, "v": 0} for id_ in range(4)))
    main.create_branch("dev")
    sides = {"main": main, "dev": main.on("dev")}
    fork = dict.fromkeys(range(4), 0)
    states = {"main": fork, "dev": fork}
    ancestors: dict[str, list[tuple[str, dict[int, int]]]] = {
        "main": [("fork", fork)],
        "dev": [("fork", fork)],
    }
    for number in range(14):
        name = draw.choice(["main", "dev"])
        other = "dev" if name == "main" else "main"
        if draw.random() < 0.6:
            id_, value = draw.randrange(5), draw.choice([None, 0, 1, 2])
            if states[name].get(id_) == value:
                continue
            put(sides[name], id_, value)
            state = {key: v for key, v in states[name].items() if key != id_}
            states[name] = state if value is None else {**state, id_: value}
            ancestors[name] = [*ancestors[name], (f"{name}{number}", states[name])]
            continue
        # The last state that both have among their ancestors.
        known = {mark for mark, _ in ancestors[name]}
        base = next(state for mark, state in reversed(ancestors[other]) if mark in known)
        ids = {*base, *states[name], *states[other]}
        result = {id_: merged(base.get(id_), states[name].get(id_), states[other].get(id_)) for id_ in ids}
        sides[name].refresh()
        if "conflict" in result.values():
            with pytest.raises(Conflicted):
                sides[name].merge(other)
            continue
        sides[name].merge(other)
        states[name] = {id_: value for id_, value in result.items() if value is not None}
        seen = {mark for mark, _ in ancestors[name]}
        more = [one for one in ancestors[other] if one[0] not in seen]
        ancestors[name] = [*ancestors[name], *more, (f"merge{number}", states[name])]
        assert shown(sides[name]) == states[name]
    for name, catalog in sides.items():
        assert shown(catalog) == states[name]
        assert verify(catalog).faults == ()


def test_what_was_merged_and_taken_back_does_not_come_back() -> None:
    """With the fork as the base, the second merge would repeat the change that main took back."""
    main = opened(None, {"id": 1, "v": 1}, {"id": 2, "v": 1})
    main.create_branch("dev")
    dev = main.on("dev")
    put(main, 2, 5)
    put(dev, 1, 2)
    main.merge("dev")
    put(main, 1, 1)
    put(dev, 2, 1)
    put(dev, 3, 3)
    main.merge("dev")
    assert shown(main) == {1: 1, 2: 5, 3: 3}


def test_a_merge_that_changes_no_row_is_recorded() -> None:
    """Both made the same change. If main takes it back, dev's is no news."""
    main = opened(None, {"id": 1, "v": 1})
    main.create_branch("dev")
    put(main, 1, 2)
    put(main.on("dev"), 1, 2)
    assert isinstance(main.merge("dev"), Published)
    put(main, 1, 1)
    main.merge("dev")
    assert shown(main) == {1: 1}
    assert verify(main).faults == ()


def test_a_branch_follows_the_one_it_was_made_from() -> None:
    """Merges in the other direction, and then back: neither repeats a conflict that was settled."""
    main = opened(None, {"id": 1, "v": 1})
    main.create_branch("dev")
    dev = main.on("dev")
    put(main, 1, 2)
    put(dev, 9, 9)
    dev.merge("main")
    put(dev, 1, 3)
    put(main, 7, 7)
    assert shown(dev) == {1: 3, 9: 9}
    main.merge("dev")
    assert shown(main) == {1: 3, 7: 7, 9: 9}
    dev.merge("main")
    assert shown(dev) == shown(main)


def test_merges_in_both_directions_at_once_have_no_base() -> None:
    main = opened(None, {"id": 1, "v": 1}, {"id": 2, "v": 1})
    main.create_branch("dev")
    dev, late = main.on("dev"), main.on("dev")
    put(main, 1, 2)
    put(dev, 2, 2)
    store = Scripted(main.context.store)
    crossed = Catalog.open(store, mode="join")
    store.before("put", "branch/main/manifest/", lambda: late.refresh() and late.merge("main"))
    crossed.merge("dev")
    assert store.spent
    assert shown(main) == shown(dev) == {1: 2, 2: 2}
    put(main, 3, 3)
    put(dev, 4, 4)
    main.refresh()
    with pytest.raises(Invalid, match="merged into each other at the same time"):
        main.merge("dev")


def test_another_writer_of_the_same_table_is_merged_with() -> None:
    """The merge begins again on the newest state: it must not overwrite the other's row."""
    store = MemoryStore(env=SeededEnvironment(1))
    main = opened(store, {"id": 1, "v": 1})
    main.create_branch("dev")
    put(main, 5, 5)
    put(main.on("dev"), 1, 2)
    script = Scripted(store)
    merging, other = Catalog.open(script, mode="join"), Catalog.open(store, mode="join")
    script.before("put", "table/t", lambda: put(other, 6, 6))
    assert isinstance(merging.merge("dev"), Published)
    assert script.spent
    assert shown(main) == {1: 2, 5: 5, 6: 6}


def test_edges_hold_after_a_merge() -> None:
    """Each branch alone is sound; together an edge would point at a removed row."""
    main = opened(None, {"id": 1, "v": 1})
    with main.transaction() as txn:
        txn.create_table("e", {"id": "int64", "to": "int64"}, key="id", edges={"to": "t"})
    main.create_branch("dev")
    dev = main.on("dev")
    put(main, 2, 2)
    put(main, 1, None)
    dev.write(lambda txn: txn.append("e", [{"id": 1, "to": 1}]))
    with pytest.raises(Dangling, match="t has no row 1"):
        main.merge("dev")
    assert shown(main) == {2: 2}


def test_schemas_merge_if_one_side_changed_them() -> None:
    main = opened(None, {"id": 1, "v": 1}, {"id": 2, "v": 2})
    main.create_branch("dev")
    dev = main.on("dev")
    put(main, 1, 10)
    with dev.transaction() as txn:
        txn.add_column("t", "note", "string")
        txn.upsert("t", [{"id": 2, "v": 2, "note": "two"}])
        txn.create_table("u", {"id": "int64", "t": "int64"}, key="id", edges={"t": "t"})
        txn.append("u", [{"id": 1, "t": 2}])
    main.merge("dev")
    rows = [{"id": 1, "v": 10, "note": None}, {"id": 2, "v": 2, "note": "two"}]
    assert main.snapshot().rows("t") == rows
    assert main.snapshot().rows("u") == [{"id": 1, "t": 2}]
    assert main.snapshot().schema("u").edges == (("t", "t"),)
    with dev.transaction() as txn:
        txn.drop_column("t", "note")
    put(main, 3, 3)
    main.merge("dev")
    assert main.snapshot().rows("t") == [{"id": 1, "v": 10}, {"id": 2, "v": 2}, {"id": 3, "v": 3}]


@pytest.mark.parametrize(
    ("here", "there", "message"),
    [
        (
            lambda txn: txn.drop_table("t"),
            lambda txn: txn.upsert("t", [{"id": 1, "v": 9}]),
            "dropped here and",
        ),
        (
            lambda txn: txn.upsert("t", [{"id": 1, "v": 9}]),
            lambda txn: txn.drop_table("t"),
            "dropped there and",
        ),
        (
            lambda txn: txn.add_column("t", "a", "string"),
            lambda txn: txn.add_column("t", "a", "int64"),
            "its columns, key or edges were changed",
        ),
        (
            lambda txn: txn.create_table("u", {"id": "int64", "a": "string"}, key="a"),
            lambda txn: txn.create_table("u", {"id": "int64", "a": "string"}, key="id"),
            "its columns, key or edges were changed",
        ),
    ],
)
def test_tables_that_both_sides_changed_conflict(here: Any, there: Any, message: str) -> None:
    main = opened(None, {"id": 1, "v": 1})
    main.create_branch("dev")
    dev = main.on("dev")
    main.write(here)
    dev.write(there)
    with pytest.raises(Conflicted, match=message):
        main.merge("dev")


def test_a_dropped_table_that_nobody_changed_is_dropped() -> None:
    main = opened(None, {"id": 1, "v": 1})
    main.create_branch("dev")
    dev = main.on("dev")
    main.write(lambda txn: txn.create_table("u", {"id": "int64"}, key="id"))
    dev.write(lambda txn: txn.drop_table("t"))
    main.merge("dev")
    assert main.snapshot().tables == ["u"]


def test_a_row_with_nan_is_equal_to_itself() -> None:
    """NaN is unequal to NaN: every row that has one would conflict."""
    main = Catalog.open(MemoryStore(env=SeededEnvironment(1)), create=True)
    with main.transaction() as txn:
        txn.create_table("t", {"id": "int64", "v": "float64"}, key="id")
        txn.append("t", [{"id": 1, "v": float("nan")}, {"id": 2, "v": 2.0}])
    main.create_branch("dev")
    dev = main.on("dev")
    main.write(lambda txn: txn.upsert("t", [{"id": 3, "v": 3.0}]))
    dev.write(lambda txn: txn.overwrite("t", [{"id": 1, "v": float("nan")}, {"id": 2, "v": 4.0}]))
    main.merge("dev")
    assert [row["v"] for row in main.snapshot().rows("t")][1:] == [4.0, 3.0]


def test_a_base_that_was_cleaned_up_is_named() -> None:
    store = MemoryStore(env=SeededEnvironment(1))
    main = opened(store, {"id": 1, "v": 1})
    main.create_branch("dev")
    dev = main.on("dev")
    put(dev, 2, 2)
    put(main, 3, 3)
    store.env.sleep(100)
    main.cleanup(keep=1)
    with pytest.raises(Absent, match="the last common state, was cleaned up"):
        main.merge("dev")


def test_the_fork_is_found_on_either_branch() -> None:
    """Cleanup may have taken it from the busy one."""
    store = MemoryStore(env=SeededEnvironment(1))
    main = opened(store, {"id": 1, "v": 1})
    main.create_branch("dev")
    put(main.on("dev"), 2, 2)
    for number in range(5):
        put(main, 3, number)
    store.env.sleep(100)
    main.cleanup(keep=3)
    main.merge("dev")
    assert shown(main) == {1: 1, 2: 2, 3: 4}


def test_branches_without_a_common_state_are_refused() -> None:
    main = opened(None, {"id": 1, "v": 1})
    for name in ("one", "two"):
        main.create_branch(name)
        put(main.on(name), 5, len(name))
    with pytest.raises(Invalid, match="they have no common state"):
        main.on("one").merge("two")


def test_a_merge_that_crashed_is_completed_with_its_record() -> None:
    """Recovery rolls the plan forward: the next merge must know that this one took place."""
    store = MemoryStore(env=SeededEnvironment(1))
    main = opened(store, {"id": 1, "v": 1})
    main.create_branch("dev")
    dev = main.on("dev")
    put(main, 2, 2)
    put(dev, 1, 5)
    script = Scripted(store)
    dying = Catalog.open(script, mode="join")
    script.crash_before("put", "branch/main/manifest/")
    with pytest.raises(Crashed):
        dying.merge("dev")
    again = Catalog.open(store)
    assert shown(again) == {1: 5, 2: 2}
    put(again, 1, 1)
    put(dev, 3, 3)
    again.merge("dev")
    assert shown(again) == {1: 1, 2: 2, 3: 3}


def test_a_plan_keeps_what_it_merges() -> None:
    main = opened(None, {"id": 1, "v": 1})
    main.create_branch("dev")
    put(main, 2, 2)
    put(main.on("dev"), 3, 3)
    store = Scripted(main.context.store)
    plans: list[bytes] = []

    def look() -> None:
        keys = [info.key for info in main.context.store.list("recovery/").objects]
        plans.extend(main.context.store.get(key).body for key in keys)

    store.before("put", "table/t", look)
    Catalog.open(store, mode="join").merge("dev")
    plan = PublishPlan.from_bytes(plans[-1])
    assert plan.merges is not None
    assert plan.to_bytes() == plans[-1]
