"""The whole bucket as a value: the writes of every key, and the uploads that are open."""

import bisect
from dataclasses import dataclass, replace
from typing import Any

from fencepost.model.store_reference.one_key import Standing

Operation = tuple[Any, ...]
Answer = tuple[Any, ...]
Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Write:
    """One version of a key: an object, or a delete marker."""

    number: int
    etag: str = ""
    body: bytes = b""
    content_type: str = ""
    metadata: Metadata = ()
    marker: bool = False


@dataclass(frozen=True, slots=True)
class Upload:
    """A multipart upload in the making."""

    number: int
    key: str
    content_type: str
    metadata: Metadata
    stood: int
    """The number of the write at the key when the upload was created, or 0."""
    parts: tuple[tuple[int, str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """A bucket."""

    versioned: bool = False
    part_bytes_min: int = 5 * 1024 * 1024
    """The least size of every part of an upload but the last."""
    count: int = 0
    """The number of all writes and uploads so far, by which the next are numbered."""
    keys: tuple[tuple[str, tuple[Write, ...]], ...] = ()
    """The writes of every key, oldest first, keys in order. Without versions only the last is kept."""
    uploads: tuple[Upload, ...] = ()

    def writes(self, key: str) -> tuple[Write, ...]:
        at = bisect.bisect_left(self.keys, (key,))
        found = self.keys[at : at + 1]
        return found[0][1] if found and found[0][0] == key else ()

    def current(self, key: str) -> Write | None:
        """The object at the key; a delete marker is none."""
        writes = self.writes(key)
        return writes[-1] if writes and not writes[-1].marker else None

    def standing(self, key: str) -> Standing:
        current = self.current(key)
        return current.etag if current else None

    def with_writes(self, key: str, writes: tuple[Write, ...]) -> "State":
        others = [entry for entry in self.keys if entry[0] != key]
        if writes:
            bisect.insort(others, (key, writes), key=lambda entry: entry[0])
        return replace(self, keys=tuple(others))

    def version(self, write: Write) -> int:
        return write.number if self.versioned else 0
