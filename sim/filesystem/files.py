"""The file system of a world, as executor and checks see it.

One call is one step. It lands on a tree of inodes as Linux would answer it, and leaves its footprint in `r`
and `w`.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Any

from fencepost.impl.store.errors import Misuse
from fencepost.sim.filesystem.calls import CALLS
from fencepost.sim.filesystem.inodes import FDS, FIRST_FD, ROOT, Failed, Image, Inode, Opened, Refused
from fencepost.sim.filesystem.survival import Journal, Outcome
from fencepost.sim.filesystem.tree import Tree
from fencepost.sim.world.operations import Call
from fencepost.sim.world.run import RunState

_CONTENT = frozenset({"open", "write", "truncate", "fsync", "setxattr", "removexattr", "utime"})
"""Calls that change one file and no name."""


class Files:
    """The file system mounted at `mount`, for all processes of a world."""

    def __init__(self, run: RunState, mount: str, profile: str, volatile: Iterable[str] = ()) -> None:
        self.mount = mount
        self.profile = profile
        self._volatile = tuple(volatile)
        self.tree = Tree(run, profile)
        self.outlives = False
        """True if the last call changed what a kill of its process leaves."""
        self._setup_calls = 0
        self._state: Any = None

    @property
    def r(self) -> int:
        """Mask of the objects that the last call read."""
        return self.tree.r

    @property
    def w(self) -> int:
        return self.tree.w

    # For the executor.

    def perform(self, owner: int, number: int, call: Call) -> Any:
        """Return the answer of a call of process `owner`: `Failed` if it fails, `BLOCKED` if it must wait."""
        self.tree.begin(owner, number)
        for fd in call.closed:
            self.tree.opened.pop(fd, None)
            self._state = None
        self._call = call
        try:
            answer = CALLS[call.kind](self.tree, *call.args)
        except Refused as error:
            answer = Failed(error.number)
        self.outlives = bool(self.tree.w & ~self._private(answer))
        if self.tree.w or call.kind == "open":
            self._state = None
        if self.tree.w:
            self.tree.r |= self.tree.run.footprints.stamp
        return answer

    def _private(self, answer: Any) -> int:
        """Return the last call's writes to a file without a name that only its process has open."""
        call = self._call
        found = answer.inode if type(answer) is Opened else call.args[0] if call.args else None
        inode = self.tree.inodes.get(found) if type(found) is int else None
        if inode is None or inode.folder or inode.links or call.kind not in _CONTENT or self.tree.journal:
            return 0  # where power may be lost, its name may come back
        low = FIRST_FD + self.tree.owner * FDS
        if any(number == found and not low <= fd < low + FDS for fd, number in self.tree.opened.items()):
            return 0
        return self.tree.bit("inode", str(found)) | self.tree.bit("durable", str(found))

    def at_setup(self, call: Call) -> Any:
        """Return the answer to the program that sets the world up; no step."""
        self._setup_calls += 1
        return self.perform(0, self._setup_calls, call)

    def settle(self) -> None:
        """The program is set up: what it wrote is durable."""
        if self.tree.journal is not None:
            found = [self.tree.resolve((ROOT, path))[2] for path in self._volatile]
            self.tree.journal.volatile = frozenset(one.number for one in found if one is not None)
            self.tree.journal.keep_everything()

    def image(self) -> Image:
        """Return the files that the program has set up so far, without open files and locks."""
        kept = [
            (n, one.parent, dict(one.entries) if one.folder else None, one.body, dict(one.attributes))
            for n, one in self.tree.inodes.items()
        ]
        return Image(self._setup_calls, tuple(kept))

    def restore(self, image: Image) -> None:
        """Begin with an image, in place of the calls that made it."""
        self.tree.inodes.clear()
        for number, parent, names, body, attributes in image.inodes:
            made = self.tree.inodes[number] = Inode(number, folder=names is not None, parent=parent)
            made.entries, made.body, made.attributes = dict(names or {}), body, dict(attributes)
        for folder in [one for one in self.tree.inodes.values() if one.folder]:
            for number in folder.entries.values():
                self.tree.inodes[number].links += not self.tree.inodes[number].folder
        self.tree.locks.clear()
        self.tree.opened.clear()
        # The program's open files and its number of opened stores are forgotten as well.
        for name in [name for name in self.tree.run.streams if name[0] == "files"]:
            del self.tree.run.streams[name]
        self._setup_calls, self._state = image.calls, None

    def lock_for(self, owner: int, fd: int) -> None:
        """Let a process begin with a lock on a file that the program opened while it set the world up."""
        self.tree.locks.setdefault(self.tree.opened[fd], {})[owner, int(fd)] = True
        self._state = None

    def end(self, owner: int) -> tuple[int, int]:
        """A process ended or was killed: release its locks, and return the footprint of that."""
        read = written = 0
        for inode, holders in self.tree.locks.items():
            mine = [holder for holder in holders if holder[0] == owner]
            for holder in mine:
                if holders.pop(holder):
                    read |= self.tree.bit("flock", str(inode))
                else:
                    written |= self.tree.bit("shared flock", str(inode))
        low = FIRST_FD + owner * FDS
        for fd in [fd for fd in self.tree.opened if low <= fd < low + FDS]:
            del self.tree.opened[fd]
        self._state = None
        return read, written | read

    def holder(self, inode: int) -> int:
        """Return a process that has a file locked."""
        return next(iter(self.tree.locks[inode]))[0]

    def outcomes(self) -> list[Outcome]:
        """Return the states that a power loss may leave, the one that lost the least first."""
        assert self.tree.journal is not None, "power is lost where the budget allows it"
        return self.tree.journal.outcomes(self.tree.path_of)

    def survive(self, outcome: Outcome) -> None:
        """After a power loss: this is left, and it is durable."""
        old = dict(self.tree.inodes)
        self.tree.inodes.clear()
        for number, entries in outcome.folders.items():
            folder = self.tree.inodes[number] = Inode(number, folder=True)
            folder.entries = dict(entries)
            folder.modified_ns = old[number].modified_ns
        for number, (body, attributes) in outcome.files.items():
            file = self.tree.inodes[number] = Inode(number, folder=False)
            file.body, file.attributes = body, dict(attributes)
            file.modified_ns = old[number].modified_ns
        for folder in [one for one in self.tree.inodes.values() if one.folder]:
            for number in folder.entries.values():
                inside = self.tree.inodes[number]
                inside.parent = folder.number
                inside.links += not inside.folder
        self.tree.locks.clear()
        self.tree.opened.clear()
        self._state = None
        if self.tree.journal is not None and self.tree.run.loses_power:
            self.tree.journal = Journal(self.profile, self.tree.inodes, ROOT, self.tree.journal.volatile)
            self.tree.journal.keep_everything()
        else:
            self.tree.journal = None

    def state(self) -> Any:
        """Return everything that a call could ever learn, hashable."""
        if self._state is None:
            seen: set[int] = set()
            waiting = [ROOT, *self.tree.opened.values()]
            while waiting:
                number = waiting.pop()
                if number not in seen:
                    seen.add(number)
                    waiting += self.tree.inodes[number].entries.values()
            self._state = (
                tuple([self._shown(self.tree.inodes[number]) for number in sorted(seen)]),
                tuple(
                    sorted(
                        (inode, *held)
                        for inode, holders in self.tree.locks.items()
                        for held in holders.items()
                    )
                ),
                self.survivable(),
            )
        return self._state

    def survivable(self) -> Any:
        """Return everything on which the state after a power loss depends, hashable."""
        if self.tree.journal is None:
            return None
        times = [
            (inode.number, inode.modified_ns) for inode in self.tree.inodes.values() if inode.modified_ns
        ]
        return self.tree.journal.state(), tuple(sorted(times))

    def _shown(self, inode: Inode) -> Any:
        if inode.shown is None:
            inside: Any = tuple(sorted(inode.entries.items())) if inode.folder else inode.body
            attributes = tuple(sorted(inode.attributes.items()))
            inode.shown = (inode.number, inside, attributes, inode.modified_ns, inode.gone)
        return inode.shown

    # For checks.

    def body(self, path: str) -> tuple[bytes | None, int]:
        """Return the content of a file, None when there is none; and what was read to find out."""
        self.tree.begin()
        try:
            found = self.tree.resolve((ROOT, path))[2]
        except Refused:
            return None, self.tree.r
        if found is None or found.folder:
            return None, self.tree.r
        self.tree.reads("inode", found.number)
        return found.body, self.tree.r

    def bodies(self, path: str) -> tuple[dict[str, bytes], int]:
        """Return all files below a directory, by their paths from the mount; and what was read."""
        self.tree.begin()
        try:
            found = self.tree.resolve((ROOT, path))[2]
        except Refused:
            found = None
        if found is None or not found.folder:
            return {}, self.tree.r
        return dict(self._walk(found, path.strip("/") + "/" if path.strip("/") else "")), self.tree.r

    def _walk(self, folder: Inode, path: str) -> Iterator[tuple[str, bytes]]:
        self.tree.reads("folder", folder.number)
        for name, number in sorted(folder.entries.items()):
            inside = self.tree.inodes[number]
            if inside.folder:
                yield from self._walk(inside, f"{path}{name}/")
            else:
                self.tree.reads("inode", number)
                yield path + name, inside.body


def check_mount(mount: str) -> str:
    """Return the path of a mount, if nothing real is there."""
    if not mount.startswith("/") or mount.rstrip("/") in ("", "/proc", "/dev", "/sys"):
        raise Misuse(f"a file system is mounted at an absolute path such as '/world', not at {mount!r}")
    found = os.path.normpath(mount)
    if os.path.lexists(found):
        raise Misuse(f"{found} exists on the real disk; mount the world's file system where nothing is")
    return found
