"""Finding the newest entry of a chain, however long it is, whoever writes and cleans up meanwhile."""

import random

import pytest

from holdfast.impl.environment import SeededEnvironment
from holdfast.impl.publish import Catalog, Unknown
from holdfast.impl.publish.boundary import Boundary
from holdfast.impl.publish.chain import Chain
from holdfast.impl.store import ABSENT, ANYTHING
from holdfast.impl.store.interface import Store
from holdfast.impl.store.layers import Metered
from holdfast.impl.store.memory import MemoryStore

from .scripted import Scripted, graph

PREFIX = "branch/main/manifest/"


def chain(store: Store) -> Chain:
    return Chain(store, store.env, PREFIX, Boundary(store, store.env, "branch/main/boundary.json"))


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
    assert (cost.serial_hops, cost.requests) == (3, 3)


def test_opening_is_not_a_walk_through_history() -> None:
    """Page after page is a request that waits for another, for every thousand commits that nobody cleaned up:
    opening a catalog took longer with each day. It grows by one step for every factor of sixteen.
    """
    store = standing()
    hops = []
    for depth in (1001, 5_000, 60_000, 1_000_000, 15_000_000):
        # Holes below are as good as entries, and quicker to make.
        add(store, *range(max(1, depth - 1500), depth + 1))
        metered = Metered(store)
        with metered.operation("newest") as cost:
            assert chain(metered).newest() == (depth, b"%d" % depth)
        hops.append(cost.serial_hops)
        assert cost.requests < 100
    assert hops == [5, 6, 6, 7, 8]


def test_the_newest_is_found_wherever_it_stands() -> None:
    """Holes, foreign objects, a boundary anywhere: what a listing of everything would say."""
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


def test_nothing_but_foreign_objects_is_nothing() -> None:
    store = standing()
    for number in range(1200):
        store.put(f"{PREFIX}{number}.copy", b"", when=ABSENT)
    assert chain(store).newest() is None


def test_a_page_of_foreign_objects_hides_nothing() -> None:
    store = standing(5)
    for number in range(1200):
        store.put(f"{PREFIX}{0:020d}.json.copy{number}", b"", when=ABSENT)
    assert chain(store).newest() == (5, b"5")


def test_what_is_added_while_it_is_looked_for_is_found_or_newer() -> None:
    """Whoever opens a busy catalog gets a manifest that was the newest at some moment of its looking."""
    acted = [_found_while_others_write(spared) for spared in range(6)]
    assert acted == [True, True, True, True, False, False], "a page, two looks ahead, the last page"


def _found_while_others_write(spared: int) -> bool:
    """Others write before the listing after `spared` of them; whether it came to that."""
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


def test_a_cleanup_while_it_is_looked_for_is_survived() -> None:
    store = standing(*range(1, 3001))
    script = Scripted(store)

    def clean() -> None:
        add(store, *range(3001, 3004))
        chain(store).boundary.advance(3002)
        for id_ in range(1, 3003):
            store.delete(f"{PREFIX}{id_:020d}.json", when=ANYTHING)

    script.before("get", PREFIX, clean)
    assert chain(script).newest() == (3003, b"3003")


def test_catching_up_reads_the_newest_and_not_what_lies_between() -> None:
    """A handle that was idle for a night read every manifest of that night, to look at the last."""
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


def test_settling_reads_the_history_since_and_no_more() -> None:
    store = graph()
    metered = Metered(store)
    catalog = Catalog.open(metered, mode="join")
    for number in range(30):
        catalog.write(lambda txn, n=number: txn.upsert("place", [{"id": n, "name": "there"}]))
    published = catalog.manifest
    for plan, wanted in ((published.plan, published), ("never", None)):
        with metered.operation("settle") as cost:
            ended = catalog.settle(Unknown(plan, "lost", published.id - 1))
        assert (None if ended is None else ended.manifest) == wanted  # type: ignore[union-attr] - never unknown here
        assert cost.requests <= 6
