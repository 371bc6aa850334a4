"""S3 requests beyond the store interface, as requests of the same kind.

A copy is a read and a conditional write that land as one: S3 promises the condition on the destination at the
moment of the write, and we have no weaker fact about the source. Requests about buckets conflict with
everything when they change something, and so cost nothing anywhere else.
"""

from dataclasses import dataclass
from typing import Any

from fencepost.impl.objects.wire.errors import S3Error
from fencepost.impl.store import requests as req
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.requests import Condition, Metadata, PartReply, PutReply, Reply
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
class Copy(req.Keyed[PutReply], kind="copy", reply=PutReply, reads=False):
    """Write the object at `source` to `key`."""

    source: str
    when: Condition
    version: str = ""
    only_if: str | None = None
    unless: str | None = None
    content_type: str | None = None
    """None, like the metadata, to take over what the source has."""
    metadata: Metadata | None = None

    def footprint(self, footprints: Any, reply: Reply) -> Footprint:
        # The source decides too if it writes, so it counts as written: see `footprints`.
        read, written = footprints.changing(self.key)
        return (read | footprints.bit("key", self.source), written)


@dataclass(frozen=True, slots=True)
class CopyPart(req.Keyed[PartReply], kind="copy-part", reply=PartReply, reads=False):
    """Upload the object at `source`, or a range of it, as a part; `past-end` if the range is longer."""

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
