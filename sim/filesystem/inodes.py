"""The file system of a world: inodes in memory, and what each system call reads and writes of them.

One call is one step. It lands on a tree of inodes as Linux would answer it, and leaves its footprint in `r`
and `w` (see `sim.world.footprints`). The objects are

    entry    one name in one directory: written by what gives it another file, read by every walk over it
    folder   the names of a directory as a whole: written with every entry of it, read by a listing
    inode    content and attributes of a file; of a directory whether it still exists
    links    the number of names of a file, which only `stat` reads
    flock    who has a file locked for itself alone; `shared flock` who shares a lock: two sharers commute
    journal  the order of metadata operations, where a profile lets it decide what survives a power loss

An inode's number is made from the process that created it and the number of the call there, so that two
creations commute. The same holds for file descriptors. Numbers are never used again.

What is left out: permissions, symbolic links, times of access, quotas and full disks.
"""

import errno
import os
import stat as modes
from collections.abc import Callable, Iterable, Iterator
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN
from typing import Any, NamedTuple

from fencepost.impl.store.errors import Misuse
from fencepost.sim.filesystem.survival import Journal, Outcome, resizes
from fencepost.sim.world.footprints import EVERY_STEP
from fencepost.sim.world.operations import BLOCKED, CONVERTING, Call

ROOT = 2
FIRST_FD = 1 << 20
"""Descriptors of the file system start here, far above those of the system."""
_FDS = 20_000_000
"""Descriptors set aside for one process."""
_TICKETS = 100_000_000
WRITING = os.O_WRONLY | os.O_RDWR
DATA_ONLY, EVERYTHING = 1, 2
"""What a write flushes before it returns, if anything: as fdatasync, or as fsync."""
NAMELESS = getattr(os, "O_TMPFILE", 0)

_CONTENT = frozenset({"open", "write", "truncate", "fsync", "setxattr", "removexattr", "utime"})
"""Calls that change one file and no name."""

Target = int | tuple[int, str]
"""An inode, or a path from the inode of a directory."""


class Failed(NamedTuple):
    """The answer of a call that failed."""

    errno: int

    def __str__(self) -> str:
        return errno.errorcode.get(self.errno, str(self.errno))


class Opened(NamedTuple):
    """The answer of `open`."""

    fd: int
    inode: int
    folder: bool
    size: int
    """Where the file ends, for `O_APPEND`; else 0."""


class Found(NamedTuple):
    """The answer of `stat`."""

    mode: int
    inode: int
    links: int
    size: int
    modified_ns: int


class Image(NamedTuple):
    """Everything in a file system, to begin other runs with."""

    calls: int
    inodes: tuple[tuple[int, int, dict[str, int] | None, bytes, dict[str, bytes]], ...]
    """Number, parent, the names of a directory or None, content and attributes of a file."""


class _Refused(Exception):
    """The call fails."""

    def __init__(self, number: int) -> None:
        self.number = number


class Inode:
    """A file or a directory."""

    __slots__ = (
        "attributes",
        "body",
        "entries",
        "folder",
        "gone",
        "links",
        "modified_ns",
        "number",
        "parent",
        "shown",
    )

    def __init__(self, number: int, *, folder: bool, parent: int = ROOT) -> None:
        self.number = number
        self.folder = folder
        self.parent = parent
        self.body = b""
        self.attributes: dict[str, bytes] = {}
        self.entries: dict[str, int] = {}
        self.links = 2 if folder else 0
        self.modified_ns = 0
        self.gone = False
        """Of a directory: it was removed."""
        self.shown: Any = None
        """What makes two states of it equal; computed at the first use after a change."""


class Files:
    """The file system mounted at `mount`, for all processes of a world."""

    def __init__(self, world: Any, mount: str, profile: str, volatile: Iterable[str] = ()) -> None:
        self.world = world
        self.mount = mount
        self.profile = profile
        self._volatile = tuple(volatile)
        self.r, self.w = EVERY_STEP, 0
        """The footprint of the last call."""
        self.outlives = False
        """Whether the last call changed what a kill of its process leaves."""
        self.inodes = {ROOT: Inode(ROOT, folder=True)}
        self.locks: dict[int, dict[tuple[int, int], bool]] = {}
        """By inode: who has it locked, and whether for itself alone."""
        self.opened: dict[int, int] = {}
        """Descriptors and their inodes."""
        self.journal = Journal(profile, self.inodes, ROOT) if world.loses_power else None
        self._bit = world.footprints.bit
        self._setup_calls = 0
        self._state: Any = None

    # For the executor.

    def perform(self, owner: int, number: int, call: Call) -> Any:
        """The answer of a call of process `owner`; `Failed` when it fails, `BLOCKED` when it has to wait."""
        self.r, self.w = EVERY_STEP, 0
        for fd in call.closed:
            self.opened.pop(fd, None)
            self._state = None
        self._owner, self._number, self._call = owner, number, call
        try:
            answer = self._calls[call.kind](self, *call.args)
        except _Refused as error:
            answer = Failed(error.number)
        self.outlives = bool(self.w & ~self._private(answer))
        if self.w:
            self._state = None
            self.r |= self.world.footprints.stamp
        return answer

    def _private(self, answer: Any) -> int:
        """What the last call wrote of a file without a name that only its process has open."""
        call = self._call
        found = answer.inode if type(answer) is Opened else call.args[0] if call.args else None
        inode = self.inodes.get(found) if type(found) is int else None
        if inode is None or inode.folder or inode.links or call.kind not in _CONTENT or self.journal:
            return 0  # where power may be lost, its name may come back
        low = FIRST_FD + self._owner * _FDS
        if any(number == found and not low <= fd < low + _FDS for fd, number in self.opened.items()):
            return 0
        return self._bit("inode", str(found)) | self._bit("durable", str(found))

    def at_setup(self, call: Call) -> Any:
        """The answer to the program that sets the world up; no step."""
        self._setup_calls += 1
        return self.perform(0, self._setup_calls, call)

    def settle(self) -> None:
        """The program is set up: what it wrote is durable."""
        if self.journal is not None:
            found = [self._resolve((ROOT, path))[2] for path in self._volatile]
            self.journal.volatile = frozenset(one.number for one in found if one is not None)
            self.journal.keep_everything()

    def image(self) -> Image:
        """What the program has set up so far; not what it has open or locked."""
        kept = [
            (n, one.parent, dict(one.entries) if one.folder else None, one.body, dict(one.attributes))
            for n, one in self.inodes.items()
        ]
        return Image(self._setup_calls, tuple(kept))

    def restore(self, image: Image) -> None:
        """Begin with an image, in place of the calls that made it."""
        self.inodes.clear()
        for number, parent, names, body, attributes in image.inodes:
            made = self.inodes[number] = Inode(number, folder=names is not None, parent=parent)
            made.entries, made.body, made.attributes = dict(names or {}), body, dict(attributes)
        for folder in [one for one in self.inodes.values() if one.folder]:
            for number in folder.entries.values():
                self.inodes[number].links += not self.inodes[number].folder
        self.locks.clear()
        self.opened.clear()
        # What the program has open, and how often it has opened a store, is forgotten as well.
        for name in [name for name in self.world.streams if name[0] == "files"]:
            del self.world.streams[name]
        self._setup_calls, self._state = image.calls, None

    def end(self, owner: int) -> tuple[int, int]:
        """A process ended or was killed: its locks are released. What that reads and writes."""
        read = written = 0
        for inode, holders in self.locks.items():
            mine = [holder for holder in holders if holder[0] == owner]
            for holder in mine:
                if holders.pop(holder):
                    read |= self._bit("flock", str(inode))
                else:
                    written |= self._bit("shared flock", str(inode))
        low = FIRST_FD + owner * _FDS
        for fd in [fd for fd in self.opened if low <= fd < low + _FDS]:
            del self.opened[fd]
        self._state = None
        return read, written | read

    def holder(self, inode: int) -> int:
        """A process that has a file locked."""
        return next(iter(self.locks[inode]))[0]

    def outcomes(self) -> list[Outcome]:
        """What a power loss may leave, the most of it first."""
        assert self.journal is not None, "power is lost where the budget allows it"
        return self.journal.outcomes(self.path_of)

    def survive(self, outcome: Outcome) -> None:
        """After a power loss: this is left, and it is durable."""
        old = dict(self.inodes)
        self.inodes.clear()
        for number, entries in outcome.folders.items():
            folder = self.inodes[number] = Inode(number, folder=True)
            folder.entries = dict(entries)
            folder.modified_ns = old[number].modified_ns
        for number, (body, attributes) in outcome.files.items():
            file = self.inodes[number] = Inode(number, folder=False)
            file.body, file.attributes = body, dict(attributes)
            file.modified_ns = old[number].modified_ns
        for folder in [one for one in self.inodes.values() if one.folder]:
            for number in folder.entries.values():
                inside = self.inodes[number]
                inside.parent = folder.number
                inside.links += not inside.folder
        self.locks.clear()
        self.opened.clear()
        self._state = None
        if self.journal is not None and self.world.loses_power:
            self.journal = Journal(self.profile, self.inodes, ROOT, self.journal.volatile)
            self.journal.keep_everything()
        else:
            self.journal = None

    def state(self) -> Any:
        """Everything that a call could ever learn, hashable."""
        if self._state is None:
            seen: set[int] = set()
            waiting = [ROOT, *self.opened.values()]
            while waiting:
                number = waiting.pop()
                if number not in seen:
                    seen.add(number)
                    waiting += self.inodes[number].entries.values()
            self._state = (
                tuple([self._shown(self.inodes[number]) for number in sorted(seen)]),
                tuple(
                    sorted(
                        (inode, *held) for inode, holders in self.locks.items() for held in holders.items()
                    )
                ),
                self.survivable(),
            )
        return self._state

    def survivable(self) -> Any:
        """Everything on which the state after a power loss depends, hashable."""
        if self.journal is None:
            return None
        times = [(inode.number, inode.modified_ns) for inode in self.inodes.values() if inode.modified_ns]
        return self.journal.state(), tuple(sorted(times))

    def _shown(self, inode: Inode) -> Any:
        if inode.shown is None:
            inside: Any = tuple(sorted(inode.entries.items())) if inode.folder else inode.body
            attributes = tuple(sorted(inode.attributes.items()))
            inode.shown = (inode.number, inside, attributes, inode.modified_ns, inode.gone)
        return inode.shown

    # For checks.

    def body(self, path: str) -> tuple[bytes | None, int]:
        """The content of a file, None when there is none; and what was read to find out."""
        self.r = EVERY_STEP
        try:
            found = self._resolve((ROOT, path))[2]
        except _Refused:
            return None, self.r
        if found is None or found.folder:
            return None, self.r
        self._reads("inode", found.number)
        return found.body, self.r

    def bodies(self, path: str) -> tuple[dict[str, bytes], int]:
        """All files below a directory, by their paths from the mount; and what was read."""
        self.r = EVERY_STEP
        try:
            found = self._resolve((ROOT, path))[2]
        except _Refused:
            found = None
        if found is None or not found.folder:
            return {}, self.r
        return dict(self._walk(found, path.strip("/") + "/" if path.strip("/") else "")), self.r

    def _walk(self, folder: Inode, path: str) -> Iterator[tuple[str, bytes]]:
        self._reads("folder", folder.number)
        for name, number in sorted(folder.entries.items()):
            inside = self.inodes[number]
            if inside.folder:
                yield from self._walk(inside, f"{path}{name}/")
            else:
                self._reads("inode", number)
                yield path + name, inside.body

    def path_of(self, number: int) -> str:
        """The path of a directory from the mount, with a slash behind it; of the root nothing."""
        inode = self.inodes[number]
        if number == ROOT:
            return ""
        names = self.inodes[inode.parent].entries
        name = next((name for name, inside in names.items() if inside == number), str(number))
        return f"{self.path_of(inode.parent)}{name}/"

    # Walking, and what it touches.

    def _reads(self, family: str, name: Any) -> None:
        self.r |= self._bit(family, str(name))

    def _writes(self, family: str, name: Any) -> None:
        """A write that nobody can tell from another one in its place."""
        self.w |= self._bit(family, str(name))

    def _changes(self, family: str, name: Any) -> None:
        """A write whose order among others matters."""
        found = self._bit(family, str(name))
        self.r |= found
        self.w |= found

    def _metadata(self) -> None:
        if self.journal is not None and self.journal.ordered:
            self._changes("journal", "")

    def _look(self, folder: Inode, name: str) -> Inode | None:
        if not folder.folder:
            raise _Refused(errno.ENOTDIR)
        if len(os.fsencode(name)) > 255:
            raise _Refused(errno.ENAMETOOLONG)
        self._reads("entry", f"{folder.number}/{name}")
        number = folder.entries.get(name)
        return None if number is None else self.inodes[number]

    def _resolve(self, target: tuple[int, str]) -> tuple[Inode | None, str, Inode | None]:
        """The directory of the last name, the name, and what has it."""
        base, path = target
        at = self.inodes[base]
        parts = [part for part in path.split("/") if part not in ("", ".")]
        before: Inode | None = None
        name = ""
        for place, part in enumerate(parts):
            if part == "..":
                self._reads("inode", at.number)
                before, name, at = None, "", self.inodes[at.parent]
                continue
            found = self._look(at, part)
            if found is None:
                if place < len(parts) - 1:
                    raise _Refused(errno.ENOENT)
                return at, part, None
            before, name, at = at, part, found
        return before, name, at

    def _inode(self, target: Target) -> Inode:
        if isinstance(target, int):
            return self.inodes[target]
        found = self._resolve(target)[2]
        if found is None:
            raise _Refused(errno.ENOENT)
        return found

    def _spot(self, target: tuple[int, str]) -> tuple[Inode, str, Inode | None]:
        """Where a name may be made: its directory exists."""
        folder, name, found = self._resolve(target)
        if folder is None:
            raise _Refused(errno.EEXIST)  # the root, or a name that ends with `..`
        self._reads("inode", folder.number)
        if folder.gone:
            raise _Refused(errno.ENOENT)
        return folder, name, found

    def _new(self, *, folder: bool, parent: int = ROOT) -> Inode:
        number = self._owner * _TICKETS + 10 * self._number + 10
        made = self.inodes[number] = Inode(number, folder=folder, parent=parent)
        made.modified_ns = self.world.stamp_ns
        self._writes("inode", number)
        if self.journal is not None:
            self.journal.made(number, folder=folder)
        return made

    def _name(self, folder: Inode, name: str, inode: Inode | None) -> tuple[int, str, int | None]:
        """Give a name in a directory to a file, or take it away."""
        self._touch_name(folder, name)
        old = folder.entries.get(name)
        if old is not None:
            self.inodes[old].links -= 1
            self._changes("links", old)
        if inode is None:
            del folder.entries[name]
        else:
            folder.entries[name] = inode.number
            inode.links += 1
            self._changes("links", inode.number)
        folder.modified_ns = self.world.stamp_ns
        folder.shown = None
        return (folder.number, name, None if inode is None else inode.number)

    def _touch_name(self, folder: Inode, name: str) -> None:
        """Counts as a write of a name, also where something else prevented it, see `footprints`."""
        self._changes("entry", f"{folder.number}/{name}")
        self._writes("folder", folder.number)

    def _record(self, *changes: tuple[int, str, int | None], replaced: Inode | None = None) -> None:
        self._metadata()
        if self.journal is not None:
            self.journal.names(changes, None if replaced is None else replaced.number)

    def _modify(self, inode: Inode, operation: tuple[Any, ...]) -> None:
        """Before a change of content or attributes."""
        self._changes("inode", inode.number)
        if operation[0] == "attribute":
            self._metadata()
        else:
            inode.modified_ns = self.world.stamp_ns
        inode.shown = None
        if self.journal is not None:
            if self.journal.ordered and resizes(inode, operation):
                self._reads("journal", "")  # how far the journal is decides what an fsync writes
            self.journal.data(inode, operation)

    # The calls.

    def _open(self, target: tuple[int, str], flags: int) -> Opened:
        folder, name, found = self._resolve(target)
        if NAMELESS and flags & NAMELESS == NAMELESS:
            if found is None or not found.folder:
                raise _Refused(errno.ENOENT if found is None else errno.ENOTDIR)
            found = self._new(folder=False)
        elif found is None:
            if not flags & os.O_CREAT:
                raise _Refused(errno.ENOENT)
            folder, name, _ = self._spot(target)
            found = self._new(folder=False)
            self._record(self._name(folder, name, found))
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            raise _Refused(errno.EEXIST)
        elif found.folder and flags & (WRITING | os.O_CREAT):
            raise _Refused(errno.EISDIR)
        elif not found.folder and flags & os.O_DIRECTORY:
            raise _Refused(errno.ENOTDIR)
        elif flags & os.O_TRUNC and flags & WRITING:
            self._truncate(found.number, 0)
        size = 0
        if flags & os.O_APPEND:
            self._reads("inode", found.number)
            size = len(found.body)
        fd = FIRST_FD + self._owner * _FDS + self._number
        self.opened[fd] = found.number
        self._state = None
        return Opened(fd, found.number, found.folder, size)

    def _close(self, fd: int) -> None:
        inode = self.opened.pop(fd)
        self._release(inode, (self._owner, fd))

    def _read(self, inode: int, offset: int, size: int) -> bytes:
        found = self.inodes[inode]
        self._reads("inode", inode)
        return found.body[offset:] if size < 0 else found.body[offset : offset + size]

    def _write(self, inode: int, offset: int, body: bytes, sync: int) -> int:
        """Write, at the end when `offset` is negative; where the written bytes end."""
        found = self.inodes[inode]
        if offset < 0:
            offset = len(found.body)
        if body:
            self._modify(found, ("write", offset, body))
            found.body = written(found.body, offset, body)
        if sync:
            self._fsync(inode, data_only=sync == DATA_ONLY)
        return offset + len(body)

    def _truncate(self, target: Target, size: int) -> None:
        found = self._inode(target)
        if found.folder:
            raise _Refused(errno.EISDIR)
        self._modify(found, ("truncate", size))
        found.body = found.body[:size].ljust(size, b"\0")

    def _fsync(self, inode: int, data_only: bool = False) -> None:
        found = self.inodes[inode]
        self._reads("folder" if found.folder else "inode", inode)
        self._writes("durable", inode)
        self._metadata()
        if self.journal is not None:
            self.journal.keep(found, data_only=data_only)

    def _sync(self) -> None:
        # It makes durable what everybody did so far.
        self.r = self.w = -1
        self.settle()

    def _stat(self, target: Target) -> Found:
        found = self._inode(target)
        self._reads("inode", found.number)
        self._reads("links", found.number)
        if found.folder and self.world.footprints.stamp:
            self._reads("folder", found.number)  # it was modified when one of its names was
        kind = modes.S_IFDIR | 0o755 if found.folder else modes.S_IFREG | 0o644
        size = 4096 if found.folder else len(found.body)
        return Found(kind, found.number, found.links, size, found.modified_ns)

    def _listdir(self, target: Target) -> tuple[tuple[str, bool, int], ...]:
        """Names in order, whether each is a directory, and its inode."""
        found = self._inode(target)
        if not found.folder:
            raise _Refused(errno.ENOTDIR)
        self._reads("folder", found.number)
        return tuple((name, self.inodes[n].folder, n) for name, n in sorted(found.entries.items()))

    def _link(self, source: Target, target: tuple[int, str]) -> None:
        try:
            found = self._inode(source)
        except _Refused:
            self._in_vain(target)
            raise
        folder, name, standing = self._spot(target)
        if standing is not None:
            raise _Refused(errno.EEXIST)
        if found.folder:
            raise _Refused(errno.EPERM)
        self._surfaces(found)
        self._record(self._name(folder, name, found))

    def _surfaces(self, inode: Inode) -> None:
        """From now on a power loss may leave a file that it could not leave before, or its data is allocated:
        whether earlier calls on it matter to a power loss is decided here.
        """
        if self.journal is not None:
            self._reads("inode", inode.number)

    def _in_vain(self, target: tuple[int, str]) -> None:
        """A name that the call would have made, had another object not prevented it."""
        try:
            folder, name, _ = self._resolve(target)
        except _Refused:
            return
        if folder is not None:
            self._touch_name(folder, name)

    def _rename(self, source: tuple[int, str], target: tuple[int, str]) -> None:
        try:
            folder, name, moved = self._resolve(source)
            if moved is None:
                raise _Refused(errno.ENOENT)
            if folder is None:
                raise _Refused(errno.EBUSY)
        except _Refused:
            self._in_vain(target)
            raise
        to, new, standing = self._spot(target)
        if standing is moved:
            return
        try:
            self._check_replaced(moved, standing)
        except _Refused:
            self._touch_name(to, new)
            self._touch_name(folder, name)
            raise
        self._surfaces(moved)
        if standing is not None and standing.folder:
            self._remove_folder(standing)
        # The file that is replaced loses its name, the file that moves keeps its number of names.
        changes = [self._name(to, new, moved), self._name(folder, name, None)]
        if moved.folder:
            self._changes("inode", moved.number)
            moved.parent = to.number
        self._record(*changes, replaced=moved if standing is not None and not moved.folder else None)

    def _check_replaced(self, moved: Inode, standing: Inode | None) -> None:
        if standing is None:
            return
        if moved.folder and not standing.folder:
            raise _Refused(errno.ENOTDIR)
        if standing.folder and not moved.folder:
            raise _Refused(errno.EISDIR)
        if standing.folder:
            self._reads("folder", standing.number)
            if standing.entries:
                raise _Refused(errno.ENOTEMPTY)

    def _unlink(self, target: tuple[int, str]) -> None:
        folder, name, found = self._resolve(target)
        if found is None or folder is None:
            raise _Refused(errno.ENOENT if found is None else errno.EISDIR)
        if found.folder:
            raise _Refused(errno.EISDIR)
        self._record(self._name(folder, name, None))

    def _mkdir(self, target: tuple[int, str]) -> None:
        folder, name, standing = self._spot(target)
        if standing is not None:
            raise _Refused(errno.EEXIST)
        made = self._new(folder=True, parent=folder.number)
        self._record(self._name(folder, name, made))

    def _rmdir(self, target: tuple[int, str]) -> None:
        folder, name, found = self._resolve(target)
        if found is None or folder is None:
            raise _Refused(errno.ENOENT if found is None else errno.EBUSY)
        if not found.folder:
            raise _Refused(errno.ENOTDIR)
        self._reads("folder", found.number)
        if found.entries:
            self._touch_name(folder, name)
            raise _Refused(errno.ENOTEMPTY)
        self._remove_folder(found)
        self._record(self._name(folder, name, None))

    def _remove_folder(self, folder: Inode) -> None:
        self._changes("inode", folder.number)
        folder.gone = True
        folder.shown = None

    def _setxattr(self, target: Target, name: str, value: bytes, flags: int) -> None:
        found = self._inode(target)
        self._reads("inode", found.number)
        if flags & getattr(os, "XATTR_CREATE", 1) and name in found.attributes:
            raise _Refused(errno.EEXIST)
        if flags & getattr(os, "XATTR_REPLACE", 2) and name not in found.attributes:
            raise _Refused(errno.ENODATA)
        self._modify(found, ("attribute", name, value))
        found.attributes[name] = value

    def _getxattr(self, target: Target, name: str) -> bytes:
        found = self._inode(target)
        self._reads("inode", found.number)
        if name not in found.attributes:
            raise _Refused(errno.ENODATA)
        return found.attributes[name]

    def _listxattr(self, target: Target) -> tuple[str, ...]:
        found = self._inode(target)
        self._reads("inode", found.number)
        return tuple(sorted(found.attributes))

    def _removexattr(self, target: Target, name: str) -> None:
        self._getxattr(target, name)
        found = self._inode(target)
        self._modify(found, ("attribute", name, None))
        del found.attributes[name]

    def _utime(self, target: Target, modified_ns: int) -> None:
        found = self._inode(target)
        self._changes("inode", found.number)
        found.modified_ns = modified_ns
        found.shown = None

    def _flock(self, fd: int, inode: int, how: int) -> Any:
        holders = self.locks.setdefault(inode, {})
        me = (self._owner, fd)
        self._reads("flock", inode)
        if how & LOCK_UN:
            self._release(inode, me)
            return None
        if not how & (LOCK_EX | LOCK_SH):
            raise _Refused(errno.EINVAL)
        alone = bool(how & LOCK_EX)
        if holders.get(me, alone) != alone:
            # What it has is released first, and somebody else may come in between, see flock(2).
            self._release(inode, me)
            self._changes("flock", inode)
            return CONVERTING
        if alone:
            self._reads("shared flock", inode)
        else:
            self._writes("shared flock", inode)  # granted or not, see `footprints`
        if any(other != me and (alone or exclusive) for other, exclusive in holders.items()):
            if how & LOCK_NB:
                raise _Refused(errno.EWOULDBLOCK)
            return BLOCKED
        if me not in holders:
            if alone:
                self._changes("flock", inode)
            holders[me] = alone
        return None

    def _release(self, inode: int, me: tuple[int, int]) -> None:
        alone = self.locks.get(inode, {}).pop(me, None)
        if alone is not None:
            self._changes("flock", inode) if alone else self._writes("shared flock", inode)

    _calls: dict[str, Callable[..., Any]] = {
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


def written(body: bytes, offset: int, piece: bytes) -> bytes:
    """The content after a write."""
    return body[:offset].ljust(offset, b"\0") + piece + body[offset + len(piece) :]


def check_mount(mount: str) -> str:
    """The path of a mount, if nothing real is there."""
    if not mount.startswith("/") or mount.rstrip("/") in ("", "/proc", "/dev", "/sys"):
        raise Misuse(f"a file system is mounted at an absolute path such as '/world', not at {mount!r}")
    found = os.path.normpath(mount)
    if os.path.lexists(found):
        raise Misuse(f"{found} exists on the real disk; mount the world's file system where nothing is")
    return found
