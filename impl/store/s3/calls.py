"""How each request is asked of the SDK: the table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.impl.store import requests as ask
from fencepost.impl.store.requests import Reply
from fencepost.impl.store.s3 import listings, objects
from fencepost.impl.store.s3.fields import Answer, Parameters, Place


@dataclass(frozen=True, slots=True)
class Call:
    """How one kind of request is asked of the SDK."""

    operation: str
    """The SDK's method."""
    parameters: Callable[[Place, Any], Parameters]
    reply: Callable[[Place, Any, Answer], Reply]
    body_tells: tuple[str, ...] = ()
    """Of which at least one is in every answer whose body arrived: the SDK takes an empty 200 for an
    empty listing, when all it means is that the connection broke after the headers."""


LISTED = ("IsTruncated", "Name", "Bucket")

CALLS: Mapping[type, Call] = {
    ask.Put: Call("put_object", objects.put, objects.put_reply),
    ask.Get: Call("get_object", objects.get, objects.get_reply),
    ask.Head: Call("head_object", objects.head, objects.head_reply),
    ask.Delete: Call("delete_object", objects.delete, objects.delete_reply),
    ask.List: Call("list_objects_v2", listings.list_objects, listings.list_objects_reply, LISTED),
    ask.ListVersions: Call(
        "list_object_versions", listings.list_versions, listings.list_versions_reply, LISTED
    ),
    ask.CreateUpload: Call(
        "create_multipart_upload", objects.create_upload, objects.create_upload_reply, ("UploadId",)
    ),
    ask.UploadPart: Call("upload_part", objects.upload_part, objects.upload_part_reply),
    ask.CompleteUpload: Call(
        "complete_multipart_upload", objects.complete_upload, objects.put_reply, ("ETag",)
    ),
    ask.AbortUpload: Call("abort_multipart_upload", objects.abort_upload, objects.abort_upload_reply),
    ask.ListUploads: Call(
        "list_multipart_uploads", listings.list_uploads, listings.list_uploads_reply, LISTED
    ),
}
