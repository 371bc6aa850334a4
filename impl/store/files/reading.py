"""Read one object, and evaluate conditions on the object at a key.

A reader opens the file once and takes everything from it: size, attributes and bytes are of one write,
whatever happens to the key meanwhile. Like every reader of a file system, it may see a write an instant
before that write is durable.

Whole reads are compared with the stored MD5, at about 1.5 ns a byte: bits that rotted, or a file that
somebody changed in place, are a broken promise and not data. Ranges are not checked.
"""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import BrokenPromise, Unusable
from fencepost.impl.store.files.attributes import AttributeFiles, Attributes, md5, side_name
from fencepost.impl.store.files.disk import WouldWait, close_quietly, open_cached
from fencepost.impl.store.files.folders import Folder, Folders
from fencepost.impl.store.files.names import Names
from fencepost.impl.store.requests import Outcome

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK_BYTES = 1 << 20


@dataclass(slots=True)
class Opened:
    """An object that is open for reading: one write of it."""

    fd: int
    found: os.stat_result
    attributes: Attributes

    @property
    def mark(self) -> str:
        """Tells this write from every other, even one of the same bytes."""
        return f"{self.attributes.mark}:{self.found.st_ino}:{self.found.st_mtime_ns}"

    def info(self, key: str) -> ask.ObjectInfo:
        known = self.attributes
        return ask.ObjectInfo(
            key=key,
            etag=known.etag,
            size=self.found.st_size,
            modified_ns=self.found.st_mtime_ns,
            content_type=known.content_type,
            metadata=known.metadata,
        )


class Reader:
    def __init__(
        self, where: str, names: Names, folders: Folders, attributes: AttributeFiles, *, verify_reads: bool
    ) -> None:
        self._where = where
        self._names = names
        self._folders = folders
        self._attributes = attributes
        self._verify_reads = verify_reads

    def get(self, request: ask.Get) -> ask.GetReply:
        with self.current(request.key) as opened:
            if opened is None:
                return request.ends(Outcome.MISSING)
            etag, size = opened.attributes.etag, opened.found.st_size
            if request.only_if is not None and request.only_if != etag:
                return request.ends(Outcome.CHANGED)
            if request.unless is not None and request.unless == etag:
                return request.ends(Outcome.UNCHANGED)
            ranged = request.start > 0 or request.stop is not None
            if ranged and request.start >= size:
                return request.ends(Outcome.PAST_END)
            body = read(opened.fd, request.start, size if request.stop is None else min(request.stop, size))
            if not ranged:
                self._verify(request.key, opened, body)
            return ask.GetReply(Outcome.DONE, body=body, info=opened.info(request.key))

    def _verify(self, key: str, opened: Opened, body: bytes) -> None:
        if not self._verify_reads:
            return
        wanted = opened.attributes.digest or opened.attributes.etag
        if "-" in wanted:  # of parts that were joined unread
            return
        found = md5(body)
        if wanted != found:
            raise BrokenPromise(
                f"{key!r} in {self._where} has content with MD5 {found} where {wanted} was written: "
                "the disk or somebody else changed it; restore it from a copy"
            )

    def head(self, request: ask.Head) -> ask.HeadReply:
        with self.current(request.key) as opened:
            if opened is None:
                return request.ends(Outcome.MISSING)
            return ask.HeadReply(Outcome.DONE, info=opened.info(request.key))

    def refusal(self, key: str, when: ask.Condition) -> Outcome | None:
        """Return the refusal that the condition demands now; None if it is met.

        The answer stays valid only while the caller holds the key's lock.
        """
        if isinstance(when, ask.Anything):
            return None
        if isinstance(when, ask.Absent):
            return Outcome.EXISTS if self._stands(key) else None
        with self.current(key) as opened:
            if opened is None:
                return Outcome.MISSING
            return None if opened.attributes.etag == when.etag else Outcome.CHANGED

    def _stands(self, key: str) -> bool:
        """Return True if an object is there. It may miss one, which the following change then finds."""
        path, name = self._names.place(key)
        folder = self._folders.find(path)
        found = None if folder is None else self.found(name, folder)
        return found is not None and not stat.S_ISDIR(found.st_mode)

    def found(self, name: str, folder: Folder) -> os.stat_result | None:
        """Return the `stat` result for this name; None if it is free. Refuse a symbolic link."""
        try:
            found = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(found.st_mode):
            self._folders.refuse_link(name, folder)
        return found

    def file(self, key: str) -> os.stat_result | None:
        """Return the `stat` result for the file at `key`, or None."""
        path, name = self._names.place(key)
        folder = self._folders.look(path)
        return None if folder is None else self.found(name, folder)

    @contextlib.contextmanager
    def current(self, key: str) -> Iterator[Opened | None]:
        """The object at `key`, open for reading, or None."""
        opened = self.hold(key)
        try:
            yield opened
        finally:
            if opened is not None:
                close_quietly(opened.fd)

    def hold(self, key: str) -> Opened | None:
        """The same, for the caller to close."""
        path, name = self._names.place(key)
        known = self._folders.known(path)
        opened = None if known is None else self.open(name, known, key)
        if opened is not None:
            return opened
        folder = self._folders.look(path)  # rule 4 of `folders`
        return None if folder is None or folder is known else self.open(name, folder, key)

    def hold_cached(self, key: str) -> Opened:
        """The same if that needs no disk; raises `WouldWait` where it does, or nothing is found so."""
        path, name = self._names.place(key)
        folder = self._folders.known(path)
        if folder is None:
            raise WouldWait
        fd = open_cached(name, _READ, folder.fd)
        try:
            found = os.fstat(fd)
            known = self._attributes.within(fd, key) if stat.S_ISREG(found.st_mode) else None
            if known is None:
                raise WouldWait
            return Opened(fd, found, known)
        except BaseException:
            close_quietly(fd)
            raise

    def open(self, name: str, folder: Folder, key: str) -> Opened | None:
        """The object that has this name in this folder, or None."""
        before: os.stat_result | None = None
        while True:
            fd = self._open_file(name, folder, key)
            if fd is None:
                return None
            try:
                found = os.fstat(fd)
                attributes = self._attributes.read(fd, found, f"{key!r} in {self._where}")
                if attributes is not None or (before is not None and side_name(before) == side_name(found)):
                    return Opened(fd, found, attributes or Attributes(_md5_of(fd)))
            except BaseException:
                close_quietly(fd)
                raise
            before = found  # perhaps it was replaced and its side file is gone: look once more
            close_quietly(fd)

    def _open_file(self, name: str, folder: Folder, key: str) -> int | None:
        try:
            fd = os.open(name, _READ, dir_fd=folder.fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                self._folders.refuse_link(name, folder)
                return None
            if error.errno == errno.ENXIO:
                raise self._no_file(key) from None
            raise
        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode):
            return fd
        close_quietly(fd)
        if stat.S_ISDIR(mode):
            return None
        raise self._no_file(key)

    def _no_file(self, key: str) -> Unusable:
        return Unusable(f"{self._where} holds a device, pipe or socket at {key!r}; remove it")


def read(fd: int, start: int, stop: int) -> bytes:
    """The bytes of a file; fewer when it is shorter."""
    body = os.pread(fd, stop - start, start)
    if len(body) == stop - start:
        return body
    parts = [body]
    start += len(body)
    while parts[-1] and start < stop:  # the system reads at most 2 GiB at once
        parts.append(os.pread(fd, stop - start, start))
        start += len(parts[-1])
    return b"".join(parts)


def _md5_of(fd: int) -> str:
    digest, at = hashlib.md5(usedforsecurity=False), 0
    while chunk := os.pread(fd, _CHUNK_BYTES, at):
        digest.update(chunk)
        at += len(chunk)
    return digest.hexdigest()
