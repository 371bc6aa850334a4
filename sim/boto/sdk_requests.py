"""S3 requests beyond the store interface, as requests of the same kind.

A copy is a read and a conditional write that land as one: S3 promises the condition on the destination at the
moment of the write, and we have no weaker fact about the source. Requests about buckets conflict with
everything when they change something, and so cost nothing anywhere else.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from fencepost.impl.store import requests as req
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.requests import Condition, Metadata, PartReply, PutReply, Reply
from fencepost.sim.world.footprints import EVERY_STEP, EVERYTHING, LOCAL, Footprint


class Refused(StoreError):
    """S3 refuses the request with an error code; it was not applied."""

    travels = True
    """The refusal comes over the network, where it can be lost."""

    def __init__(self, status: int, code: str, message: str, **details: str) -> None:
        super().__init__(f"{code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.details = details

    # Refusals with the same text are equal: histories are compared by them.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Refused) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


@dataclass(frozen=True, slots=True)
class PartsReply(Reply):
    parts: tuple[tuple[int, str, int], ...] = ()
    """Number, ETag and size."""
    started_ns: int = 0


@dataclass(frozen=True, slots=True)
class BucketReply(Reply):
    versioned: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Copy(req.Keyed[PutReply]):
    """Write the object at `source` to `key`."""

    kind: ClassVar[str] = "copy"
    reads: ClassVar[bool] = False
    reply: ClassVar[type[Any]] = PutReply

    source: str
    when: Condition
    version: str = ""
    only_if: str | None = None
    unless: str | None = None
    content_type: str | None = None
    """None, like the metadata, to take over what the source has."""
    metadata: Metadata | None = None

    def footprint(self, footprints: Any, reply: Reply) -> Footprint:
        # Whether it writes is decided by the source as well, so it counts as written: see `footprints`.
        read, written = footprints.changing(self.key)
        return (read | footprints.bit("key", self.source), written)


@dataclass(frozen=True, slots=True)
class CopyPart(req.Keyed[PartReply]):
    """Upload the object at `source`, or a range of it, as a part."""

    kind: ClassVar[str] = "copy-part"
    reads: ClassVar[bool] = False
    reply: ClassVar[type[Any]] = PartReply

    upload: str
    number: int
    source: str
    version: str = ""
    start: int = 0
    stop: int | None = None
    only_if: str | None = None
    unless: str | None = None

    def footprint(self, footprints: Any, reply: Reply) -> Footprint:
        upload = footprints.upload(self.key, self.upload)
        return (EVERY_STEP | footprints.bit("key", self.source) | upload, upload)


@dataclass(frozen=True, slots=True)
class ListParts(req.Keyed[PartsReply]):
    kind: ClassVar[str] = "list-parts"
    reads: ClassVar[bool] = True
    reply: ClassVar[type[Any]] = PartsReply

    upload: str

    def footprint(self, footprints: Any, reply: Reply) -> Footprint:
        return (EVERY_STEP | footprints.upload(self.key, self.upload), 0)


@dataclass(frozen=True, slots=True)
class OnBucket(req.Request[BucketReply]):
    """A request about a bucket as a whole."""

    reply: ClassVar[type[Any]] = BucketReply
    reads: ClassVar[bool] = True

    bucket: str = ""

    @property
    def subject(self) -> str:
        return self.bucket

    def footprint(self, footprints: Any, reply: Reply) -> Footprint:
        # Every step conflicts with a change to a bucket, so a read of one needs no footprint.
        return LOCAL


@dataclass(frozen=True, slots=True)
class HeadBucket(OnBucket):
    kind: ClassVar[str] = "head-bucket"


@dataclass(frozen=True, slots=True)
class ListBuckets(OnBucket):
    kind: ClassVar[str] = "list-buckets"


@dataclass(frozen=True, slots=True)
class ChangeBucket(OnBucket):
    reads: ClassVar[bool] = False

    def footprint(self, footprints: Any, reply: Reply) -> Footprint:
        return (EVERY_STEP, EVERYTHING if reply.done else 0)


@dataclass(frozen=True, slots=True)
class CreateBucket(ChangeBucket):
    kind: ClassVar[str] = "create-bucket"


@dataclass(frozen=True, slots=True)
class DeleteBucket(ChangeBucket):
    """`exists` when the bucket is not empty."""

    kind: ClassVar[str] = "delete-bucket"

    def footprint(self, footprints: Any, reply: Reply) -> Footprint:
        # Its contents decide.
        return (EVERY_STEP, EVERYTHING)


@dataclass(frozen=True, slots=True)
class KeepVersions(ChangeBucket):
    kind: ClassVar[str] = "keep-versions"
