"""Arrays on disk instead of in memory, for explorations beyond their memory limit.

Explored states are read again rarely and in order, so they can live in memory-mapped files: the system loads
the pages that are read and drops them when it needs the memory. The current frontier, its successors and what
a merge needs stay in memory.

The files have no name: they are removed from their directory before the first byte is written, and their
space is freed with the last array on them or with the process, however it ends. Space is reserved before it
is used, so a full disk is an error with a message and not a crash later on.
"""

import mmap
import os
import tempfile
from pathlib import Path
from typing import Any, BinaryIO
from weakref import WeakSet

import numpy as np

from fencepost.model.kernel.language.errors import NoRoom
from fencepost.model.kernel.language.layout import U64

_SLAB = 1 << 21
"""Words of a file at least (16 MB): many small arrays share one, since open files are limited."""


class Shelf:
    """A growing store of arrays on disk, in a directory (by default the system's for temporary files)."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = Path(tempfile.gettempdir()) if directory is None else directory
        self.nbytes = 0
        self._slab = np.empty(0, np.uint64)
        self._maps: WeakSet[Any] = WeakSet()
        self._check_writable()

    def keep(self, array: U64) -> U64:
        """A read-only copy on disk."""
        if not array.size or is_on_disk(array):
            return array
        copy = self.allocate(array.size).reshape(array.shape)
        copy[...] = array
        copy.flags.writeable = False
        return copy

    def allocate(self, size: int) -> U64:
        """A writable array on disk."""
        self.nbytes += 8 * size
        if size >= _SLAB:
            return self._mapped(size)
        if len(self._slab) < size:
            self._slab = self._mapped(_SLAB)
        room, self._slab = self._slab[:size], self._slab[size:]
        return room

    def release(self) -> None:
        """Give the memory of all pages that were read or written back to the system."""
        if hasattr(mmap, "MADV_DONTNEED"):
            for mapped in list(self._maps):
                mapped.madvise(mmap.MADV_DONTNEED)

    def _mapped(self, words: int) -> U64:
        try:
            with tempfile.TemporaryFile(dir=self.directory) as file:
                _reserve(file, 8 * words)
                mapped = mmap.mmap(file.fileno(), 8 * words)
                self._maps.add(mapped)
                return np.frombuffer(mapped, np.uint64)
        except OSError as error:
            raise self._no_room(8 * words, error) from None

    def _check_writable(self) -> None:
        try:
            with tempfile.TemporaryFile(dir=self.directory):
                pass
        except OSError as error:
            raise self._no_room(0, error) from None

    def _no_room(self, nbytes: int, error: OSError) -> NoRoom:
        what = f"{nbytes:,} bytes of explored states" if nbytes else "explored states"
        return NoRoom(
            f"cannot put {what} into {self.directory}: {os.strerror(error.errno or 0)}; "
            "give another directory with enough room, more memory, or smaller sizes"
        )


def is_on_disk(array: U64) -> bool:
    """True if an array, or the array that it is a view of, is mapped from a file."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, memoryview) and isinstance(base.obj, mmap.mmap)


def resident(array: U64) -> int:
    """The bytes of memory that an array holds."""
    return 0 if is_on_disk(array) else array.nbytes


def _reserve(file: BinaryIO, nbytes: int) -> None:
    """Make the file that long, and reserve its space on disk."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, nbytes)
        return
    block = bytes(1 << 20)
    file.writelines(block[: nbytes - written] for written in range(0, nbytes, len(block)))
    file.flush()
