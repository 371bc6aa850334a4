"""The world as S3: every attempt of the SDK is a request of its own, with a landing of its own.

A lost reply shows as the SDK sees it on a real network, an exception below its retries. So the SDK's own
retries run: on the second attempt a create-only write finds what the first one left, and the answer is 412.
Nothing here decides anything; faults are decided by the schedule.

`DeleteObjects` becomes several deletes at once, each landing by itself, since S3 promises no more; when the
reply to any is lost, the one answer that would carry them all is lost.
"""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.requests import Outcome
from fencepost.sim.boto import http, listings, objects
from fencepost.sim.boto import sdk_requests as sdk
from fencepost.sim.boto.buckets import Buckets
from fencepost.sim.boto.http import Message, respond
from fencepost.sim.boto.objects import Answer
from fencepost.sim.boto.sdk_requests import Refused
from fencepost.sim.world.escapes import escape
from fencepost.sim.world.finalizers import place
from fencepost.sim.world.present import here, surely_here
from fencepost.sim.world.run import RunState


class Operation(NamedTuple):
    """How one operation becomes a request of the store, and its reply an HTTP answer."""

    name: str
    read: Callable[[Message], Any]
    write: Callable[[Message, Any, Any], Answer]
    headers: frozenset[str] = frozenset()
    """Those it knows, besides the ones that all operations know."""
    query: frozenset[str] = frozenset()
    also: Outcome = Outcome.DONE
    """Another outcome for which `write` makes the answer."""


def _operation(name: str, read: Any, write: Any, headers: str = "", query: str = "") -> Operation:
    return Operation(name, read, write, frozenset(headers.split()), frozenset(query.split()))


_CONDITIONS = "if-match if-none-match"
_READING = f"{_CONDITIONS} if-modified-since if-unmodified-since range"
_COPYING = "x-amz-copy-source x-amz-copy-source-if-match x-amz-copy-source-if-none-match"
_LISTING = "prefix delimiter max-keys encoding-type"
_SHOWING = (
    "versionId response-cache-control response-content-disposition response-content-encoding "
    "response-content-language response-content-type response-expires"
)


def _copied(message: Message, _request: Any, reply: Any) -> Answer:
    tag = "CopyPartResult" if "uploadId" in message.query else "CopyObjectResult"
    run = surely_here()
    body = objects.copied(tag, run.start_ns + run.stamp_ns, reply.etag)
    return 200, dict(http.version_header(reply)) if tag == "CopyObjectResult" else {}, body


OPERATIONS: dict[tuple[str, str, str], Operation] = {
    # Method, what it is about, and the words in the query (or the header) that make it another operation.
    ("PUT", "object", ""): _operation("PutObject", objects.put, objects.put_answer, _CONDITIONS),
    ("GET", "object", ""): _operation("GetObject", objects.get, objects.get_answer, _READING, _SHOWING),
    ("HEAD", "object", ""): _operation("HeadObject", objects.head, objects.head_answer, _READING, _SHOWING),
    ("DELETE", "object", ""): _operation(
        "DeleteObject",
        objects.delete,
        objects.delete_answer,
        "if-match x-amz-if-match-size x-amz-if-match-last-modified-time",
        "versionId",
    ),
    ("PUT", "object", "copy"): _operation(
        "CopyObject", objects.copy, _copied, f"{_CONDITIONS} {_COPYING} x-amz-metadata-directive"
    ),
    ("POST", "object", "uploads"): _operation(
        "CreateMultipartUpload", objects.create_upload, objects.create_upload_answer
    ),
    ("PUT", "object", "partNumber uploadId"): _operation(
        "UploadPart", objects.upload_part, objects.upload_part_answer
    ),
    ("PUT", "object", "copy partNumber uploadId"): _operation(
        "UploadPartCopy", objects.copy_part, _copied, f"{_COPYING} x-amz-copy-source-range"
    ),
    ("POST", "object", "uploadId"): _operation(
        "CompleteMultipartUpload", objects.complete_upload, objects.complete_upload_answer, _CONDITIONS
    ),
    ("DELETE", "object", "uploadId"): _operation(
        "AbortMultipartUpload", objects.abort_upload, objects.abort_upload_answer
    ),
    ("GET", "object", "uploadId"): _operation(
        "ListParts", objects.list_parts, objects.list_parts_answer, "", "max-parts part-number-marker"
    ),
    ("GET", "bucket", "list-type"): _operation(
        "ListObjectsV2",
        listings.list_two,
        listings.list_two_answer,
        "",
        f"{_LISTING} continuation-token start-after fetch-owner",
    ),
    ("GET", "bucket", ""): _operation(
        "ListObjects", listings.list_one, listings.list_one_answer, "", f"{_LISTING} marker"
    ),
    ("GET", "bucket", "versions"): _operation(
        "ListObjectVersions",
        listings.list_versions,
        listings.list_versions_answer,
        "",
        f"{_LISTING} key-marker version-id-marker",
    ),
    ("GET", "bucket", "uploads"): _operation(
        "ListMultipartUploads",
        listings.list_uploads,
        listings.list_uploads_answer,
        "",
        "prefix delimiter max-uploads encoding-type key-marker upload-id-marker",
    ),
    ("POST", "bucket", "delete"): _operation(
        "DeleteObjects", objects.delete_many, objects.delete_many_answer
    ),
    ("PUT", "bucket", ""): Operation(
        "CreateBucket", listings.about(sdk.CreateBucket), listings.created_answer, also=Outcome.EXISTS
    ),
    ("HEAD", "bucket", ""): _operation("HeadBucket", listings.about(sdk.HeadBucket), listings.head_answer),
    ("DELETE", "bucket", ""): Operation(
        "DeleteBucket", listings.about(sdk.DeleteBucket), listings.deleted_answer, also=Outcome.EXISTS
    ),
    ("GET", "bucket", "location"): _operation(
        "GetBucketLocation", listings.about(sdk.HeadBucket), listings.location_answer
    ),
    ("GET", "bucket", "versioning"): _operation(
        "GetBucketVersioning", listings.about(sdk.HeadBucket), listings.versioning_answer
    ),
    ("PUT", "bucket", "versioning"): _operation(
        "PutBucketVersioning", listings.keep_versions, listings.done_answer
    ),
    ("GET", "service", ""): _operation(
        "ListBuckets",
        listings.about(sdk.ListBuckets),
        listings.buckets_answer,
        "",
        "max-buckets",
    ),
}
_DISTINGUISHING = frozenset(word for _, _, words in OPERATIONS for word in words.split())
_MODELLED = "the world answers " + ", ".join(sorted(operation.name for operation in OPERATIONS.values()))


def answer(request: Any, home: str, name: str) -> Any:
    """What the SDK gets for `request`; `home` is the host it would go to, `name` the operation if known."""
    run = here()
    if run is None:
        raise used_after_the_run(request)
    if type(run.bucket) is not Buckets:
        raise Misuse("call world.configure before making a boto3 client, not after")
    try:
        return respond(request.url, *reply(request, home, name))
    except Unanswered as beyond:
        raise escape(beyond.call, beyond.instead) from None


class Unanswered(Exception):
    """A request that the world does not know how to answer: what it is, and what to do instead."""

    def __init__(self, call: str, instead: str) -> None:
        super().__init__(call)
        self.call, self.instead = call, instead


def reply(request: Any, home: str, name: str = "") -> Answer:
    """Status, headers and body of the answer. A lost reply raises an exception of the SDK."""
    run = surely_here()
    message = Message(request, home)
    try:
        operation = _find(message, name)
        status, headers, body = _answered(run, operation, message)
    except Refused as refused:
        status, headers, body = _refused(message, refused)
    headers = {
        "x-amz-request-id": _request_id(run),
        "x-amz-id-2": "world",
        "Server": "AmazonS3",
        "Content-Type": "application/xml",
        "Content-Length": str(len(body)),
        **headers,
    }
    return status, headers, b"" if message.method == "HEAD" else body


def used_after_the_run(request: Any) -> Misuse:
    """For what a client of a world sends when no world is there to answer."""
    return Misuse(
        f"a boto3 client of a world was used after the run, at {place(sys._getframe(1))}: {request.method} "
        "was not sent; make another client where it is needed"
    )


def _find(message: Message, name: str) -> Operation:
    level = "object" if message.key else "bucket" if message.bucket else "service"
    words = {word for word in message.query if word in _DISTINGUISHING}
    if "x-amz-copy-source" in message.headers:
        words.add("copy")
    found = OPERATIONS.get((message.method, level, " ".join(sorted(words))))
    if found is None or (name and name != found.name):
        wanted = name or f"{message.method} of the {level}"
        raise Unanswered(f"s3:{wanted} with {', '.join(message.query) or 'nothing'}", _MODELLED)
    beyond = [word for word in message.query if word not in found.query and word not in _DISTINGUISHING]
    beyond += http.unknown_headers(message, found.headers)
    if beyond:
        raise Unanswered(
            f"s3:{found.name} with {', '.join(beyond)}", "leave that out, or hand the code a stand-in"
        )
    return found


def _answered(run: RunState, operation: Operation, message: Message) -> Answer:
    if len(message.key.encode()) > 1024:
        raise Refused(400, "KeyTooLongError", "Your key is too long")
    try:
        request = operation.read(message)
    except LookupError as beyond:
        raise Unanswered(f"s3:{beyond.args[0]}", "leave that out") from None
    store = run.store
    if isinstance(request, list):
        replies = store.send_all(request)
        if any(reply.outcome is Outcome.UNKNOWN for reply in replies):
            return _lost(run, operation, message)
        return operation.write(message, request, replies)
    reply = store.send(request)
    if reply.outcome is Outcome.UNKNOWN:
        return _lost(run, operation, message)
    if reply.outcome not in (Outcome.DONE, operation.also):
        raise objects.refusal(request, reply)
    return operation.write(message, request, reply)


LOST = ("closed", "timeout", "error")
"""How a lost reply can show: the connection closed, silence, or S3's own "I do not know" (500)."""


def _lost(run: RunState, operation: Operation, message: Message) -> Answer:
    """Nobody knows what became of the request, the SDK neither."""
    if run.settings.lost_reply == "timeout":
        raise ReadTimeoutError(endpoint_url=message.url)
    if run.settings.lost_reply == "closed":
        raise ConnectionClosedError(endpoint_url=message.url)
    broken = Refused(500, "InternalError", "We encountered an internal error. Please try again.")
    status, headers, body = _refused(message, broken)
    # S3 sends the headers of these before it knows how they will end.
    early = operation.name in ("CompleteMultipartUpload", "CopyObject", "UploadPartCopy")
    return 200 if early else status, headers, body


def _refused(message: Message, refused: Refused) -> Answer:
    if refused.status == 304:
        return 304, {}, b""
    listed = [("Key", message.key or None), *refused.details.items()]
    return refused.status, {}, http.xml_error(refused.code, refused.message, [*listed, ("HostId", "world")])


def _request_id(run: RunState) -> str:
    """Says whose request it was and its how-manieth: the same in every run."""
    process = run.running
    return "WORLD" if process is None else f"W{process.index:03X}{process.ops:012X}"
