"""The files of an inventory report, on a disk or in a store, read in pieces.

Both places find files by a path with slashes. A report is often a copy, so a data file is looked for under
its key in the manifest, and then under the end of that key beside or above the manifest.
"""

import hashlib
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fencepost.impl.environment import Environment
from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.errors import InventoryError
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Get, Head, List, Outcome

PIECE_BYTES = 1024 * 1024
"""Read at a time: what is in memory of a file."""


class Place(ABC):
    @abstractmethod
    def shown(self, path: str) -> str:
        """The name of the file for people."""

    @abstractmethod
    def size(self, path: str) -> int | None:
        """Of a file; None when it is missing."""

    @abstractmethod
    def open(self, path: str) -> IO[bytes]:
        """An existing file, from its beginning; it is seekable."""

    @abstractmethod
    def folders(self, path: str) -> Iterator[str]:
        """The names of the folders in a folder."""

    def find(self, key: str, beside: str) -> str | None:
        """The file that a manifest in the folder `beside` calls `key`."""
        return next((path for path in self._candidates(key, beside) if self.size(path) is not None), None)

    def _candidates(self, key: str, beside: str) -> Iterator[str]:
        parts, folder = key.split("/"), beside.split("/") if beside else []
        for _ in parts:
            yield from ("/".join([*folder, *parts[at:]]) for at in range(len(parts)))
            if not folder:
                return
            folder = folder[:-1]


class Disk(Place):
    """Below a directory. The files of a manifest are looked for there and nowhere else."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def shown(self, path: str) -> str:
        return str(self._root / path)

    def size(self, path: str) -> int | None:
        try:
            file = self._root / path
            return file.stat().st_size if file.is_file() else None
        except (OSError, ValueError):
            return None

    def open(self, path: str) -> IO[bytes]:
        try:
            return (self._root / path).open("rb")
        except OSError as error:
            raise InventoryError(f"cannot read {self.shown(path)}: {error.strerror}") from None

    def folders(self, path: str) -> Iterator[str]:
        folder = self._root / path
        try:
            yield from (one.name for one in folder.iterdir() if one.is_dir())
        except OSError:
            return


class Bucket(Place):
    """In a store, with retries."""

    def _candidates(self, key: str, beside: str) -> Iterator[str]:
        yield key
        yield from super()._candidates(key, beside)

    def __init__(self, store: Store, env: Environment) -> None:
        self._context = IngestContext(store, env)

    def shown(self, path: str) -> str:
        return f"{path} in {self._context.store.url}"

    def size(self, path: str) -> int | None:
        info = self._context.read(Head(path)).info
        return None if info is None else info.size

    def open(self, path: str) -> IO[bytes]:
        return io.BufferedReader(_Ranges(self._read, path, self._etag(path)), PIECE_BYTES)

    def folders(self, path: str) -> Iterator[str]:
        prefix = f"{path}/" if path else ""
        for page in self._context.pages(lambda token: List(prefix, delimiter="/", token=token)):
            yield from (one.removeprefix(prefix).rstrip("/") for one in page.prefixes)

    def _etag(self, path: str) -> tuple[str, int]:
        info = self._context.read(Head(path)).info
        if info is None:
            raise InventoryError(f"{self.shown(path)} was deleted meanwhile")
        return info.etag, info.size

    def _read(self, path: str, start: int, stop: int, etag: str) -> bytes:
        reply = self._context.read(Get(path, start=start, stop=stop, only_if=etag))
        if reply.outcome is not Outcome.DONE:
            raise InventoryError(f"{self.shown(path)} was changed while it was read; start again")
        body: bytes = reply.body
        return body


class _Ranges(io.RawIOBase):
    """An object as a file: each read is a request for a range of one generation of it."""

    def __init__(self, read: Any, path: str, found: tuple[str, int]) -> None:
        super().__init__()
        self._read, self._path = read, path
        self._etag, self._size = found
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        stop = min(self._at + len(view), self._size)
        if stop <= self._at:
            return 0
        body = self._read(self._path, self._at, stop, self._etag)
        view[: len(body)] = body
        self._at += len(body)
        return len(body)


class Hashed(io.RawIOBase):
    """A file that is read once, front to back, while its length and MD5 are computed."""

    def __init__(self, inner: IO[bytes]) -> None:
        super().__init__()
        self._inner = inner
        self._md5 = hashlib.md5(usedforsecurity=False)
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        some = self._inner.read(len(view))
        view[: len(some)] = some
        self._md5.update(some)
        self.count += len(some)
        return len(some)

    def drain(self) -> str:
        """Read the rest; returns the MD5 of the whole."""
        while self.read(PIECE_BYTES):
            pass
        return self._md5.hexdigest()


@dataclass(frozen=True, slots=True)
class DataFile:
    key: str
    size: int
    md5: str


def place_on_disk(path: Path) -> tuple[Disk, str]:
    """A place that contains `path` and all files of a report there, and the path in it."""
    whole = path.absolute()
    return Disk(Path(whole.anchor)), whole.relative_to(whole.anchor).as_posix()
