"""Listings: of objects, versions and uploads, a page at a time.

The SDK asks for keys URL-encoded, since XML cannot carry every character, and decodes them: but not in
the listing of uploads. There we take them as they are, because SeaweedFS says that it encodes them and
does not. Pages come in the store's order.
"""

import json

from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import BrokenPromise, Misuse
from fencepost.impl.store.requests import Outcome
from fencepost.impl.store.s3.client import VERSION_ORDER
from fencepost.impl.store.s3.fields import Answer, Parameters, Place, ns_of


def list_objects(place: Place, request: ask.List) -> Parameters:
    parameters: Parameters = {
        "Bucket": place.bucket,
        "Prefix": place.key(request.prefix),
        "MaxKeys": request.limit,
    }
    if request.delimiter:
        parameters["Delimiter"] = request.delimiter
    if request.token:
        parameters["ContinuationToken"] = request.token
    elif request.after:
        parameters["StartAfter"] = place.key(request.after)
    return parameters


def list_objects_reply(place: Place, request: ask.List, answer: Answer) -> ask.ListReply:
    objects = tuple(listed(place, entry) for entry in answer.get("Contents", ()))
    return ask.ListReply(
        Outcome.DONE,
        # An object named like the prefix itself is not below it: it has no name of ours.
        objects=tuple(info for info in objects if info.key),
        prefixes=tuple(place.strip(entry["Prefix"]) for entry in answer.get("CommonPrefixes", ())),
        next=_next(answer, "NextContinuationToken"),
    )


def listed(place: Place, entry: Answer) -> ask.ObjectInfo:
    # SeaweedFS lists empty objects with an empty ETag: a listing is not where a condition is built.
    return ask.ObjectInfo(
        key=place.strip(entry["Key"]),
        etag=str(entry.get("ETag", "")).strip('"'),
        size=int(entry["Size"]),
        modified_ns=ns_of(entry.get("LastModified")),
    )


def _next(answer: Answer, *names: str) -> str:
    """The token of the next page: the marker itself, or several packed together."""
    if not answer.get("IsTruncated"):
        return ""
    markers = [str(answer.get(name) or "") for name in names]
    if not any(markers):
        raise BrokenPromise(f"a listing says that there is more, and gives no {names[0]} to go on from")
    return markers[0] if len(markers) == 1 else json.dumps(markers)


def _markers(token: str, *names: str) -> Parameters:
    """Unpack what `_next` packed."""
    if not token:
        return {}
    try:
        markers = dict(zip(names, json.loads(token), strict=True))
    except (ValueError, TypeError):
        raise Misuse(f"token {token!r} was not given by a listing of this store") from None
    return {name: marker for name, marker in markers.items() if marker}


def list_versions(place: Place, request: ask.ListVersions) -> Parameters:
    return {
        "Bucket": place.bucket,
        "Prefix": place.key(request.prefix),
        "MaxKeys": request.limit,
        **_markers(request.token, "KeyMarker", "VersionIdMarker"),
    }


def list_versions_reply(place: Place, request: ask.ListVersions, answer: Answer) -> ask.VersionsReply:
    entries = {
        "Version": iter(answer.get("Versions", ())),
        "DeleteMarker": iter(answer.get("DeleteMarkers", ())),
    }
    order = answer.get(VERSION_ORDER, ())
    assert len(order) == sum(len(answer.get(name, ())) for name in ("Versions", "DeleteMarkers"))
    versions = tuple(version_info(place, next(entries[tag]), tag == "DeleteMarker") for tag in order)
    return ask.VersionsReply(
        Outcome.DONE,
        versions=tuple(info for info in versions if info.key),
        next=_next(answer, "NextKeyMarker", "NextVersionIdMarker"),
    )


def version_info(place: Place, entry: Answer, marker: bool) -> ask.VersionInfo:
    return ask.VersionInfo(
        key=place.strip(entry["Key"]),
        version=str(entry.get("VersionId") or ""),
        latest=bool(entry.get("IsLatest", False)),
        marker=marker,
        etag=str(entry.get("ETag", "")).strip('"'),
        size=int(entry.get("Size", 0)),
        modified_ns=ns_of(entry.get("LastModified")),
    )


def list_uploads(place: Place, request: ask.ListUploads) -> Parameters:
    return {
        "Bucket": place.bucket,
        "Prefix": place.key(request.prefix),
        "MaxUploads": request.limit,
        **_markers(request.token, "KeyMarker", "UploadIdMarker"),
    }


def list_uploads_reply(place: Place, request: ask.ListUploads, answer: Answer) -> ask.UploadsReply:
    # Every store gets back the markers it gave: SeaweedFS gives no key, and stumbles over one.
    return ask.UploadsReply(
        Outcome.DONE,
        uploads=tuple(
            ask.UploadInfo(place.strip(entry["Key"]), entry["UploadId"], ns_of(entry.get("Initiated")))
            for entry in answer.get("Uploads", ())
        ),
        next=_next(answer, "NextKeyMarker", "NextUploadIdMarker"),
    )
