"""Listings and requests about buckets, over HTTP.

Tokens of pages are the last key, wrapped so that nobody takes them for one. Versions and uploads are asked
for whole and cut into pages here: S3's markers name an entry, the interface's count.
"""

import base64
from collections.abc import Callable
from typing import Any

from fencepost.impl.store import requests as ask
from fencepost.sim.boto import asks, fields, xml
from fencepost.sim.boto.asks import Refused
from fencepost.sim.boto.objects import Answer
from fencepost.sim.boto.wire import Message

REGION = "us-east-1"
"""Where all buckets are."""
WHOLE = 1_000_000_000
"""More than any listing has."""


def _below(message: Message) -> str:
    return f"{message.bucket}/{message.query.get('prefix', '')}"


def _listed(message: Message, token: str, after: str = "") -> ask.List:
    place = f"{message.bucket}/"
    return ask.List(
        _below(message),
        after=place + after if after else "",
        delimiter=message.query.get("delimiter", ""),
        # A page of none is asked for like one of one, and shown empty.
        limit=max(1, fields.number(message, "max-keys", 1000)),
        token=place + token if token else "",
    )


def list_two(message: Message) -> ask.List:
    token = message.query.get("continuation-token", "")
    return _listed(message, _unwrap(token) if token else "", message.query.get("start-after", ""))


def list_one(message: Message) -> ask.List:
    return _listed(message, message.query.get("marker", ""))


def _wrap(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode()).decode()


def _unwrap(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token).decode()
    except ValueError:
        raise Refused(400, "InvalidArgument", "The continuation token provided is incorrect") from None


def list_two_told(message: Message, request: ask.List, reply: ask.ListReply) -> Answer:
    query = message.query
    page = _page(message, reply)
    following = reply.next.partition("/")[2]
    head = [
        ("KeyCount", len(page)),
        ("ContinuationToken", query.get("continuation-token")),
        ("NextContinuationToken", _wrap(following) if following and page else None),
        ("StartAfter", _coded(message, query.get("start-after"))),
    ]
    return 200, {}, xml.document("ListBucketResult", [*_common(message, reply, page), *head, *page])


def list_one_told(message: Message, request: ask.List, reply: ask.ListReply) -> Answer:
    page = _page(message, reply)
    following = reply.next.partition("/")[2]
    head = [
        ("Marker", _coded(message, message.query.get("marker", ""))),
        ("NextMarker", _coded(message, following) if following and request.delimiter else None),
    ]
    return 200, {}, xml.document("ListBucketResult", [*_common(message, reply, page), *head, *page])


def _coded(message: Message, text: str | None) -> str | None:
    return None if text is None else xml.coded(text, message.query.get("encoding-type"))


def _common(message: Message, reply: ask.ListReply, page: list[xml.Field]) -> list[xml.Field]:
    query = message.query
    return [
        ("Name", message.bucket),
        ("Prefix", _coded(message, query.get("prefix", ""))),
        ("Delimiter", _coded(message, query.get("delimiter"))),
        ("MaxKeys", fields.number(message, "max-keys", 1000)),
        ("EncodingType", query.get("encoding-type")),
        ("IsTruncated", bool(reply.next) and bool(page)),
    ]


def _page(message: Message, reply: ask.ListReply) -> list[xml.Field]:
    if not fields.number(message, "max-keys", 1000):
        return []
    contents = [
        (
            "Contents",
            [
                ("Key", _coded(message, _key(info.key))),
                ("LastModified", xml.iso(info.modified_ns)),
                ("ETag", f'"{info.etag}"'),
                ("Size", info.size),
                ("StorageClass", "STANDARD"),
            ],
        )
        for info in reply.objects
    ]
    groups = [("CommonPrefixes", [("Prefix", _coded(message, _key(group)))]) for group in reply.prefixes]
    return [*contents, *groups]


def _key(name: str) -> str:
    return name.partition("/")[2]


# Versions and uploads.

Entry = tuple[str, str, list[xml.Field]]
"""The key, what tells entries of one key apart, and how it is shown. A group has nothing to tell apart."""


def list_versions(message: Message) -> ask.ListVersions:
    return ask.ListVersions(_below(message), limit=WHOLE)


def list_versions_told(message: Message, _request: Any, reply: ask.VersionsReply) -> Answer:
    entries = [(_key(info.key), info.version, _version(message, info)) for info in reply.versions]
    page, more = _cut(message, entries, "max-keys", "version-id-marker")
    told = _marked(message, page, more, "MaxKeys", "VersionIdMarker", "NextVersionIdMarker")
    return 200, {}, xml.document("ListVersionsResult", [("Name", message.bucket), *told])


def _version(message: Message, info: ask.VersionInfo) -> list[xml.Field]:
    named: list[xml.Field] = [
        ("Key", _coded(message, _key(info.key))),
        ("VersionId", info.version),
        ("IsLatest", info.latest),
        ("LastModified", xml.iso(info.modified_ns)),
    ]
    if info.marker:
        return [("DeleteMarker", named)]
    rest = [("ETag", f'"{info.etag}"'), ("Size", info.size), ("StorageClass", "STANDARD")]
    return [("Version", [*named, *rest])]


def list_uploads(message: Message) -> ask.ListUploads:
    return ask.ListUploads(_below(message), limit=WHOLE)


def list_uploads_told(message: Message, _request: Any, reply: ask.UploadsReply) -> Answer:
    entries = [(_key(info.key), info.upload, _upload(message, info)) for info in reply.uploads]
    page, more = _cut(message, entries, "max-uploads", "upload-id-marker")
    told = _marked(message, page, more, "MaxUploads", "UploadIdMarker", "NextUploadIdMarker")
    return 200, {}, xml.document("ListMultipartUploadsResult", [("Bucket", message.bucket), *told])


def _upload(message: Message, info: ask.UploadInfo) -> list[xml.Field]:
    named: list[xml.Field] = [("Key", _coded(message, _key(info.key))), ("UploadId", info.upload)]
    return [("Upload", [*named, ("Initiated", xml.iso(info.started_ns)), ("StorageClass", "STANDARD")])]


def _cut(message: Message, entries: list[Entry], limit: str, inner: str) -> tuple[list[Entry], bool]:
    """The page that the markers ask for, and whether there is more."""
    key, tie = message.query.get("key-marker", ""), message.query.get(inner, "")
    entries = _grouped(message, entries)
    start = next(
        (at + 1 for at, entry in enumerate(entries) if tie and entry[:2] == (key, tie)),
        next((at for at, entry in enumerate(entries) if not key or entry[0] > key), len(entries)),
    )
    stop = start + fields.number(message, limit, 1000)
    return entries[start:stop], start < stop < len(entries)


def _grouped(message: Message, entries: list[Entry]) -> list[Entry]:
    delimiter, prefix = message.query.get("delimiter", ""), message.query.get("prefix", "")
    found: dict[Any, Entry] = {}
    for key, tie, shown in entries:
        at = key.find(delimiter, len(prefix)) if delimiter else -1
        if at < 0:
            found[key, tie] = (key, tie, shown)
        else:
            group = key[: at + len(delimiter)]
            # Sorts behind the keys that are in it, so that the next page starts behind the group.
            found[group] = (group, "", [("CommonPrefixes", [("Prefix", _coded(message, group))])])
    return list(found.values())


def _marked(
    message: Message, page: list[Entry], more: bool, limit: str, inner: str, following: str
) -> list[xml.Field]:
    query = message.query
    last = page[-1] if more and page else None
    told: list[xml.Field] = [
        ("Prefix", _coded(message, query.get("prefix", ""))),
        ("Delimiter", _coded(message, query.get("delimiter"))),
        ("KeyMarker", _coded(message, query.get("key-marker", ""))),
        (inner, query.get("version-id-marker" if limit == "MaxKeys" else "upload-id-marker", "")),
        ("NextKeyMarker", _coded(message, last[0]) if last else None),
        (following, last[1] if last else None),
        (limit, fields.number(message, "max-keys" if limit == "MaxKeys" else "max-uploads", 1000)),
        ("EncodingType", query.get("encoding-type")),
        ("IsTruncated", more),
    ]
    for _, _, shown in page:
        told += shown
    return told


# Buckets.


def about(make: Callable[[str], asks.OnBucket]) -> Callable[[Message], asks.OnBucket]:
    return lambda message: make(message.bucket)


def keep_versions(message: Message) -> asks.KeepVersions:
    status = xml.parse(message.body(), "VersioningConfiguration").findtext("Status")
    if status != "Enabled":
        # A bucket here keeps versions or keeps none; that it once did is not modelled.
        raise LookupError("PutBucketVersioning with a status other than Enabled")
    return asks.KeepVersions(message.bucket)


def head_told(_message: Message, _request: Any, _reply: Any) -> Answer:
    return 200, {"x-amz-bucket-region": REGION}, b""


def created_told(message: Message, _request: Any, reply: asks.BucketReply) -> Answer:
    if not reply.done and message.body():
        # In the first region, asking again for one's own bucket is no error.
        raise Refused(
            409,
            "BucketAlreadyOwnedByYou",
            "Your previous request to create the named bucket succeeded and you already own it.",
        )
    return 200, {"Location": f"/{message.bucket}"}, b""


def deleted_told(_message: Message, _request: Any, reply: asks.BucketReply) -> Answer:
    if not reply.done:
        raise Refused(409, "BucketNotEmpty", "The bucket you tried to delete is not empty")
    return 204, {}, b""


def location_told(_message: Message, _request: Any, _reply: Any) -> Answer:
    return 200, {}, xml.document("LocationConstraint", [])


def versioning_told(_message: Message, _request: Any, reply: asks.BucketReply) -> Answer:
    status = [("Status", "Enabled")] if reply.versioned else []
    return 200, {}, xml.document("VersioningConfiguration", status)


def done_told(_message: Message, _request: Any, _reply: Any) -> Answer:
    return 200, {}, b""


def buckets_told(_message: Message, _request: Any, reply: asks.BucketReply) -> Answer:
    shown = [("Bucket", [("Name", name), ("CreationDate", xml.iso(0))]) for name in reply.names]
    owner = ("Owner", [("ID", "world")])
    return 200, {}, xml.document("ListAllMyBucketsResult", [owner, ("Buckets", shown)])
