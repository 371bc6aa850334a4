"""All buckets of a world in one: an object's key is `bucket/key`, in counterexamples, tokens, events and
properties.

The semantics are the reference bucket's. It adds the requests that only an SDK sends (see `sdk_requests`),
and what S3 refuses that the interface cannot express. Requests arrive here as S3 would take them, so the
stricter rules of the interface for keys and metadata do not apply.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from fencepost.impl.store import requests as req
from fencepost.impl.store.bucket import fingerprint
from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.requests import Matches, Outcome
from fencepost.sim.boto import sdk_requests as sdk
from fencepost.sim.boto.sdk_requests import BucketReply, Refused
from fencepost.sim.world.bucket import WorldBucket
from fencepost.sim.world.run import RunState

ANY = Matches("*")
"""If-Match: *, which only deletes may use: any object, but there must be one."""
NULL = "null"
"""The version of an object in a bucket that keeps none."""


class Buckets(WorldBucket):
    """Takes the place of the world's bucket."""

    answering: ClassVar[Mapping[type, str]] = {
        **WorldBucket.answering,
        sdk.ReadSource: "_read_source",
        sdk.Copy: "_copy",
        sdk.CopyPart: "_copy_part",
        sdk.ListParts: "_list_parts",
    }
    about: ClassVar[Mapping[type, str]] = {
        sdk.HeadBucket: "_head_bucket",
        sdk.ListBuckets: "_list_buckets",
        sdk.CreateBucket: "_create_bucket",
        sdk.DeleteBucket: "_delete_bucket",
        sdk.KeepVersions: "_keep_versions",
    }
    """The same for requests about buckets, which have no time."""

    def __init__(self, plain: WorldBucket) -> None:
        super().__init__(versioned=plain.versioned, part_bytes_min=plain._part_bytes_min)
        self.keeps: dict[str, bool] = {}
        """The buckets there are, and whether they keep versions."""
        self._by_default = plain.versioned

    def answer(self, request: Any, now_ns: int) -> Any:
        about = self.about.get(type(request))
        if about is not None:
            return getattr(self, about)(request)
        before = self.versioned
        self.versioned = self.keeps_versions(request.subject)
        try:
            return getattr(self, self.answering[type(request)])(request, now_ns)
        finally:
            self.versioned = before

    def state(self) -> tuple[Any, ...]:
        return (*super().state(), *self.keeps.items())

    def keeps_versions(self, name: str) -> bool:
        """Return true if the bucket of this name, or of the object of this name, keeps versions."""
        bucket = name.partition("/")[0]
        keeps = self.keeps.get(bucket)
        if keeps is None:
            raise no_such_bucket(bucket)
        return keeps

    # Buckets.

    def create(self, name: str, *, versioned: bool | None = None) -> None:
        self.keeps[name] = self._by_default if versioned is None else versioned
        self._settle()

    def _settle(self) -> None:
        """Outside of a request: whether any bucket keeps versions."""
        self.versioned = any(self.keeps.values())
        self._shown.clear()

    def _head_bucket(self, request: sdk.HeadBucket) -> BucketReply:
        return BucketReply(Outcome.DONE, versioned=self.keeps_versions(request.bucket))

    def _list_buckets(self, _request: sdk.ListBuckets) -> BucketReply:
        return BucketReply(Outcome.DONE, names=tuple(sorted(self.keeps)))

    def _create_bucket(self, request: sdk.CreateBucket) -> BucketReply:
        if request.bucket in self.keeps:
            return BucketReply(Outcome.EXISTS)
        self.create(request.bucket)
        return BucketReply(Outcome.DONE)

    def _delete_bucket(self, request: sdk.DeleteBucket) -> BucketReply:
        self.keeps_versions(request.bucket)
        if self._range(f"{request.bucket}/", ""):
            return BucketReply(Outcome.EXISTS)
        del self.keeps[request.bucket]
        self._settle()
        return BucketReply(Outcome.DONE)

    def _keep_versions(self, request: sdk.KeepVersions) -> BucketReply:
        self.keeps_versions(request.bucket)
        self.create(request.bucket, versioned=True)
        return BucketReply(Outcome.DONE)

    # Objects.

    def _refusal(self, key: str, when: req.Condition) -> Outcome | None:
        if when != ANY:
            return super()._refusal(key, when)
        if self._current(key):
            return None
        return Outcome.CHANGED if self._writes.get(key) else Outcome.MISSING  # behind a delete marker

    def _find(self, key: str, version: str) -> Any:
        return super()._find(key, "" if version == NULL and not self.versioned else version)

    def _need_versions(self) -> None:
        if not self.versioned:
            raise Refused("InvalidArgument", "Invalid version id specified", argument="versionId")

    def _delete_version(self, request: Any) -> Any:
        if request.version == NULL and not self.versioned:
            return self._delete(req.Delete(request.key, request.when), 0)
        return super()._delete_version(request)

    def _list_versions(self, request: req.ListVersions, now_ns: int) -> req.VersionsReply:
        if self.versioned:
            return super()._list_versions(request, now_ns)
        found = ((key, self._current(key)) for key in self._range(request.prefix, ""))
        versions = tuple(
            self.version_info(key, NULL, True, False, write.etag, len(write.body), write.modified_ns)
            for key, write in found
            if write is not None
        )
        return req.VersionsReply(Outcome.DONE, versions=versions)

    def _read_source(self, request: sdk.ReadSource, _now_ns: int) -> sdk.SourceReply:
        write = self._find(request.key, request.version)
        if write is None:
            return request.ends(Outcome.MISSING)
        if request.only_if not in (None, write.etag) or request.unless == write.etag:
            return request.ends(Outcome.CHANGED)
        return sdk.SourceReply(
            Outcome.DONE, body=write.body, content_type=write.content_type, metadata=write.metadata
        )

    def _copy(self, request: sdk.Copy, now_ns: int) -> req.PutReply:
        source = request.found
        refused = self._refusal(request.key, request.when)
        if refused is not None:
            return request.ends(refused)
        content_type = source.content_type if request.content_type is None else request.content_type
        metadata = source.metadata if request.metadata is None else request.metadata
        etag = fingerprint(source.body)
        return self._write(request.key, source.body, etag, now_ns, content_type, metadata)

    # Uploads.

    def _copy_part(self, request: sdk.CopyPart, now_ns: int) -> req.PartReply:
        source = request.found
        if self._upload(request.key, request.upload) is None:
            return request.ends(Outcome.GONE)
        if request.stop is not None and request.stop > len(source.body):
            return request.ends(Outcome.PAST_END)
        body = source.body[request.start : request.stop]
        return self._upload_part(req.UploadPart(request.key, request.upload, request.number, body), now_ns)

    def _list_parts(self, request: sdk.ListParts, _now_ns: int) -> sdk.PartsReply:
        upload = self._upload(request.key, request.upload)
        if upload is None:
            return request.ends(Outcome.GONE)
        parts = tuple((number, etag, len(body)) for number, (etag, body) in sorted(upload.parts.items()))
        return sdk.PartsReply(Outcome.DONE, parts=parts, started_ns=upload.started_ns)

    def _complete_upload(self, request: req.CompleteUpload, now_ns: int) -> req.PutReply:
        upload = self._upload(request.key, request.upload)
        if upload is not None:
            for number, etag in request.parts:
                if number not in upload.parts or upload.parts[number][0] != etag:
                    raise Refused("InvalidPart", part_number=str(number), etag=etag)
            if any(len(upload.parts[n][1]) < self._part_bytes_min for n, _ in request.parts[:-1]):
                raise Refused("EntityTooSmall", min_size_allowed=str(self._part_bytes_min))
        return super()._complete_upload(request, now_ns)


def install(run: RunState) -> Buckets:
    """Return the buckets of a run, installed at the first call."""
    bucket = run.bucket
    if type(bucket) is Buckets:
        return bucket
    if bucket.contents():
        raise Misuse("make the boto3 client before anything is stored: keys get their bucket's name in front")
    buckets = Buckets(bucket)
    run.replace_bucket(buckets)
    return buckets


def no_such_bucket(name: str) -> Refused:
    return Refused("NoSuchBucket", bucket_name=name)
