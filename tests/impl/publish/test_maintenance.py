"""Maintenance in rounds: it converges, is bounded, loses against writers, and loses nothing."""

from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import Catalog, Invalid, Published, verify
from fencepost.impl.publish.maintenance import ORPHANS_EVERY_S, Goals, Maintainer, Round
from fencepost.impl.publish.pressure import OFF
from fencepost.impl.store.layers import Metered
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Delete

from .scripted import Crashed, Scripted

GOALS = Goals(keep=3, runs=3)
TABLES = ("a", "b", "c")


def add(table: str, key: int) -> Any:
    return lambda txn: txn.upsert(table, [{"id": key, "n": key}])


def grown(tables: int = 1, commits: int = 6) -> tuple[Scripted, Catalog]:
    """Tables that have one run for each commit, and a writer that has them open."""
    store = Scripted(Metered(MemoryStore(env=SeededEnvironment(1))))
    catalog = Catalog.open(store, author="ann", create=True, pressure=OFF)
    with catalog.transaction() as txn:
        for table in TABLES[:tables]:
            txn.create_table(table, {"id": "int64", "n": "int64"}, key="id")
    for table in TABLES[:tables]:
        for key in range(commits):
            catalog.write(add(table, key))
    return store, catalog


def maintainer(store: Any, goals: Goals = GOALS, **more: Any) -> Maintainer:
    return Maintainer(store, store.env, goals, **more)


def rows(store: Any, table: str = "a", branch: str = "main") -> list[int]:
    with Catalog.open(store, mode="read", branch=branch) as catalog:
        assert not verify(catalog).faults
        return [row["id"] for row in catalog.snapshot().rows(table)]


def test_a_round_compacts_and_cleans_and_the_next_has_nothing_to_do() -> None:
    store, _ = grown(2)
    first = maintainer(store).round()
    assert sorted(first.compacted) == ["main/a", "main/b"]
    assert first.cleaned is not None
    assert first.cleaned.manifests > 10
    assert first.debts["main"].manifests == 3
    assert not first.more
    assert rows(store) == rows(store, "b") == [0, 1, 2, 3, 4, 5]
    with Catalog.open(store, mode="read") as catalog:
        assert catalog.snapshot().count_runs(["a", "b"]) == {"a": 1, "b": 1}
    before = sorted(store.inner.inner.contents())
    again = maintainer(store).round()
    assert (again.compacted, again.lost, again.settled) == ([], [], 0)
    assert again.cleaned is not None
    assert again.cleaned.objects == 0
    assert sorted(store.inner.inner.contents()) == before


def test_an_idle_round_costs_the_same_whatever_was_written_before() -> None:
    costs = []
    for commits in (4, 40):
        store, _ = grown(1, commits)
        worker = maintainer(store)
        worker.rounds()
        with store.inner.operation("idle") as cost:
            assert worker.round().cleaned is None
        costs.append((cost.requests, cost.serial_hops))
    assert costs[0] == costs[1]
    assert costs[0][0] <= 16
    assert costs[0][1] <= 12


def test_a_round_is_bounded_and_rounds_get_to_the_end() -> None:
    store, _ = grown(3)
    worker = maintainer(store, Goals(keep=3, runs=3, tables=1, deletes=5))
    deletes = 0
    number = 0
    for number in range(100):  # noqa: B007 - its last value is the number of rounds
        with store.inner.operation("round") as cost:
            done = worker.round()
        deleted = cost.by_kind["delete"]
        assert deleted <= 5 + 2, "and the sidecars of a compaction"
        deletes += deleted
        assert len(done.compacted) <= 1
        if not done.more:
            break
    assert 3 <= number < 99
    assert not maintainer(store, GOALS).round().compacted
    assert rows(store) == [0, 1, 2, 3, 4, 5]


def test_rounds_are_the_sum() -> None:
    store, _ = grown(3)
    total = maintainer(store, Goals(keep=3, runs=3, tables=1, deletes=5)).rounds()
    assert sorted(total.compacted) == ["main/a", "main/b", "main/c"]
    assert total.cleaned is not None
    assert total.cleaned.objects > 20
    assert not total.more


def test_a_cleanup_waits_until_it_is_worth_its_listings() -> None:
    store, catalog = grown(1, 2)
    worker = maintainer(store, Goals(keep=10, runs=100))
    assert worker.round().cleaned is not None, "the first of a process looks for orphans"
    listings = []
    while len(listings) < 20:
        catalog.write(add("a", 1))
        listings.append(worker.round().cleaned is not None)
    assert 1 <= sum(listings) <= 4
    assert max(worker.round().debts["main"].manifests, 0) <= 16
    store.env.sleep(ORPHANS_EVERY_S + 1)
    assert worker.round().cleaned is not None


def test_the_writer_wins_and_the_compaction_is_redone() -> None:
    """A commit that lands while the compaction is prepared makes the compaction begin again."""
    store, catalog = grown()
    interrupted = Scripted(store)
    landed: list[object] = []

    def write() -> None:
        landed.append(catalog.write(add("a", 100)))

    interrupted.before("put", "recovery/", write)
    done = maintainer(interrupted).round()
    assert isinstance(landed[0], Published)
    assert done.compacted == ["main/a"]
    assert rows(store) == [0, 1, 2, 3, 4, 5, 100]


def test_a_compaction_that_always_loses_gives_up_until_the_next_round() -> None:
    store, catalog = grown(1, 4)
    busy = Scripted(store)
    keys = iter(range(100, 200))

    def write() -> None:
        assert isinstance(catalog.write(add("a", next(keys))), Published)

    def write_twice() -> None:
        write()
        busy.before("put", "recovery/", write)

    busy.before("put", "recovery/", write_twice)
    done = maintainer(busy).round()
    assert (done.compacted, done.lost) == ([], ["main/a"])
    assert maintainer(store).round().compacted == ["main/a"]
    assert rows(store) == [0, 1, 2, 3, 100, 101]


def test_a_writer_is_not_refused_by_a_compaction() -> None:
    """At every step of a compaction, a writer of the same table commits without an error."""
    for place in ("data/a/", "recovery/", "table/a", "branch/main/manifest/"):
        for hook in ("before", "after"):
            store, catalog = grown()
            busy = Scripted(store)
            getattr(busy, hook)("put", place, lambda c=catalog: c.write(add("a", 100)))
            maintainer(busy).round()
            assert busy.spent, (place, hook)
            assert rows(store) == [0, 1, 2, 3, 4, 5, 100], (place, hook)


def test_a_claim_meanwhile_is_a_lost_race_and_no_failure() -> None:
    store, _ = grown()
    busy = Scripted(store)
    busy.before("put", "table/a", lambda: Catalog.open(store, author="bob", mode="claim").close())
    done = maintainer(busy).round()
    assert done.lost == ["main/a"]
    maintainer(store).round()
    assert Catalog.open(store, mode="read").snapshot().count_runs(["a"]) == {"a": 1}


def test_several_at_once_do_no_harm() -> None:
    store, _ = grown(2)
    second: list[Round] = []
    busy = Scripted(store)
    busy.before("put", "table/", lambda: second.append(maintainer(store).round()))
    busy.before("delete", "branch/main/manifest/", lambda: second.append(maintainer(store).round()))
    maintainer(busy).rounds()
    maintainer(store).rounds()
    assert len(second) >= 1
    assert rows(store) == rows(store, "b") == [0, 1, 2, 3, 4, 5]


def test_a_kill_before_or_after_any_request_loses_nothing() -> None:
    """The next maintainer ends what a killed one began."""
    kills = 0
    for hook in ("crash_before", "crash_after", "crash_amid"):
        for kind, place in (
            ("put", "data/"),
            ("put", "recovery/"),
            ("put", "table/a"),
            ("put", "branch/main/manifest/"),
            ("put", "branch/main/boundary"),
            ("delete", "branch/main/manifest/"),
            ("delete", "table/a"),
            ("delete", "data/"),
        ):
            store, catalog = grown()
            dying = Scripted(store)
            getattr(dying, hook)(kind, place)
            try:
                maintainer(dying).rounds()
            except Crashed:
                kills += 1
            assert rows(store) == [0, 1, 2, 3, 4, 5], (hook, kind, place)
            catalog.write(add("a", 6))
            store.env.sleep(100)
            maintainer(store).rounds()
            assert rows(store) == [0, 1, 2, 3, 4, 5, 6], (hook, kind, place)
            assert not [key for key in store.inner.inner.contents() if key.startswith("recovery/")]
    assert kills >= 20


def test_a_round_ends_between_two_steps() -> None:
    store, _ = grown(3)
    stopped: list[bool] = []
    counting = Scripted(store)
    counting.before("put", "table/", lambda: stopped.append(True))
    done = maintainer(counting, Goals(keep=1, runs=3)).round(lambda: bool(stopped))
    assert len(done.compacted) == 1
    assert done.cleaned is None
    assert rows(store) == [0, 1, 2, 3, 4, 5]


def test_a_table_that_a_branch_inherited_is_left_to_its_owner() -> None:
    store, catalog = grown(2)
    catalog.create_branch("dev")
    with catalog.on("dev") as dev:
        for key in range(10, 16):
            dev.write(add("b", key))
    done = maintainer(store).rounds()
    assert sorted(done.compacted) == ["dev/b", "main/a", "main/b"]
    assert rows(store, "a", "dev") == [0, 1, 2, 3, 4, 5]
    assert rows(store, "b", "dev") == [0, 1, 2, 3, 4, 5, *range(10, 16)]


def test_what_dead_writers_left_is_settled() -> None:
    store, _ = grown()
    dying = Scripted(store)
    dying.crash_before("put", "branch/main/manifest/")
    with pytest.raises(Crashed):
        Catalog.open(dying, mode="join").write(add("a", 7))
    store.env.sleep(100)
    done = maintainer(store).round()
    assert done.settled >= 1
    assert done.debts["main"].plans == 0


def test_a_limit_of_a_cleanup_leaves_the_rest_to_the_next() -> None:
    """A mutant that forgets the rest would report nothing left."""
    store, _ = grown(2)
    deleted = [0]

    class Counting(Scripted):
        def send_all(self, requests: Any) -> Any:
            deleted[0] += sum(isinstance(one, Delete) for one in requests)
            return super().send_all(requests)

    worker = maintainer(Counting(store), Goals(keep=3, runs=100, deletes=4))
    done = worker.round()
    assert done.cleaned is not None
    assert done.cleaned.objects == deleted[0] == 4
    assert done.cleaned.left > 0
    assert done.more


@pytest.mark.parametrize("senseless", [{"keep": 0}, {"runs": 1}, {"tables": 0}, {"deletes": 0}])
def test_goals_that_make_no_sense_are_refused(senseless: dict[str, int]) -> None:
    with pytest.raises(Invalid, match="it is at least"):
        Goals(**senseless)
