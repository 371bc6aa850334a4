"""The cost of a commit on tables that others have changed: the new fragments, and no more.

Counted at depths 10, 100 and 400 of a history without compaction or cleanup: two writers alternate, so
each commit begins on tables that the other has changed since.
"""

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import Catalog
from fencepost.impl.store.layers import Cost, Metered
from fencepost.impl.store.memory import MemoryStore

DEPTHS = (10, 100, 400)
CATCHING_UP = 4
"""Probe and boundary, the listing behind the probe, the boundary again."""
TO_READ = 2
"""Of a changed table: its version document, and the one fragment that the other has added."""
WARM, WARM_TABLE = 5, 2
"""The bound of test_cost.py for an undisturbed writer: probe, sidecar, retire, manifest, boundary; and
fragment and head of each table."""

Verb = Callable[[Any, int], None]


def founded() -> Metered:
    metered = Metered(MemoryStore(env=SeededEnvironment(1)))
    with Catalog.open(metered, create=True) as catalog, catalog.transaction() as txn:
        txn.create_table("node", {"id": "int64", "n": "int64"}, key="id")
        txn.create_table("edge", {"id": "int64", "to": "int64"}, key="id", edges={"to": "node"})
        txn.append("node", [{"id": id_, "n": 0} for id_ in range(-5, 0)])
    return metered


def commit(metered: Metered, catalog: Catalog, verb: Verb, number: int) -> Cost:
    """Catch up and publish, as `Catalog.write` does when it begins again."""
    with metered.operation("commit") as cost:
        catalog.refresh()
        catalog.write(lambda txn: verb(txn, number))
    return cost


def append(txn: Any, number: int) -> None:
    txn.append("node", [{"id": number, "n": number}])


def upsert(txn: Any, number: int) -> None:
    txn.upsert("node", [{"id": -1, "n": number}])


def replace(txn: Any, number: int) -> None:
    txn.delete("node", [number - 1])
    txn.append("node", [{"id": number, "n": number}])


def delete(txn: Any, number: int) -> None:
    """Every other commit is a run of keys, without a fragment."""
    if number % 2:
        txn.append("node", [{"id": number, "n": number}])
    else:
        txn.delete("node", [number - 1])


def link(txn: Any, number: int) -> None:
    """Touches one table and relies on another, and both have changed."""
    txn.upsert("node", [{"id": -1, "n": number}])
    txn.append("edge", [{"id": number, "to": -2}])


VERBS = {append: 1, upsert: 1, replace: 1, delete: 1, link: 2}
"""The number of tables each touches."""


def shape(cost: Cost) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(sent.kind, sent.key.split("/")[0], sent.after) for sent in cost.sent]


def in_turns(metered: Metered, writers: list[Catalog], verb: Verb) -> dict[int, Cost]:
    """The cost of each commit, by the depth it reached."""
    return {
        number: commit(metered, writers[number % len(writers)], verb, number)
        for number in range(1, DEPTHS[-1] + 1)
    }


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_two_alternating_writers_pay_the_same_at_every_depth(verb: Verb) -> None:
    """Otherwise history slows down writers of a shared table: each commit reads all its fragments again."""
    metered = founded()
    writers = [Catalog.open(metered, author=name, mode="join") for name in "ab"]
    costs = in_turns(metered, writers, verb)
    ten, hundred, deep = (shape(costs[depth]) for depth in DEPTHS)
    assert ten == hundred == deep
    # Every one of them, also those that merge runs of the other writer.
    dearest = max(cost.requests for number, cost in costs.items() if number > 2)
    assert dearest <= CATCHING_UP + WARM + VERBS[verb] * (WARM_TABLE + TO_READ)
    assert writers[0].refresh().id == writers[1].refresh().id
    assert writers[0].snapshot().load() == writers[1].snapshot().load() == fresh(metered).load()


def fresh(metered: Metered) -> Any:
    return Catalog.open(metered, mode="read").snapshot()


def test_an_idle_writer_reads_the_fragments_added_since() -> None:
    """A case just outside: the commits of others are fragments to read, and the meter shows them."""
    metered = founded()
    busy, idle = (Catalog.open(metered, author=name, mode="join") for name in "ab")
    idle.snapshot().load()
    read = []
    for round_ in range(5):
        for number in range(5):
            commit(metered, busy, append, round_ * 100 + number)
        cost = commit(metered, idle, append, round_ * 100 + 50)
        read.append(sum(sent.kind == "get" and sent.key.startswith("data/") for sent in cost.sent))
    assert 1 < max(read) <= 5


def test_bytes_written_and_fragments_read_stay_small() -> None:
    """With a run for every commit ever made, every version document and sidecar would contain their list, and
    opening the catalog would read a thousand fragments.
    """
    metered = founded()
    writers = [Catalog.open(metered, author=name, mode="join") for name in "ab"]
    written: dict[int, int] = {}
    opened: dict[int, int] = {}
    for number in range(1, 1025):
        cost = commit(metered, writers[number % 2], append, number)
        period = 1 << (number - 1).bit_length()
        written[period] = max(cost.bytes_sent, written.get(period, 0))
        if number == period:
            with metered.operation("open") as cold:
                assert len(fresh(metered).rows("node")) == 5 + number
            opened[number] = cold.by_kind["get"]
    assert written[1024] < 3 * written[64], "and one of the last rewrote 512 rows"
    assert opened[1024] <= 7 * 4 + 10
    assert opened[512] < 2 * opened[64]
