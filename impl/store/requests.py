"""The requests to a store and its replies, as values.

The error contract comes first, because protocols are built on it. Every request is answered by its reply,
which has one of these outcomes:

    outcome      HTTP     applied?   conclusion for the caller
    done         2xx      yes        it happened, between the request and now
    exists       412      no         create-only write: the key has an object, perhaps the caller's own
    changed      412      no         if-match: the object's ETag is not the one named
    missing      404      no         there is no such object (or no such version) now
    unchanged    304      no         a read that only wanted news: there is none
    past-end     416      no         the range starts at or behind the end of the object
    gone         404      no         there is no such upload: completed, aborted, or never there
    conflict     409      no         the store gave up between rivals; proves nothing; send again. But the
                                     same condition never again completes the same upload: begin a new one
    throttled    503/429  no         not now, or never reached the store: send again later
    unknown      none     perhaps    the reply was lost: applied already, or later, or never. A write may
                                     land at any time from now on. Look for your own mark before anything
                                     else; never clean up, never repeat blindly

`unknown` is never reported as another outcome, and no other outcome is reported as `unknown`. A failure that
code cannot act on is raised instead (see `errors`); then the request was not applied.

Writes name what they are based on (`ABSENT`, `Matches(etag)`, or `ANYTHING`, which must be written
aloud): there is no default, so that a blind write cannot be expressed by accident.

An ETag is a fingerprint of the content, not a version: writing A, then B, then A again restores it. A
body that is compared and swapped needs a nonce or a counter inside.
"""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar


class Outcome(enum.StrEnum):
    DONE = "done"
    EXISTS = "exists"
    CHANGED = "changed"
    MISSING = "missing"
    UNCHANGED = "unchanged"
    PAST_END = "past-end"
    GONE = "gone"
    CONFLICT = "conflict"
    THROTTLED = "throttled"
    UNKNOWN = "unknown"


NOT_NOW = frozenset({Outcome.CONFLICT, Outcome.THROTTLED})
"""Not applied, and worth a retry as it is."""


@dataclass(frozen=True, slots=True)
class Absent:
    """Write only if the key has no object (If-None-Match: *)."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Write or delete only the object with this ETag (If-Match)."""

    etag: str


@dataclass(frozen=True, slots=True)
class Anything:
    """Write or delete unconditionally: last one wins."""


ABSENT = Absent()
ANYTHING = Anything()
Condition = Absent | Matches | Anything


class Metadata(Mapping[str, str]):
    """User metadata: a mapping that cannot change, so that a request can be compared and hashed."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Mapping[str, str] | None = None) -> None:
        self._pairs = dict(pairs or {})

    @classmethod
    def of(cls, pairs: Mapping[str, str]) -> "Metadata":
        """The same pairs, unchangeable."""
        return pairs if isinstance(pairs, Metadata) else cls(pairs)

    def __getitem__(self, name: str) -> str:
        return self._pairs[name]

    def __contains__(self, name: object) -> bool:
        return name in self._pairs

    def __iter__(self) -> Iterator[str]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __hash__(self) -> int:
        return hash(frozenset(self._pairs.items())) if self._pairs else 0

    def __repr__(self) -> str:
        return f"Metadata({self._pairs!r})"


NO_METADATA = Metadata()
BINARY = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object without its bytes. Listings leave the last two fields at their defaults."""

    key: str
    etag: str
    size: int
    modified_ns: int
    version: str = ""
    """The version's identifier in a versioned bucket, else empty."""
    content_type: str = BINARY
    metadata: Metadata = NO_METADATA


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """One version of a key, or a delete marker."""

    key: str
    version: str
    latest: bool
    marker: bool
    etag: str
    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class UploadInfo:
    """A multipart upload that is neither completed nor aborted."""

    key: str
    upload: str
    started_ns: int


@dataclass(frozen=True, slots=True)
class Reply:
    outcome: Outcome
    detail: str = field(default="", compare=False)
    """The store's own message, for people."""

    @property
    def done(self) -> bool:
        return self.outcome is Outcome.DONE


@dataclass(frozen=True, slots=True)
class PutReply(Reply):
    """Of a put and of a completed upload."""

    etag: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class GetReply(Reply):
    """`info` is there when done; `unchanged` and `changed` carry none."""

    body: bytes = b""
    info: ObjectInfo | None = None


@dataclass(frozen=True, slots=True)
class HeadReply(Reply):
    info: ObjectInfo | None = None


@dataclass(frozen=True, slots=True)
class DeleteReply(Reply):
    """Deleting what is not there is `done` when unconditional, as on S3, and `missing` with a condition."""

    version: str = ""
    """In a versioned bucket: of the marker that was made, or of the version that was removed."""
    marker: bool = False


@dataclass(frozen=True, slots=True)
class ListReply(Reply):
    objects: tuple[ObjectInfo, ...] = ()
    prefixes: tuple[str, ...] = ()
    """With a delimiter: the groups of keys, each up to and with its delimiter."""
    next: str = ""
    """The token of the next page; empty on the last."""


@dataclass(frozen=True, slots=True)
class VersionsReply(Reply):
    versions: tuple[VersionInfo, ...] = ()
    """By key, and the newest first within a key."""
    next: str = ""


@dataclass(frozen=True, slots=True)
class UploadReply(Reply):
    upload: str = ""


@dataclass(frozen=True, slots=True)
class PartReply(Reply):
    etag: str = ""


@dataclass(frozen=True, slots=True)
class UploadsReply(Reply):
    uploads: tuple[UploadInfo, ...] = ()
    next: str = ""


R = TypeVar("R", bound=Reply)
R_co = TypeVar("R_co", bound=Reply, covariant=True)


@dataclass(frozen=True, slots=True)
class Request(Generic[R_co]):
    """One request; `kind` names it in events, tables and tokens."""

    kind: ClassVar[str] = ""
    reads: ClassVar[bool] = False
    """Never changes anything, whatever the outcome."""
    reply: ClassVar[type[Any]] = Reply

    def __init_subclass__(
        cls, kind: str = "", reply: type[Any] | None = None, reads: bool | None = None
    ) -> None:
        super(Request, cls).__init_subclass__()
        cls.kind = kind or cls.kind
        cls.reply = reply or cls.reply
        cls.reads = cls.reads if reads is None else reads

    def ends(self, outcome: Outcome, detail: str = "") -> R_co:
        """The reply that says `outcome` and nothing more."""
        ended: R_co = type(self).reply(outcome, detail)
        return ended

    @property
    def subject(self) -> str:
        """The key, or the prefix of a listing."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Keyed(Request[R_co]):
    """A request about one key."""

    key: str

    @property
    def subject(self) -> str:
        return self.key


@dataclass(frozen=True, slots=True)
class Listing(Request[R_co]):
    """A request about all keys with a prefix, a page at a time."""

    prefix: str = ""

    @property
    def subject(self) -> str:
        return self.prefix


@dataclass(frozen=True, slots=True)
class Put(Keyed[PutReply], kind="put", reply=PutReply):
    body: bytes
    when: Condition
    content_type: str = BINARY
    metadata: Metadata = NO_METADATA


@dataclass(frozen=True, slots=True)
class Get(Keyed[GetReply], kind="get", reply=GetReply, reads=True):
    """Read an object, or the bytes `start` up to (without) `stop` of it.

    A range past the end is cut; one that starts at the end or behind it is answered `past-end`.
    `only_if` answers `changed` on another ETag, `unless` answers `unchanged` on this one.
    """

    start: int = 0
    stop: int | None = None
    only_if: str | None = None
    unless: str | None = None
    version: str = ""


@dataclass(frozen=True, slots=True)
class Head(Keyed[HeadReply], kind="head", reply=HeadReply, reads=True):
    version: str = ""


@dataclass(frozen=True, slots=True)
class Delete(Keyed[DeleteReply], kind="delete", reply=DeleteReply):
    """Delete an object; in a versioned bucket put a delete marker, or remove `version` for good."""

    when: Matches | Anything
    version: str = ""


@dataclass(frozen=True, slots=True)
class List(Listing[ListReply], kind="list", reply=ListReply, reads=True):
    """One page of the keys that start with `prefix` and sort after `after`, in order of their bytes."""

    after: str = ""
    delimiter: str = ""
    limit: int = 1000
    token: str = ""


@dataclass(frozen=True, slots=True)
class ListVersions(Listing[VersionsReply], kind="list-versions", reply=VersionsReply, reads=True):
    limit: int = 1000
    token: str = ""


@dataclass(frozen=True, slots=True)
class CreateUpload(Keyed[UploadReply], kind="create-upload", reply=UploadReply):
    content_type: str = BINARY
    metadata: Metadata = NO_METADATA


@dataclass(frozen=True, slots=True)
class UploadPart(Keyed[PartReply], kind="upload-part", reply=PartReply):
    """Parts are numbered from 1; S3 wants 5 MiB in all but the last. A repeated number replaces the part."""

    upload: str
    number: int
    body: bytes


@dataclass(frozen=True, slots=True)
class CompleteUpload(Keyed[PutReply], kind="complete-upload", reply=PutReply):
    """Make the object of the listed parts: (number, etag), numbers rising."""

    upload: str
    parts: tuple[tuple[int, str], ...]
    when: Condition


@dataclass(frozen=True, slots=True)
class AbortUpload(Keyed[Reply], kind="abort-upload", reply=Reply):
    upload: str


@dataclass(frozen=True, slots=True)
class ListUploads(Listing[UploadsReply], kind="list-uploads", reply=UploadsReply, reads=True):
    limit: int = 1000
    token: str = ""
