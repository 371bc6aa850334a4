"""Open files as the code of a process has them: descriptors, and the raw file below Python's own buffers.

The position in a file belongs to the descriptor, which processes do not share, so it is kept here and not in
the inode. Closing is no step, since no other process can notice it, unless the descriptor holds a lock; the
next call mentions it. All of this is the memory of a process: a crash takes it away.
"""

import errno
import io
import os
from _thread import get_ident
from typing import Any

from fencepost.impl.store.errors import Misuse
from fencepost.sim.filesystem.inodes import DATA_ONLY, EVERYTHING, FIRST_FD, WRITING, Failed, Opened
from fencepost.sim.world.escapes import elsewhere
from fencepost.sim.world.finalizers import left_behind
from fencepost.sim.world.operations import Call
from fencepost.sim.world.present import memory
from fencepost.sim.world.process import REFUSALS_MAX, refuse
from fencepost.sim.world.run import RunState
from fencepost.sim.world.store import issue

_HANDLES, _CLOSED = ("files", "handles"), ("files", "closed")


class Descriptor(int):
    """A number that belongs to one run: the finalizer of an earlier one must not close a file of this one."""

    run: RunState

    @classmethod
    def of(cls, number: int, run: RunState) -> "Descriptor":
        made = cls(number)
        made.run = run
        return made


class Handle:
    """An open file."""

    __slots__ = ("fd", "flags", "folder", "inode", "locked", "offset", "path")

    def __init__(self, opened: Opened, path: str, flags: int) -> None:
        self.fd = opened.fd
        self.inode = opened.inode
        self.folder = opened.folder
        self.path = path
        self.flags = flags
        self.offset = opened.size
        self.locked = False


def submit(run: RunState, kind: str, subject: str, *args: Any, detail: str = "", name: Any = None) -> Any:
    """Let the system call land, and return its answer. Raises OSError where it fails."""
    process = run.running
    if process is None:
        if get_ident() != run.os_thread:
            raise elsewhere(run, Call(kind, subject, args))
        if run.collecting:
            raise Misuse(left_behind(run, f"{kind} {subject}"))
        if run.setup is None:
            raise Misuse("a check looks at files through its view: view.file(path), view.files(path)")
        answer = run.mounted.at_setup(Call(kind, subject, args))
    else:
        closed = tuple(process.machine.streams.pop(_CLOSED, ()))
        answer = issue(run, process, Call(kind, subject, args, closed, detail))
    if type(answer) is Failed:
        raise OSError(answer.errno, os.strerror(answer.errno), subject if name is None else name)
    return answer


def handles(run: RunState) -> dict[int, Handle]:
    """Return the open files of the running process."""
    found: dict[int, Handle] = memory(run).setdefault(_HANDLES, {})
    return found


def handle(run: RunState, fd: int) -> Handle:
    """Return the open file of a descriptor. Files opened before the processes started belong to all."""
    found = handles(run).get(fd) or run.streams.get(_HANDLES, {}).get(fd)
    if found is None:
        if run.running is not None and run.running.crashing:
            refuse(run.running)
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    known: Handle = found
    return known


def open_file(run: RunState, target: tuple[int, str], path: str, flags: int, name: Any = None) -> Handle:
    """Open a file of the world. `path` is what people see."""
    opened = submit(run, "open", path, target, flags, detail=_flags_text(flags), name=name)
    found = Handle(opened, path, flags)
    handles(run)[opened.fd] = found
    return found


def _flags_text(flags: int) -> str:
    words = [
        name.lower() for name in ("O_CREAT", "O_EXCL", "O_TRUNC", "O_APPEND") if flags & getattr(os, name)
    ]
    return ", ".join(word.removeprefix("o_") for word in words)


def close(run: RunState | None, fd: int) -> None:
    """Close a descriptor; a step if it holds a lock."""
    if run is None or getattr(fd, "run", run) is not run or run.collecting or run.completed:
        return
    process = run.running
    if process is None and run.setup is None:
        return  # the process is gone, and its files with it
    found = handles(run).pop(fd, None)
    if found is None or (process is not None and process.crashing):
        return
    if found.locked:
        submit(run, "close", found.path, found.fd, detail="releases its lock")
    elif process is not None:
        process.machine.streams.setdefault(_CLOSED, []).append(int(fd))


def read(run: RunState, found: Handle, size: int, offset: int | None = None) -> bytes:
    if found.folder:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if found.flags & os.O_WRONLY:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    body: bytes = submit(
        run, "read", found.path, found.inode, found.offset if offset is None else offset, size
    )
    if offset is None:
        found.offset += len(body)
    return body


def write(run: RunState, found: Handle, body: bytes, offset: int | None = None, *, sync: int = 0) -> int:
    if not found.flags & WRITING:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    if found.flags & os.O_SYNC == os.O_SYNC:  # which contains O_DSYNC
        sync = EVERYTHING
    elif found.flags & os.O_DSYNC:
        sync = sync or DATA_ONLY
    at = -1 if found.flags & os.O_APPEND else found.offset if offset is None else offset
    detail = f"{len(body)} byte{'' if len(body) == 1 else 's'}{' and flush' if sync else ''}"
    end: int = submit(run, "write", found.path, found.inode, at, body, sync, detail=detail)
    if offset is None:
        found.offset = end
    return len(body)


class RawFile(io.RawIOBase):
    """The counterpart of `io.FileIO`, below Python's own buffers and text layer."""

    def __init__(self, run: RunState, found: Handle, name: Any, *, closefd: bool = True) -> None:
        self._run = run
        self._found = found
        self._closefd = closefd
        self.name = name
        """As the code wrote it; assigned by libraries."""
        self.mode = {os.O_WRONLY: "wb", os.O_RDWR: "rb+"}.get(found.flags & WRITING, "rb")

    def fileno(self) -> int:
        self._check()
        return Descriptor.of(self._found.fd, self._run)

    def readable(self) -> bool:
        return not self._found.flags & os.O_WRONLY

    def writable(self) -> bool:
        return bool(self._found.flags & WRITING)

    def seekable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def tell(self) -> int:
        self._check()
        return self._found.offset

    def seek(self, offset: int, whence: int = 0) -> int:
        self._check()
        return seek(self._run, self._found, offset, whence)

    def readinto(self, buffer: Any) -> int:
        self._check()
        body = read(self._run, self._found, len(buffer))
        buffer[: len(body)] = body
        return len(body)

    def readall(self) -> bytes:
        """One step, where the system needs several."""
        self._check()
        return read(self._run, self._found, -1)

    def write(self, body: Any) -> int:
        self._check()
        piece = bytes(body)
        process = self._run.running
        if process is not None and process.crashing and process.refusals < REFUSALS_MAX:
            process.count_refusal()
            return len(piece)  # a buffer that is flushed while the process dies
        if process is None and (self._run.completed or self._died()):
            return len(piece)
        return write(self._run, self._found, piece)

    def truncate(self, size: int | None = None) -> int:
        self._check()
        wanted = self._found.offset if size is None else size
        submit(self._run, "truncate", self._found.path, self._found.inode, wanted, detail=f"to {wanted}")
        return wanted

    def close(self) -> None:
        if not self.closed:
            super().close()
            if self._closefd:
                close(self._run, Descriptor.of(self._found.fd, self._run))

    def _died(self) -> bool:
        """Return True if some process crashed: it may have left this file open."""
        return any(process.incarnation or process.state == "down" for process in self._run.processes)

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")


def seek(run: RunState, found: Handle, offset: int, whence: int) -> int:
    """Return a new position; only where the file ends has to be looked up."""
    if whence == os.SEEK_END:
        offset += submit(run, "stat", found.path, found.inode).size
    elif whence == os.SEEK_CUR:
        offset += found.offset
    if offset < 0:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    found.offset = offset
    return offset


_MODES = {
    "r": os.O_RDONLY,
    "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "x": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
}
_MODES["a"] = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def flags_of(mode: str) -> int:
    """Return the flags of a mode of `open`."""
    kinds = [letter for letter in mode if letter in _MODES]
    if (
        len(kinds) != 1
        or set(mode) - set("rwxabt+")
        or len(set(mode)) != len(mode)
        or {"t", "b"} <= set(mode)
    ):
        raise ValueError(f"invalid mode: {mode!r}")
    flags = _MODES[kinds[0]] | os.O_CLOEXEC
    return flags & ~WRITING | os.O_RDWR if "+" in mode else flags


def buffered(
    raw: RawFile, mode: str, buffering: int, encoding: str | None, errors: str | None, newline: str | None
) -> Any:
    """Return the file object that `open` returns, over a raw file."""
    binary = "b" in mode
    if binary and (encoding is not None or errors is not None or newline is not None):
        raise ValueError("binary mode doesn't take an encoding, errors or newline argument")
    if buffering == 0:
        if not binary:
            raise ValueError("can't have unbuffered text I/O")
        return raw
    size = io.DEFAULT_BUFFER_SIZE if buffering in (-1, 1) else buffering
    buffer: Any
    if "+" in mode:
        buffer = io.BufferedRandom(raw, size)
    elif raw.writable():
        buffer = io.BufferedWriter(raw, size)
    else:
        buffer = io.BufferedReader(raw, size)
    if binary:
        return buffer
    text = io.TextIOWrapper(buffer, encoding, errors, newline, line_buffering=buffering == 1)
    text.mode = mode  # type: ignore[misc]  # as `open` does
    return text


def is_ours(fd: Any) -> bool:
    """Return True if a number is a descriptor of a world's file system."""
    return isinstance(fd, int) and fd >= FIRST_FD
