"""What a start does: one owner of the directory, and what dead processes left is removed by age."""

import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.maintenance import Maintenance
from fencepost.impl.objects.owner import Owner
from fencepost.impl.store.errors import Unusable
from fencepost.impl.store.files import FileStore
from fencepost.impl.store.files import uploads as module
from fencepost.impl.store.files.uploads import Uploads
from fencepost.impl.store.requests import ANYTHING, CompleteUpload, CreateUpload, ListUploads, Outcome

BUCKET = "bucket-one"
DAY_S = 24 * 3600.0


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    first, second = Owner(str(tmp_path)), Owner(str(tmp_path))
    first.acquire()
    with pytest.raises(Unusable, match=f"is served by process {os.getpid()}; stop it first"):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_a_directory_is_owned_while_any_process_of_the_server_lives(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    owner = Owner(str(tmp_path))
    owner.acquire()
    worker = os.fork()
    if not worker:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    os.close(owner._fd)  # the parent ends
    with pytest.raises(Unusable):
        Owner(str(tmp_path)).acquire()
    os.close(writing)
    os.waitpid(worker, 0)
    after = Owner(str(tmp_path))
    after.acquire()
    after.release()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    found = FileStore(tmp_path / "data")
    yield found
    found.close()


def begin(store: FileStore) -> str:
    return store.send(CreateUpload("k")).upload


def age(store: FileStore, upload: str, seconds: float) -> Path:
    folder = Path(store.path, ".fencepost", "uploads", upload)
    then = store.env.now_ns() - round(seconds * 1e9)
    os.utime(folder, ns=(then, then))
    return folder


def uploads(store: FileStore) -> list[str]:
    return [one.upload for one in store.send(ListUploads()).uploads]


def test_uploads_are_removed_once_nobody_has_touched_them_for_a_day(store: FileStore) -> None:
    old, young = begin(store), begin(store)
    age(store, old, DAY_S + 60)
    age(store, young, DAY_S - 60)
    assert store.collect_garbage(DAY_S) == 1
    assert uploads(store) == [young]
    assert not list(Path(store.path, ".fencepost", "tmp").iterdir())


def test_an_upload_that_is_being_completed_stays(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector comes while the parts are joined, long after the last one was uploaded."""
    upload = begin(store)
    etag = store.upload_part("k", upload, 1, b"x").etag
    age(store, upload, 2 * DAY_S)
    copy = Uploads._copy

    def collect(self: Uploads, *args: Any) -> None:
        assert FileStore(store.path).collect_garbage(DAY_S) == 0
        copy(self, *args)

    monkeypatch.setattr(Uploads, "_copy", collect)
    assert store.send(CompleteUpload("k", upload, ((1, etag),), ANYTHING)).outcome is Outcome.DONE
    assert store.get("k").body == b"x"


def test_the_age_counts_once_the_collector_has_the_lock(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = begin(store)
    age(store, upload, 2 * DAY_S)

    def listed(folder: int, oldest_ns: int) -> list[str]:
        store.upload_part("k", upload, 1, b"x")  # it comes between the two looks
        return [upload]

    monkeypatch.setattr(module, "old_names", listed)
    assert store.collect_garbage(DAY_S) == 0
    assert uploads(store) == [upload]


def test_an_upload_needs_few_open_files(store: FileStore) -> None:
    """S3 allows ten thousand parts, and most systems a thousand open files."""
    upload = begin(store)
    parts = tuple((n, store.upload_part("k", upload, n, b"%d" % n).etag) for n in range(1, 101))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(fd.name) for fd in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 50, hard))
    try:
        found = store.parts("k", upload)
        reply = store.send(CompleteUpload("k", upload, parts, ANYTHING))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found is not None
    assert [(part.number, part.etag) for part in found] == [*parts]
    assert reply.outcome is Outcome.DONE


def test_every_start_collects(tmp_path: Path) -> None:
    buckets = Buckets(str(tmp_path))
    buckets.create(BUCKET)
    store = buckets.store(BUCKET)
    age(store, begin(store), DAY_S + 60)
    draft = Path(store.path, ".fencepost", "tmp", "left")
    for seconds in (3000, 4000):
        draft.with_suffix(f".{seconds}").touch()
        then = store.env.now_ns() - seconds * 10**9
        os.utime(draft.with_suffix(f".{seconds}"), ns=(then, then))
    maintenance = Maintenance(buckets, interval_s=0.01)
    for _ in range(1000):
        if buckets.index.reconciled_ns():
            break
        threading.Event().wait(0.01)
    maintenance.close()
    assert uploads(store) == []
    assert [path.name for path in draft.parent.iterdir()] == ["left.3000"]
    buckets.close()


def test_an_owner_that_has_the_directory_may_acquire_it_again(tmp_path: Path) -> None:
    """A handoff that fails before the seal makes the incumbent resume with the lock that it still has."""
    owner = Owner(str(tmp_path))
    owner.acquire()
    owner.acquire()
    owner.release()
    Owner(str(tmp_path)).acquire()


def test_an_upload_that_disappears_in_the_moment_ends_no_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was completed, or another server collected it, after its age was read."""
    store = FileStore(tmp_path)
    store.send(CreateUpload("k"))
    real = module.old_names
    monkeypatch.setattr(module, "old_names", lambda *args: ["u-gone", *real(*args)])
    assert store.collect_garbage(-1.0) == 1
