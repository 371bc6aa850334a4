"""Replacements for the system's file functions: what is below the mount of the world goes there.

They are put in place like those of clocks (see `sim.world.places`), so code calls `open` and `os.rename` as
it always did. `lookup` decides which calls are the world's, and `refusals` has those that it cannot answer.
"""

import builtins
import errno
import fcntl
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, Self

from fencepost.impl.store.files import together, writing
from fencepost.sim.filesystem import handles
from fencepost.sim.filesystem.drawn_names import REAL_CREATE, Openings, candidates, create
from fencepost.sim.filesystem.handles import Descriptor, RawFile, handle, is_ours, submit
from fencepost.sim.filesystem.inodes import DATA_ONLY, EVERYTHING, Found
from fencepost.sim.filesystem.lookup import REAL, target_of, text_of, world_here
from fencepost.sim.filesystem.refusals import REFUSED, copying, refusing
from fencepost.sim.world import places, present, stamps, times
from fencepost.sim.world.escapes import escape
from fencepost.sim.world.run import RunState


def use(run: RunState) -> None:
    """From now on the calls below the mount are the world's, until its run is over."""
    if not present.is_here(run):  # it was not started
        places.enter(run, None)
    places.apply()


Function = Callable[..., Any]
_functions: dict[str, Function] = {}


def _on_path(function: Function) -> Function:
    """Of a function of `os` whose first argument is a path or a descriptor."""
    name = function.__name__.strip("_")
    real = REAL[name]

    def replacement(path: Any, *args: Any, **kwargs: Any) -> Any:
        run = world_here()
        if run is None:
            return real(path, *args, **kwargs)
        found = target_of(run, path, kwargs.get("dir_fd"))
        if found is None:
            return real(path, *args, **kwargs)
        kwargs.pop("dir_fd", None)
        return function(run, found, path, *args, **kwargs)

    return _named(replacement, name)


def _on_two(function: Function) -> Function:
    """Of a function of `os` with two paths."""
    name = function.__name__.strip("_")
    real = REAL[name]

    def replacement(
        src: Any, dst: Any, *, src_dir_fd: Any = None, dst_dir_fd: Any = None, **kwargs: Any
    ) -> Any:
        run = world_here()
        one = other = None
        if run is not None:
            one, other = target_of(run, src, src_dir_fd), target_of(run, dst, dst_dir_fd)
        if one is None and other is None:
            return real(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, **kwargs)
        if one is None or other is None:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), text_of(src), None, text_of(dst))
        try:
            return function(run, one, other)
        except OSError as error:
            raise OSError(error.errno, error.strerror, text_of(src), None, text_of(dst)) from None

    return _named(replacement, name)


def _on_descriptor(function: Function) -> Function:
    """Of a function of `os` whose first argument is a descriptor."""
    name = function.__name__.strip("_")
    real = REAL[name]

    def replacement(fd: Any, *args: Any) -> Any:
        number = fd if isinstance(fd, int) else _fileno(fd)
        if not is_ours(number):
            return real(fd, *args)
        run = world_here()
        if run is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return function(run, handle(run, number), *args)

    return _named(replacement, name)


def _fileno(fd: Any) -> Any:
    try:
        return fd.fileno()
    except (AttributeError, OSError, ValueError):
        return fd


def _named(replacement: Function, name: str) -> Function:
    replacement.__name__ = replacement.__qualname__ = name
    for known in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        if REAL.get(name) in known:
            known.add(replacement)
    _functions[name] = replacement
    return replacement


# Opening and closing.


def _open_replacement(path: Any, flags: int, mode: int = 0o777, *, dir_fd: Any = None) -> int:
    run = world_here()
    found = None if run is None else target_of(run, path, dir_fd)
    if run is None or found is None:
        return int(REAL["open"](path, flags, mode, dir_fd=dir_fd))
    target = found[0]
    if isinstance(target, int):
        raise escape(f"open of {path}", "a descriptor is opened once; open the file by its name")
    return Descriptor.of(handles.open_file(run, target, found[1], flags, path).fd, run)


_functions["open"] = _open_replacement


def _close_replacement(fd: Any) -> None:
    if not is_ours(fd):
        REAL["close"](fd)
        return
    handles.close(world_here(), fd)


_functions["close"] = _close_replacement


def _io_open(
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Any = None,
) -> Any:
    run = world_here()
    found = None if run is None else target_of(run, file)
    if run is None or found is None:
        return REAL["builtins.open"](file, mode, buffering, encoding, errors, newline, closefd, opener)
    flags = handles.flags_of(mode)
    if isinstance(file, int):
        opened = handle(run, file)
    elif opener is not None:
        opened = handle(run, opener(file, flags))
    else:
        assert not isinstance(found[0], int), "a path"
        opened = handles.open_file(run, found[0], found[1], flags, file)
        if opened.folder:
            handles.close(run, opened.fd)
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), file)
    raw = RawFile(run, opened, file, closefd=closefd)
    try:
        return handles.buffered(raw, mode, buffering, encoding, errors, newline)
    except BaseException:
        raw.close()
        raise


# Paths.


class StatResult(tuple[int, ...]):
    """The result of `os.stat`. Reading when a file was modified makes time matter, see `sim.world.stamps`."""

    __slots__ = ()
    st_mode = property(lambda self: self[0])
    st_ino = property(lambda self: self[1])
    st_dev = property(lambda self: self[2])
    st_nlink = property(lambda self: self[3])
    st_uid = property(lambda self: self[4])
    st_gid = property(lambda self: self[5])
    st_size = property(lambda self: self[6])
    st_blksize = property(lambda _: 4096)
    st_blocks = property(lambda self: (self[6] + 511) // 512)
    st_rdev = property(lambda _: 0)

    def _modified(self) -> int:
        stamps.look()
        return times.stamp(self[7])

    st_mtime_ns = st_ctime_ns = st_atime_ns = property(_modified)
    st_mtime = st_ctime = st_atime = property(lambda self: self._modified() / 1e9)


def _stat_result(run: RunState, found: Found) -> Any:
    return StatResult(
        (found.mode, found.inode, 1 << 20, found.links, 0, 0, found.size, run.start_ns + found.modified_ns)
    )


@_on_path
def _stat(run: RunState, found: Any, path: Any, *, follow_symlinks: bool = True) -> Any:
    del follow_symlinks
    return _stat_result(run, submit(run, "stat", found[1], found[0], name=path))


@_on_path
def _lstat(run: RunState, found: Any, path: Any) -> Any:
    return _stat_result(run, submit(run, "stat", found[1], found[0], name=path))


@_on_path
def _access(run: RunState, found: Any, path: Any, mode: int, **_: Any) -> bool:
    del mode
    try:
        submit(run, "stat", found[1], found[0], name=path)
    except OSError:
        return False
    return True


@_on_path
def _readlink(run: RunState, found: Any, path: Any) -> Any:
    submit(run, "stat", found[1], found[0], name=path)
    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)


@_on_path
def _unlink(run: RunState, found: Any, path: Any) -> None:
    submit(run, "unlink", found[1], found[0], name=path)


@_on_path
def _mkdir(run: RunState, found: Any, path: Any, mode: int = 0o777) -> None:
    del mode
    submit(run, "mkdir", found[1], found[0], name=path)


@_on_path
def _rmdir(run: RunState, found: Any, path: Any) -> None:
    submit(run, "rmdir", found[1], found[0], name=path)


@_on_path
def _truncate(run: RunState, found: Any, path: Any, length: int) -> None:
    submit(run, "truncate", found[1], found[0], length, detail=f"to {length}", name=path)


@_on_path
def _chmod(run: RunState, found: Any, path: Any, mode: int, **_: Any) -> None:
    """Permissions are left out: every process may do everything."""


@_on_path
def _chown(run: RunState, found: Any, path: Any, uid: int, gid: int, **_: Any) -> None:
    """Owners are left out too."""


@_on_path
def _utime(run: RunState, found: Any, path: Any, times: Any = None, *, ns: Any = None, **_: Any) -> None:
    if ns is None:
        ns = (0, run.env.now_ns()) if times is None else (0, round(times[1] * 1e9))
    submit(run, "utime", found[1], found[0], ns[1] - run.start_ns, name=path)


def _listdir_replacement(path: Any = ".") -> list[Any]:
    run = world_here()
    found = None if run is None else target_of(run, path)
    if run is None or found is None:
        return list(REAL["listdir"](path))
    names = submit(run, "listdir", found[1], found[0], name=path)
    as_bytes = isinstance(path, bytes)
    return [os.fsencode(name) if as_bytes else name for name, _, _ in names]


_functions["listdir"] = _listdir_replacement


class Entry:
    """An entry that `os.scandir` yields."""

    def __init__(self, parent: Any, name: str, folder: bool, inode: int) -> None:
        self._parent, self._folder, self._inode = parent, folder, inode
        self.name = name
        self.path = name if isinstance(parent, int) else os.path.join(parent, name)  # noqa: PTH118 - as scandir does

    def __fspath__(self) -> str:
        return self.path

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        del follow_symlinks
        return self._folder

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        del follow_symlinks
        return not self._folder

    def is_symlink(self) -> bool:
        return False

    def is_junction(self) -> bool:
        return False

    def inode(self) -> int:
        return self._inode

    def stat(self, *, follow_symlinks: bool = True) -> Any:
        del follow_symlinks
        if isinstance(self._parent, int):
            return _functions["stat"](self.name, dir_fd=self._parent)
        return _functions["stat"](self.path)


class _Scan:
    """An iterator that may be used with `with`."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> "_Scan":
        return self

    def __next__(self) -> Entry:
        return next(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


def _scandir_replacement(path: Any = ".") -> Any:
    run = world_here()
    found = None if run is None else target_of(run, path)
    if run is None or found is None:
        return REAL["scandir"](path)
    names = submit(run, "listdir", found[1], found[0], name=path)
    parent = path if isinstance(path, int) else text_of(path)
    return _Scan([Entry(parent, *entry) for entry in names])


_functions["scandir"] = _scandir_replacement


@_on_two
def _rename(run: RunState, one: Any, other: Any) -> None:
    submit(run, "rename", one[1], one[0], other[0], detail=f"to {other[1]}")


@_on_two
def _replace(run: RunState, one: Any, other: Any) -> None:
    submit(run, "rename", one[1], one[0], other[0], detail=f"to {other[1]}")


@_on_two
def _link(run: RunState, one: Any, other: Any) -> None:
    submit(run, "link", one[1], one[0], other[0], detail=f"as {other[1]}")


@_on_path
def _setxattr(
    run: RunState, found: Any, path: Any, attribute: Any, value: Any, flags: int = 0, **_: Any
) -> None:
    name = os.fsdecode(attribute)
    submit(run, "setxattr", found[1], found[0], name, bytes(value), flags, detail=name, name=path)


@_on_path
def _getxattr(run: RunState, found: Any, path: Any, attribute: Any, **_: Any) -> Any:
    name = os.fsdecode(attribute)
    return submit(run, "getxattr", found[1], found[0], name, detail=name, name=path)


@_on_path
def _listxattr(run: RunState, found: Any, path: Any, **_: Any) -> list[str]:
    return list(submit(run, "listxattr", found[1], found[0], name=path))


@_on_path
def _removexattr(run: RunState, found: Any, path: Any, attribute: Any, **_: Any) -> None:
    name = os.fsdecode(attribute)
    submit(run, "removexattr", found[1], found[0], name, detail=name, name=path)


# Descriptors.


@_on_descriptor
def _read(run: RunState, found: Any, length: int) -> bytes:
    return handles.read(run, found, length)


@_on_descriptor
def _pread(run: RunState, found: Any, length: int, offset: int) -> bytes:
    return handles.read(run, found, length, offset)


@_on_descriptor
def _write(run: RunState, found: Any, body: Any) -> int:
    return handles.write(run, found, bytes(body))


@_on_descriptor
def _pwrite(run: RunState, found: Any, body: Any, offset: int) -> int:
    return handles.write(run, found, bytes(body), offset)


@_on_descriptor
def _writev(run: RunState, found: Any, buffers: Any) -> int:
    return handles.write(run, found, b"".join(map(bytes, buffers)))


@_on_descriptor
def _pwritev(run: RunState, found: Any, buffers: Any, offset: int, flags: int = 0) -> int:
    sync = DATA_ONLY if flags & getattr(os, "RWF_DSYNC", 0) else 0
    sync = EVERYTHING if flags & getattr(os, "RWF_SYNC", 0) else sync
    return handles.write(run, found, b"".join(map(bytes, buffers)), offset, sync=sync)


@_on_descriptor
def _lseek(run: RunState, found: Any, position: int, how: int) -> int:
    return handles.seek(run, found, position, how)


@_on_descriptor
def _fsync(run: RunState, found: Any) -> None:
    submit(run, "fsync", found.path, found.inode)


@_on_descriptor
def _fdatasync(run: RunState, found: Any) -> None:
    submit(run, "fsync", found.path, found.inode, True, detail="data only")


@_on_descriptor
def _fstat(run: RunState, found: Any) -> Any:
    return _stat_result(run, submit(run, "stat", found.path, found.inode))


@_on_descriptor
def _ftruncate(run: RunState, found: Any, length: int) -> None:
    submit(run, "truncate", found.path, found.inode, length, detail=f"to {length}")


@_on_descriptor
def _fchmod(run: RunState, found: Any, mode: int) -> None:
    """As `chmod`."""


@_on_descriptor
def _posix_fallocate(run: RunState, found: Any, offset: int, length: int) -> None:
    size = submit(run, "stat", found.path, found.inode).size
    if size < offset + length:
        submit(run, "truncate", found.path, found.inode, offset + length, detail=f"to {offset + length}")


@_on_descriptor
def _isatty(run: RunState, found: Any) -> bool:
    del run, found
    return False


@_on_descriptor
def _get_blocking(run: RunState, found: Any) -> bool:
    del run, found
    return True


@_on_descriptor
def _posix_fadvise(run: RunState, found: Any, *_: int) -> None:
    del run, found


def _flock(fd: Any, operation: int) -> None:
    number = fd if isinstance(fd, int) else fd.fileno()
    if not is_ours(number):
        REAL["flock"](fd, operation)
        return
    run = world_here()
    if run is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    found = handle(run, number)
    words = {fcntl.LOCK_EX: "exclusive", fcntl.LOCK_SH: "shared", fcntl.LOCK_UN: "release"}
    text = words.get(operation & ~fcntl.LOCK_NB, "")
    submit(run, "flock", found.path, found.fd, found.inode, operation, detail=text)
    found.locked = not operation & fcntl.LOCK_UN


def _sync_replacement() -> None:
    run = world_here()
    if run is not None and run.running is not None:
        submit(run, "sync", "")
    else:
        REAL["sync"]()


_functions["sync"] = _sync_replacement


def _replacements() -> Iterator[tuple[Any, str, Any]]:
    """Yield the replacements with their places: module and name."""
    _functions["remove"] = _functions["unlink"]
    for name, replacement in _functions.items():
        if hasattr(os, name):
            yield os, name, replacement
    for name in ("sendfile", "copy_file_range"):
        if hasattr(os, name):
            yield os, name, copying(name)
    for name in REFUSED:
        if hasattr(os, name):
            yield os, name, refusing(f"os.{name}", REAL[name])
    yield fcntl, "flock", _flock
    yield builtins, "open", _io_open
    yield io, "open", _io_open
    yield tempfile, "_get_candidate_names", candidates
    yield writing, "_OPENINGS", Openings()
    if REAL_CREATE is not None:
        yield together, "create", create


places.sources.append(_replacements)
