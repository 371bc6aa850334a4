"""S3's operations on buckets and objects: parameters of the service model in, values of the model out.

Bodies are not here: a put receives its content piece by piece (`Receiving`), a get answers with an open file
(`Content`). `KNOWN` lists for every operation the parameters that it honours; a request with any other is
refused, so that no condition, encryption or retention is ignored in silence.
"""

import base64
import contextlib
import hashlib
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

from fencepost.impl.objects.buckets import Buckets, require_done
from fencepost.impl.objects.credentials import ROOT, Caller
from fencepost.impl.objects.wire.errors import refuse
from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.files import FileStore
from fencepost.impl.store.files.attributes import Attributes
from fencepost.impl.store.requests import (
    ABSENT,
    ANYTHING,
    BINARY,
    AbortUpload,
    CompleteUpload,
    Condition,
    CreateUpload,
    Delete,
    List,
    ListUploads,
    Matches,
    Metadata,
    ObjectInfo,
    Outcome,
    UploadInfo,
)

PART_BYTES_MIN = 5 << 20
COPY_BYTES_MAX = 5 << 30
_COPY_STEP = 1 << 20
CHECKSUMS = ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256")
HEADERS = ("CacheControl", "ContentDisposition", "ContentEncoding", "ContentLanguage", "Expires")
_CHECKSUM_PARAMETERS = tuple(f"Checksum{name}" for name in CHECKSUMS)
_WRITING = ("Bucket", "Key", "ContentType", "Metadata", *HEADERS, "StorageClass", "ACL")
_READ_IF = ("IfMatch", "IfNoneMatch", "IfModifiedSince", "IfUnmodifiedSince")
_COPY_IF = tuple(f"CopySource{name}" for name in _READ_IF)
_SHOWN = tuple(
    f"Response{name}"
    for name in (
        "CacheControl",
        "ContentDisposition",
        "ContentEncoding",
        "ContentLanguage",
        "ContentType",
        "Expires",
    )
)
_LISTED = ("Bucket", "Prefix", "Delimiter", "MaxKeys", "EncodingType")
KNOWN: Mapping[str, tuple[str, ...]] = {
    "ListBuckets": ("Prefix", "MaxBuckets", "ContinuationToken"),
    "CreateBucket": ("Bucket", "CreateBucketConfiguration", "ACL", "ObjectOwnership"),
    "HeadBucket": ("Bucket",),
    "DeleteBucket": ("Bucket",),
    "GetBucketLocation": ("Bucket",),
    "GetBucketVersioning": ("Bucket",),
    "GetBucketTagging": ("Bucket",),
    "PutBucketTagging": ("Bucket", "Tagging", "ContentMD5"),
    "DeleteBucketTagging": ("Bucket",),
    "PutObject": (*_WRITING, "IfMatch", "IfNoneMatch", "ContentMD5", *_CHECKSUM_PARAMETERS),
    "GetObject": ("Bucket", "Key", *_READ_IF, "Range", *_SHOWN, "ChecksumMode"),
    "HeadObject": ("Bucket", "Key", *_READ_IF, "Range", *_SHOWN, "ChecksumMode"),
    "DeleteObject": ("Bucket", "Key", "IfMatch"),
    "DeleteObjects": ("Bucket", "Delete", *_CHECKSUM_PARAMETERS, "ContentMD5"),
    "CopyObject": (*_WRITING, "CopySource", *_COPY_IF, "MetadataDirective", "IfMatch", "IfNoneMatch"),
    "GetObjectAttributes": ("Bucket", "Key", "ObjectAttributes"),
    "ListObjects": (*_LISTED, "Marker"),
    "ListObjectsV2": (*_LISTED, "ContinuationToken", "StartAfter", "FetchOwner"),
    "CreateMultipartUpload": (*_WRITING, "ChecksumType"),
    "UploadPart": ("Bucket", "Key", "UploadId", "PartNumber", "ContentMD5", *_CHECKSUM_PARAMETERS),
    "UploadPartCopy": ("Bucket", "Key", "UploadId", "PartNumber", "CopySource", "CopySourceRange", *_COPY_IF),
    "CompleteMultipartUpload": (
        "Bucket", "Key", "UploadId", "MultipartUpload", "IfMatch", "IfNoneMatch", "MpuObjectSize",
    ),
    "AbortMultipartUpload": ("Bucket", "Key", "UploadId"),
    "ListMultipartUploads": ("Bucket", "Prefix", "MaxUploads", "KeyMarker", "UploadIdMarker", "EncodingType"),
    "ListParts": ("Bucket", "Key", "UploadId", "MaxParts", "PartNumberMarker"),
}  # fmt: skip


@dataclass
class Content:
    """What a GET sends: a part of an open file, which its owner closes."""

    values: dict[str, Any]
    status: int = 200
    fd: int = -1
    start: int = 0
    stop: int = 0


@dataclass
class Receiving:
    """A body that is on its way into a file."""

    write: Callable[[bytes], None]
    publish: Callable[[str, dict[str, str]], dict[str, Any]]
    """Called with the MD5 of what was written and its checksums; returns the values of the response."""


@dataclass(frozen=True)
class Operations:
    """The operations on one root directory, for one caller."""

    buckets: Buckets
    caller: Caller
    values: dict[str, Any] = field(default_factory=dict)

    # Buckets.

    def list_buckets(self, p: Mapping[str, Any]) -> dict[str, Any]:
        limit, after = p.get("MaxBuckets", 10_000), p.get("ContinuationToken", "")
        if not 1 <= limit <= 10_000:
            refuse("InvalidArgument", argument="max-buckets")
        found = [
            (name, document)
            for name, document in self.buckets.all()
            if self.caller.may_use(name) and name > after and name.startswith(p.get("Prefix", ""))
        ]
        page = [
            {"Name": name, "CreationDate": moment(document.created_ns)} for name, document in found[:limit]
        ]
        more = {"ContinuationToken": page[-1]["Name"]} if len(found) > limit else {}
        return {"Buckets": page, "Owner": OWNER, **more}

    def create_bucket(self, p: Mapping[str, Any]) -> dict[str, Any]:
        if self.caller.name != ROOT:
            refuse("AccessDenied")
        headers_of(p)  # an ACL is refused here too
        self.buckets.create(p["Bucket"])
        return {"Location": f"/{p['Bucket']}"}

    def head_bucket(self, p: Mapping[str, Any]) -> dict[str, Any]:
        self.buckets.document(p["Bucket"])
        return {"BucketRegion": "us-east-1"}

    def delete_bucket(self, p: Mapping[str, Any]) -> dict[str, Any]:
        if self.caller.name != ROOT:
            refuse("AccessDenied")
        self.buckets.delete(p["Bucket"])
        return {}

    def get_bucket_location(self, p: Mapping[str, Any]) -> dict[str, Any]:
        self.buckets.document(p["Bucket"])
        return {}

    def get_bucket_versioning(self, p: Mapping[str, Any]) -> dict[str, Any]:
        self.buckets.document(p["Bucket"])
        return {}

    def get_bucket_tagging(self, p: Mapping[str, Any]) -> dict[str, Any]:
        tags = self.buckets.document(p["Bucket"]).tags
        if not tags:
            refuse("NoSuchTagSet", bucket_name=p["Bucket"])
        return {"TagSet": [{"Key": key, "Value": value} for key, value in tags.items()]}

    def put_bucket_tagging(self, p: Mapping[str, Any]) -> dict[str, Any]:
        pairs = [(tag["Key"], tag["Value"]) for tag in p["Tagging"]["TagSet"]]
        if len(dict(pairs)) != len(pairs) or len(pairs) > 50:
            refuse("InvalidTag")
        if any(not 0 < len(key) <= 128 or len(value) > 256 for key, value in pairs):
            refuse("InvalidTag")
        self._change_tags(p["Bucket"], dict(pairs))
        return {}

    def delete_bucket_tagging(self, p: Mapping[str, Any]) -> dict[str, Any]:
        self._change_tags(p["Bucket"], {})
        return {}

    def _change_tags(self, bucket: str, tags: dict[str, str]) -> None:
        self.buckets.change(bucket, lambda document: type(document)(**{**vars(document), "tags": tags}))

    # Objects.

    @contextlib.contextmanager
    def put_object(self, p: Mapping[str, Any]) -> Iterator[Receiving]:
        key = p["Key"]
        with self._store(p) as store, store.incoming(key, condition(p)) as incoming:

            def publish(md5: str, checksums: dict[str, str]) -> dict[str, Any]:
                extra = headers_of(p) | {f"Checksum{name.upper()}": text for name, text in checksums.items()}
                known = Attributes(
                    md5,
                    "",
                    p.get("ContentType", BINARY),
                    Metadata(p.get("Metadata", {})),
                    extra=Metadata(extra),
                )
                reply = incoming.publish(known)
                require_done(reply.outcome)
                return {"ETag": quoted(reply.etag), **_checksums(extra)}

            yield Receiving(incoming.write, publish)

    @contextlib.contextmanager
    def get_object(self, p: Mapping[str, Any]) -> Iterator[Content]:
        with self._store(p) as store, store.opened(p["Key"]) as found:
            if found is None:
                refuse("NoSuchKey", key=p["Key"])
            info = found.info(p["Key"])
            check_reading(p, info.etag, info.modified_ns)
            values = {"AcceptRanges": "bytes", **described(info, found.attributes.extra), **shown(p)}
            if p.get("ChecksumMode") != "ENABLED" or "Range" in p:
                values = {name: value for name, value in values.items() if not name.startswith("Checksum")}
            start, stop, status = 0, info.size, 200
            span = range_of(p.get("Range", ""), info.size)
            if span is not None:
                (start, stop), status = span, 206
                values["ContentRange"] = f"bytes {start}-{stop - 1}/{info.size}"
            values["ContentLength"] = stop - start
            yield Content(values, status, found.fd, start, stop)

    head_object = get_object

    def delete_object(self, p: Mapping[str, Any]) -> dict[str, Any]:
        with self._store(p) as store:
            when = Matches(unquoted(p["IfMatch"])) if "IfMatch" in p else ANYTHING
            require_done(store.send(Delete(p["Key"], when)).outcome)
        return {}

    def delete_objects(self, p: Mapping[str, Any]) -> dict[str, Any]:
        wanted = p["Delete"].get("Objects", [])
        if not 0 < len(wanted) <= 1000:
            refuse("MalformedXML")
        deleted, errors = [], []
        with self._store(p) as store:
            for one in wanted:
                if one.keys() - {"Key", "ETag"}:
                    refuse("NotImplemented", header=min(one.keys() - {"Key", "ETag"}))
                when = Matches(unquoted(one["ETag"])) if "ETag" in one else ANYTHING
                try:
                    outcome = store.send(Delete(one["Key"], when)).outcome
                except Misuse as error:
                    errors.append({"Key": one["Key"], "Code": "InvalidArgument", "Message": str(error)})
                    continue
                if outcome is Outcome.DONE:
                    deleted.append({"Key": one["Key"]})
                else:
                    code = "PreconditionFailed" if outcome is Outcome.CHANGED else "InternalError"
                    code = "NoSuchKey" if outcome is Outcome.MISSING else code
                    errors.append({"Key": one["Key"], "Code": code, "Message": code})
        return {"Errors": errors, **({} if p["Delete"].get("Quiet") else {"Deleted": deleted})}

    def copy_object(self, p: Mapping[str, Any]) -> dict[str, Any]:
        replaces = p.get("MetadataDirective", "COPY") == "REPLACE"
        headers = headers_of(p)
        with self._source(p) as source:
            info, extra = source.info, source.extra
            if info.size > COPY_BYTES_MAX:
                refuse("InvalidRequest", "The specified copy source is larger than 5 GiB: copy it in parts")
            same = (p["Bucket"], p["Key"]) == source.place
            if same and not replaces:
                refuse(
                    "InvalidRequest", "This copy request is illegal: it changes neither object nor metadata"
                )
            with self._store(p) as store, store.incoming(p["Key"], condition(p)) as incoming:
                md5 = copy_bytes(source.fd, 0, info.size, incoming.write)
                if replaces:
                    extra = Metadata(headers | _checksums(extra))
                known = Attributes(
                    info.etag if "-" not in info.etag else md5,
                    "",
                    p.get("ContentType", BINARY) if replaces else info.content_type,
                    Metadata(p.get("Metadata", {})) if replaces else info.metadata,
                    extra=extra,
                )
                reply = incoming.publish(known)
                require_done(reply.outcome)
        return {"CopyObjectResult": {"ETag": quoted(reply.etag), "LastModified": self._now()}}

    def get_object_attributes(self, p: Mapping[str, Any]) -> dict[str, Any]:
        with self._store(p) as store, store.opened(p["Key"]) as found:
            if found is None:
                refuse("NoSuchKey", key=p["Key"])
            info = found.info(p["Key"])
            every = {
                "ETag": info.etag,
                "ObjectSize": info.size,
                "StorageClass": "STANDARD",
                "Checksum": _checksums(found.attributes.extra) or None,
            }
        wanted = {name: every.get(name) for name in p["ObjectAttributes"]}
        return {**wanted, "LastModified": moment(info.modified_ns)}

    # Listings.

    def list_objects_v2(self, p: Mapping[str, Any]) -> dict[str, Any]:
        token = p.get("ContinuationToken", "")
        after = _untoken(token) if token else p.get("StartAfter", "")
        page, more, last = self._page(p, after, with_owner=p.get("FetchOwner", False))
        text = encoder(p)
        return {
            **page,
            "KeyCount": len(page["Contents"]) + len(page["CommonPrefixes"]),
            "ContinuationToken": token or None,
            "NextContinuationToken": _token(last) if more else None,
            "StartAfter": text(p["StartAfter"]) if "StartAfter" in p else None,
        }

    def list_objects(self, p: Mapping[str, Any]) -> dict[str, Any]:
        marker = p.get("Marker", "")
        page, more, last = self._page(p, marker, with_owner=True)
        text = encoder(p)
        return {**page, "Marker": text(marker), "NextMarker": text(last) if more else None}

    def _page(
        self, p: Mapping[str, Any], after: str, *, with_owner: bool
    ) -> tuple[dict[str, Any], bool, str]:
        limit, prefix, delimiter = p.get("MaxKeys", 1000), p.get("Prefix", ""), p.get("Delimiter", "")
        if limit < 0:
            refuse("InvalidArgument", argument="max-keys", value=str(limit))
        text = encoder(p)
        objects: list[ObjectInfo] = []
        groups: list[str] = []
        more, last = False, after
        with self._store(p) as store:
            if limit:
                # A group that ends the page before is passed as a whole.
                start = after + "\U0010ffff" if delimiter and after.endswith(delimiter) else after
                reply = store.send(List(prefix, after=start, delimiter=delimiter, limit=min(limit, 1000)))
                require_done(reply.outcome)
                objects, groups, more = [*reply.objects], [*reply.prefixes], bool(reply.next)
        if objects or groups:
            last = max([*(info.key for info in objects), *groups], key=str.encode)
        owner = {"Owner": OWNER} if with_owner else {}
        contents = [
            {
                "Key": text(info.key),
                "LastModified": moment(info.modified_ns),
                "ETag": quoted(info.etag),
                "Size": info.size,
                "StorageClass": "STANDARD",
                **owner,
            }
            for info in objects
        ]
        page = {
            "Name": p["Bucket"],
            "Prefix": text(prefix),
            "Delimiter": text(delimiter) if delimiter else None,
            "MaxKeys": limit,
            "EncodingType": p.get("EncodingType"),
            "IsTruncated": more,
            "Contents": contents,
            "CommonPrefixes": [{"Prefix": text(group)} for group in groups],
        }
        return page, more, last

    # Multipart uploads.

    def create_multipart_upload(self, p: Mapping[str, Any]) -> dict[str, Any]:
        request = CreateUpload(p["Key"], p.get("ContentType", BINARY), Metadata(p.get("Metadata", {})))
        with self._store(p) as store:
            reply = store.begin_upload(request, Metadata(headers_of(p)))
        require_done(reply.outcome)
        return {"Bucket": p["Bucket"], "Key": p["Key"], "UploadId": reply.upload}

    @contextlib.contextmanager
    def upload_part(self, p: Mapping[str, Any]) -> Iterator[Receiving]:
        with self._store(p) as store, self._part(store, p) as part:

            def publish(md5: str, checksums: dict[str, str]) -> dict[str, Any]:
                reply = part.publish(md5)
                require_done(reply.outcome)
                named = {f"Checksum{name.upper()}": text for name, text in checksums.items()}
                return {"ETag": quoted(reply.etag), **named}

            yield Receiving(part.write, publish)

    @contextlib.contextmanager
    def _part(self, store: FileStore, p: Mapping[str, Any]) -> Iterator[Any]:
        if not 1 <= p["PartNumber"] <= 10_000:
            refuse("InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive")
        with store.incoming_part(p["Key"], p["UploadId"], p["PartNumber"]) as part:
            if part is None:
                refuse("NoSuchUpload", upload_id=p["UploadId"])
            yield part

    def upload_part_copy(self, p: Mapping[str, Any]) -> dict[str, Any]:
        with self._source(p) as source, self._store(p) as store, self._part(store, p) as part:
            start, stop = 0, source.info.size
            if "CopySourceRange" in p:
                found = re.fullmatch(r"bytes=(\d{1,18})-(\d{1,18})", p["CopySourceRange"])
                if found is None or int(found[2]) >= stop or int(found[1]) > int(found[2]):
                    refuse("InvalidArgument", argument="x-amz-copy-source-range", value=p["CopySourceRange"])
                start, stop = int(found[1]), int(found[2]) + 1
            reply = part.publish(copy_bytes(source.fd, start, stop, part.write))
            require_done(reply.outcome)
        return {"CopyPartResult": {"ETag": quoted(reply.etag), "LastModified": self._now()}}

    def complete_multipart_upload(self, p: Mapping[str, Any]) -> dict[str, Any]:
        named = p.get("MultipartUpload", {}).get("Parts", [])
        parts = tuple((part.get("PartNumber", 0), unquoted(part.get("ETag", ""))) for part in named)
        if not parts:
            refuse("MalformedXML")
        if any(left[0] >= right[0] for left, right in itertools.pairwise(parts)):
            refuse("InvalidPartOrder")
        with self._store(p) as store:
            uploaded = store.parts(p["Key"], p["UploadId"])
            if uploaded is None:
                refuse("NoSuchUpload", upload_id=p["UploadId"])
            known = {part.number: part for part in uploaded}
            for number, etag in parts:
                if number not in known or known[number].etag != etag:
                    refuse("InvalidPart", upload_id=p["UploadId"], part_number=str(number), etag=etag)
            small = [number for number, _ in parts[:-1] if known[number].size < PART_BYTES_MIN]
            if small:
                refuse("EntityTooSmall", part_number=str(small[0]), min_size_allowed=str(PART_BYTES_MIN))
            if p.get("MpuObjectSize") not in (None, sum(known[number].size for number, _ in parts)):
                refuse("InvalidRequest", "The provided 'x-amz-mp-object-size' header value does not match.")
            reply = store.send(CompleteUpload(p["Key"], p["UploadId"], parts, condition(p)))
        require_done(reply.outcome)
        place = f"/{p['Bucket']}/{quote(p['Key'])}"
        return {"Location": place, "Bucket": p["Bucket"], "Key": p["Key"], "ETag": quoted(reply.etag)}

    def abort_multipart_upload(self, p: Mapping[str, Any]) -> dict[str, Any]:
        with self._store(p) as store:
            require_done(store.send(AbortUpload(p["Key"], p["UploadId"])).outcome)
        return {}

    def list_multipart_uploads(self, p: Mapping[str, Any]) -> dict[str, Any]:
        limit, text = p.get("MaxUploads", 1000), encoder(p)
        after = (p.get("KeyMarker", ""), p.get("UploadIdMarker", ""))
        found: list[UploadInfo] = []
        with self._store(p) as store:
            token = ""
            while True:
                page = store.send(ListUploads(p.get("Prefix", ""), token=token))
                require_done(page.outcome)
                found += page.uploads
                token = page.next
                if not token:
                    break
        if after[0]:
            passed = after if after[1] else (after[0], "\U0010ffff")
            found = [one for one in found if (one.key, one.upload) > passed]
        shown = found[:limit]
        more = len(found) > len(shown)
        uploads = [
            {
                "Key": text(one.key),
                "UploadId": one.upload,
                "Initiated": moment(one.started_ns),
                "Owner": OWNER,
            }
            for one in shown
        ]
        last = {"NextKeyMarker": text(shown[-1].key), "NextUploadIdMarker": shown[-1].upload} if more else {}
        return {
            "Bucket": p["Bucket"], "Prefix": text(p.get("Prefix", "")), "MaxUploads": limit,
            "IsTruncated": more, "Uploads": uploads, "EncodingType": p.get("EncodingType"), **last,
        }  # fmt: skip

    def list_parts(self, p: Mapping[str, Any]) -> dict[str, Any]:
        limit, after = p.get("MaxParts", 1000), p.get("PartNumberMarker", 0)
        with self._store(p) as store:
            found = store.parts(p["Key"], p["UploadId"])
        if found is None:
            refuse("NoSuchUpload", upload_id=p["UploadId"])
        rest = [part for part in found if part.number > after]
        page = rest[:limit]
        parts = [
            {
                "PartNumber": part.number,
                "ETag": quoted(part.etag),
                "Size": part.size,
                "LastModified": moment(part.modified_ns),
            }
            for part in page
        ]
        more = len(rest) > len(page)
        return {
            "Bucket": p["Bucket"], "Key": p["Key"], "UploadId": p["UploadId"], "Parts": parts,
            "MaxParts": limit, "PartNumberMarker": after, "IsTruncated": more, "StorageClass": "STANDARD",
            "NextPartNumberMarker": page[-1].number if more else None,
        }  # fmt: skip

    # What several need.

    @contextlib.contextmanager
    def _store(self, p: Mapping[str, Any]) -> Iterator[FileStore]:
        with self.buckets.using(p["Bucket"]) as store:
            yield store

    @contextlib.contextmanager
    def _source(self, p: Mapping[str, Any]) -> Iterator["_Source"]:
        """The object that `x-amz-copy-source` names, if the caller may read it."""
        text, _, version = p["CopySource"].partition("?versionId=")
        bucket, _, key = unquote(text).removeprefix("/").partition("/")
        if not key or version:
            refuse(
                "InvalidArgument",
                "Copy Source must mention the source bucket and key: sourcebucket/sourcekey",
            )
        if not self.caller.may_use(bucket):
            refuse("AccessDenied")
        with self.buckets.using(bucket) as store, store.opened(key) as found:
            if found is None:
                refuse("NoSuchKey", key=key)
            info = found.info(key)
            if not holds(p, info.etag, info.modified_ns, "CopySource"):
                refuse("PreconditionFailed")
            yield _Source((bucket, key), info, found.attributes.extra, found.fd)

    def _now(self) -> datetime:
        return moment(self.buckets.env.now_ns())


@dataclass(frozen=True)
class _Source:
    place: tuple[str, str]
    info: ObjectInfo
    extra: Metadata
    fd: int


OWNER = {"ID": "fencepost", "DisplayName": "fencepost"}


def copy_bytes(fd: int, start: int, stop: int, write: Callable[[bytes], None]) -> str:
    """Copy a part of a file; returns the MD5."""
    digest = hashlib.md5(usedforsecurity=False)
    while start < stop:
        piece = os.pread(fd, min(_COPY_STEP, stop - start), start)
        if not piece:
            refuse("InternalError")
        digest.update(piece)
        write(piece)
        start += len(piece)
    return digest.hexdigest()


def moment(ns: int) -> datetime:
    return datetime.fromtimestamp(ns // 1_000_000 / 1000, UTC)


def quoted(etag: str) -> str:
    return f'"{etag}"'


def unquoted(text: str) -> str:
    return text.strip().removeprefix("W/").strip('"')


def condition(p: Mapping[str, Any]) -> Condition:
    """What a write is based on: S3 knows `If-None-Match: *` and `If-Match: <etag>`, one of them."""
    absent, matches = p.get("IfNoneMatch"), p.get("IfMatch")
    if absent is not None and (absent.strip() != "*" or matches is not None):
        refuse("NotImplemented", header="If-None-Match")
    if absent is not None:
        return ABSENT
    if matches is None:
        return ANYTHING
    if matches.strip() == "*" or not unquoted(matches):
        refuse("NotImplemented", header="If-Match")
    return Matches(unquoted(matches))


def holds(p: Mapping[str, Any], etag: str, modified_ns: int, start: str = "") -> bool:
    """Whether the conditions of a read hold, where either outcome is final: see RFC 9110, 13.2.2."""
    second = modified_ns // 10**9
    if start + "IfMatch" in p:
        if not _names(p[start + "IfMatch"], etag):
            return False
    elif start + "IfUnmodifiedSince" in p and second > p[start + "IfUnmodifiedSince"].timestamp():
        return False
    return not start or _is_news(p, etag, second, start)


def _is_news(p: Mapping[str, Any], etag: str, second: int, start: str = "") -> bool:
    if start + "IfNoneMatch" in p:
        return not _names(p[start + "IfNoneMatch"], etag)
    return start + "IfModifiedSince" not in p or second > p[start + "IfModifiedSince"].timestamp()


def check_reading(p: Mapping[str, Any], etag: str, modified_ns: int) -> None:
    if not holds(p, etag, modified_ns):
        refuse("PreconditionFailed")
    if not _is_news(p, etag, modified_ns // 10**9):
        refuse("NotModified", etag=etag)


def _names(text: str, etag: str) -> bool:
    return text.strip() == "*" or etag in {unquoted(part) for part in text.split(",")}


def range_of(text: str, size: int) -> tuple[int, int] | None:
    """The bytes of a `Range`; None for the whole object, as S3 answers a header that it cannot read."""
    found = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", text.strip())
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        start, stop = max(0, size - int(found[2])), size
        if int(found[2]) == 0:
            start = size
    else:
        start, stop = int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
        if found[2] and int(found[2]) < start:
            return None
    if start >= size:
        refuse("InvalidRange", range_requested=text, actual_object_size=str(size))
    return start, stop


def headers_of(p: Mapping[str, Any]) -> dict[str, str]:
    """The headers of a write that its reads answer with. An ACL that grants anything is refused."""
    if p.get("ACL", "private") not in ("private", "bucket-owner-full-control", "public-read"):
        refuse("NotImplemented", header="x-amz-acl")
    access = {"Access": "public"} if p.get("ACL") == "public-read" else {}
    return {name: _header(p[name]) for name in HEADERS if name in p} | access


def _header(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def described(info: ObjectInfo, extra: Mapping[str, str]) -> dict[str, Any]:
    """The values of a response that stand for an object."""
    return {
        "ETag": quoted(info.etag),
        "LastModified": moment(info.modified_ns),
        "ContentType": info.content_type,
        "Metadata": dict(info.metadata),
        **{
            name: datetime.fromisoformat(text) if name == "Expires" else text
            for name, text in extra.items()
            if name in HEADERS
        },
        **_checksums(extra),
    }


def _checksums(extra: Mapping[str, str]) -> dict[str, str]:
    found = {name: text for name, text in extra.items() if name.removeprefix("Checksum") in CHECKSUMS}
    return {**found, "ChecksumType": "FULL_OBJECT"} if found else {}


def shown(p: Mapping[str, Any]) -> dict[str, Any]:
    """What the query asks to see in the headers of the response."""
    return {name.removeprefix("Response"): p[name] for name in _SHOWN if name in p}


def encoder(p: Mapping[str, Any]) -> Callable[[str], str]:
    if p.get("EncodingType") not in (None, "url"):
        refuse("InvalidArgument", "Invalid Encoding Method specified in Request")
    return (lambda text: quote(text, safe="/")) if "EncodingType" in p else (lambda text: text)


def _token(last: str) -> str:
    return base64.urlsafe_b64encode(last.encode()).decode()


def _untoken(token: str) -> str:
    try:
        return base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except ValueError:
        refuse("InvalidArgument", "The continuation token provided is incorrect")
