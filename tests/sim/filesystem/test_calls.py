"""Plain calls below the mount are answered by the world as Linux would, and the rest by the system.

If these fail, audited code runs on a file system that does not exist, or touches the real disk.
"""

import errno
import fcntl
import io
import mmap
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.store.errors import Misuse
from fencepost.sim.explore import audit
from fencepost.sim.world import NO_FAULTS, View, World
from tests.collecting import collecting


def alone(code: Callable[[Path], Any]) -> Any:
    """What `code` returns as the only process of a world."""
    keep, found = collecting()

    def program(world: World) -> None:
        root = world.filesystem()
        world.spawn(lambda: keep(code(root)), name="ann")

    result = audit(program, budget=NO_FAULTS)
    assert not result.counterexamples, str(result)
    return found[-1]


def raised(code: Callable[[Path], Any]) -> int:
    """The number of the error that `code` ends with."""

    def attempt(root: Path) -> int:
        try:
            code(root)
        except OSError as error:
            return error.errno or 0
        raise AssertionError("it succeeded")

    return int(alone(attempt))


def test_text_and_bytes_are_written_and_read() -> None:
    def code(root: Path) -> Any:
        with open(root / "a", "w", encoding="utf-8") as file:
            print("one", file=file)
            file.write("zwei ä\n")
        (root / "b").write_bytes(b"12345")
        with open(root / "b", "r+b") as both:
            both.seek(2)
            both.write(b"x")
            both.seek(0, io.SEEK_END)
            both.write(b"6")
        with (root / "b").open("ab") as more:
            more.write(b"7")
        return (root / "a").read_text(encoding="utf-8").splitlines(), (root / "b").read_bytes()

    assert alone(code) == (["one", "zwei ä"], b"12x4567")


def test_descriptors_have_a_position_and_end_with_close() -> None:
    def code(root: Path) -> Any:
        fd = os.open(root / "a", os.O_RDWR | os.O_CREAT)
        os.write(fd, b"hello world")
        os.lseek(fd, 6, os.SEEK_SET)
        tail = os.read(fd, 100)
        os.pwrite(fd, b"J", 0)
        os.ftruncate(fd, 5)
        found = os.pread(fd, 100, 0), os.fstat(fd).st_size, tail
        os.close(fd)
        try:
            os.read(fd, 1)
        except OSError as error:
            return found, error.errno
        return found

    assert alone(code) == ((b"Jello", 5, b"world"), errno.EBADF)


def test_folders_are_walked_copied_and_removed_by_the_standard_library() -> None:
    def code(root: Path) -> Any:
        os.makedirs(root / "x" / "y")
        (root / "x" / "y" / "f").write_text("1")
        shutil.copytree(root / "x", root / "z")
        shutil.move(root / "z" / "y" / "f", root / "z" / "g")
        shutil.copy2(root / "z" / "g", root / "h")
        walked = [(str(Path(at).relative_to(root)), sorted(files)) for at, _, files in os.walk(root)]
        globbed = sorted(str(one.relative_to(root)) for one in root.rglob("*") if one.is_file())
        shutil.rmtree(root / "x")
        return sorted(walked), globbed, sorted(one.name for one in root.iterdir())

    walked, globbed, left = alone(code)
    assert walked == [(".", ["h"]), ("x", []), ("x/y", ["f"]), ("z", ["g"]), ("z/y", [])]
    assert globbed == ["h", "x/y/f", "z/g"]
    assert left == ["h", "z"]


def test_temporary_files_have_names_of_their_process_and_go_away() -> None:
    def code(root: Path) -> Any:
        with tempfile.NamedTemporaryFile(dir=root) as file:
            file.write(b"1")
            file.flush()
            there = os.path.getsize(file.name)
        fd, kept = tempfile.mkstemp(dir=root)
        os.close(fd)
        with tempfile.TemporaryDirectory(dir=root) as folder:
            (Path(folder) / "f").touch()
        return there, [one.name for one in root.iterdir()] == [Path(kept).name]

    assert alone(code) == (1, True)


def test_paths_are_relative_to_descriptors_of_folders() -> None:
    def code(root: Path) -> Any:
        (root / "d").mkdir()
        folder = os.open(root / "d", os.O_RDONLY | os.O_DIRECTORY)
        fd = os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=folder)
        os.write(fd, b"1")
        os.link("f", "g", src_dir_fd=folder, dst_dir_fd=folder)
        os.rename("f", "h", src_dir_fd=folder, dst_dir_fd=folder)
        found = sorted(os.listdir(folder)), os.stat("g", dir_fd=folder).st_nlink
        os.unlink("h", dir_fd=folder)
        return found, os.listdir(folder), os.path.realpath(root / "d" / "..")

    assert alone(code) == ((["g", "h"], 2), ["g"], "/world")


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="Linux only")
def test_a_file_without_a_name_gets_one_by_link() -> None:
    def code(root: Path) -> Any:
        fd = os.open(root, os.O_TMPFILE | os.O_RDWR)
        os.write(fd, b"1")
        os.setxattr(fd, "user.a", b"x")
        before = os.listdir(root)
        os.link(f"/proc/self/fd/{fd}", root / "f")
        return before, (root / "f").read_bytes(), os.getxattr(root / "f", "user.a")

    assert alone(code) == ([], b"1", b"x")


@pytest.mark.parametrize(
    ("code", "number"),
    [
        (lambda root: open(root / "no"), errno.ENOENT),
        (lambda root: os.mkdir(root / "d" / "no" / "x"), errno.ENOENT),
        (lambda root: os.open(root / "f", os.O_CREAT | os.O_EXCL), errno.EEXIST),
        (lambda root: os.mkdir(root / "d"), errno.EEXIST),
        (lambda root: os.rmdir(root / "d"), errno.ENOTEMPTY),
        (lambda root: os.unlink(root / "d"), errno.EISDIR),
        (lambda root: open(root / "d"), errno.EISDIR),
        (lambda root: os.listdir(root / "f"), errno.ENOTDIR),
        (lambda root: os.rename(root / "f", root / "d"), errno.EISDIR),
        (lambda root: os.link(root / "f", root / "f"), errno.EEXIST),
        (lambda root: os.rename(root / "f", "/tmp/outside"), errno.EXDEV),
        (lambda root: os.getxattr(root / "f", "user.no"), errno.ENODATA),
        (lambda root: os.write(os.open(root / "f", os.O_RDONLY), b"1"), errno.EBADF),
    ],
)
def test_what_fails_fails_as_on_linux(code: Callable[[Path], Any], number: int) -> None:
    def prepared(root: Path) -> None:
        (root / "d").mkdir()
        (root / "d" / "inside").touch()
        (root / "f").touch()
        code(root)

    assert raised(prepared) == number


def test_what_is_outside_of_the_mount_is_the_systems(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("real")

    def code(root: Path) -> Any:
        (root / "f").write_text("of the world")
        return (tmp_path / "f").read_text(), os.listdir(tmp_path)

    assert alone(code) == ("real", ["f"])
    assert not Path("/world").exists()


@pytest.mark.parametrize(
    ("code", "call"),
    [
        (lambda root: os.symlink("a", root / "b"), "os.symlink"),
        (lambda root: os.chdir(root), "os.chdir"),
        (lambda root: sqlite3.connect(root / "db"), "sqlite3.connect"),
        (lambda root: fcntl.lockf((root / "f").open("w"), fcntl.LOCK_EX), "fcntl.lockf"),
        (lambda root: mmap.mmap((root / "f").open("wb").fileno(), 1), "mmap.__new__"),
        (lambda root: io.FileIO(root / "f", "w"), "open on /world/f"),
    ],
)
def test_what_the_world_cannot_answer_is_refused_in_one_line(code: Callable[[Path], Any], call: str) -> None:
    def program(world: World) -> None:
        world.spawn(code, world.filesystem(), name="ann")

    found = audit(program, budget=NO_FAULTS).counterexamples[0]
    assert found.property == "nothing leads out of the world"
    assert call in found.reason
    assert "\n" not in found.reason
    assert not Path("/world").exists()


def test_a_check_looks_at_files_through_its_view() -> None:
    def program(world: World) -> None:
        root = world.filesystem()
        world.spawn((root / "d").mkdir, name="ann")
        world.spawn((root / "f").touch, name="bob")
        world.finally_("both", lambda view: view.file(root / "f") == b"" and view.file("d") is None)
        world.sometimes("one file", lambda view: dict(view.files()) == {"f": b""})

    assert audit(program, budget=NO_FAULTS).verdict == "holds"

    def careless(world: World) -> None:
        root = world.filesystem()
        world.spawn((root / "f").touch, name="ann")
        world.finally_("there", lambda _: (root / "f").exists())

    with_it = audit(careless, budget=NO_FAULTS)
    assert "view.file" in str(with_it)


def test_a_mount_is_refused_where_something_real_is(tmp_path: Path) -> None:
    for path, reason in ((str(tmp_path), "exists"), ("world", "absolute"), ("/", "absolute")):

        def program(world: World, path: str = path) -> None:
            world.filesystem(path)

        with pytest.raises(Misuse, match=reason):
            audit(program)


def test_a_view_of_a_world_without_files_says_so() -> None:
    def check(view: View) -> bool:
        return view.file("a") is None

    def program(world: World) -> None:
        world.spawn(print, name="ann")
        world.always("a", check)

    assert "world.filesystem()" in str(audit(program, budget=NO_FAULTS))
