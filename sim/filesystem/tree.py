"""The tree of inodes, and the footprint of each look at it and of each change.

The footprint of a call is recorded in `r` and `w` (see `sim.world.footprints`). The objects are

    entry    one name in one directory: written when it gets another file, read by every walk over it.
    folder   the names of a directory as a whole: written with every entry of it, read by a listing.
    inode    content and attributes of a file; the existence of a directory.
    links    the number of names of a file, which only `stat` reads.
    flock    exclusive locks of a file; `shared flock` its shared locks: two sharers commute.
    journal  the order of metadata operations, where a profile lets it decide about survival.
"""

import errno
import os
from typing import Any

from fencepost.sim.filesystem.inodes import ROOT, Inode, Refused, Target
from fencepost.sim.filesystem.survival import Journal, resizes
from fencepost.sim.world.footprints import EVERY_STEP
from fencepost.sim.world.run import RunState

_TICKETS = 100_000_000


class Tree:
    """Inodes, who has them open and locked, and what is not durable yet."""

    def __init__(self, run: RunState, profile: str) -> None:
        self.run = run
        self.r, self.w = EVERY_STEP, 0
        """The footprint of the last call."""
        self.owner = self.number = 0
        """The process of the last call, and the number of the call there."""
        self.inodes = {ROOT: Inode(ROOT, folder=True)}
        self.locks: dict[int, dict[tuple[int, int], bool]] = {}
        """By inode: who has it locked, and whether for itself alone."""
        self.opened: dict[int, int] = {}
        """Descriptors and their inodes."""
        self.journal = Journal(profile, self.inodes, ROOT) if run.loses_power else None
        self.bit = run.footprints.bit

    def begin(self, owner: int = 0, number: int = 0) -> None:
        """The next call: its footprint is empty."""
        self.r, self.w = EVERY_STEP, 0
        self.owner, self.number = owner, number

    def path_of(self, number: int) -> str:
        """Return the path of a directory from the mount, with a slash behind it; of the root nothing."""
        inode = self.inodes[number]
        if number == ROOT:
            return ""
        names = self.inodes[inode.parent].entries
        name = next((name for name, inside in names.items() if inside == number), str(number))
        return f"{self.path_of(inode.parent)}{name}/"

    def reads(self, family: str, name: Any) -> None:
        self.r |= self.bit(family, str(name))

    def writes(self, family: str, name: Any) -> None:
        """Record a write that no process can tell from another one in its place."""
        self.w |= self.bit(family, str(name))

    def changes(self, family: str, name: Any) -> None:
        """Record a write whose order among others matters."""
        found = self.bit(family, str(name))
        self.r |= found
        self.w |= found

    def metadata(self) -> None:
        if self.journal is not None and self.journal.ordered:
            self.changes("journal", "")

    def look(self, folder: Inode, name: str) -> Inode | None:
        if not folder.folder:
            raise Refused(errno.ENOTDIR)
        if len(os.fsencode(name)) > 255:
            raise Refused(errno.ENAMETOOLONG)
        self.reads("entry", f"{folder.number}/{name}")
        number = folder.entries.get(name)
        return None if number is None else self.inodes[number]

    def resolve(self, target: tuple[int, str]) -> tuple[Inode | None, str, Inode | None]:
        """Return the directory of the last name, the name, and what has it."""
        base, path = target
        at = self.inodes[base]
        parts = [part for part in path.split("/") if part not in ("", ".")]
        before: Inode | None = None
        name = ""
        for place, part in enumerate(parts):
            if part == "..":
                self.reads("inode", at.number)
                before, name, at = None, "", self.inodes[at.parent]
                continue
            found = self.look(at, part)
            if found is None:
                if place < len(parts) - 1:
                    raise Refused(errno.ENOENT)
                return at, part, None
            before, name, at = at, part, found
        return before, name, at

    def inode(self, target: Target) -> Inode:
        if isinstance(target, int):
            return self.inodes[target]
        found = self.resolve(target)[2]
        if found is None:
            raise Refused(errno.ENOENT)
        return found

    def spot(self, target: tuple[int, str]) -> tuple[Inode, str, Inode | None]:
        """Where a name may be made: its directory exists."""
        folder, name, found = self.resolve(target)
        if folder is None:
            raise Refused(errno.EEXIST)  # the root, or a name that ends with `..`
        self.reads("inode", folder.number)
        if folder.gone:
            raise Refused(errno.ENOENT)
        return folder, name, found

    def new(self, *, folder: bool, parent: int = ROOT) -> Inode:
        number = self.owner * _TICKETS + 10 * self.number + 10
        made = self.inodes[number] = Inode(number, folder=folder, parent=parent)
        made.modified_ns = self.run.stamp_ns
        self.writes("inode", number)
        if self.journal is not None:
            self.journal.made(number, folder=folder)
        return made

    def name(self, folder: Inode, name: str, inode: Inode | None) -> tuple[int, str, int | None]:
        """Give a name in a directory to a file, or take it away."""
        self.touch_name(folder, name)
        old = folder.entries.get(name)
        if old is not None:
            self.inodes[old].links -= 1
            self.changes("links", old)
        if inode is None:
            del folder.entries[name]
        else:
            folder.entries[name] = inode.number
            inode.links += 1
            self.changes("links", inode.number)
        folder.modified_ns = self.run.stamp_ns
        folder.shown = None
        return (folder.number, name, None if inode is None else inode.number)

    def touch_name(self, folder: Inode, name: str) -> None:
        """Counts as a write of a name, also where something else prevented it, see `footprints`."""
        self.changes("entry", f"{folder.number}/{name}")
        self.writes("folder", folder.number)

    def record(self, *changes: tuple[int, str, int | None], replaced: Inode | None = None) -> None:
        self.metadata()
        if self.journal is not None:
            self.journal.names(changes, None if replaced is None else replaced.number)

    def modify(self, inode: Inode, operation: tuple[Any, ...]) -> None:
        """Before a change of content or attributes."""
        self.changes("inode", inode.number)
        if operation[0] == "attribute":
            self.metadata()
        else:
            inode.modified_ns = self.run.stamp_ns
        inode.shown = None
        if self.journal is not None:
            if self.journal.ordered and resizes(inode, operation):
                self.reads("journal", "")  # how far the journal is decides what an fsync writes
            self.journal.data(inode, operation)
