"""The manifest of a stream, the keys of its objects, and offsets.

    streams/<hash>/manifest.json                                        moves by if-match
    streams/<hash>/segments/<incarnation>.<owner>-<first offset>.seg    created once
    streams/<hash>/segments/<incarnation>.<owner>-<first offset>.<count>.idx    created once: `Manifest.full`

The hash is of the stream's name. An epoch is `<incarnation>.<owner>`: a new incarnation has a new identifier,
and every owner a number of its own, so no two epochs write one key. Every body has a revision and the writer,
so an ETag never returns. An offset is `<lineage>_<position>`; forks keep the lineage of their source.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import groupby
from typing import Any

from fencepost.impl.streams.errors import Damaged, Refusal, Refused

FORMAT = 1
ROOT = "streams/"
_DATA = r"segments/(.+)\.([0-9]{8})-([0-9]{16})(?:\.seg|\.([0-9]+)\.idx)"
_KEY = re.compile(rf"streams/([0-9a-f]{{32}})/(?:(manifest\.json)|{_DATA})")
_OFFSET = re.compile("([0-9]{16})_([0-9]{16})")


def hash_of(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def prefix_of(name: str) -> str:
    return f"{ROOT}{hash_of(name)}/"


def manifest_key(name: str) -> str:
    return f"{prefix_of(name)}manifest.json"


@dataclass(frozen=True, slots=True)
class Place:
    """The parts of a key. `incarnation` is empty for a manifest."""

    hash: str
    incarnation: str = ""
    owner: int = 0
    start: int = 0
    count: int = 1


def parse_key(key: str) -> Place | None:
    found = _KEY.fullmatch(key)
    if found is None:
        return None
    if found[2]:
        return Place(found[1])
    return Place(found[1], found[3], int(found[4]), int(found[5]), int(found[6] or 1))


@dataclass(frozen=True, slots=True)
class Segment:
    owner: int
    start: int
    end: int
    sha256: str
    count: int = 1
    """More than 1: an index, an object that lists so many segments, itself or by further indexes."""

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _SEGMENT_NAMES if name != "count" or self.count > 1}


def write_index(parts: Sequence[Segment]) -> bytes:
    return _json({"format": FORMAT, "segments": [one.as_json() for one in parts]})


def read_index(body: bytes) -> tuple[Segment, ...]:
    return tuple(Segment(**one) for one in json.loads(body)["segments"])


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class Manifest:
    name: str
    incarnation: str
    lineage: int
    content_type: str
    created_ns: int
    owner: int = 1
    revision: int = 1
    writer: str = ""
    ttl_s: int | None = None
    expires_at: str = ""
    """As the client gave it."""
    deadline_ns: int | None = None
    closed: bool = False
    closed_by: tuple[str, int, int] | None = None
    tombstone_ns: int | None = None
    hidden: bool = False
    """Deleted by its client while forks refer to it."""
    pending: bool = False
    """A fork whose bytes are being copied: no client sees it."""
    tail: int = 0
    segments: tuple[Segment, ...] = ()
    producers: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    stream_seq: str | None = None
    forks: tuple[str, ...] = ()
    forked_from: tuple[str, int, int] | None = None
    """The source's name, the position, the sub-offset."""

    @property
    def key(self) -> str:
        return manifest_key(self.name)

    @property
    def is_tombstone(self) -> bool:
        return self.tombstone_ns is not None

    def is_expired(self, now_ns: int) -> bool:
        return self.deadline_ns is not None and now_ns >= self.deadline_ns

    def segment_key(self, owner: int, start: int, count: int = 1) -> str:
        kind = "seg" if count == 1 else f"{count}.idx"
        return f"{prefix_of(self.name)}segments/{self.incarnation}.{owner:08d}-{start:016d}.{kind}"

    def key_of(self, segment: Segment) -> str:
        return self.segment_key(segment.owner, segment.start, segment.count)

    def full(self, width: int) -> tuple[Segment, ...]:
        """The oldest `width` of neighbours of one count, once there are twice as many; else nothing.

        An index takes their place: a manifest stays short however long its stream becomes. The newest `width`
        segments are always listed by the manifest itself.
        """
        for _, run in groupby(self.segments, key=lambda one: one.count):
            entries = tuple(run)
            if len(entries) >= 2 * width:
                return entries[:width]
        return ()

    def indexed(self, parts: Sequence[Segment], index: Segment) -> tuple[Segment, ...]:
        """The entries with the index in place of its parts, if they are still listed here."""
        at = self.segments.index(parts[0]) if parts[0] in self.segments else 0
        end = at + len(parts)
        if self.segments[at:end] != tuple(parts):
            return self.segments
        return (*self.segments[:at], index, *self.segments[end:])

    def offset(self, position: int) -> str:
        return f"{self.lineage:016d}_{position:016d}"

    def position(self, offset: str) -> int:
        if offset == "-1":
            return 0
        if offset == "now":
            return self.tail
        found = _OFFSET.fullmatch(offset)
        if found is None:
            raise Refused(Refusal.INVALID, f"{offset[:80]!r} is not an offset of a stream")
        if int(found[1]) == int(found[2]) == 0:
            return 0  # the beginning, as other servers write it
        if int(found[1]) != self.lineage:
            raise Refused(Refusal.GONE, f"the offset {offset} is of an earlier stream of this name")
        return int(found[2])

    def body(self) -> bytes:
        parts = {name: getattr(self, name) for name in _NAMES}
        segments = [one.as_json() for one in self.segments]
        return _json({**parts, "format": FORMAT, "segments": segments, "producers": dict(self.producers)})

    def next(self, writer: str, **changes: Any) -> "Manifest":
        return replace(self, **changes, revision=self.revision + 1, writer=writer)

    @classmethod
    def read(cls, body: bytes, key: str) -> "Manifest":
        try:
            given = json.loads(body)
            if given.pop("format") != FORMAT:
                raise ValueError("another format")
            given["segments"] = tuple(Segment(**one) for one in given["segments"])
            given["producers"] = {name: (one[0], one[1]) for name, one in given["producers"].items()}
            for name in ("closed_by", "forked_from"):
                given[name] = tuple(given[name]) if given[name] is not None else None
            given["forks"] = tuple(given["forks"])
            found = cls(**given)
            if found.key != key:
                raise ValueError(f"it is of the stream {found.name!r}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Damaged(f"{key} is no manifest ({error}); find out what wrote it") from None
        return found


_NAMES = tuple(one.name for one in fields(Manifest))
_SEGMENT_NAMES = tuple(one.name for one in fields(Segment))


def trace_fields(key: str, body: bytes) -> str:
    """Return the trace fields of an object's body: enough to follow the protocol, without data."""
    place = parse_key(key)
    if place is None:
        return ""
    if place.incarnation:
        return f"incarnation={place.incarnation} owner={place.owner} start={place.start}"
    try:
        manifest = Manifest.read(body, key)
    except Damaged:
        return ""
    state = "tombstone" if manifest.is_tombstone else "live"
    last = manifest.segments[-1] if manifest.segments else None
    listed = f" start={last.start} listed={last.owner}" if last else ""
    return (
        f"incarnation={manifest.incarnation} owner={manifest.owner} state={state} "
        f"segments={sum(one.count for one in manifest.segments)}{listed}"
    )
