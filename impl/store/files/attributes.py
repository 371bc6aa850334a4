"""The attributes of an object: its ETag, its writer's mark, its content type and metadata.

They are one extended attribute of the file, set before the file gets its name, so that content and
attributes appear and disappear as one. The value is a short JSON list with the usual left out, which lets
it fit into the inode itself on ext4.

Where the file system has no extended attributes (or no room for these), a side file holds them. Its name
identifies the file it belongs to: inode, time of modification, size. It is made durable before the object
gets its name, and belongs to that one file: replacing the object brings a new inode with a side file of its
own, so old content never meets new attributes. A reader that finds no side file looks at the object once
more, because it may have been replaced (and its side file removed) in between.

A file that somebody else put there has neither: its ETag is computed from its content.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import BrokenPromise
from fencepost.impl.store.files.disk import NO_XATTR, Disk
from fencepost.impl.store.files.internals import Internals, old_names, read_file

SIDE = "attributes"
ETAG_AT = 2
"""The offset of the ETag in the encoded attributes: after the bracket and the quotation mark."""
ETAG_ROOM = "0" * 32
"""An ETag that is filled in later."""
_encode = json.JSONEncoder(separators=(",", ":")).encode


class Attributes(NamedTuple):
    etag: str
    mark: str = ""
    """Unique to the write; empty for files that are not ours."""
    content_type: str = ask.BINARY
    metadata: ask.Metadata = ask.NO_METADATA
    digest: str = ""
    """The MD5 of the content where the ETag is not."""
    extra: ask.Metadata = ask.NO_METADATA
    """Values that a server keeps beside the user's metadata: response headers, checksums, tags."""

    def encode(self) -> bytes:
        if self[2:] == _USUAL:
            return f'["{self.etag}","{self.mark}"]'.encode()
        row: list[object] = [*self[:3], dict(self.metadata), self.digest, dict(self.extra)]
        usual: list[object] = [None, None, ask.BINARY, {}, "", {}]
        while row[-1] == usual[len(row) - 1]:
            row.pop()
        return _encode(row).encode()

    @classmethod
    def decode(cls, value: bytes, where: str) -> "Attributes":
        try:
            row = json.loads(value)
            row[3:4] = map(ask.Metadata, row[3:4])
            row[5:6] = map(ask.Metadata, row[5:6])
            known = cls(*row)
        except (ValueError, TypeError):
            raise BrokenPromise(
                f"the attributes of {where} cannot be read: {value[:80]!r}; write the object again"
            ) from None
        return known


_USUAL = Attributes("")[2:]
_AT_ONCE = 2047
"""Above this hashlib lets other threads run, which for small bodies costs more than the hash itself."""
_SMALL = 8 * _AT_ONCE


def md5(body: bytes) -> str:
    """The ETag of an object written in one piece."""
    digest = hashlib.md5(usedforsecurity=False)
    if len(body) > _SMALL:
        digest.update(body)
    else:
        for at in range(0, len(body), _AT_ONCE):
            digest.update(body[at : at + _AT_ONCE])
    return digest.hexdigest()


class AttributeFiles:
    def __init__(self, disk: Disk, internals: Internals) -> None:
        self._disk = disk
        self._internals = internals

    def attach(self, fd: int, key: str, attributes: Attributes) -> str:
        """Attach them to a file that has its content but no name, and make both durable.

        Returns the name of the side file, if it took one."""
        value = attributes.encode()
        within = self._within(fd, value)
        self._disk.fsync(fd)
        return "" if within else self._attach_aside(fd, key, value)

    def write(self, fd: int, key: str, attributes: Attributes, body: bytes) -> str:
        """The same for a file that is empty yet, with its content."""
        value = attributes.encode()
        within = self._within(fd, value)
        self._disk.write_through(fd, body)
        return "" if within else self._attach_aside(fd, key, value)

    def _within(self, fd: int, value: bytes) -> bool:
        """Put them into the file itself; False where the file system has no room for them."""
        try:
            self._disk.set_attribute(fd, value)
        except OSError as error:
            if error.errno not in NO_XATTR:
                raise
            return False
        return True

    def _attach_aside(self, fd: int, key: str, value: bytes) -> str:
        folder = self._internals.folder(SIDE)
        name = side_name(os.fstat(fd))
        self._internals.write(name, folder, json.dumps({"key": key}).encode() + b"\n" + value)
        self._disk.fsync_folder(folder)
        return name

    def read(self, fd: int, found: os.stat_result, where: str) -> Attributes | None:
        """The attributes of an open file, or None when it has none."""
        value = self._disk.get_attribute(fd) or None  # empty: they outgrew it
        folder = self._internals.existing(SIDE) if value is None else None
        if folder is not None:
            side = read_file(side_name(found), folder)
            value = None if side is None else side.partition(b"\n")[2]
        return None if value is None else Attributes.decode(value, where)

    def within(self, fd: int, where: str) -> Attributes | None:
        """Those that the file itself has."""
        value = self._disk.get_attribute(fd)
        return Attributes.decode(value, where) if value else None

    def change(self, fd: int, found: os.stat_result, key: str, attributes: Attributes) -> None:
        """Replace the attributes of an object that has its name, and make them durable.

        Readers see the old ones or the new ones. Only while holding the key's lock."""
        value = attributes.encode()
        within = self._disk.get_attribute(fd)
        side = self._internals.existing(SIDE) if not within else None
        if (side is None or read_file(side_name(found), side) is None) and self._within(fd, value):
            self._disk.fsync(fd)
            return
        self._attach_aside(fd, key, value)
        if within:
            self._disk.set_attribute(fd, b"")
            self._disk.fsync(fd)

    def forget(self, found: os.stat_result | None) -> None:
        """Remove the side file of a file that lost its last name. One left behind is only waste."""
        if found is not None and found.st_nlink <= 1:
            self.forget_name(side_name(found))

    def forget_name(self, name: str) -> None:
        folder = self._internals.existing(SIDE) if name else None
        if folder is not None:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)

    def sweep(self, standing: Callable[[str], Iterable[os.stat_result]]) -> None:
        """Remove side files whose writer died before or after its object had its name, once they are old.

        `standing` answers what files a key has."""
        folder = self._internals.existing(SIDE)
        if folder is None:
            return
        for name in old_names(folder, self._internals.oldest_ns()):
            with contextlib.suppress(OSError, ValueError, LookupError):
                side = read_file(name, folder) or b""
                key = json.loads(side.partition(b"\n")[0])["key"]
                if name not in map(side_name, standing(key)):
                    os.unlink(name, dir_fd=folder)


def side_name(found: os.stat_result) -> str:
    """Equal for equal generations of a file."""
    return f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"
