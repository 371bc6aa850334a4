"""The reserved folder `.fencepost` inside a store's directory, and the locks that live there.

    format          the spelling of keys in this directory (see `names`), written once
    tmp/            files on their way to a name; a live one is locked by its writer
    locks/          256 files for keys, one for the tree of folders; only ever locked, never read
    attributes/     attributes of objects where the file system has no extended attributes
    uploads/        multipart uploads that are neither completed nor aborted
    results/        the answers to completions of uploads, for servers that repeat them
    moves           a file whose length is twice the number of folders moved to their second name

Nothing here is needed to read an object but `format` and `attributes`. A lock is `flock` on an open file
of its own, so that it excludes threads as well as processes, and dies with its process.
"""

import contextlib
import errno
import fcntl
import itertools
import json
import os
import stat
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

from fencepost.impl.environment import Environment
from fencepost.impl.store.errors import Unusable
from fencepost.impl.store.files.disk import FOLDER_FLAGS, Disk, close_quietly
from fencepost.impl.store.files.names import INTERNAL, Names

TREE = "tree"
"""The lock that guards making and moving folders."""
_LOCKS = 256
"""More keys than this share a lock, which costs only time."""
_FORMAT = 1
_MADE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_NAMELESS = os.O_RDWR | os.O_CLOEXEC | getattr(os, "O_TMPFILE", 0)


class Internals:
    """Opened once for a root directory; folders are made at the first write that needs them."""

    def __init__(
        self,
        root_fd: int,
        where: str,
        disk: Disk,
        env: Environment,
        temp_age_s: float,
        *,
        private: bool = False,
    ) -> None:
        self._root_fd = root_fd
        self.private = private
        self._mode = 0o600 if private else 0o666
        self._where = where
        self._disk = disk
        self._env = env
        self._temp_age_s = temp_age_s
        self._fds: dict[str, int] = {}
        self._making = threading.Lock()
        self._drafts = itertools.count(1)
        self._renamed: set[str] = set()
        self._draft_name = ""
        """The prefix of draft names, unique to this process and this opening of the store."""
        self.nameless_works = hasattr(os, "O_TMPFILE") and Path("/proc/self/fd").is_dir()
        """True until the file system refuses to create a file without a name."""

    def __del__(self) -> None:
        for fd in self._fds.values():
            close_quietly(fd)

    def existing(self, name: str) -> int | None:
        """The descriptor of an internal folder, or None when there is none yet."""
        fd = self._fds.get(name)
        return fd if fd is not None else self._open(name, make=False)

    def folder(self, name: str) -> int:
        """The descriptor of an internal folder, made when it is missing."""
        fd = self._fds.get(name)
        if fd is None:
            fd = self._open(name, make=True)
            assert fd is not None
        return fd

    def _open(self, name: str, *, make: bool) -> int | None:
        with self._making:
            if name in self._fds:
                return self._fds[name]
            if "" not in self._fds:
                base = self._step(self._root_fd, INTERNAL, make)
                if base is None:
                    return None
                self._fds[""] = base
            fd = self._step(self._fds[""], name, make) if name else self._fds[""]
            if fd is None:
                return None
            self._fds[name] = fd
        if name == "tmp":
            self._sweep(fd)
        return fd

    def _step(self, parent: int, name: str, make: bool) -> int | None:
        try:
            return os.open(name, FOLDER_FLAGS, dir_fd=parent)
        except FileNotFoundError:
            if not make:
                return None
        except NotADirectoryError:
            raise Unusable(
                f"{self._where}/{INTERNAL} holds {name!r} as a file or symbolic link, where a folder "
                "of the store's own belongs; remove it"
            ) from None
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
        self._disk.fsync_folder(parent)
        return os.open(name, FOLDER_FLAGS, dir_fd=parent)

    # The spelling of keys.

    def names(self) -> Names | None:
        """The spelling that was written down, or None as long as nothing was written here."""
        base = self.existing("")
        body = None if base is None else read_file("format", base)
        if body is None:
            return None
        text = body.decode(errors="replace")
        try:
            found = json.loads(text)
            version, folded = found["format"], found["names"] == "folded"
        except (ValueError, LookupError, TypeError):
            raise Unusable(
                f"{self._where}/{INTERNAL}/format cannot be read: {text[:60]!r}; restore it"
            ) from None
        if version != _FORMAT:
            raise Unusable(
                f"{self._where} has format {version}, this release reads {_FORMAT}; upgrade Fencepost"
            )
        return Names(folded=folded)

    def settle_names(self) -> None:
        """Write down how keys are spelled, unless another just did. Before the first object is written."""
        base = self.folder("")
        text = json.dumps({"format": _FORMAT, "names": "folded" if self._folds() else "natural"})
        with self.draft() as (fd, name):
            self._disk.write(fd, text.encode() + b"\n")
            self._disk.fsync(fd)
            with contextlib.suppress(FileExistsError):
                self._disk.link(name, self.folder("tmp"), "format", base)
        self._disk.fsync_folder(base)

    def _folds(self) -> bool:
        """Return True if this file system treats different names as equal."""
        with self.draft(tail="-\u00e9a") as (_, name):
            for other in (name[:-1] + "A", name[:-2] + "e\u0301a"):
                with contextlib.suppress(FileNotFoundError):
                    os.stat(other, dir_fd=self.folder("tmp"), follow_symlinks=False)
                    return True
        return False

    # Files on their way.

    def nameless(self) -> int | None:
        """A new file without a name: nothing is left when the writer dies. None where there are none."""
        if not self.nameless_works:
            return None
        try:
            return os.open(".", _NAMELESS, self._mode, dir_fd=self.folder("tmp"))
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
                raise
            self.nameless_works = False  # this file system knows named files only
            return None

    @contextlib.contextmanager
    def draft(self, tail: str = "") -> Iterator[tuple[int, str]]:
        """A new file in tmp, locked as long as it is open, gone afterwards unless it was renamed."""
        folder = self.folder("tmp")
        if not self._draft_name:
            self._draft_name = f"{self._env.new_id().lower()}-{os.getpid()}"
        name = f"{self._draft_name}-{next(self._drafts)}{tail}"
        fd = os.open(name, _MADE | os.O_EXCL, self._mode, dir_fd=folder)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield fd, name
        finally:
            close_quietly(fd)
            if name in self._renamed:
                self._renamed.discard(name)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=folder)

    def renamed(self, name: str) -> None:
        """A draft surely has another name: there is nothing to remove when it ends."""
        self._renamed.add(name)

    def sweep(self) -> None:
        """Remove the drafts of dead writers: old enough, and not locked. The first draft calls this too."""
        folder = self.existing("tmp")
        if folder is not None:
            self._sweep(folder)

    def _sweep(self, folder: int) -> None:
        for name in old_names(folder, self.oldest_ns()):
            with contextlib.suppress(OSError):
                remove_unlocked(name, folder)

    def oldest_ns(self) -> int:
        """Return the time (in nanoseconds) before which an unused file belongs to a dead writer."""
        return self._env.now_ns() - round(self._temp_age_s * 1e9)

    def write(self, name: str, folder: int, *content: bytes) -> None:
        """Write a file, whole or not at all, over one that has the name. The folder is yet to be flushed."""
        with self.draft() as (fd, draft):
            for piece in content:
                self._disk.write(fd, piece)
            self._disk.fsync(fd)
            self._disk.replace(draft, self.folder("tmp"), name, folder)
            self.renamed(draft)

    # Locks.

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold one lock, exclusive among all threads and processes."""
        fd = os.open(name, _MADE, 0o666, dir_fd=self.folder("locks"))
        try:
            self._disk.lock(fd)
            yield
        finally:
            os.close(fd)

    def key_locked(self, key: str) -> contextlib.AbstractContextManager[None]:
        """Hold the lock of `key`. Lock order: a key's lock before `TREE`, never after it."""
        return self.locked(_lock_of(key))

    def is_key_lock(self, key: str, fd: int) -> bool:
        """Return True if this descriptor is of the lock of `key`."""
        found = os.stat(_lock_of(key), dir_fd=self.folder("locks"), follow_symlinks=False)
        return os.path.samestat(found, os.fstat(fd))

    # Folders that moved.

    def moves(self) -> int:
        """Odd while a folder is moving (or its mover died); differs when one moved in between."""
        base = self.existing("")
        if base is None:
            return 0
        try:
            return os.stat("moves", dir_fd=base, follow_symlinks=False).st_size
        except FileNotFoundError:
            return 0

    def count_move(self) -> None:
        """Once before and once after a folder moves; only while holding `TREE`."""
        fd = os.open("moves", _MADE, 0o666, dir_fd=self.folder(""))
        try:
            os.ftruncate(fd, os.fstat(fd).st_size + 1)  # a length without content: takes no space
        finally:
            os.close(fd)


def _lock_of(key: str) -> str:
    return f"{zlib.crc32(key.encode()) % _LOCKS:02x}"


def remove_unlocked(name: str, folder: int) -> None:
    """Remove a file, or a folder with the files in it, unless a writer holds it locked."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode):
        remove_folder(name, folder)
        return
    if stat.S_ISREG(found.st_mode):
        fd = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: its writer lives
            os.unlink(name, dir_fd=folder)
        finally:
            os.close(fd)


def remove_folder(name: str, parent: int) -> None:
    """Remove a folder of ours that holds files only."""
    fd = os.open(name, FOLDER_FLAGS, dir_fd=parent)
    try:
        for file in os.listdir(fd):
            os.unlink(file, dir_fd=fd)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=parent)


def read_file(name: str, folder: int) -> bytes | None:
    """The content of a small file of ours; None when there is none."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        return file.read()


def old_names(folder: int, oldest_ns: int) -> Iterator[str]:
    """The files of a folder that were last changed before `oldest_ns`; without those that go meanwhile."""
    with contextlib.suppress(OSError):  # a store that is only read has nothing to clean and no right to
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                if os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime_ns < oldest_ns:
                    yield name
