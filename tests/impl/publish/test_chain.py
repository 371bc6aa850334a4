"""Finding the newest entry of a chain of any length, during concurrent writes and cleanups."""

import random

import pytest

from fencepost.impl.context import Context
from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import Catalog, Unknown
from fencepost.impl.publish.chain import Boundary, Chain, newest_of
from fencepost.impl.publish.commit import Committed
from fencepost.impl.publish.context import RETRY
from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.impl.store.interface import Store
from fencepost.impl.store.layers import Metered
from fencepost.impl.store.memory import MemoryStore

from .scripted import Scripted, graph

PREFIX = "branch/main/manifest/"


def chain(store: Store, branch: str = "main") -> Chain:
    context = Context(store, store.env, retry=RETRY)
    boundary = Boundary(context, f"branch/{branch}/boundary.json")
    return Chain(context, f"branch/{branch}/manifest/", boundary)


def standing(*ids: int) -> MemoryStore:
    store = MemoryStore(env=SeededEnvironment(1))
    add(store, *ids)
    return store


def add(store: Store, *ids: int) -> None:
    for id_ in ids:
        store.put(f"{PREFIX}{id_:020d}.json", b"%d" % id_, when=ABSENT)


@pytest.mark.parametrize("depth", [1, 2, 999, 1000])
def test_a_page_of_history_costs_what_one_entry_costs(depth: int) -> None:
    metered = Metered(standing(*range(1, depth + 1)))
    with metered.operation("newest") as cost:
        assert chain(metered).newest() == (depth, b"%d" % depth)
    assert (cost.serial_hops, cost.requests) == (2, 3)


def test_opening_costs_a_logarithm_of_the_history() -> None:
    """A walk through pages is one serial request for every thousand commits without a cleanup, so opening a
    catalog would take longer every day. The search grows by one step for every factor of sixteen.
    """
    store = standing()
    hops = []
    for depth in (1001, 5_000, 60_000, 1_000_000, 15_000_000):
        # Holes below are equivalent to entries, and faster to create.
        add(store, *range(max(1, depth - 1500), depth + 1))
        metered = Metered(store)
        with metered.operation("newest") as cost:
            assert chain(metered).newest() == (depth, b"%d" % depth)
        hops.append(cost.serial_hops)
        assert cost.requests < 100
    assert hops == [4, 5, 5, 6, 7]


def test_the_newest_entry_is_found_at_any_id() -> None:
    """With holes, foreign objects and a boundary anywhere: the same as a listing of everything."""
    dice = random.Random(3)
    for _ in range(60):
        ids = sorted({dice.randrange(1, 10 ** dice.randint(1, 7)) for _ in range(dice.choice([1, 5, 1500]))})
        store = standing(*ids)
        for id_ in dice.sample(ids, min(3, len(ids))):
            store.put(f"{PREFIX}{id_:020d}.json.copy", b"", when=ABSENT)
        store.put(f"{PREFIX}notes", b"", when=ABSENT)
        found = chain(store).newest()
        assert found is not None
        assert found[0] == ids[-1]


def test_foreign_objects_alone_are_no_entry() -> None:
    store = standing()
    for number in range(1200):
        store.put(f"{PREFIX}{number}.copy", b"", when=ABSENT)
    assert chain(store).newest() is None


def test_a_page_of_foreign_objects_hides_nothing() -> None:
    store = standing(5)
    for number in range(1200):
        store.put(f"{PREFIX}{0:020d}.json.copy{number}", b"", when=ABSENT)
    assert chain(store).newest() == (5, b"5")


def test_entries_added_during_the_search_are_found_or_newer() -> None:
    """Opening a busy catalog finds a manifest that was the newest at some moment of the search."""
    acted = [_found_while_others_write(spared) for spared in range(6)]
    assert acted == [True, True, True, True, False, False], "a page, two looks ahead, the last page"


def _found_while_others_write(spared: int) -> bool:
    """Others write before the listing that follows `spared` listings; returns whether there was one."""
    store = standing(*range(1, 3001))
    script = Scripted(store)

    def write(left: int) -> None:
        if left:
            script.before("list", PREFIX, lambda: write(left - 1))
        else:
            add(store, *range(3001, 5500))

    write(spared)
    found = chain(script).newest()
    assert found is not None
    assert found[0] == (5499 if script.spent else 3000)
    return script.spent


def test_a_cleanup_during_the_search_is_survived() -> None:
    store = standing(*range(1, 3001))
    script = Scripted(store)

    def clean() -> None:
        add(store, *range(3001, 3004))
        chain(store).boundary.advance(3002)
        for id_ in range(1, 3003):
            store.delete(f"{PREFIX}{id_:020d}.json", when=ANYTHING)

    script.before("get", PREFIX, clean)
    assert chain(script).newest() == (3003, b"3003")


def test_catching_up_reads_only_the_newest_manifest() -> None:
    """Otherwise a handle that was idle for a night reads every manifest of that night for the last one."""
    store = graph()
    metered = Metered(store)
    idle, busy = Catalog.open(metered, mode="read"), Catalog.open(store, mode="join")
    costs = []
    for commits in (3, 30):
        for number in range(commits):
            busy.write(lambda txn, n=number: txn.upsert("place", [{"id": n, "name": "there"}]))
        with metered.operation("refresh") as cost:
            assert idle.refresh() == busy.manifest
        costs.append((cost.requests, cost.serial_hops))
    assert costs == [(5, 4), (5, 4)]


def test_settling_reads_only_the_history_since_the_base() -> None:
    store = graph()
    metered = Metered(store)
    catalog = Catalog.open(metered, mode="join")
    for number in range(30):
        catalog.write(lambda txn, n=number: txn.upsert("place", [{"id": n, "name": "there"}]))
    published = catalog.manifest
    for plan, wanted in ((published.plan, published), ("never", None)):
        with metered.operation("settle") as cost:
            result = catalog.settle(Unknown(plan, "lost", published.id - 1))
        assert (result.manifest if isinstance(result, Committed) else None) == wanted
        assert cost.requests <= 6


def test_backwards_yields_every_entry_once_and_reads_lazily() -> None:
    store = standing(*range(1, 5001))
    assert [id_ for id_, _ in chain(store).backwards(0)] == list(range(5000, 0, -1))
    assert [id_ for id_, _ in chain(store).backwards(4850)] == list(range(5000, 4850, -1))
    assert list(chain(store).backwards(5000)) == []
    metered = Metered(store)
    with metered.operation("log") as cost:
        assert next(chain(metered).backwards(0)) == (5000, b"5000")
    assert cost.serial_hops <= 6
    assert cost.requests < 200


def test_backwards_passes_holes() -> None:
    """Only damage creates holes; verification has to pass them and end."""
    ids = [3, 4, 200, 201, 10**15]
    assert [id_ for id_, _ in chain(standing(*ids)).backwards(0)] == ids[::-1]


def test_backwards_ends_at_a_moved_boundary() -> None:
    store = standing(*range(1, 1001))
    way = chain(store).backwards(0)
    assert next(way)[0] == 1000
    chain(store).boundary.advance(950)
    for id_ in range(1, 951):
        store.delete(f"{PREFIX}{id_:020d}.json", when=ANYTHING)
    add(store, 890)  # by a stalled writer: it is not in the chain any more
    assert [id_ for id_, _ in way] == [*range(999, 900, -1)], "the batch read before"


def test_listing_branches_takes_the_same_steps_for_any_number() -> None:
    store = graph()
    metered = Metered(store)
    catalog = Catalog.open(metered, mode="join")
    hops = []
    for number in range(12):
        catalog.create_branch(f"b{number}")
        if number % 3 == 0:
            catalog.delete_branch(f"b{number}")
        with metered.operation("branches") as cost:
            found = catalog.branches()
        hops.append(cost.serial_hops)
    assert set(hops) == {4}
    assert found == ["b1", "b10", "b11", "b2", "b4", "b5", "b7", "b8", "main"]


def test_a_branch_cleaned_during_the_listing_is_listed() -> None:
    store = graph()
    catalog = Catalog.open(store, mode="join")
    script = Scripted(store)

    def commit_and_clean() -> None:
        for number in range(5):
            catalog.write(lambda txn, n=number: txn.upsert("place", [{"id": n, "name": "there"}]))
        catalog.cleanup(1)

    script.before("get", PREFIX, commit_and_clean)
    reader = Catalog.open(store, mode="read")
    (entry,) = newest_of([chain(script)])
    assert script.spent
    assert entry is not None
    assert entry[0] == reader.refresh().id


def test_long_chains_and_short_ones_are_found_together() -> None:
    store = standing(*range(1, 2501))
    short, none = chain(store, "dev"), chain(store, "no")
    store.put(short.key(7), b"7", when=ABSENT)
    assert newest_of([short, none, chain(store)]) == [(7, b"7"), None, (2500, b"2500")]
    assert newest_of([]) == []


def test_entries_before_the_boundary_are_not_in_the_chain() -> None:
    store = standing(5)
    chain(store).boundary.advance(7)
    assert chain(store).newest() is None
    assert newest_of([chain(store)]) == [None]
