"""The few calls to the operating system whose order decides what survives, and what their failures mean.

Every write of an object goes through here, so that a test can record the order, put a delay into every
fsync, or have a call fail. Reads need no seam: an incorrect answer there destroys nothing.
"""

import ctypes
import errno
import fcntl
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from fencepost.impl.store.errors import Unusable
from fencepost.impl.store.files import together
from fencepost.impl.store.requests import Outcome

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""The flags with which every folder is opened: never through a symbolic link."""

XATTR = "user.fencepost"
"""The one extended attribute, which holds all attributes of an object."""

NO_XATTR = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM, errno.E2BIG, errno.ERANGE, errno.ENOSPC})
"""Setting an attribute ends so when the file system has none or no room for it (ENOSPC is both that and
a full disk; what is tried instead finds out)."""

_COPY_BYTES = 1 << 20
_copy_within = getattr(os, "copy_file_range", None)
_NO_SUCH_COPY = frozenset(
    {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM, errno.EBADF}
)
"""Copying within the system is refused so, by an older one, between file systems or by the audited world."""
_NO_SUCH_CALL = frozenset({errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL})
"""An older system, or a file system that cannot."""

_REMEDIES = {
    errno.ENOSPC: "the disk is full; free space or choose another directory",
    errno.EDQUOT: "the disk quota is used up; free space or raise the quota",
    errno.EROFS: "the file system is read-only; mount it writable or choose another directory",
    errno.EACCES: "permission is denied; give this user access or choose another directory",
    errno.EPERM: "the operation is not permitted here; choose a directory on a file system with hard links",
    errno.EMFILE: "this process has too many open files; raise its limit (ulimit -n)",
    errno.ENFILE: "the system has too many open files; raise its limit",
    errno.EFBIG: "the file would be too large; write less at once, or raise the process's limit (ulimit -f)",
    errno.ENOTDIR: "a part of the path is a file, not a directory; choose another directory",
    errno.ENAMETOOLONG: "the path is too long; choose a directory nearer the root",
    errno.ENOENT: "the directory is missing, or was removed meanwhile; create it",
    errno.EXDEV: "a folder inside is on another file system; keep the whole directory on one",
    errno.EMLINK: "a folder is full for this file system; spread the keys over more folders",
    errno.EIO: "the device reports an I/O error; check the disk",
}
_SURE = frozenset(_REMEDIES) - {errno.EIO}
"""After these, a link or rename certainly did not happen."""


class Waiting:
    """The clock of flushes, and what a thread waits with for the flush of another one."""

    def now_s(self) -> float:
        return time.perf_counter()

    def event(self) -> threading.Event:
        return threading.Event()


class Disk:
    """The operating system as it is."""

    waiting = Waiting()

    one_call = sys.platform == "linux" and hasattr(os, "RWF_SYNC")
    """True if a write may be its own fsync; a disk that overrides `write` or `fsync` sets this to False."""

    creates = together.create is not None
    """True if `create` is available. A disk that overrides a step has none unless it defines its own."""

    def __init_subclass__(cls) -> None:
        cls.creates = "create" in vars(cls)

    def create(
        self,
        drafts_fd: int,
        folder_fd: int,
        name: str,
        flush_fd: int,
        value: bytes,
        etag_at: int,
        body: bytes,
    ) -> tuple[int, int, int, str]:
        """The steps of a create-only put in one call; `together` describes the result."""
        assert together.create is not None, "`creates` is true"
        return together.create(drafts_fd, folder_fd, name, flush_fd, XATTR, value, etag_at, body)

    def write(self, fd: int, body: bytes) -> None:
        written = os.write(fd, body)
        while written < len(body):  # the system takes at most 2 GiB at once, and less on a disk nearly full
            written += os.write(fd, memoryview(body)[written:])

    def copy(self, source: int, target: int, size: int) -> None:
        """Append the first bytes of one file to another, within the system where that can."""
        at = 0
        while at < size and _copy_within is not None:
            try:
                copied = _copy_within(source, target, size - at, at)
            except OSError as error:
                if error.errno not in _NO_SUCH_COPY:
                    raise
                copied = 0
            if not copied:
                break
            at += copied
        while at < size:
            chunk = os.pread(source, min(_COPY_BYTES, size - at), at)
            if not chunk:
                raise OSError(errno.EIO, "a part is shorter than it was")
            self.write(target, chunk)
            at += len(chunk)

    def write_through(self, fd: int, body: bytes) -> None:
        """Write the content of an empty file and make it durable with the attributes it has: `write` and
        `fsync`, in one call where the system has one (RWF_SYNC promises what fsync does). Every call less
        is a switch of threads less, and under many writers those cost more than the disk."""
        if self.one_call and body:  # writing nothing makes nothing durable
            try:
                if os.pwritev(fd, (body,), 0, os.RWF_SYNC) == len(body):
                    return
            except OSError as error:
                if error.errno not in _NO_SUCH_CALL:
                    raise
        self.write(fd, body)  # begins at the start of the file: `pwritev` moved nothing
        self.fsync(fd)

    def fsync(self, fd: int) -> None:
        """Make the content and attributes of a file durable."""
        _fsync(fd)

    def fsync_folder(self, fd: int) -> None:
        """Make the names in a folder durable."""
        _fsync(fd)

    def set_attribute(self, fd: int, value: bytes) -> None:
        if sys.platform != "linux":
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
        os.setxattr(fd, XATTR, value)

    def get_attribute(self, fd: int) -> bytes | None:
        if sys.platform != "linux":
            return None
        try:
            return os.getxattr(fd, XATTR)
        except OSError as error:
            if error.errno in (errno.ENODATA, errno.ENOTSUP, errno.EOPNOTSUPP):
                return None
            raise

    def link(self, source: str, source_fd: int, name: str, folder_fd: int) -> None:
        """Link a file to a free name; fail if the name is taken."""
        # A symbolic link is followed for /proc/self/fd/N only, the name of a file that has none.
        os.link(source, name, src_dir_fd=source_fd, dst_dir_fd=folder_fd, follow_symlinks=source[0] == "/")

    def replace(self, source: str, source_fd: int, name: str, folder_fd: int) -> None:
        """Rename a file, replacing any file of that name."""
        os.rename(source, name, src_dir_fd=source_fd, dst_dir_fd=folder_fd)

    def move(self, source: str, source_fd: int, name: str, folder_fd: int) -> None:
        """Rename a file to a free name; fail if the name is taken.

        This is one system call where the system has it; otherwise a link and an unlink.
        """
        if _renameat2 is not None:
            words = os.fsencode(source), os.fsencode(name)
            if not _renameat2(source_fd, words[0], folder_fd, words[1], _RENAME_NOREPLACE):
                return
            error = ctypes.get_errno()
            if error not in _NO_SUCH_CALL | {errno.EBADF}:
                raise OSError(error, os.strerror(error), name)
        self.link(source, source_fd, name, folder_fd)
        self.unlink(source, source_fd)

    def lock(self, fd: int) -> None:
        """Wait for this exclusive lock; closing the descriptor releases it."""
        fcntl.flock(fd, fcntl.LOCK_EX)

    def unlink(self, name: str, folder_fd: int) -> None:
        os.unlink(name, dir_fd=folder_fd)

    # The order of steps.

    def land(self, finish: Callable[[], None], land: Callable[[], Outcome]) -> Outcome:
        """A file has its attributes, and is durable with them, before it gets a name that others read."""
        finish()
        return land()

    def decide(
        self,
        locked: AbstractContextManager[None],
        refusal: Callable[[], Outcome | None],
        act: Callable[[], Outcome],
    ) -> Outcome:
        """Evaluate the condition and make the change that it permits under one lock."""
        with locked:
            return refusal() or act()


if sys.platform == "darwin":

    def _fsync(fd: int) -> None:
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # there fsync leaves the data in the drive's cache
else:
    _fsync = os.fsync


_RENAME_NOREPLACE = 1
_renameat2: Any = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
if _renameat2 is not None:
    _renameat2.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]


class WouldWait(Exception):
    """It cannot be known at once: the disk or another process would have to be waited for."""


def open_cached(path: str, flags: int, folder_fd: int = -1) -> int:
    """Open a file whose name and inode are in memory; raises `WouldWait` for every other, also for one that
    is not there. Runs without giving up the interpreter's lock."""
    if _openat2 is None:
        raise WouldWait
    fd: int = _openat2(_OPENAT2, folder_fd, os.fsencode(path), _how(flags), 24)
    if fd < 0:
        raise WouldWait
    return fd


@functools.cache
def _how(flags: int) -> Any:
    return (ctypes.c_uint64 * 3)(flags, 0, _RESOLVE_CACHED)


_OPENAT2, _RESOLVE_CACHED = 437, 0x20
_openat2: Any = ctypes.PyDLL(None).syscall if sys.platform == "linux" else None


def surely_not_applied(error: int | None) -> bool:
    """Return True if a link, rename or unlink that failed with this `errno` changed nothing."""
    return error in _SURE


def unusable(error: OSError, where: str, doing: str) -> Unusable:
    """Return the error for the operator of the store: one sentence with the remedy."""
    why = _REMEDIES.get(error.errno or 0, f"{error.strerror or error}; check the directory")
    return Unusable(f"cannot {doing} in {where}: {why}")


def close_quietly(fd: int, _close: Any = os.close) -> None:
    """Close a descriptor that was only read, or whose content is already durable."""
    try:
        _close(fd)
    except OSError:  # nothing that matters can still be lost
        return
