"""Writers with handles of their own in one process: in memory, and on S3 servers that are other processes.

Another engine found clean conflicts between handles of one process on a local disk, and corruption between
processes on S3. It asked for the run that tells store and process apart: handles of one process, on S3. Here
both are clean. A HEAD stays ahead of its manifest only after a takeover without the epoch check, which needs
neither a second process nor S3.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from fencepost.impl.publish import Catalog, Published, PublishError, verify
from fencepost.impl.store import open_store
from fencepost.impl.store.interface import Store
from fencepost.impl.store.memory import MemoryStore
from tests.impl.publish.scripted import Crashed, Scripted, name_of, without

HANDLES = 8
MANIFEST = "branch/main/manifest/"
SECONDS_MAX = 120
WHERE = [
    "memory",
    *(
        pytest.param(name, marks=pytest.mark.server)
        for name in ("honest_moto_process", "seaweedfs", "objects")
    ),
]

Opened = Callable[[], Store]


@pytest.fixture(params=WHERE)
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    """A function that opens one more store on a new catalog with an empty table for each handle."""
    with ExitStack() as stores:
        if request.param == "memory":
            memory = MemoryStore()
            another: Opened = lambda: memory  # noqa: E731 - one of two
        else:
            url = request.getfixturevalue(request.param).bucket()

            def another() -> Store:
                store = open_store(url)
                stores.callback(store.close)
                return store

        with Catalog.open(another(), create=True) as catalog, catalog.transaction() as txn:
            for table in ("person", *(f"own-{number}" for number in range(HANDLES))):
                txn.create_table(table, {"id": "int64"}, key="id")
        yield another


def joined(store: Store, number: int, safeguard: str | None = None) -> Catalog:
    author = f"handle {number}"
    return Catalog.open(store, author=author, mode="join", safeguards=without(safeguard))


def append(catalog: Catalog, number: int, table: str = "person") -> str:
    """Publish one row; returns how that ended."""
    draft = catalog.draft()
    draft.append(table, [{"id": number}])
    try:
        return name_of(catalog.publish(draft))
    except PublishError as error:
        return type(error).__name__


def assert_healthy(store: Store, rows: set[int], table: str = "person") -> None:
    """The rows are visible, nothing is damaged, and the next writer is not held up."""
    with Catalog.open(store, author="last") as last:
        assert {row["id"] for row in last.snapshot().rows(table)} == rows
        assert verify(last).faults == ()
        assert isinstance(last.write(lambda txn: txn.append("person", [{"id": 99}])), Published)


@pytest.mark.parametrize("together", [2, HANDLES])
def test_handles_of_one_process_commit_or_find_that_their_view_is_stale(
    opened: Opened, together: int
) -> None:
    """The run that tells process and store apart: separate handles, no shared queue, released together."""
    catalogs = [joined(opened(), number) for number in range(together)]
    gate = threading.Barrier(together)
    ends = [""] * together

    def race(number: int) -> None:
        gate.wait()
        ends[number] = append(catalogs[number], number)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(together)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS_MAX)
    assert set(ends) <= {"Published", "StaleView"}
    assert "Published" in ends
    assert_healthy(opened(), {number for number, end in enumerate(ends) if end == "Published"})


def before_the_manifest(
    opened: Opened, table: Callable[[int], str], safeguard: str | None = None
) -> tuple[list[str], list[Catalog]]:
    """All handles have opened; the first stops between its head and its manifest until the others end."""
    store = Scripted(opened())
    catalogs = [joined(store if number == 0 else opened(), number, safeguard) for number in range(HANDLES)]
    ends: dict[int, str] = {}

    def others() -> None:
        ends.update({number: append(catalogs[number], number, table(number)) for number in range(1, HANDLES)})

    store.before("put", MANIFEST, others)
    ends[0] = append(catalogs[0], 0, table(0))
    return [ends[number] for number in range(HANDLES)], catalogs


def test_eight_handles_at_one_table_leave_one_commit_and_seven_that_begin_again(opened: Opened) -> None:
    """The window between head and manifest, which is held open: the others find its head, and are stale."""
    ends, catalogs = before_the_manifest(opened, lambda _: "person")
    assert Counter(ends) == {"Published": 1, "StaleView": HANDLES - 1}
    assert ends[0] == "Published"
    for number, catalog in enumerate(catalogs[1:], 1):
        wanted = {"id": number}
        assert isinstance(catalog.write(lambda txn, row=wanted: txn.append("person", [row])), Published)
    assert_healthy(opened(), set(range(HANDLES)))


def test_eight_handles_at_tables_of_their_own_all_commit(opened: Opened) -> None:
    """Each began on the same old view. The one that waited loses one race to seven winners, and goes on."""
    ends, _ = before_the_manifest(opened, lambda number: f"own-{number}")
    assert Counter(ends) == {"Published": HANDLES}
    for number in range(HANDLES):
        with Catalog.open(opened(), mode="read") as reader:
            assert reader.snapshot().rows(f"own-{number}") == [{"id": number}]
    assert_healthy(opened(), {0}, "own-0")


@pytest.mark.parametrize("safeguard", [None, "epoch-check"])
def test_a_takeover_without_the_epoch_check_wedges_handles_of_one_process_too(
    opened: Opened, safeguard: str | None
) -> None:
    """The same steps as between processes, in one: so the process boundary is not what corrupts."""
    old = Scripted(opened())
    first = joined(old, 0, safeguard)
    heirs: list[Catalog] = []
    ends: list[str] = []

    def take_over() -> None:
        heirs.append(Catalog.open(opened(), author="heir", safeguards=without(safeguard)))

    def find_the_head() -> None:
        ends.append(append(heirs[0], 1))

    old.before("put", "table/person", take_over)
    old.before("put", MANIFEST, find_the_head)
    old.crash_before("put", MANIFEST)
    with pytest.raises(Crashed):
        append(first, 0)
    ends.append(append(heirs[0], 2))
    assert ends == (["HeadAhead"] * 2 if safeguard else ["Published"] * 2)
