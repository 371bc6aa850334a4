"""Files and directories in memory, and the answers of system calls on them.

An inode's number is made from the process that created it and the number of the call there, so that two
creations commute. The same holds for file descriptors. Numbers are never used again.
"""

import errno
import os
from typing import Any, NamedTuple

ROOT = 2
FIRST_FD = 1 << 20
"""Descriptors of the file system start here, far above those of the system."""
FDS = 20_000_000
"""Descriptors set aside for one process."""
WRITING = os.O_WRONLY | os.O_RDWR
DATA_ONLY, EVERYTHING = 1, 2
"""Flush of a write before it returns: as fdatasync, or as fsync."""
NAMELESS = getattr(os, "O_TMPFILE", 0)

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


class Refused(Exception):
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
        """Value by which two states of it are compared; computed at the first use after a change."""


def written(body: bytes, offset: int, piece: bytes) -> bytes:
    """Return the content after a write."""
    return body[:offset].ljust(offset, b"\0") + piece + body[offset + len(piece) :]
