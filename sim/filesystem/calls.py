"""The system calls with the answers of Linux, each as one step on the tree.

Left out: permissions, symbolic links, times of access, quotas and full disks.
"""

import errno
import os
import stat as modes
from collections.abc import Callable
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN
from typing import Any

from fencepost.sim.filesystem.inodes import (
    DATA_ONLY,
    FDS,
    FIRST_FD,
    NAMELESS,
    WRITING,
    Found,
    Inode,
    Opened,
    Refused,
    Target,
    written,
)
from fencepost.sim.filesystem.tree import Tree
from fencepost.sim.world.operations import BLOCKED, CONVERTING


def _open(tree: Tree, target: tuple[int, str], flags: int) -> Opened:
    folder, name, found = tree.resolve(target)
    if NAMELESS and flags & NAMELESS == NAMELESS:
        if found is None or not found.folder:
            raise Refused(errno.ENOENT if found is None else errno.ENOTDIR)
        found = tree.new(folder=False)
    elif found is None:
        if not flags & os.O_CREAT:
            raise Refused(errno.ENOENT)
        folder, name, _ = tree.spot(target)
        found = tree.new(folder=False)
        tree.record(tree.name(folder, name, found))
    elif flags & os.O_CREAT and flags & os.O_EXCL:
        raise Refused(errno.EEXIST)
    elif found.folder and flags & (WRITING | os.O_CREAT):
        raise Refused(errno.EISDIR)
    elif not found.folder and flags & os.O_DIRECTORY:
        raise Refused(errno.ENOTDIR)
    elif flags & os.O_TRUNC and flags & WRITING:
        _truncate(tree, found.number, 0)
    size = 0
    if flags & os.O_APPEND:
        tree.reads("inode", found.number)
        size = len(found.body)
    fd = FIRST_FD + tree.owner * FDS + tree.number
    tree.opened[fd] = found.number
    return Opened(fd, found.number, found.folder, size)


def _close(tree: Tree, fd: int) -> None:
    inode = tree.opened.pop(fd)
    _release(tree, inode, (tree.owner, fd))


def _read(tree: Tree, inode: int, offset: int, size: int) -> bytes:
    found = tree.inodes[inode]
    tree.reads("inode", inode)
    return found.body[offset:] if size < 0 else found.body[offset : offset + size]


def _write(tree: Tree, inode: int, offset: int, body: bytes, sync: int) -> int:
    """Write, at the end when `offset` is negative; where the written bytes end."""
    found = tree.inodes[inode]
    if offset < 0:
        offset = len(found.body)
    if body:
        tree.modify(found, ("write", offset, body))
        found.body = written(found.body, offset, body)
    if sync:
        _fsync(tree, inode, data_only=sync == DATA_ONLY)
    return offset + len(body)


def _truncate(tree: Tree, target: Target, size: int) -> None:
    found = tree.inode(target)
    if found.folder:
        raise Refused(errno.EISDIR)
    tree.modify(found, ("truncate", size))
    found.body = found.body[:size].ljust(size, b"\0")


def _fsync(tree: Tree, inode: int, data_only: bool = False) -> None:
    found = tree.inodes[inode]
    tree.reads("folder" if found.folder else "inode", inode)
    tree.writes("durable", inode)
    tree.metadata()
    if tree.journal is not None:
        tree.journal.keep(found, data_only=data_only)


def _sync(tree: Tree) -> None:
    # It makes durable what everybody did so far.
    tree.r = tree.w = -1
    if tree.journal is not None:
        tree.journal.keep_everything()


def _stat(tree: Tree, target: Target) -> Found:
    found = tree.inode(target)
    tree.reads("inode", found.number)
    tree.reads("links", found.number)
    if found.folder and tree.run.footprints.stamp:
        tree.reads("folder", found.number)  # it was modified when one of its names was
    kind = modes.S_IFDIR | 0o755 if found.folder else modes.S_IFREG | 0o644
    size = 4096 if found.folder else len(found.body)
    return Found(kind, found.number, found.links, size, found.modified_ns)


def _listdir(tree: Tree, target: Target) -> tuple[tuple[str, bool, int], ...]:
    """Return names in order, whether each is a directory, and its inode."""
    found = tree.inode(target)
    if not found.folder:
        raise Refused(errno.ENOTDIR)
    tree.reads("folder", found.number)
    return tuple((name, tree.inodes[n].folder, n) for name, n in sorted(found.entries.items()))


def _link(tree: Tree, source: Target, target: tuple[int, str]) -> None:
    try:
        found = tree.inode(source)
    except Refused:
        _in_vain(tree, target)
        raise
    folder, name, standing = tree.spot(target)
    if standing is not None:
        raise Refused(errno.EEXIST)
    if found.folder:
        raise Refused(errno.EPERM)
    _surfaces(tree, found)
    tree.record(tree.name(folder, name, found))


def _surfaces(tree: Tree, inode: Inode) -> None:
    """From now on a power loss may leave a file that it could not leave before, or its data is allocated:
    whether earlier calls on it matter to a power loss is decided here.
    """
    if tree.journal is not None:
        tree.reads("inode", inode.number)


def _in_vain(tree: Tree, target: tuple[int, str]) -> None:
    """A name that the call would have made, had another object not prevented it."""
    try:
        folder, name, _ = tree.resolve(target)
    except Refused:
        return
    if folder is not None:
        tree.touch_name(folder, name)


def _rename(tree: Tree, source: tuple[int, str], target: tuple[int, str]) -> None:
    try:
        folder, name, moved = tree.resolve(source)
        if moved is None:
            raise Refused(errno.ENOENT)
        if folder is None:
            raise Refused(errno.EBUSY)
    except Refused:
        _in_vain(tree, target)
        raise
    to, new, standing = tree.spot(target)
    if standing is moved:
        return
    try:
        _check_replaced(tree, moved, standing)
    except Refused:
        tree.touch_name(to, new)
        tree.touch_name(folder, name)
        raise
    _surfaces(tree, moved)
    if standing is not None and standing.folder:
        _remove_folder(tree, standing)
    # The file that is replaced loses its name, the file that moves keeps its number of names.
    changes = [tree.name(to, new, moved), tree.name(folder, name, None)]
    if moved.folder:
        tree.changes("inode", moved.number)
        moved.parent = to.number
    tree.record(*changes, replaced=moved if standing is not None and not moved.folder else None)


def _check_replaced(tree: Tree, moved: Inode, standing: Inode | None) -> None:
    if standing is None:
        return
    if moved.folder and not standing.folder:
        raise Refused(errno.ENOTDIR)
    if standing.folder and not moved.folder:
        raise Refused(errno.EISDIR)
    if standing.folder:
        tree.reads("folder", standing.number)
        if standing.entries:
            raise Refused(errno.ENOTEMPTY)


def _unlink(tree: Tree, target: tuple[int, str]) -> None:
    folder, name, found = tree.resolve(target)
    if found is None or folder is None:
        raise Refused(errno.ENOENT if found is None else errno.EISDIR)
    if found.folder:
        raise Refused(errno.EISDIR)
    tree.record(tree.name(folder, name, None))


def _mkdir(tree: Tree, target: tuple[int, str]) -> None:
    folder, name, standing = tree.spot(target)
    if standing is not None:
        raise Refused(errno.EEXIST)
    made = tree.new(folder=True, parent=folder.number)
    tree.record(tree.name(folder, name, made))


def _rmdir(tree: Tree, target: tuple[int, str]) -> None:
    folder, name, found = tree.resolve(target)
    if found is None or folder is None:
        raise Refused(errno.ENOENT if found is None else errno.EBUSY)
    if not found.folder:
        raise Refused(errno.ENOTDIR)
    tree.reads("folder", found.number)
    if found.entries:
        tree.touch_name(folder, name)
        raise Refused(errno.ENOTEMPTY)
    _remove_folder(tree, found)
    tree.record(tree.name(folder, name, None))


def _remove_folder(tree: Tree, folder: Inode) -> None:
    tree.changes("inode", folder.number)
    folder.gone = True
    folder.shown = None


def _setxattr(tree: Tree, target: Target, name: str, value: bytes, flags: int) -> None:
    found = tree.inode(target)
    tree.reads("inode", found.number)
    if flags & getattr(os, "XATTR_CREATE", 1) and name in found.attributes:
        raise Refused(errno.EEXIST)
    if flags & getattr(os, "XATTR_REPLACE", 2) and name not in found.attributes:
        raise Refused(errno.ENODATA)
    tree.modify(found, ("attribute", name, value))
    found.attributes[name] = value


def _getxattr(tree: Tree, target: Target, name: str) -> bytes:
    found = tree.inode(target)
    tree.reads("inode", found.number)
    if name not in found.attributes:
        raise Refused(errno.ENODATA)
    return found.attributes[name]


def _listxattr(tree: Tree, target: Target) -> tuple[str, ...]:
    found = tree.inode(target)
    tree.reads("inode", found.number)
    return tuple(sorted(found.attributes))


def _removexattr(tree: Tree, target: Target, name: str) -> None:
    _getxattr(tree, target, name)
    found = tree.inode(target)
    tree.modify(found, ("attribute", name, None))
    del found.attributes[name]


def _utime(tree: Tree, target: Target, modified_ns: int) -> None:
    found = tree.inode(target)
    tree.changes("inode", found.number)
    found.modified_ns = modified_ns
    found.shown = None


def _flock(tree: Tree, fd: int, inode: int, how: int) -> Any:
    holders = tree.locks.setdefault(inode, {})
    me = (tree.owner, fd)
    tree.reads("flock", inode)
    if how & LOCK_UN:
        _release(tree, inode, me)
        return None
    if not how & (LOCK_EX | LOCK_SH):
        raise Refused(errno.EINVAL)
    alone = bool(how & LOCK_EX)
    if holders.get(me, alone) != alone:
        # Its lock is released first, and another process may get it in between, see flock(2).
        _release(tree, inode, me)
        tree.changes("flock", inode)
        return CONVERTING
    if alone:
        tree.reads("shared flock", inode)
    else:
        tree.writes("shared flock", inode)  # granted or not, see `footprints`
    if any(other != me and (alone or exclusive) for other, exclusive in holders.items()):
        if how & LOCK_NB:
            raise Refused(errno.EWOULDBLOCK)
        return BLOCKED
    if me not in holders:
        if alone:
            tree.changes("flock", inode)
        holders[me] = alone
    return None


def _release(tree: Tree, inode: int, me: tuple[int, int]) -> None:
    alone = tree.locks.get(inode, {}).pop(me, None)
    if alone is not None:
        tree.changes("flock", inode) if alone else tree.writes("shared flock", inode)


CALLS: dict[str, Callable[..., Any]] = {
    "open": _open,
    "close": _close,
    "read": _read,
    "write": _write,
    "truncate": _truncate,
    "fsync": _fsync,
    "sync": _sync,
    "stat": _stat,
    "listdir": _listdir,
    "link": _link,
    "rename": _rename,
    "unlink": _unlink,
    "mkdir": _mkdir,
    "rmdir": _rmdir,
    "setxattr": _setxattr,
    "getxattr": _getxattr,
    "listxattr": _listxattr,
    "removexattr": _removexattr,
    "utime": _utime,
    "flock": _flock,
}
