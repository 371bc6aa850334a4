"""Group commit: drafts that wait together are published together, each with its own result."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fencepost.impl.publish import (
    Catalog,
    Draft,
    GroupCommit,
    Invalid,
    Published,
    PublishError,
    StoreUnavailable,
)
from fencepost.impl.store.layers import Metered

from .scripted import Scripted, graph


def adding(key: int, table: str = "place") -> Draft:
    draft = Draft(message=f"add {key}")
    draft.append(table, [{"id": key, "name": str(key)}])
    return draft


class Gathered:
    """Delays the first publish until the others are in the queue."""

    def __init__(self) -> None:
        self.inner = graph()
        self.metered = Metered(self.inner)
        self.script = Scripted(self.metered)
        self.group = GroupCommit(Catalog.open(self.script, author="group"))

    def publish(self, drafts: list[Draft]) -> list[Any]:
        """The first draft alone, and all the others while it is on its way."""
        arrived = threading.Event()
        self.script.before("put", "branch/main/manifest/", lambda: arrived.wait(10))
        with ThreadPoolExecutor(len(drafts)) as pool:
            first = pool.submit(self.group.publish, drafts[0])
            _until(lambda: self.group._led)
            others = [pool.submit(self.group.publish, draft) for draft in drafts[1:]]
            _until(lambda: len(self.group._queue) == len(others))
            arrived.set()
            return [_result_or_error(future.result) for future in [first, *others]]


def _until(holds: Callable[[], bool]) -> None:
    """Wait for other threads, a millisecond at a time."""
    for _ in range(10_000):
        if holds():
            return
        time.sleep(0.001)
    raise AssertionError("the condition did not hold within ten seconds")


def _result_or_error(result: Callable[[], Any]) -> Any:
    try:
        return result()
    except PublishError as error:
        return error


def test_drafts_that_wait_together_become_one_commit() -> None:
    gathered = Gathered()
    results = gathered.publish([adding(number) for number in range(10)])
    assert all(isinstance(result, Published) for result in results)
    assert len({result.id for result in results}) == 2
    newest = Catalog.open(gathered.inner, mode="read")
    assert [row["id"] for row in newest.snapshot().rows("place")] == list(range(10))
    assert sorted(newest.manifest.members) == [f"add {number}" for number in range(1, 10)]


def test_an_invalid_draft_is_refused_alone() -> None:
    gathered = Gathered()
    first, twice, good, invalid = gathered.publish([adding(1), adding(1), adding(2), adding(3, "nowhere")])
    assert isinstance(first, Published)
    assert isinstance(twice, Invalid)
    assert isinstance(invalid, Invalid)
    assert isinstance(good, Published)
    rows = Catalog.open(gathered.inner, mode="read").snapshot().rows("place")
    assert [row["id"] for row in rows] == [1, 2]


def test_a_draft_sees_earlier_drafts_of_its_group() -> None:
    """One group removes Bob and adds an edge to Bob: the second draft is refused."""
    gathered = Gathered()
    remove, link = Draft(message="remove"), Draft(message="link")
    remove.delete("person", [2])
    link.append("knows", [{"id": 1, "a": 1, "b": 2}])
    _, *results = gathered.publish([adding(1), remove, link])
    assert sorted(isinstance(result, Published) for result in results) == [False, True]


def test_a_failure_is_raised_in_every_thread_of_the_group() -> None:
    gathered = Gathered()

    def away() -> None:
        raise StoreUnavailable("the store is away")

    gathered.script.before("put", "branch/main/manifest/00000000000000000006", away)
    results = gathered.publish([adding(number) for number in range(5)])
    assert [isinstance(result, StoreUnavailable) for result in results] == [False, True, True, True, True]
    assert isinstance(gathered.group._queue, list)


def test_a_single_draft_costs_one_publish() -> None:
    gathered = Gathered()
    gathered.group.publish(adding(1))
    with gathered.metered.operation("alone") as cost:
        gathered.group.publish(adding(2))
    assert (cost.serial_hops, cost.requests) == (3, 7)


@pytest.mark.parametrize("members", [1, 50])
def test_a_group_costs_the_requests_of_one_draft(members: int) -> None:
    """Fifty drafts on one table cost the requests of one."""
    metered = Metered(graph())
    catalog = Catalog.open(metered)
    catalog.publish(adding(1000))
    with metered.operation("company") as cost:
        assert all(
            isinstance(result, Published)
            for result in catalog.publish_all([adding(n) for n in range(members)])
        )
    assert (cost.serial_hops, cost.requests) == (3, 7)
