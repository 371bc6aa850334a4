"""An index in a folder of its own: never two for one directory, never one for two."""

import contextlib
import shutil
from pathlib import Path

import pytest

from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.index import place
from fencepost.impl.objects.reconcile import reconcile
from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.requests import ANYTHING


def written(root: Path, key: str) -> None:
    with contextlib.closing(Buckets(str(root))) as buckets:
        if not buckets.names():
            buckets.create("bucket")
        buckets.store("bucket").put(key, b"x", when=ANYTHING)
        reconcile(buckets)


def keys(root: Path) -> list[str]:
    with contextlib.closing(Buckets(str(root))) as buckets:
        return list(buckets.index.keys("bucket"))


@pytest.fixture
def placed(tmp_path: Path) -> tuple[Path, Path]:
    root, folder = tmp_path / "data", tmp_path / "fast" / "index"
    place(str(root), str(folder))
    written(root, "a")
    return root, folder


def test_the_index_is_in_the_folder_for_every_command_of_the_directory(placed: tuple[Path, Path]) -> None:
    root, folder = placed
    assert (root / ".index").readlink() == folder
    place(str(root), str(folder))
    place(str(root), None)
    assert keys(root) == ["a"]


def test_without_a_folder_it_stays_in_the_directory(tmp_path: Path) -> None:
    place(str(tmp_path), None)
    written(tmp_path, "a")
    assert not (tmp_path / ".index").is_symlink()


def test_an_index_that_is_there_is_moved_by_its_owner_alone(tmp_path: Path) -> None:
    """A second index beside it would lack events that no log file holds yet."""
    root, folder = tmp_path / "data", tmp_path / "index"
    written(root, "a")
    with pytest.raises(Misuse, match=f"mv {root / '.index'} {folder}"):
        place(str(root), str(folder))
    shutil.move(root / ".index", folder)
    place(str(root), str(folder))
    assert keys(root) == ["a"]


def test_another_folder_is_refused(placed: tuple[Path, Path], tmp_path: Path) -> None:
    root, folder = placed
    with pytest.raises(Misuse, match=f"is in {folder}; move that"):
        place(str(root), str(tmp_path / "other"))


def test_a_folder_that_is_not_mounted_is_no_empty_index(placed: tuple[Path, Path]) -> None:
    root, folder = placed
    shutil.rmtree(folder)
    for wanted in (str(folder), None):
        with pytest.raises(Misuse, match="has no index; mount it"):
            place(str(root), wanted)
    assert not folder.exists()


def test_two_directories_share_no_index(placed: tuple[Path, Path], tmp_path: Path) -> None:
    """A copy of a directory has the link of the original."""
    root, folder = placed
    copy = tmp_path / "copy"
    shutil.copytree(root, copy, symlinks=True)
    for wanted in (str(folder), None):
        with pytest.raises(Misuse, match=f"has the index of {root / '.index'}"):
            place(str(copy), wanted)
    with pytest.raises(Misuse, match="has the index of"):
        place(str(tmp_path / "new"), str(folder))
    assert not (tmp_path / "new" / ".index").is_symlink()
