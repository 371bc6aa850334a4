"""Objects and uploads: parameters of the service model to requests of the store, replies to its values."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.impl.objects.wire import listings
from fencepost.impl.objects.wire import parameters as rules
from fencepost.impl.objects.wire.conditions import (
    check_reading,
    condition,
    ends_of,
    error_of,
    quoted,
    range_of,
    unquoted,
)
from fencepost.impl.objects.wire.elements import http_moment, iso_moment
from fencepost.impl.objects.wire.errors import S3Error, refuse
from fencepost.impl.store import requests as req
from fencepost.impl.store.requests import ANYTHING, Matches, Metadata, Outcome
from fencepost.sim.boto import sdk_requests as sdk
from fencepost.sim.boto.buckets import ANY, NULL, Buckets
from fencepost.sim.boto.http import Message
from fencepost.sim.boto.moments import SECOND_NS, to_second
from fencepost.sim.world import modified, stamps
from fencepost.sim.world.present import surely_here

Values = Mapping[str, Any]
"""Values of a response by their names in the service model."""

CONTENT_TYPE = "binary/octet-stream"
"""The type that S3 gives an object without one."""
CHECKSUMS = frozenset(f"Checksum{name}" for name in ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"))
ATTRIBUTES = CHECKSUMS | {
    "CacheControl",
    "ContentDisposition",
    "ContentEncoding",
    "ContentLanguage",
    "Expires",
    "StorageClass",
    "WebsiteRedirectLocation",
}
"""Parameters of a write that its object shows again. They are kept with the user's metadata, which cannot
have names with this colon."""
KEPT = "header:"
_VERSION = re.compile(rf"v\d+|{NULL}")


def put(message: Message) -> req.Put:
    when = condition(message.parameters)
    body = message.content()
    return req.Put(message.name, body, when, content_type(message), metadata(message))


def put_answer(message: Message, _request: Any, reply: req.PutReply) -> Values:
    return {"ETag": quoted(reply.etag), "VersionId": reply.version or None, **message.checksums}


def content_type(message: Message) -> str:
    return message.parameters.get("ContentType") or CONTENT_TYPE


def metadata(message: Message) -> Metadata:
    """Return the user's metadata, and the attributes that come back with the object."""
    p = message.parameters
    if "Metadata" not in p and ATTRIBUTES.isdisjoint(p) and not message.checksums:
        return req.NO_METADATA
    found = dict(rules.metadata(p))
    given = {name: p[name] for name in ATTRIBUTES & p.keys()} | message.checksums
    for name, value in sorted(given.items()):
        if name == "ContentEncoding":
            value = rules.content_encoding(p)
        elif name == "Expires":
            value = http_moment(int(value.timestamp()))
        if value:
            found[f"{KEPT}{name}"] = value
    return Metadata(found) if found else req.NO_METADATA


# Reading. The store's request holds one ETag and one range; every other condition is checked on its reply.


def get(message: Message) -> req.Get:
    p = message.parameters
    first, last = ends_of(p.get("Range", "")) or (0, None)
    return req.Get(
        message.name,
        start=first or 0,
        stop=None if last is None or first is None else last + 1,
        only_if=_one_etag(p.get("IfMatch")),
        unless=_one_etag(p.get("IfNoneMatch")),
        version=version_of(p.get("VersionId", "")),
    )


def version_of(text: str) -> str:
    """Return the version that a request names; raise if the world names none like this."""
    if text and not _VERSION.fullmatch(text):
        refuse("InvalidArgument", "Invalid version id specified", argument="versionId")
    return text


def _one_etag(text: str | None) -> str | None:
    return None if text is None or "," in text or text.strip() == "*" else unquoted(text)


def head(message: Message) -> req.Head:
    return req.Head(message.name, version_of(message.parameters.get("VersionId", "")))


def get_answer(message: Message, request: req.Get, reply: req.GetReply) -> Values:
    assert reply.info is not None
    values, span = _shown(message, reply.info)
    body = reply.body
    if span is not None and (request.start, request.stop) == (0, None):
        body = body[span[0] : span[1]]
    return {**values, "Body": body}


def head_answer(message: Message, _request: Any, reply: req.HeadReply) -> Values:
    assert reply.info is not None
    return _shown(message, reply.info)[0]


def _shown(message: Message, info: req.ObjectInfo) -> tuple[dict[str, Any], tuple[int, int] | None]:
    """Return the values that describe an object, and the range of it that was requested.

    Raise unless the conditions of the read hold.
    """
    p = message.parameters
    modified_ns = modified.modified_ns(info)
    if "IfModifiedSince" in p or "IfUnmodifiedSince" in p:
        stamps.look()
    check_reading(p, info.etag, modified_ns)
    size = modified.size_of(info)
    span = range_of(p.get("Range", ""), size)
    start, stop = span or (0, size)
    values = {
        "ETag": quoted(info.etag),
        "LastModified": http_moment(modified_ns // SECOND_NS),
        "ContentType": info.content_type,
        "AcceptRanges": "bytes",
        "ContentLength": str(stop - start),
        "VersionId": info.version or None,
    }
    if span is not None:
        values["ContentRange"] = f"bytes {start}-{stop - 1}/{size}"
    if info.metadata:
        values |= _metadata_values(info.metadata, checksums=span is None and "ChecksumMode" in p)
    return values | rules.overridden(p), span


def _metadata_values(kept: Metadata, *, checksums: bool) -> dict[str, Any]:
    users: dict[str, str] = {}
    values: dict[str, Any] = {"Metadata": users}
    for name, value in kept.items():
        member = name.removeprefix(KEPT)
        if member == name:
            users[name] = value
        elif checksums or member not in CHECKSUMS:
            values[member] = value
    return values


# Deleting.


def delete(message: Message) -> req.Delete:
    p = message.parameters
    for name in ("IfMatchSize", "IfMatchLastModifiedTime"):
        if name in p:
            refuse("NotImplemented")
    return req.Delete(message.name, _matching(p.get("IfMatch")), version_of(p.get("VersionId", "")))


def _matching(etag: str | None) -> Matches | req.Anything:
    if etag is None:
        return ANYTHING
    return ANY if etag == "*" else Matches(unquoted(etag))


def delete_answer(_message: Message, _request: Any, reply: req.DeleteReply) -> Values:
    return {"VersionId": reply.version or None, "DeleteMarker": reply.marker or None}


def delete_many(message: Message) -> list[req.Delete]:
    """Return one request a key, each with a landing of its own: S3 promises nothing about all of them."""
    return [
        req.Delete(f"{message.bucket}/{one['Key']}", _matching(one.get("ETag")), one.get("VersionId", ""))
        for one in rules.objects_to_delete(message.read_body())
    ]


def delete_many_answer(message: Message, requests: Sequence[req.Delete], replies: Sequence[Any]) -> Values:
    deleted: list[Values] = []
    errors: list[Values] = []
    for request, reply in zip(requests, replies, strict=True):
        named = {"Key": request.key.partition("/")[2], "VersionId": request.version or None}
        if not reply.done:
            refused = refusal(request, reply)
            errors.append({**named, "Code": refused.code, "Message": refused.message})
        elif reply.marker:
            deleted.append({**named, "DeleteMarker": True, "DeleteMarkerVersionId": reply.version})
        else:
            deleted.append(named)
    is_quiet = message.parameters["Delete"].get("Quiet", False)
    return {"Errors": errors} if is_quiet else {"Deleted": deleted, "Errors": errors}


# Copies.


def copy(message: Message) -> sdk.Copy:
    p = message.parameters
    when = condition(p)
    rules.check_changes(p, when)
    bucket, key, version = rules.copy_source(p)
    replace = rules.replaces(p, "MetadataDirective")
    return sdk.Copy(
        message.name,
        source=_source(p, f"{bucket}/{key}", version),
        when=when,
        content_type=content_type(message) if replace else None,
        metadata=metadata(message) if replace else None,
    )


def _source(p: Mapping[str, Any], name: str, version: str) -> sdk.ReadSource:
    """Return the first step of a copy, with the conditions on the source."""
    return sdk.ReadSource(
        name,
        version_of(version),
        only_if=_source_etag(p, "CopySourceIfMatch"),
        unless=_source_etag(p, "CopySourceIfNoneMatch"),
    )


def _source_etag(p: Mapping[str, Any], name: str) -> str | None:
    return unquoted(p[name]) if name in p else None


def copy_answer(_message: Message, _request: Any, reply: req.PutReply) -> Values:
    return {"CopyObjectResult": _copied(reply), "VersionId": reply.version or None}


def copy_part_answer(_message: Message, _request: Any, reply: req.PartReply) -> Values:
    return {"CopyPartResult": _copied(reply)}


def _copied(reply: Any) -> Values:
    run = surely_here()
    landed_ns = run.start_ns + run.stamp_ns
    return {"LastModified": iso_moment(to_second(landed_ns)), "ETag": quoted(reply.etag)}


# Uploads.


def create_upload(message: Message) -> req.CreateUpload:
    return req.CreateUpload(message.name, content_type(message), metadata(message))


def create_upload_answer(message: Message, _request: Any, reply: req.UploadReply) -> Values:
    return {
        "Bucket": message.bucket,
        "Key": message.key,
        "UploadId": reply.upload,
        "ChecksumAlgorithm": message.parameters.get("ChecksumAlgorithm"),
    }


def upload_part(message: Message) -> req.UploadPart:
    p = message.parameters
    return req.UploadPart(message.name, p["UploadId"], rules.part_number(p), message.content())


def upload_part_answer(message: Message, _request: Any, reply: req.PartReply) -> Values:
    return {"ETag": quoted(reply.etag), **message.checksums}


def copy_part(message: Message) -> sdk.CopyPart:
    p = message.parameters
    number = rules.part_number(p)
    bucket, key, version = rules.copy_source(p)
    start, stop = rules.copy_range(p)
    return sdk.CopyPart(
        message.name,
        upload=p["UploadId"],
        number=number,
        source=_source(p, f"{bucket}/{key}", version),
        start=start,
        stop=stop,
    )


def complete_upload(message: Message) -> req.CompleteUpload:
    p = message.read_body()
    when = condition(p)
    return req.CompleteUpload(message.name, p["UploadId"], rules.completed_parts(p), when)


def complete_upload_answer(message: Message, _request: Any, reply: req.PutReply) -> Values:
    return {
        "Location": message.url.partition("?")[0],
        "Bucket": message.bucket,
        "Key": message.key,
        "ETag": quoted(reply.etag),
        "VersionId": reply.version or None,
    }


def abort_upload(message: Message) -> req.AbortUpload:
    return req.AbortUpload(message.name, message.parameters["UploadId"])


def list_parts(message: Message) -> sdk.ListParts:
    rules.page_limit(message.parameters, "MaxParts")
    return sdk.ListParts(message.name, message.parameters["UploadId"])


def list_parts_answer(message: Message, _request: Any, reply: sdk.PartsReply) -> Values:
    started_ns = to_second(reply.started_ns)
    entries = [listings.PartEntry(number, etag, size, started_ns, {}) for number, etag, size in reply.parts]
    return listings.parts(message.parameters, entries, owner=None)


# Refusals.


def refusal(request: Any, reply: req.Reply) -> S3Error:
    """Return S3's error for an outcome that is not `done`."""
    if reply.outcome is Outcome.MISSING and _names_version(request):
        return S3Error("NoSuchVersion")
    if reply.outcome is Outcome.PAST_END and type(request) is sdk.CopyPart:
        return S3Error("InvalidArgument", argument="x-amz-copy-source-range")
    if reply.outcome is Outcome.UNCHANGED:
        return S3Error("NotModified", etag=request.unless)
    return error_of(reply.outcome)


def _names_version(request: Any) -> bool:
    """Return true if a request names a version; an object without versions is its own version `null`."""
    version = getattr(request, "version", None)
    if version != NULL:
        return bool(version)
    bucket = surely_here().bucket
    assert isinstance(bucket, Buckets)
    return bucket.keeps_versions(request.key)
