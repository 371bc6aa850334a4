"""S3's operations on buckets and objects: parameters of the service model in, values of the model out.

Bodies are not here: a put receives its content piece by piece (`Receiving`), a get answers with an open file
(`Content`). `KNOWN` lists for every operation the parameters that it honours; a request with any other is
refused, so that no condition, encryption or retention is ignored in silence. The other operations are in
`multipart`, `bucket_settings` and `object_settings`; `surface` has them all.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.impl.objects import access, acls, object_state
from fencepost.impl.objects.access import Access, is_known_to
from fencepost.impl.objects.acls import OWNER
from fencepost.impl.objects.bucket_rules import checked_ownership
from fencepost.impl.objects.buckets import Buckets, Document
from fencepost.impl.objects.context import Context, copy_bytes, moment, shown_version, version_of
from fencepost.impl.objects.credentials import Caller
from fencepost.impl.objects.object_state import CHECKSUMS, HEADERS, LOCKING
from fencepost.impl.objects.wire import listings
from fencepost.impl.objects.wire import parameters as rules
from fencepost.impl.objects.wire.conditions import (
    COPY_IF,
    READ_IF,
    check_reading,
    condition,
    quoted,
    range_of,
    require_done,
    unquoted,
)
from fencepost.impl.objects.wire.errors import S3Error, refuse
from fencepost.impl.store.bucket import group_of
from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.files import FileStore
from fencepost.impl.store.files.attributes import Attributes
from fencepost.impl.store.files.reading import Opened
from fencepost.impl.store.files.versions import NULL, Keep
from fencepost.impl.store.requests import (
    ANYTHING,
    BINARY,
    DeleteReply,
    List,
    Matches,
    Metadata,
    ObjectInfo,
    Outcome,
)

COPY_BYTES_MAX = 5 << 30
CHECKSUM_PARAMETERS = tuple(f"Checksum{name}" for name in CHECKSUMS)
WRITING = (
    "Bucket", "Key", "ContentType", "Metadata", *HEADERS, "StorageClass", "ACL", "Tagging", *LOCKING,
    "ServerSideEncryption",
)  # fmt: skip
_LISTED = ("Bucket", "Prefix", "Delimiter", "MaxKeys", "EncodingType", "OptionalObjectAttributes")
_READ = ("Bucket", "Key", "VersionId", *READ_IF, "Range", "PartNumber", *rules.SHOWN, "ChecksumMode")
KNOWN: Mapping[str, tuple[str, ...]] = {
    "ListBuckets": ("Prefix", "MaxBuckets", "ContinuationToken", "BucketRegion"),
    "CreateBucket": (
        "Bucket", "CreateBucketConfiguration", "ACL", "ObjectOwnership", "ObjectLockEnabledForBucket",
    ),
    "HeadBucket": ("Bucket",),
    "DeleteBucket": ("Bucket",),
    "GetBucketLocation": ("Bucket",),
    "PutObject": (*WRITING, "IfMatch", "IfNoneMatch", "ContentMD5", *CHECKSUM_PARAMETERS),
    "GetObject": _READ,
    "HeadObject": _READ,
    "DeleteObject": ("Bucket", "Key", "VersionId", "IfMatch", "BypassGovernanceRetention"),
    "DeleteObjects": (
        "Bucket", "Delete", *CHECKSUM_PARAMETERS, "ContentMD5", "BypassGovernanceRetention",
    ),
    "CopyObject": (
        *WRITING, "CopySource", *COPY_IF, "MetadataDirective", "TaggingDirective", "IfMatch", "IfNoneMatch",
    ),
    "GetObjectAttributes": ("Bucket", "Key", "VersionId", "ObjectAttributes", "MaxParts", "PartNumberMarker"),
    "ListObjects": (*_LISTED, "Marker"),
    "ListObjectsV2": (*_LISTED, "ContinuationToken", "StartAfter", "FetchOwner"),
    "ListObjectVersions": (*_LISTED, "KeyMarker", "VersionIdMarker"),
}  # fmt: skip
_HERE = ("", "us-east-1")
_REGION = re.compile(r"EU|[a-z]{2}(-[a-z]+){1,3}-\d")


@dataclass
class Content:
    """The content of a GET: a part of an open file, which its owner closes."""

    values: dict[str, Any]
    status: int = 200
    fd: int = -1
    start: int = 0
    stop: int = 0


@dataclass
class Receiving:
    """A body that is on its way into a file."""

    write: Callable[[bytes], None]
    finish: Callable[[str, dict[str, str]], dict[str, Any]]
    """Called with the MD5 of what was written and its checksums; returns the values of the response."""


@dataclass(frozen=True)
class Operations:
    """The operations on one root directory, for one caller."""

    buckets: Buckets
    caller: Caller
    wait: bool = True
    """See `Context`."""

    @property
    def context(self) -> Context:
        return Context(self.buckets, self.caller, self.wait)

    # Buckets.

    def list_buckets(self, p: Mapping[str, Any]) -> dict[str, Any]:
        limit, after = p.get("MaxBuckets", 10_000), p.get("ContinuationToken", "")
        if not 1 <= limit <= 10_000:
            refuse("InvalidArgument", argument="max-buckets")
        found = [
            (name, document)
            for name, document in self.buckets.all()
            if self._knows(name)
            and name > after
            and name.startswith(p.get("Prefix", ""))
            and p.get("BucketRegion", region_of(document)) == region_of(document)
        ]
        page = [
            {
                "Name": name,
                "CreationDate": moment(document.created_ns),
                "BucketRegion": region_of(document),
            }
            for name, document in found[:limit]
        ]
        more = {"ContinuationToken": page[-1]["Name"]} if len(found) > limit else {}
        return {"Buckets": page, "Owner": OWNER, **more}

    def _knows(self, bucket: str) -> bool:
        holder = self.caller.holder
        return self.caller.may_use(bucket) or (holder is not None and is_known_to(holder, bucket))

    def create_bucket(self, p: Mapping[str, Any]) -> dict[str, Any]:
        acl, ownership = acls.wanted(p), p.get("ObjectOwnership", "")
        if ownership and checked_ownership(ownership) == access.ENFORCED and acl != "private":
            refuse("InvalidBucketAclWithObjectOwnership")
        configuration = p.get("CreateBucketConfiguration", {})
        if configuration.keys() - {"LocationConstraint", "Tags"}:
            refuse("NotImplemented", header=min(configuration.keys() - {"LocationConstraint", "Tags"}))
        location = configuration.get("LocationConstraint", "")
        if location and not _REGION.fullmatch(location):
            refuse("InvalidLocationConstraint", location_constraint=location)
        locks = p.get("ObjectLockEnabledForBucket", False)
        try:
            self.buckets.create(
                p["Bucket"],
                tags=object_state.tags_in_set(configuration.get("Tags", []), bucket=True),
                location="" if location == "us-east-1" else location,
                versioning="Enabled" if locks else "",
                lock={} if locks else None,
                acl="" if acl == "private" else acl,
                ownership=ownership,
            )
        except S3Error as error:
            # In us-east-1 the bucket's owner may create it again, which changes nothing.
            if error.code != "BucketAlreadyOwnedByYou" or self._location(p) or location not in _HERE:
                raise
        return {"Location": f"/{p['Bucket']}"}

    def _location(self, p: Mapping[str, Any]) -> str:
        return self.buckets.document(p["Bucket"]).location

    def head_bucket(self, p: Mapping[str, Any]) -> dict[str, Any]:
        return {"BucketRegion": region_of(self.buckets.document(p["Bucket"]))}

    def delete_bucket(self, p: Mapping[str, Any]) -> dict[str, Any]:
        self.buckets.delete(p["Bucket"])
        return {}

    def get_bucket_location(self, p: Mapping[str, Any]) -> dict[str, Any]:
        return {"LocationConstraint": self._location(p) or None}

    # Objects.

    @contextlib.contextmanager
    def put_object(self, p: Mapping[str, Any]) -> Iterator[Receiving]:
        with self.buckets.entered(p["Bucket"]) as (store, document):
            kept = self.context.written(p, document)
            with store.incoming(p["Key"], condition(p), document.keep) as incoming:

                def publish(md5: str, checksums: dict[str, str]) -> dict[str, Any]:
                    extra = kept | {f"Checksum{name.upper()}": text for name, text in checksums.items()}
                    known = Attributes(
                        md5,
                        "",
                        p.get("ContentType", BINARY),
                        Metadata(rules.metadata(p)),
                        extra=Metadata(extra),
                    )
                    reply = incoming.publish(known)
                    require_done(reply.outcome)
                    shown = object_state.checksums(extra) | object_state.encryption(extra)
                    return {"ETag": quoted(reply.etag), "VersionId": shown_version(reply.version), **shown}

                yield Receiving(incoming.write, publish)

    @contextlib.contextmanager
    def get_object(self, p: Mapping[str, Any]) -> Iterator[Content]:
        if self.caller.is_anonymous and p.keys() & {*rules.SHOWN}:
            refuse(
                "InvalidRequest",
                "Request specific response headers cannot be used for anonymous GET requests.",
            )
        with self.context.reading(p) as (found, version):
            info, extra = found.info(p["Key"]), found.attributes.extra
            check_reading(p, info.etag, info.modified_ns)
            values = {
                "AcceptRanges": "bytes",
                **described(info, extra),
                "VersionId": version,
                **rules.overridden(p),
            }
            # The checksums are of the whole object: a client would compare them with what it gets of a part.
            sums = {name: value for name, value in values.items() if name.startswith("Checksum")}
            if sums and (p.get("ChecksumMode") != "ENABLED" or "Range" in p or "PartNumber" in p):
                values = {name: value for name, value in values.items() if name not in sums}
                if p.get("ChecksumMode") == "ENABLED" and "PartNumber" in p:
                    values |= object_state.part_sum(extra, p["PartNumber"])
            start, stop, status = 0, info.size, 200
            span = range_of(p.get("Range", ""), info.size)
            if "PartNumber" in p:
                span, values["PartsCount"] = _part(p, extra, info.size)
            if span is not None:
                (start, stop), status = span, 206
                if info.size:
                    values["ContentRange"] = f"bytes {start}-{stop - 1}/{info.size}"
            values["ContentLength"] = stop - start
            yield Content(values, status, found.fd, start, stop)

    head_object = get_object

    def delete_object(self, p: Mapping[str, Any]) -> dict[str, Any]:
        bypass = self.context.may_bypass(p)
        with self.buckets.entered(p["Bucket"]) as (store, document):
            reply = self._delete(store, document, p["Key"], version_of(p), p.get("IfMatch"), bypass)
        require_done(reply.outcome)
        return {"VersionId": reply.version or None, "DeleteMarker": reply.marker or None}

    def _delete(
        self, store: FileStore, document: Document, key: str, version: str, match: str | None, bypass: bool
    ) -> DeleteReply:
        if version and match is not None:
            refuse("NotImplemented", header="If-Match")  # S3 evaluates it for the current version only
        keep = document.keep
        if version and not (version == NULL and keep is Keep.NOTHING):

            def guard(found: Opened) -> None:
                object_state.check_removable(found.attributes.extra, self.context.now(), bypass=bypass)

            return store.remove_version(key, version, guard)
        if match is None:
            return store.delete_keeping(key, ANYTHING, keep)
        if match.strip() != "*":
            return store.delete_keeping(key, Matches(unquoted(match)), keep)
        while True:  # whatever is there, but there must be something
            with store.opened(key) as found:
                if found is None:
                    marked = keep is not Keep.NOTHING and store.latest_marker(key)
                    return DeleteReply(Outcome.CHANGED if marked else Outcome.MISSING)
                etag = found.attributes.etag
            reply = store.delete_keeping(key, Matches(etag), keep)
            if reply.outcome not in (Outcome.CHANGED, Outcome.MISSING):
                return reply

    def delete_objects(self, p: Mapping[str, Any]) -> dict[str, Any]:
        wanted = rules.objects_to_delete(p)
        bypass = self.context.may_bypass(p)
        deleted, errors = [], []
        rights = Access(self.buckets, self.caller)
        with self.buckets.entered(p["Bucket"]) as (store, document):
            for one in wanted:
                named = {name: one[name] for name in ("Key", "VersionId") if name in one}
                try:
                    version = version_of(one)
                    if not rights.allows("DeleteObject", {"Bucket": p["Bucket"], **named}):
                        refuse("AccessDenied")
                    reply = self._delete(store, document, one["Key"], version, one.get("ETag"), bypass)
                    require_done(reply.outcome)
                except S3Error as error:
                    code = "NoSuchVersion" if error.message.startswith("Invalid version id") else error.code
                    errors.append({**named, "Code": code, "Message": error.message})
                except Misuse as error:
                    errors.append({**named, "Code": "InvalidArgument", "Message": str(error)})
                else:
                    marker = {"DeleteMarker": True, "DeleteMarkerVersionId": reply.version}
                    deleted.append({**named, **(marker if reply.marker else {})})
        return {"Errors": errors, **({} if p["Delete"].get("Quiet") else {"Deleted": deleted})}

    def copy_object(self, p: Mapping[str, Any]) -> dict[str, Any]:
        when = condition(p)
        rules.check_changes(p, when)
        replaces, retags = rules.replaces(p, "MetadataDirective"), rules.replaces(p, "TaggingDirective")
        if not retags and "Tagging" in p:
            p = {name: value for name, value in p.items() if name != "Tagging"}
        with self.context.source(p) as source:
            info = source.info
            if info.size > COPY_BYTES_MAX:
                refuse("InvalidRequest", "The specified copy source is larger than 5 GiB: copy it in parts")
            with self.buckets.entered(p["Bucket"]) as (store, document):
                wanted = {name: value for name, value in p.items() if replaces or name not in HEADERS}
                extra = self.context.written(wanted, document)
                extra |= object_state.copied(source.extra, headers=not replaces, tags=not retags)
                with store.incoming(p["Key"], when, document.keep) as incoming:
                    md5 = copy_bytes(source.fd, 0, info.size, incoming.write)
                    known = Attributes(
                        info.etag if "-" not in info.etag else md5,
                        "",
                        p.get("ContentType", BINARY) if replaces else info.content_type,
                        Metadata(rules.metadata(p)) if replaces else info.metadata,
                        extra=Metadata(extra),
                    )
                    reply = incoming.publish(known)
                    require_done(reply.outcome)
        result = {"ETag": quoted(reply.etag), "LastModified": self.context.now()}
        return {
            "CopyObjectResult": {**result, **object_state.checksums(extra)},
            **object_state.encryption(extra),
            "VersionId": shown_version(reply.version),
            "CopySourceVersionId": source.version,
        }

    def get_object_attributes(self, p: Mapping[str, Any]) -> dict[str, Any]:
        with self.context.reading(p) as (found, version):
            info, extra = found.info(p["Key"]), found.attributes.extra
        every = {
            "ETag": info.etag,
            "ObjectSize": info.size,
            "StorageClass": "STANDARD",
            "Checksum": object_state.checksums(extra) or None,
            "ObjectParts": _object_parts(p, object_state.part_sizes(extra), extra),
        }
        unknown = {*p["ObjectAttributes"]} - every.keys()
        if unknown:
            refuse("InvalidArgument", "Invalid attribute name specified.", value=min(unknown))
        wanted = {name: every[name] for name in p["ObjectAttributes"]}
        return {**wanted, "LastModified": moment(info.modified_ns), "VersionId": version}

    # Listings.

    def list_objects_v2(self, p: Mapping[str, Any]) -> Mapping[str, Any]:
        token = p.get("ContinuationToken", "")
        after = rules.key_of(token) if token else p.get("StartAfter", "")
        page, following = self._page(p, after, with_owner=p.get("FetchOwner", False))
        return listings.objects_v2(p, page, following)

    def list_objects(self, p: Mapping[str, Any]) -> Mapping[str, Any]:
        page, following = self._page(p, p.get("Marker", ""), with_owner=True)
        return listings.objects_v1(p, page, following)

    def _page(self, p: Mapping[str, Any], after: str, *, with_owner: bool) -> tuple[Mapping[str, Any], str]:
        """Return a page, and the key or group after which the next one begins, if there is one."""
        limit, prefix = rules.page_limit(p, "MaxKeys"), p.get("Prefix", "")
        delimiter = p.get("Delimiter", "")
        objects: list[ObjectInfo] = []
        groups: list[str] = []
        more = False
        with self.context.store(p) as store:
            if limit:
                # A group that ends the page before is passed as a whole.
                start = (
                    after + "\U0010ffff" if after and group_of(after, prefix, delimiter) == after else after
                )
                reply = store.send(List(prefix, after=start, delimiter=delimiter, limit=limit))
                require_done(reply.outcome)
                objects, groups, more = [*reply.objects], [*reply.prefixes], bool(reply.next)
        last = max([*(info.key for info in objects), *groups], key=str.encode) if more else ""
        entries = [listings.ObjectEntry(info.key, info.modified_ns, info.etag, info.size) for info in objects]
        return listings.objects(p, entries, groups, more=more, owner=OWNER if with_owner else None), last

    def list_object_versions(self, p: Mapping[str, Any]) -> Mapping[str, Any]:
        limit = rules.page_limit(p, "MaxKeys")
        key, version = p.get("KeyMarker", ""), p.get("VersionIdMarker", "")
        if version and not key:
            refuse("InvalidArgument", "A version-id marker cannot be specified without a key marker.")
        if version:
            version_of({"VersionId": version})
        with self.context.store(p) as store:
            page = store.versions(p.get("Prefix", ""), p.get("Delimiter", ""), (key, version), limit)
        entries = [
            listings.VersionEntry(
                row.key, row.version, row.latest, row.modified_ns, row.marker, row.etag, row.size
            )
            for row in page.versions
        ]
        last = (entries[-1].key, entries[-1].version) if entries else ("", "")
        group = page.prefixes[-1] if page.prefixes else ""
        if group.encode() > last[0].encode():
            last = (group, "")
        return {
            **listings.versions(p, entries, page.prefixes, owner=OWNER),
            **listings.ended(p, page.more and limit > 0, last, "NextVersionIdMarker"),
        }


def region_of(document: Document) -> str:
    return {"": "us-east-1", "EU": "eu-west-1"}.get(document.location, document.location)


def _part(
    p: Mapping[str, Any], extra: Mapping[str, str], size: int
) -> tuple[tuple[int, int] | None, int | None]:
    """The bytes of one part, and how many parts there are."""
    if "Range" in p:
        refuse("InvalidRequest", "Cannot specify both Range header and partNumber query parameter")
    number, sizes = rules.part_number(p), object_state.part_sizes(extra) or [size]
    if number > len(sizes):
        refuse("InvalidPartNumber", part_number=str(number), actual_part_count=str(len(sizes)))
    start = sum(sizes[: number - 1])
    return (start, start + sizes[number - 1]), len(sizes) if "Parts" in extra else None


def _object_parts(p: Mapping[str, Any], sizes: list[int], extra: Mapping[str, str]) -> dict[str, Any] | None:
    if not sizes:
        return None
    limit, after = min(p.get("MaxParts", 1000), 1000), p.get("PartNumberMarker", 0)
    if limit < 0 or after < 0:
        refuse("InvalidArgument", argument="max-parts" if limit < 0 else "part-number-marker")
    page = [*enumerate(sizes, 1)][after : after + limit]
    return {
        "TotalPartsCount": len(sizes),
        "PartNumberMarker": after,
        "NextPartNumberMarker": page[-1][0] if page else 0,
        "MaxParts": limit,
        "IsTruncated": after + limit < len(sizes),
        "Parts": [
            {"PartNumber": number, "Size": size, **object_state.part_sum(extra, number, kind=False)}
            for number, size in page
        ],
    }


def described(info: ObjectInfo, extra: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a response that represent an object."""
    return {
        "ETag": quoted(info.etag),
        "LastModified": moment(info.modified_ns),
        "ContentType": info.content_type,
        "Metadata": dict(info.metadata),
        **object_state.described(extra),
    }
