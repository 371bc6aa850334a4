"""What a node is given and answers, and what it knows of one stream."""

import threading
from dataclasses import dataclass, field

from fencepost.impl.streams.manifest import Manifest
from fencepost.impl.streams.state import Record


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a creation asks for, and what an existing stream is compared with."""

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
        """Whether the reader has everything that will ever be."""
        return self.manifest.closed and self.up_to_date


@dataclass(eq=False)
class Stream:
    """What this node knows of one name."""

    name: str
    manifest: Manifest | None = None
    etag: str = ""
    checked_ns: int | None = None
    """When the manifest was last compared with the store's."""
    owner: int = 0
    """The owner number that this node holds; 0 for none."""
    incarnation: str = ""
    records: list[Record] = field(default_factory=list)
    """Accepted, and not listed by the manifest."""
    closing: tuple[str, int, int] | None = None
    since_ns: int = 0
    """When the oldest record was accepted."""
    touched_ns: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    flushing: threading.Lock = field(default_factory=threading.Lock)

    @property
    def tail(self) -> int:
        if self.records:
            return self.records[-1].end
        return self.manifest.tail if self.manifest is not None else 0

    def let_go(self) -> None:
        self.owner, self.incarnation, self.records, self.closing = 0, "", [], None
