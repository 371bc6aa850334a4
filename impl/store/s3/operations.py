"""Each request as a call of the SDK, and the SDK's answer as a reply.

A reply without a required field raises `BrokenPromise`: a guess would give a protocol a fact that the store
never stated.

The SDK requests listings with URL-encoded keys, since XML cannot carry every character, and decodes them,
except in the listing of uploads. There the keys are used as received: SeaweedFS declares that it encodes them
and does not. Pages come in the store's order.
"""

import calendar
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import BrokenPromise, Misuse
from fencepost.impl.store.requests import Outcome, Reply, Request
from fencepost.impl.store.s3.client import VERSION_ORDER

Answer = Mapping[str, Any]
Parameters = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """A bucket, and the prefix below which our keys live: empty, or ending in a slash."""

    bucket: str
    prefix: str

    def key(self, key: str) -> str:
        return self.prefix + key

    def strip(self, key: str) -> str:
        if not key.startswith(self.prefix):
            raise BrokenPromise(f"asked for keys below {self.prefix!r}, the store listed {key!r}")
        return key[len(self.prefix) :]


# Requests.

_FIELDS = {
    "body": "Body",
    "content_type": "ContentType",
    "metadata": "Metadata",
    "only_if": "IfMatch",
    "unless": "IfNoneMatch",
    "version": "VersionId",
    "upload": "UploadId",
    "number": "PartNumber",
    "delimiter": "Delimiter",
}
"""The SDK's parameters by the fields of requests that become one as they are, unless they are empty."""


_ETAGS = frozenset({"only_if", "unless"})


def parameters(place: Place, request: Request[Any], etag: Callable[[str], str]) -> Parameters:
    """Return the parameters of the call that is this request; `etag` gives an ETag the form of the store."""
    named = "Key" if isinstance(request, ask.Keyed) else "Prefix"
    found: Parameters = {"Bucket": place.bucket, named: place.key(request.subject)}
    for field, name in _FIELDS.items():
        value = getattr(request, field, None)
        if value is not None and value != "":
            found[name] = dict(value) if field == "metadata" else etag(value) if field in _ETAGS else value
    when = getattr(request, "when", None)
    if isinstance(when, ask.Absent):
        found["IfNoneMatch"] = "*"
    elif isinstance(when, ask.Matches):
        found["IfMatch"] = etag(when.etag)
    more = CALLS[type(request)].more
    return {**found, **more(place, request)} if more else found


def _ranged(request: ask.Get) -> bool:
    return request.start > 0 or request.stop is not None


def _get(_: Place, request: ask.Get) -> Parameters:
    if not _ranged(request):
        # Stores that keep a checksum send it along, and the SDK compares.
        return {"ChecksumMode": "ENABLED"}
    return {"Range": f"bytes={request.start}-{'' if request.stop is None else request.stop - 1}"}


def _complete_upload(_: Place, request: ask.CompleteUpload) -> Parameters:
    parts = [{"PartNumber": number, "ETag": etag} for number, etag in request.parts]
    return {"MultipartUpload": {"Parts": parts}}


def _list(place: Place, request: ask.List) -> Parameters:
    page: Parameters = {"MaxKeys": request.limit}
    if request.token:
        page["ContinuationToken"] = request.token
    elif request.after:
        page["StartAfter"] = place.key(request.after)
    return page


def _list_versions(_: Place, request: ask.ListVersions) -> Parameters:
    return {"MaxKeys": request.limit, **_markers(request.token, "KeyMarker", "VersionIdMarker")}


def _list_uploads(_: Place, request: ask.ListUploads) -> Parameters:
    return {"MaxUploads": request.limit, **_markers(request.token, "KeyMarker", "UploadIdMarker")}


def behind(key: str) -> str:
    """Return the token of the page of versions, or of uploads, that begins behind all those of the key."""
    return json.dumps([key, ""])


def _markers(token: str, *names: str) -> Parameters:
    """Unpack what `_next` packed."""
    if not token:
        return {}
    try:
        markers = dict(zip(names, json.loads(token), strict=True))
    except (ValueError, TypeError):
        raise Misuse(f"token {token!r} was not given by a listing of this store") from None
    return {name: marker for name, marker in markers.items() if marker}


# Replies.


def _etag(answer: Answer, request: ask.Keyed[Any]) -> str:
    etag = str(answer.get("ETag", "")).strip('"')
    if not etag or etag.startswith("W/"):
        raise BrokenPromise(
            f"the reply to {request.kind} {request.key!r} carries "
            f"{'a weak ETag, which a proxy made' if etag else 'no ETag'}; conditions cannot be built on it"
        )
    return etag


def _version(answer: Answer) -> str:
    """Empty also for "null", which some stores call the only version where none are kept."""
    version = str(answer.get("VersionId") or "")
    return "" if version == "null" else version


def nanoseconds(moment: datetime | None) -> int:
    if moment is None:
        return 0
    return calendar.timegm(moment.utctimetuple()) * 1_000_000_000 + moment.microsecond * 1000


def _put_reply(_: Place, request: ask.Put | ask.CompleteUpload, answer: Answer) -> ask.PutReply:
    return ask.PutReply(Outcome.DONE, etag=_etag(answer, request), version=_version(answer))


def _get_reply(_: Place, request: ask.Get, answer: Answer) -> ask.GetReply:
    stream = answer["Body"]
    try:
        body: bytes = stream.read()
    finally:
        stream.close()
    size = len(body)
    if _ranged(request) and answer["ResponseMetadata"]["HTTPStatusCode"] == 200:
        # HTTP lets a server ignore ranges and send all.
        if request.start >= size:
            return request.ends(Outcome.PAST_END, "the store sent the whole object, which is shorter")
        body = body[request.start : request.stop]
    elif _ranged(request):
        size = _check_range(request, answer, body)
    return ask.GetReply(Outcome.DONE, body=body, info=_info(answer, request, size))


_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


def _check_range(request: ask.Get, answer: Answer, body: bytes) -> int:
    """Return the size of the whole object; raise unless `body` is exactly the requested range."""
    declared = str(answer.get("ContentRange", ""))
    match = _CONTENT_RANGE.fullmatch(declared)
    if match:
        first, last, size = map(int, match.groups())
        stop = size if request.stop is None else min(request.stop, size)
        if (first, last + 1, len(body)) == (request.start, stop, stop - request.start):
            return size
    raise BrokenPromise(
        f"asked for bytes {request.start} to {request.stop} of {request.key!r}, "
        f"got {len(body)} bytes declared as {declared!r}"
    )


def _head_reply(_: Place, request: ask.Head, answer: Answer) -> ask.HeadReply:
    if "ContentLength" not in answer:
        raise BrokenPromise(f"the reply to head {request.key!r} does not tell the object's size")
    return ask.HeadReply(Outcome.DONE, info=_info(answer, request, int(answer["ContentLength"])))


def _info(answer: Answer, request: ask.Get | ask.Head, size: int) -> ask.ObjectInfo:
    return ask.ObjectInfo(
        key=request.key,
        etag=_etag(answer, request),
        size=size,
        modified_ns=nanoseconds(answer.get("LastModified")),
        version=_version(answer),
        content_type=answer.get("ContentType") or ask.BINARY,
        # Names are headers, and some servers write them with capitals.
        metadata=ask.Metadata({name.lower(): value for name, value in answer.get("Metadata", {}).items()}),
    )


def _delete_reply(_: Place, request: ask.Delete, answer: Answer) -> ask.DeleteReply:
    marker = bool(answer.get("DeleteMarker", False))
    return ask.DeleteReply(Outcome.DONE, version=_version(answer) or request.version, marker=marker)


def _next(answer: Answer, *names: str) -> str:
    """The token of the next page: the marker itself, or several packed together."""
    if not answer.get("IsTruncated"):
        return ""
    markers = [str(answer.get(name) or "") for name in names]
    if not any(markers):
        raise BrokenPromise(f"a listing says that there is more, and gives no {names[0]} to go on from")
    return markers[0] if len(markers) == 1 else json.dumps(markers)


def _listed(place: Place, entry: Answer) -> dict[str, Any]:
    # SeaweedFS lists empty objects with an empty ETag: a listing is not where a condition is built.
    return {
        "key": place.strip(entry["Key"]),
        "etag": str(entry.get("ETag", "")).strip('"'),
        "modified_ns": nanoseconds(entry.get("LastModified")),
    }


def _list_reply(place: Place, _: ask.List, answer: Answer) -> ask.ListReply:
    objects = [
        ask.ObjectInfo(**_listed(place, entry), size=int(entry["Size"]))
        for entry in answer.get("Contents", ())
    ]
    return ask.ListReply(
        Outcome.DONE,
        # An object named like the prefix itself is not below it: it has no name of ours.
        objects=tuple(info for info in objects if info.key),
        prefixes=tuple(place.strip(entry["Prefix"]) for entry in answer.get("CommonPrefixes", ())),
        next=_next(answer, "NextContinuationToken"),
    )


def _versions_reply(place: Place, _: ask.ListVersions, answer: Answer) -> ask.VersionsReply:
    entries = {"Version": answer.get("Versions", ()), "DeleteMarker": answer.get("DeleteMarkers", ())}
    order = answer.get(VERSION_ORDER, ())
    assert len(order) == sum(map(len, entries.values()))
    left = {tag: iter(those) for tag, those in entries.items()}
    versions = [_version_info(place, next(left[tag]), tag == "DeleteMarker") for tag in order]
    return ask.VersionsReply(
        Outcome.DONE,
        versions=tuple(info for info in versions if info.key),
        next=_next(answer, "NextKeyMarker", "NextVersionIdMarker"),
    )


def _version_info(place: Place, entry: Answer, marker: bool) -> ask.VersionInfo:
    return ask.VersionInfo(
        **_listed(place, entry),
        version=str(entry.get("VersionId") or ""),
        latest=bool(entry.get("IsLatest", False)),
        marker=marker,
        size=int(entry.get("Size", 0)),
    )


def _uploads_reply(place: Place, _: ask.ListUploads, answer: Answer) -> ask.UploadsReply:
    # Every store gets back the markers it gave: SeaweedFS gives no key, and stumbles over one.
    return ask.UploadsReply(
        Outcome.DONE,
        uploads=tuple(
            ask.UploadInfo(place.strip(entry["Key"]), entry["UploadId"], nanoseconds(entry.get("Initiated")))
            for entry in answer.get("Uploads", ())
        ),
        next=_next(answer, "NextKeyMarker", "NextUploadIdMarker"),
    )


# The table.


@dataclass(frozen=True, slots=True)
class Call:
    """The SDK call for one kind of request."""

    operation: str
    """The SDK's method."""
    reply: Callable[[Place, Any, Answer], Reply]
    more: Callable[[Place, Any], Parameters] | None = None
    """Parameters beyond those of `_FIELDS` and the condition."""
    body_tells: tuple[str, ...] = ()
    """Of which at least one is in every answer whose body arrived: the SDK takes an empty 200 for an
    empty listing, when all it means is that the connection broke after the headers."""


_LISTED = ("IsTruncated", "Name", "Bucket")

CALLS: Mapping[type, Call] = {
    ask.Put: Call("put_object", _put_reply),
    ask.Get: Call("get_object", _get_reply, _get),
    ask.Head: Call("head_object", _head_reply),
    ask.Delete: Call("delete_object", _delete_reply),
    ask.List: Call("list_objects_v2", _list_reply, _list, _LISTED),
    ask.ListVersions: Call("list_object_versions", _versions_reply, _list_versions, _LISTED),
    ask.CreateUpload: Call(
        "create_multipart_upload",
        lambda _, __, answer: ask.UploadReply(Outcome.DONE, upload=answer["UploadId"]),
        body_tells=("UploadId",),
    ),
    ask.UploadPart: Call(
        "upload_part", lambda _, request, answer: ask.PartReply(Outcome.DONE, etag=_etag(answer, request))
    ),
    ask.CompleteUpload: Call("complete_multipart_upload", _put_reply, _complete_upload, ("ETag",)),
    ask.AbortUpload: Call("abort_multipart_upload", lambda _, __, ___: Reply(Outcome.DONE)),
    ask.ListUploads: Call("list_multipart_uploads", _uploads_reply, _list_uploads, _LISTED),
}
