"""S3 requests beyond the store interface, as requests of the same kind.

A copy is two steps, see docs/decisions/0027: the store reads the source (`ReadSource`), and later writes the
destination (`Copy`, `CopyPart`). S3 promises that each is atomic by itself, and nothing about what other
requests do in between. The first step costs nothing, no fault strikes it, and a crash there ends the copy;
every fault of a request is tried at the second. An attempt that the SDK repeats reads the source again.

Requests about buckets conflict with everything when they change something, and so cost nothing anywhere else.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from fencepost.impl.objects.wire.errors import S3Error
from fencepost.impl.store import requests as req
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.requests import Condition, Metadata, Outcome, PartReply, PutReply, Reply
from fencepost.sim.world.footprints import EVERY_STEP, EVERYTHING, LOCAL, Footprint


class Refused(S3Error, StoreError):
    """S3 refuses the request with an error code; it was not applied."""

    travels = True
    """The refusal comes over the network, where it can be lost."""

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
class SourceReply(Reply):
    """The content of a copy, as it was when the store read it."""

    body: bytes = b""
    content_type: str = req.BINARY
    metadata: Metadata = req.NO_METADATA


@dataclass(frozen=True, slots=True)
class ReadSource:
    """First step of a copy: the store reads the object. It is no request: the copy is one, and costs one."""

    key: str
    version: str = ""
    only_if: str | None = None
    unless: str | None = None
    kind: ClassVar[str] = "copy-source"
    reads: ClassVar[bool] = True

    @property
    def subject(self) -> str:
        return self.key

    def ends(self, outcome: Outcome, detail: str = "") -> SourceReply:
        """Return the reply with this outcome and nothing more."""
        return SourceReply(outcome, detail)

    def footprint(self, footprints: Any, reply: Reply) -> Footprint:
        found: Footprint = footprints.reading("key", self.key)
        return found

    def expected(self, footprints: Any) -> Footprint:
        return self.footprint(footprints, self.ends(Outcome.DONE))


@dataclass(frozen=True, slots=True)
class Repeated(Reply):
    """The SDK lost the reply and sends the copy again: both steps."""


@dataclass(frozen=True, slots=True)
class Copy(req.Keyed[PutReply], kind="copy", reply=PutReply, reads=False):
    """Write to `key` what the store read at `source`."""

    source: ReadSource
    when: Condition
    content_type: str | None = None
    """None, like the metadata, to take over what the source has."""
    metadata: Metadata | None = None
    found: SourceReply = SourceReply(Outcome.MISSING)
    """Content of the source, once it was read."""

    def repeat(self) -> Repeated:
        """Return the answer that makes the SDK begin again."""
        return Repeated(Outcome.UNKNOWN)

    def footprint(self, footprints: Any, reply: Reply) -> Footprint:
        if reply.outcome is Outcome.DONE:
            return self.expected(footprints)
        found: Footprint = footprints.reading("key", self.key)
        return found

    def expected(self, footprints: Any) -> Footprint:
        found: Footprint = footprints.changing(self.key)
        return found


@dataclass(frozen=True, slots=True)
class CopyPart(req.Keyed[PartReply], kind="copy-part", reply=PartReply, reads=False):
    """Upload what the store read, or a range of it, as a part; `past-end` if the range is longer."""

    upload: str
    number: int
    source: ReadSource
    start: int = 0
    stop: int | None = None
    found: SourceReply = SourceReply(Outcome.MISSING)

    def repeat(self) -> Repeated:
        """Return the answer that makes the SDK begin again."""
        return Repeated(Outcome.UNKNOWN)

    def footprint(self, footprints: Any, reply: Reply) -> Footprint:
        upload = footprints.upload(self.key, self.upload)
        return (EVERY_STEP | upload, upload)

    def expected(self, footprints: Any) -> Footprint:
        return self.footprint(footprints, self.ends(Outcome.DONE))


@dataclass(frozen=True, slots=True)
class ListParts(req.Keyed[PartsReply], kind="list-parts", reply=PartsReply, reads=True):
    upload: str

    def footprint(self, footprints: Any, reply: Reply) -> Footprint:
        return (EVERY_STEP | footprints.upload(self.key, self.upload), 0)


@dataclass(frozen=True, slots=True)
class OnBucket(req.Request[BucketReply], reply=BucketReply, reads=True):
    """A request about a bucket as a whole."""

    bucket: str = ""

    @property
    def subject(self) -> str:
        return self.bucket

    def footprint(self, footprints: Any, reply: Reply) -> Footprint:
        # Every step conflicts with a change to a bucket, so a read of one needs no footprint.
        return LOCAL


@dataclass(frozen=True, slots=True)
class HeadBucket(OnBucket, kind="head-bucket"):
    """Read whether a bucket exists and keeps versions."""


@dataclass(frozen=True, slots=True)
class ListBuckets(OnBucket, kind="list-buckets"):
    """Read the names of all buckets."""


@dataclass(frozen=True, slots=True)
class ChangeBucket(OnBucket, reads=False):
    def footprint(self, footprints: Any, reply: Reply) -> Footprint:
        return (EVERY_STEP, EVERYTHING if reply.done else 0)


@dataclass(frozen=True, slots=True)
class CreateBucket(ChangeBucket, kind="create-bucket"):
    """`exists` when there is one of this name."""


@dataclass(frozen=True, slots=True)
class DeleteBucket(ChangeBucket, kind="delete-bucket"):
    """`exists` when the bucket is not empty."""

    def footprint(self, footprints: Any, reply: Reply) -> Footprint:
        # Its contents decide.
        return (EVERY_STEP, EVERYTHING)


@dataclass(frozen=True, slots=True)
class KeepVersions(ChangeBucket, kind="keep-versions"):
    """Keep the versions of a bucket's objects from now on."""
