"""A listing is right at every moment: after a kill, beside foreign files, while the index is compared."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.credentials import ROOT, Caller
from fencepost.impl.objects.index import Index
from fencepost.impl.objects.maintenance import Maintenance
from fencepost.impl.objects.reconcile import reconcile
from fencepost.impl.objects.surface import act
from fencepost.impl.objects.temporary import Unflushed

NAME = "bucket"


@pytest.fixture
def buckets(tmp_path: Path) -> Iterator[Buckets]:
    found = Buckets(str(tmp_path), disk=Unflushed())
    found.create(NAME)
    for number in range(3):
        put(found, f"k{number}")
    reconcile(found)
    yield found
    found.close()


def put(buckets: Buckets, key: str) -> None:
    with act("PutObject", buckets, Caller(ROOT))({"Bucket": NAME, "Key": key}) as receiving:
        receiving.finish("d41d8cd98f00b204e9800998ecf8427e", {})


def listed(buckets: Buckets) -> list[str]:
    page = act("ListObjectsV2", buckets, Caller(ROOT))({"Bucket": NAME})
    return [row[0] for row in page["Contents"].rows]


def beside(buckets: Buckets, *keys: str) -> None:
    for key in keys:
        Path(buckets.root, NAME, key).write_bytes(b"x")


def test_the_index_lists_when_nothing_is_suspected(buckets: Buckets) -> None:
    beside(buckets, "z")
    assert listed(buckets) == ["k0", "k1", "k2"]  # as documented, until a comparison


def test_what_a_killed_process_published_is_listed(buckets: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies between the publication and its record."""
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(Index, "record", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        mine = Buckets(buckets.root, disk=Unflushed())
        mine.index.announce()
        put(mine, "published")
        os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert listed(buckets) == ["k0", "k1", "k2", "published"]
    assert not buckets.index.is_trusted()
    reconcile(buckets)
    assert buckets.index.is_trusted()
    assert listed(buckets) == ["k0", "k1", "k2", "published"]


def test_a_listing_is_whole_while_the_index_is_compared(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files were put beside the server: after the first one is found no listing may lack another."""
    names = [f"new{number:03}" for number in range(50)]
    beside(buckets, *names)
    seen: list[list[str]] = []
    record = type(buckets.store(NAME)).record

    def recorded(self: object, key: str, **more: object) -> None:
        record(self, key, **more)  # type: ignore[arg-type]  # a method of the store
        seen.append(listed(buckets))

    monkeypatch.setattr(type(buckets.store(NAME)), "record", recorded)
    reconcile(buckets)
    assert len(seen) == 50
    assert all(found == ["k0", "k1", "k2", *names] for found in seen)
    assert buckets.index.is_trusted()


def test_a_suspicion_that_came_meanwhile_is_not_settled(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = type(buckets.index).trust

    def trust(self: Index, began_ns: int, suspicions: int = 0) -> None:
        self.suspect()  # a process died after its files were looked at
        settled(self, began_ns, suspicions)

    monkeypatch.setattr(Index, "trust", trust)
    reconcile(buckets)
    assert not buckets.index.is_trusted()


def test_maintenance_compares_again_once_the_index_is_suspected(buckets: Buckets) -> None:
    maintenance = Maintenance(buckets, interval_s=0.01)
    waiting = threading.Event()
    for _ in range(300):
        if buckets.index.reconciled_ns() > maintenance._began_ns:
            break
        waiting.wait(0.01)
    beside(buckets, "z")
    buckets.index.suspect()
    assert listed(buckets) == ["k0", "k1", "k2", "z"]
    for _ in range(300):
        if buckets.index.is_trusted():
            break
        waiting.wait(0.01)
    assert buckets.index.is_trusted()
    assert listed(buckets) == ["k0", "k1", "k2", "z"]
    maintenance.close()
