"""A probe leaves a directory as it found it, also when it comes to nothing."""

import errno
from pathlib import Path

import pytest

from fencepost.impl.store.errors import Unusable
from fencepost.impl.store.files import Disk, FileStore
from fencepost.sim.probe import Plan, Probe


class NoLinks(Disk):
    """Files can be made and written, and get no second name."""

    def link(self, source: str, source_fd: int, name: str, folder_fd: int) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize("there", [False, True])
def test_a_directory_that_cannot_be_used_is_left_as_it_was(tmp_path: Path, there: bool) -> None:
    place = tmp_path / "place"
    if there:
        place.mkdir()
    probe = Probe(FileStore(place, disk=NoLinks()), Plan(rounds=1))
    with pytest.raises(Unusable):
        probe.verify() if there else probe.run()
    assert list(tmp_path.iterdir()) == ([place] if there else [])
    assert not there or list(place.iterdir()) == []


def test_a_directory_in_use_keeps_its_bookkeeping(tmp_path: Path) -> None:
    """If this fails, a probe takes the locks from under a service that runs there."""
    (tmp_path / "file").write_text("mine")
    probe = Probe(FileStore(tmp_path, disk=NoLinks()), Plan(rounds=1))
    with pytest.raises(Unusable):
        probe.verify()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".fencepost", "file"]


def test_one_is_not_many(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    assert ": 1 feature and the latency" in Probe(store, Plan(), only=["ranges"]).announcement()
    assert ": 2 features and" in Probe(store, Plan(), only=["ranges", "create-only-put"]).announcement()
