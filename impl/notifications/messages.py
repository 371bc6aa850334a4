"""Notifications of changes in a bucket, as stores send them: S3, MinIO, SeaweedFS, SNS and EventBridge.

    rows_of("bucket", message)      # [["key", "written", 12, "etag", None]]

They come at least once, late and in any order. So what is done depends on the object as it is, and on no
notification alone.
"""

import json
from typing import Any
from urllib.parse import unquote_plus

WRITTEN, TAGGED, REMOVED = "written", "tagged", "removed"
UNKNOWN_SIZE = -1
"""Of an object whose notification has no size."""
Row = list[Any]
"""Key, kind, size, ETag and tags of a notification."""


class Closed(Exception):
    """An operator has closed the source: nothing of it may be taken any more."""


class NotANotification(ValueError):
    """The text is none of the notifications that are understood."""


def rows_of(bucket: str, body: str | bytes) -> list[Row]:
    """Return the changes of the bucket that a notification is about.

    The form is that of S3, which MinIO shares; the same wrapped by SNS; that of EventBridge; or the one of
    SeaweedFS. Raises `NotANotification` for everything else: it must not be acknowledged.
    """
    try:
        found = json.loads(body)
        if isinstance(found, dict) and isinstance(found.get("Message"), str):
            found = json.loads(found["Message"])
        if not isinstance(found, dict):
            raise NotANotification("it is no object")
        if found.get("Event") == "s3:TestEvent":
            return []
        if "Records" in found:
            return [row for record in found["Records"] for row in _of_record(bucket, record)]
        if "detail-type" in found:
            return _of_event_bridge(bucket, found)
        if "event_type" in found and "key" in found:
            return _of_seaweedfs(bucket, found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotANotification(f"{type(error).__name__}: {error}") from None
    raise NotANotification("it has neither Records, detail-type nor event_type")


def _of_record(bucket: str, record: dict[str, Any]) -> list[Row]:
    of, name = record["s3"], record["eventName"].removeprefix("s3:")
    if of["bucket"]["name"] != bucket:
        return []
    return _row(unquote_plus(of["object"]["key"]), name, of["object"])


def _of_event_bridge(bucket: str, found: dict[str, Any]) -> list[Row]:
    names = {
        "Object Created": "ObjectCreated:",
        "Object Deleted": "ObjectRemoved:",
        "Object Tags Added": "ObjectTagging:",
        "Object Tags Deleted": "ObjectTagging:",
    }
    detail = found["detail"]
    if detail["bucket"]["name"] != bucket or found["detail-type"] not in names:
        return []
    name = names[found["detail-type"]]
    if detail.get("deletion-type") == "Delete Marker Created":
        name = "ObjectRemoved:DeleteMarkerCreated"
    one = detail["object"]
    return _row(one["key"], name, {"size": one.get("size", UNKNOWN_SIZE), "eTag": one.get("etag", "")})


def _of_seaweedfs(bucket: str, found: dict[str, Any]) -> list[Row]:
    """A key is a path below /buckets; an event without a name of its own counts as a write and a change."""
    prefix, path = f"/buckets/{bucket}/", str(found["key"])
    if not path.startswith(prefix) or path == prefix:
        return []
    key = path.removeprefix(prefix)
    kinds = {"create": [WRITTEN], "delete": [REMOVED]}.get(str(found["event_type"]), [WRITTEN, TAGGED])
    return [[key, kind, UNKNOWN_SIZE, "", None] for kind in kinds]


def _row(key: str, name: str, one: dict[str, Any]) -> list[Row]:
    size, etag = int(one.get("size", UNKNOWN_SIZE)), str(one.get("eTag", "")).strip('"')
    if name.startswith("ObjectCreated:"):
        return [[key, WRITTEN, size, etag, None]]
    if name == "ObjectRemoved:DeleteMarkerCreated":
        return [[key, WRITTEN, UNKNOWN_SIZE, "", None]]
    if name.startswith(("ObjectRemoved:", "LifecycleExpiration:")):
        return [[key, REMOVED, UNKNOWN_SIZE, "", None]]
    if name.startswith("ObjectTagging:"):
        return [[key, TAGGED, size, etag, None]]
    return []  # of access, of restores, of replication: nothing becomes due by it
