"""Listings and requests about buckets, over HTTP.

Page tokens are the last key, encoded so that no client mistakes them for one. Versions and uploads are
requested whole and cut into pages here: S3's markers name an entry, the interface's count.
"""

import base64
from collections.abc import Callable
from typing import Any

from fencepost.impl.store import requests as req
from fencepost.sim.boto import http
from fencepost.sim.boto import sdk_requests as sdk
from fencepost.sim.boto.http import Message
from fencepost.sim.boto.objects import Answer
from fencepost.sim.boto.sdk_requests import Refused
from fencepost.sim.world import stamps

REGION = "us-east-1"
"""Where all buckets are."""
WHOLE = 1_000_000_000
"""More than any listing has."""


def _below(message: Message) -> str:
    return f"{message.bucket}/{message.query.get('prefix', '')}"


def _listed(message: Message, token: str, after: str = "") -> req.List:
    place = f"{message.bucket}/"
    return req.List(
        _below(message),
        after=place + after if after else "",
        delimiter=message.query.get("delimiter", ""),
        # A page of 0 entries is requested like a page of 1, and shown empty.
        limit=max(1, http.count(message, "max-keys", 1000)),
        token=place + token if token else "",
    )


def list_two(message: Message) -> req.List:
    token = message.query.get("continuation-token", "")
    return _listed(message, _unwrap(token) if token else "", message.query.get("start-after", ""))


def list_one(message: Message) -> req.List:
    return _listed(message, message.query.get("marker", ""))


def _wrap(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode()).decode()


def _unwrap(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token).decode()
    except ValueError:
        raise Refused(400, "InvalidArgument", "The continuation token provided is incorrect") from None


def list_two_answer(message: Message, request: req.List, reply: req.ListReply) -> Answer:
    query = message.query
    page = _page(message, reply)
    following = reply.next.partition("/")[2]
    head = [
        ("KeyCount", len(page)),
        ("ContinuationToken", query.get("continuation-token")),
        ("NextContinuationToken", _wrap(following) if following and page else None),
        ("StartAfter", _coded(message, query.get("start-after"))),
    ]
    return 200, {}, http.xml_document("ListBucketResult", [*_common(message, reply, page), *head, *page])


def list_one_answer(message: Message, request: req.List, reply: req.ListReply) -> Answer:
    page = _page(message, reply)
    following = reply.next.partition("/")[2]
    head = [
        ("Marker", _coded(message, message.query.get("marker", ""))),
        ("NextMarker", _coded(message, following) if following and request.delimiter else None),
    ]
    return 200, {}, http.xml_document("ListBucketResult", [*_common(message, reply, page), *head, *page])


def _coded(message: Message, text: str | None) -> str | None:
    return None if text is None else http.url_encoded(text, message.query.get("encoding-type"))


def _common(message: Message, reply: req.ListReply, page: list[http.Field]) -> list[http.Field]:
    query = message.query
    return [
        ("Name", message.bucket),
        ("Prefix", _coded(message, query.get("prefix", ""))),
        ("Delimiter", _coded(message, query.get("delimiter"))),
        ("MaxKeys", http.count(message, "max-keys", 1000)),
        ("EncodingType", query.get("encoding-type")),
        ("IsTruncated", bool(reply.next) and bool(page)),
    ]


def _page(message: Message, reply: req.ListReply) -> list[http.Field]:
    if not http.count(message, "max-keys", 1000):
        return []
    contents = [
        (
            "Contents",
            [
                ("Key", _coded(message, _key(info.key))),
                ("LastModified", http.iso_date(stamps.modified_ns(info))),
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

Entry = tuple[str, str, list[http.Field]]
"""The key, what distinguishes entries of one key (empty for a group), and the XML fields."""


def list_versions(message: Message) -> req.ListVersions:
    return req.ListVersions(_below(message), limit=WHOLE)


def list_versions_answer(message: Message, _request: Any, reply: req.VersionsReply) -> Answer:
    entries = [(_key(info.key), info.version, _version(message, info)) for info in reply.versions]
    page, more = _cut(message, entries, "max-keys", "version-id-marker")
    listed = _marked(message, page, more, "MaxKeys", "VersionIdMarker", "NextVersionIdMarker")
    return 200, {}, http.xml_document("ListVersionsResult", [("Name", message.bucket), *listed])


def _version(message: Message, info: req.VersionInfo) -> list[http.Field]:
    named: list[http.Field] = [
        ("Key", _coded(message, _key(info.key))),
        ("VersionId", info.version),
        ("IsLatest", info.latest),
        ("LastModified", http.iso_date(stamps.version_modified_ns(info))),
    ]
    if info.marker:
        return [("DeleteMarker", named)]
    rest = [("ETag", f'"{info.etag}"'), ("Size", info.size), ("StorageClass", "STANDARD")]
    return [("Version", [*named, *rest])]


def list_uploads(message: Message) -> req.ListUploads:
    return req.ListUploads(_below(message), limit=WHOLE)


def list_uploads_answer(message: Message, _request: Any, reply: req.UploadsReply) -> Answer:
    entries = [(_key(info.key), info.upload, _upload(message, info)) for info in reply.uploads]
    page, more = _cut(message, entries, "max-uploads", "upload-id-marker")
    listed = _marked(message, page, more, "MaxUploads", "UploadIdMarker", "NextUploadIdMarker")
    return 200, {}, http.xml_document("ListMultipartUploadsResult", [("Bucket", message.bucket), *listed])


def _upload(message: Message, info: req.UploadInfo) -> list[http.Field]:
    named: list[http.Field] = [("Key", _coded(message, _key(info.key))), ("UploadId", info.upload)]
    return [
        (
            "Upload",
            [*named, ("Initiated", http.iso_date(stamps.started_ns(info))), ("StorageClass", "STANDARD")],
        )
    ]


def _cut(message: Message, entries: list[Entry], limit: str, inner: str) -> tuple[list[Entry], bool]:
    """The page that the markers select, and whether there are more."""
    key, tie = message.query.get("key-marker", ""), message.query.get(inner, "")
    entries = _grouped(message, entries)
    start = next(
        (at + 1 for at, entry in enumerate(entries) if tie and entry[:2] == (key, tie)),
        next((at for at, entry in enumerate(entries) if not key or entry[0] > key), len(entries)),
    )
    stop = start + http.count(message, limit, 1000)
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
) -> list[http.Field]:
    query = message.query
    last = page[-1] if more and page else None
    listed: list[http.Field] = [
        ("Prefix", _coded(message, query.get("prefix", ""))),
        ("Delimiter", _coded(message, query.get("delimiter"))),
        ("KeyMarker", _coded(message, query.get("key-marker", ""))),
        (inner, query.get("version-id-marker" if limit == "MaxKeys" else "upload-id-marker", "")),
        ("NextKeyMarker", _coded(message, last[0]) if last else None),
        (following, last[1] if last else None),
        (limit, http.count(message, "max-keys" if limit == "MaxKeys" else "max-uploads", 1000)),
        ("EncodingType", query.get("encoding-type")),
        ("IsTruncated", more),
    ]
    for _, _, shown in page:
        listed += shown
    return listed


# Buckets.


def about(make: Callable[[str], sdk.OnBucket]) -> Callable[[Message], sdk.OnBucket]:
    return lambda message: make(message.bucket)


def keep_versions(message: Message) -> sdk.KeepVersions:
    status = http.parse_xml(message.body(), "VersioningConfiguration").findtext("Status")
    if status != "Enabled":
        # A bucket here keeps versions or keeps none; that it once did is not modelled.
        raise LookupError("PutBucketVersioning with a status other than Enabled")
    return sdk.KeepVersions(message.bucket)


def head_answer(_message: Message, _request: Any, _reply: Any) -> Answer:
    return 200, {"x-amz-bucket-region": REGION}, b""


def created_answer(message: Message, _request: Any, reply: sdk.BucketReply) -> Answer:
    if not reply.done and message.body():
        # In the first region, creating one's own bucket again is no error.
        raise Refused(
            409,
            "BucketAlreadyOwnedByYou",
            "Your previous request to create the named bucket succeeded and you already own it.",
        )
    return 200, {"Location": f"/{message.bucket}"}, b""


def deleted_answer(_message: Message, _request: Any, reply: sdk.BucketReply) -> Answer:
    if not reply.done:
        raise Refused(409, "BucketNotEmpty", "The bucket you tried to delete is not empty")
    return 204, {}, b""


def location_answer(_message: Message, _request: Any, _reply: Any) -> Answer:
    return 200, {}, http.xml_document("LocationConstraint", [])


def versioning_answer(_message: Message, _request: Any, reply: sdk.BucketReply) -> Answer:
    status = [("Status", "Enabled")] if reply.versioned else []
    return 200, {}, http.xml_document("VersioningConfiguration", status)


def done_answer(_message: Message, _request: Any, _reply: Any) -> Answer:
    return 200, {}, b""


def buckets_answer(_message: Message, _request: Any, reply: sdk.BucketReply) -> Answer:
    shown = [("Bucket", [("Name", name), ("CreationDate", http.iso_date(0))]) for name in reply.names]
    owner = ("Owner", [("ID", "world")])
    return 200, {}, http.xml_document("ListAllMyBucketsResult", [owner, ("Buckets", shown)])
