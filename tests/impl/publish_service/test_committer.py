"""The commits of a server: groups, rivals, fences, plans in the way, and damage of one table only."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from fencepost.impl.publish import Catalog, Damaged, Invalid, Published, StaleView, StoreUnavailable
from fencepost.impl.publish.errors import Absent
from fencepost.impl.publish.planner import Change
from fencepost.impl.publish.requests import Request
from fencepost.impl.publish.service.committer import Again, Committer, End, Figures, Order
from fencepost.impl.publish.service.queue import Queue
from fencepost.impl.store.layers.metered import Metered
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import ANYTHING
from tests.impl.publish.scripted import Crashed, Scripted, graph

MANIFEST = "branch/main/manifest/"


class Bench:
    """A server's committer on a store that tests can script."""

    def __init__(self, store: MemoryStore | None = None, **how: Any) -> None:
        self.store = store or graph()
        self.script = Scripted(self.store)
        self.metered = Metered(self.script)
        self.figures = Figures()

        def opened() -> Catalog:
            return Catalog.open(self.metered, author="server", mode="join", **how)

        self.committer = Committer(opened, self.metered, self.figures)

    def attempt(self, *orders: Order) -> list[Any]:
        return self.committer.attempt(orders)

    def until_decided(self, *orders: Order, attempts: int = 5) -> list[Any]:
        for _ in range(attempts):
            ends = self.attempt(*orders)
            if not any(isinstance(end, Again) for end in ends):
                return ends
        return ends

    def rows(self, table: str) -> list[Any]:
        with Catalog.open(self.store, mode="read") as reader:
            return reader.snapshot().rows(table)


def order(id_: str, table: str = "place", key: int = 1, **more: Any) -> Order:
    row = {"id": key, "name": id_}
    return Order(Request(id_, 3), [Change(table, "upsert", rows=(row,))], id_, **more)


def published(ends: Sequence[Any]) -> list[bool]:
    return [isinstance(end, Published) for end in ends]


def rival(store: Any, table: str, key: int = 50) -> None:
    catalog = Catalog.open(store, author="rival", mode="join")
    catalog.write(lambda txn: txn.upsert(table, [{"id": key, "name": "rival"}]))


def test_a_group_is_one_commit_and_is_counted() -> None:
    bench = Bench()
    ends = bench.attempt(*(order(f"r{n}", key=n) for n in range(50)))
    assert len({end.id for end in ends}) == 1
    found = bench.figures.to_json()
    assert (found["commits"], found["orders"], found["groups"]) == (1, 50, {"50": 1})
    again = bench.attempt(order("r7", key=7), order("new", key=99))
    assert again[0].id == ends[0].id
    assert bench.figures.to_json()["duplicates"] == 1
    assert bench.figures.to_json()["groups"] == {"1": 1, "50": 1}
    assert bench.figures.to_json()["storage"]["ops"] > 10


def test_a_rival_costs_another_attempt_and_no_failure() -> None:
    bench = Bench()
    bench.attempt(order("first"))
    bench.script.before("put", MANIFEST, lambda: rival(bench.store, "person"))
    ends = bench.until_decided(order("r", key=2), order("s", key=3))
    assert published(ends) == [True, True]
    rival(bench.store, "place")
    ends = bench.attempt(order("t", key=4))
    assert [type(end) for end in ends] == [Again]
    assert published(bench.attempt(order("t", key=4))) == [True]


def test_a_fenced_server_opens_the_branch_again() -> None:
    """It is no authority: it joins whoever has taken over, and fences nobody."""
    bench = Bench()
    bench.attempt(order("first"))
    heir = Catalog.open(bench.store, author="heir")
    assert published(bench.until_decided(order("r", key=2))) == [True]
    heir.write(lambda txn: txn.upsert("person", [{"id": 9, "name": "heir"}]))


def test_what_is_read_is_compared_with_the_snapshot_of_the_client() -> None:
    bench = Bench()
    (begun,) = bench.attempt(order("first"))
    reads = [Change("place", "read"), Change("place", "upsert", rows=({"id": 1, "name": "seen"},))]
    assert published(bench.attempt(Order(Request("a", 3), reads, "", begun.id))) == [True]
    stale, fresh = bench.attempt(Order(Request("b", 3), reads, "", begun.id), order("c", key=2))
    assert isinstance(stale, StaleView)
    assert isinstance(fresh, Published)
    (unknown,) = bench.attempt(Order(Request("d", 3), reads, "", 999))
    assert isinstance(unknown, Absent)


def test_a_plan_in_the_way_of_one_table_does_not_keep_the_others_waiting() -> None:
    bench = Bench()
    bench.attempt(order("first"))
    dying = Scripted(bench.store)
    dying.crash_before("put", MANIFEST)
    with pytest.raises(Crashed):
        rival(dying, "person")
    blocked, free = bench.attempt(order("p", "person", key=5), order("q", key=2))
    assert isinstance(blocked, Again)
    assert isinstance(free, Published)
    bench.store.env.sleep(6)
    assert published(bench.until_decided(order("p", "person", key=5))) == [True]


def test_damage_of_one_table_is_an_error_of_its_orders_only() -> None:
    store = graph()
    key = next(one for one in dict(store.contents()) if one.startswith("data/person/"))
    store.put(key, b"altered", when=ANYTHING)
    bench = Bench(store)
    damaged, sound = bench.attempt(order("p", "person", key=5), order("q", key=2))
    assert isinstance(damaged, Damaged)
    assert isinstance(sound, Published)


def test_an_order_that_does_not_fit_is_refused_alone() -> None:
    bench = Bench()
    invalid = Order(Request("w", 3), [Change("place", "upsert", rows=({"id": "text"},))])
    ends = bench.attempt(order("r", key=1), invalid, order("s", key=2))
    assert published(ends) == [True, False, True]
    assert isinstance(ends[1], Invalid)


def test_a_deleted_branch_is_an_error() -> None:
    store = graph()
    with Catalog.open(store, author="w", mode="join") as catalog:
        catalog.create_branch("dev")
        bench = Bench(store, branch="dev")
        catalog.delete_branch("dev")
    (end,) = bench.until_decided(order("r"))
    assert isinstance(end, Absent)


def test_a_store_that_does_not_answer_is_asked_again_later() -> None:
    bench = Bench()
    bench.attempt(order("first"))

    def away() -> None:
        raise StoreUnavailable("the store is away")

    bench.script.before("put", "recovery/", away)
    assert [type(end) for end in bench.attempt(order("r", key=2))] == [Again]
    assert published(bench.attempt(order("r", key=2))) == [True]
    assert bench.rows("place")[-1]["id"] == 2


class Attempts:
    """Ends of attempts at one order, as a test has them."""

    def __init__(self, *ends: End) -> None:
        self.ends = list(ends)

    def attempt(self, _: Sequence[Order]) -> list[End]:
        return [self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]]

    def pause(self, _: int) -> None: ...


@pytest.mark.parametrize(
    ("ends", "kind"),
    [
        ((Again("no reply", perhaps=True), Invalid("no such table")), Again),
        ((Again("no reply", perhaps=True), Again("others were first"), Invalid("no such table")), Again),
        ((Again("no reply", perhaps=True), Published(2, "plan")), Published),
        ((Again("others were first"), Invalid("no such table")), Invalid),
    ],
)
def test_a_refusal_after_an_attempt_that_perhaps_published_is_undecided(
    ends: tuple[End, ...], kind: type[object]
) -> None:
    async def ended() -> End:
        queue = Queue(Attempts(*ends), asyncio.to_thread)
        return await queue.commit(order("r", key=1), 1, 0.2)

    assert isinstance(asyncio.run(ended()), kind)
