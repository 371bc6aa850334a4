"""Arguments and results of a node, and its state of one stream.

Threads of a node share its `Stream`s. The last manifest that was read or written is one value, `known`, which
is only replaced by a newer one (`learn`). Records that are accepted and not yet listed are changed under
`lock`. `flushing` is held during a flush. A thread that needs both locks takes `flushing` first.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fencepost.impl.streams.manifest import Manifest, Segment
from fencepost.impl.streams.state import Record


@dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration that a creation requests, and that an existing stream is compared with."""

    content_type: str = "application/octet-stream"
    ttl_s: int | None = None
    expires_at: str = ""
    expires_ns: int | None = None
    closed: bool = False
    forked_from: tuple[str, int, int] | None = None

    def deadline_ns(self, now_ns: int) -> int | None:
        return now_ns + self.ttl_s * 10**9 if self.ttl_s is not None else self.expires_ns

    def is_of(self, manifest: Manifest) -> bool:
        return (
            self.content_type.lower() == manifest.content_type.lower()
            and (self.ttl_s, self.expires_at) == (manifest.ttl_s, manifest.expires_at)
            and self.closed == manifest.closed
            and self.forked_from == manifest.forked_from
        )


@dataclass(frozen=True, slots=True)
class Appended:
    offset: str
    duplicate: bool = False
    closed: bool = False
    epoch: int = 0
    seq: int = 0
    """The producer's latest, if the append named one."""


@dataclass(frozen=True, slots=True)
class Chunk:
    manifest: Manifest
    body: bytes
    start: int
    end: int
    up_to_date: bool

    @property
    def closed(self) -> bool:
        """True if the reader has the whole stream, to which nothing can be appended any more."""
        return self.manifest.closed and self.up_to_date


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A manifest, and its ETag in the store."""

    manifest: Manifest | None = None
    etag: str = ""

    def is_before(self, other: "Known") -> bool | None:
        """None where only the store can say it: revisions order the manifests of one incarnation."""
        if self.manifest is None or other.manifest is None:
            return None
        if self.manifest.incarnation != other.manifest.incarnation:
            return None
        return self.manifest.revision < other.manifest.revision


@dataclass(frozen=True, slots=True)
class Accepted:
    """The condition that an append waits for: a manifest lists its end as its owner's, and has its close."""

    incarnation: str
    owner: int
    end: int = 0
    """0 if nothing was buffered."""
    closing: tuple[str, int, int] | None = None

    def is_durable(
        self, manifest: Manifest | None, segments_after: Callable[[Manifest, int], Iterator[Segment]]
    ) -> bool:
        """Another owner's bytes may be at the same position, so the length of a stream proves nothing."""
        if manifest is None or manifest.incarnation != self.incarnation:
            return False
        if self.closing is not None and manifest.closed_by != self.closing:
            return False
        if not self.end:
            return True
        segment = next(segments_after(manifest, self.end - 1), None)
        return segment is not None and segment.owner == self.owner and self.end <= segment.end


@dataclass(eq=False)
class Stream:
    """The state of one name at this node."""

    name: str
    known: Known = field(default_factory=Known)
    checked_ns: int | None = None
    """When the manifest was last compared with the store's."""
    owner: int = 0
    """The owner number that this node holds; 0 for none."""
    incarnation: str = ""
    records: list[Record] = field(default_factory=list)
    """Accepted records that the manifest does not list yet."""
    committed: bool = False
    """True if the local state may have records of it."""
    closing: tuple[str, int, int] | None = None
    since_ns: int = 0
    """When the oldest record was accepted."""
    touched_ns: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    flushing: threading.Lock = field(default_factory=threading.Lock)
    _learning: threading.Lock = field(default_factory=threading.Lock)

    @property
    def manifest(self) -> Manifest | None:
        return self.known.manifest

    @property
    def held(self) -> tuple[str, int]:
        return (self.incarnation, self.owner)

    @property
    def tail(self) -> int:
        if self.records:
            return self.records[-1].end
        manifest = self.manifest
        return manifest.tail if manifest is not None else 0

    def learn(self, began: Known, found: Known) -> bool:
        """Take up what a request found that began when `began` was known.

        False if another thread learned something else since, and which of them is newer is not known.
        """
        with self._learning:
            if self.known is began:
                self.known = found
                return True
            older = self.known.is_before(found)
            if older:
                self.known = found
            return older is not None

    def let_go(self) -> None:
        self.owner, self.incarnation, self.records, self.closing = 0, "", [], None
