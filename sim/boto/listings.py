"""Listings, and requests about buckets: see `objects`."""

from collections.abc import Callable
from typing import Any

from fencepost.impl.objects.wire import listings
from fencepost.impl.objects.wire import parameters as rules
from fencepost.impl.objects.wire.elements import iso_moment
from fencepost.impl.objects.wire.errors import S3Error
from fencepost.impl.store import requests as req
from fencepost.sim.boto import sdk_requests as sdk
from fencepost.sim.boto.http import Message
from fencepost.sim.boto.moments import to_second
from fencepost.sim.boto.objects import Values
from fencepost.sim.world import modified

REGION = "us-east-1"
"""The region of all buckets."""
WHOLE = 1_000_000_000
"""A limit beyond the length of any listing."""


def _key(name: str) -> str:
    """Return the key in the name of an object or a group."""
    return name.partition("/")[2]


def _below(message: Message) -> str:
    return f"{message.bucket}/{message.parameters.get('Prefix', '')}"


# Objects.


def _listed(message: Message, token: str, after: str = "") -> req.List:
    p = message.parameters
    place = f"{message.bucket}/"
    return req.List(
        _below(message),
        after=place + after if after else "",
        delimiter=p.get("Delimiter", ""),
        # A page of 0 entries is requested like a page of 1, and shown empty.
        limit=max(1, rules.page_limit(p, "MaxKeys")),
        token=place + token if token else "",
    )


def list_two(message: Message) -> req.List:
    p = message.parameters
    token = p.get("ContinuationToken", "")
    return _listed(message, rules.key_of(token) if token else "", p.get("StartAfter", ""))


def list_one(message: Message) -> req.List:
    return _listed(message, message.parameters.get("Marker", ""))


def list_two_answer(message: Message, _request: Any, reply: req.ListReply) -> Values:
    page = _page(message, reply)
    following = _key(reply.next) if page["IsTruncated"] else ""
    return listings.objects_v2(message.parameters, page, following)


def list_one_answer(message: Message, request: req.List, reply: req.ListReply) -> Values:
    # Without a delimiter S3 sends no marker: the next page begins after the last key of this one.
    following = _key(reply.next) if request.delimiter else ""
    return listings.objects_v1(message.parameters, _page(message, reply), following)


def _page(message: Message, reply: req.ListReply) -> Values:
    p = message.parameters
    is_shown = rules.page_limit(p, "MaxKeys") > 0
    entries = [
        listings.ObjectEntry(
            _key(info.key), to_second(modified.modified_ns(info)), info.etag, modified.size_of(info)
        )
        for info in reply.objects
        if is_shown
    ]
    groups = [_key(group) for group in reply.prefixes if is_shown]
    return listings.objects(p, entries, groups, more=bool(reply.next) and is_shown, owner=None)


# Versions and uploads.


def list_versions(message: Message) -> req.ListVersions:
    return req.ListVersions(_below(message), limit=WHOLE)


def list_versions_answer(message: Message, _request: Any, reply: req.VersionsReply) -> Values:
    p = message.parameters
    entries = [
        listings.VersionEntry(
            _key(info.key),
            info.version,
            info.latest,
            to_second(modified.version_modified_ns(info)),
            info.marker,
            info.etag,
            modified.size_of(info),
        )
        for info in reply.versions
    ]
    after = (p.get("KeyMarker", ""), p.get("VersionIdMarker", ""))
    page = listings.cut(entries, p, rules.page_limit(p, "MaxKeys"), after)
    return {
        **listings.versions(p, page.entries, page.groups, owner=None),
        **listings.ended(p, page.more, page.last, "NextVersionIdMarker"),
    }


def list_uploads(message: Message) -> req.ListUploads:
    return req.ListUploads(_below(message), limit=WHOLE)


def list_uploads_answer(message: Message, _request: Any, reply: req.UploadsReply) -> Values:
    p = message.parameters
    entries = [
        listings.UploadEntry(_key(info.key), info.upload, to_second(modified.started_ns(info)))
        for info in reply.uploads
    ]
    after = (p.get("KeyMarker", ""), p.get("UploadIdMarker", ""))
    return listings.uploads(p, listings.cut(entries, p, rules.page_limit(p, "MaxUploads"), after), owner=None)


# Buckets.


def about(make: Callable[[str], sdk.OnBucket]) -> Callable[[Message], sdk.OnBucket]:
    return lambda message: make(message.bucket)


def create(message: Message) -> sdk.CreateBucket:
    message.read_body()
    return sdk.CreateBucket(message.bucket)


def keep_versions(message: Message) -> sdk.KeepVersions:
    if message.read_body()["VersioningConfiguration"].get("Status") != "Enabled":
        # A bucket here keeps versions or keeps none; that it once did is not modelled.
        raise LookupError("PutBucketVersioning with a status other than Enabled")
    return sdk.KeepVersions(message.bucket)


def head_answer(_message: Message, _request: Any, _reply: Any) -> Values:
    return {"BucketRegion": REGION}


def created_answer(message: Message, _request: Any, reply: sdk.BucketReply) -> Values:
    if not reply.done and "CreateBucketConfiguration" in message.parameters:
        # In the first region, creating one's own bucket again is no error.
        raise S3Error("BucketAlreadyOwnedByYou")
    return {"Location": f"/{message.bucket}"}


def deleted_answer(_message: Message, _request: Any, reply: sdk.BucketReply) -> Values:
    if not reply.done:
        raise S3Error("BucketNotEmpty")
    return {}


def versioning_answer(_message: Message, _request: Any, reply: sdk.BucketReply) -> Values:
    return {"Status": "Enabled"} if reply.versioned else {}


def empty_answer(_message: Message, _request: Any, _reply: Any) -> Values:
    return {}


def buckets_answer(_message: Message, _request: Any, reply: sdk.BucketReply) -> Values:
    shown = [{"Name": name, "CreationDate": iso_moment(0)} for name in reply.names]
    return {"Buckets": shown, "Owner": {"ID": "world"}}
