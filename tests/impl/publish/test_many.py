"""Many writers at once, with real threads: all commit or fail cleanly, nothing wedges, nothing is lost."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.publish import Catalog, Fenced, StaleView, verify
from fencepost.impl.store.memory import MemoryStore
from tests.impl.publish.scripted import name_of


class Hurried(SystemEnvironment):
    """Real time, with pauses a hundred times as short."""

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / 100)


def founded() -> MemoryStore:
    store = MemoryStore(env=Hurried())
    catalog = Catalog.open(store, create=True)
    with catalog, catalog.transaction() as txn:
        txn.create_table("shared", {"id": "int64", "by": "string"}, key="id")
        txn.create_table("other", {"id": "int64", "by": "string"}, key="id")
    return store


def writer(store: MemoryStore, number: int, mode: str, together: threading.Barrier) -> str:
    """Append one row to a table that all writers share."""
    together.wait(10)
    try:
        catalog = Catalog.open(store, author=f"w{number}", mode=mode)
        row = {"id": number, "by": f"w{number}"}
        results = catalog.write(
            lambda txn: (txn.append("shared", [row]), txn.append("other", [row])), attempts=30
        )
        catalog.close()
    except (StaleView, Fenced) as clean:
        return type(clean).__name__
    return name_of(results)


@pytest.mark.parametrize("mode", ["join", "claim"])
@pytest.mark.parametrize("writers", [2, 3, 5, 12])
def test_writers_commit_or_fail_cleanly(writers: int, mode: str) -> None:
    """Joined writers alternate; claiming writers fence the earlier ones. The next writer can always go on."""
    store = founded()
    together = threading.Barrier(writers)
    with ThreadPoolExecutor(writers) as pool:
        futures = [pool.submit(writer, store, number, mode, together) for number in range(writers)]
        results = [future.result() for future in futures]
    last = Catalog.open(store, author="last")
    rows = {row["id"] for row in last.snapshot().rows("shared")}
    for number, result in enumerate(results):
        if result == "Published":
            assert number in rows
        elif result in ("StaleView", "Fenced"):
            assert number not in rows
    assert "Published" in results
    if mode == "join":
        assert set(results) <= {"Published", "StaleView"}
    with last.transaction() as txn:
        txn.append("shared", [{"id": 99, "by": "last"}])
        txn.append("other", [{"id": 99, "by": "last"}])
    assert verify(last).faults == ()
    assert len(last.snapshot().rows("shared")) == len(last.snapshot().rows("other"))
