"""The world as S3: every attempt of the SDK is a request of its own, with a landing of its own.

A reply that is lost shows as the SDK sees it on a real network, an exception below its retries. So the
SDK's own retries run: asked again, a create-only write finds what its first attempt left, and is told 412.
Nothing here decides anything; what can go wrong is decided by the schedule.

`DeleteObjects` asks for several deletes at once, each landing by itself, as S3 gives no more; when the
reply to any is lost, the one answer that would carry them all is lost.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.requests import Outcome
from fencepost.sim.boto import asks, fields, listings, objects, uploads, xml
from fencepost.sim.boto.asks import Refused
from fencepost.sim.boto.buckets import Buckets
from fencepost.sim.boto.escapes import escape
from fencepost.sim.boto.objects import Answer
from fencepost.sim.boto.present import here
from fencepost.sim.boto.wire import Message, respond


class Operation(NamedTuple):
    """How one operation is asked of the world, and how its reply is told."""

    name: str
    ask: Callable[[Message], Any]
    tell: Callable[[Message, Any, Any], Answer]
    headers: frozenset[str] = frozenset()
    """Those it knows, besides what all know."""
    query: frozenset[str] = frozenset()
    also: Outcome = Outcome.DONE
    """Another outcome that it tells itself."""


def _operation(name: str, ask: Any, tell: Any, headers: str = "", query: str = "") -> Operation:
    return Operation(name, ask, tell, frozenset(headers.split()), frozenset(query.split()))


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
    world = here()
    body = objects.copied(tag, world.start_ns + world.stamp_ns, reply.etag)
    return 200, dict(fields.version_header(reply)) if tag == "CopyObjectResult" else {}, body


OPERATIONS: dict[tuple[str, str, str], Operation] = {
    # Method, what it is about, and the words in the query (or the header) that make it another operation.
    ("PUT", "object", ""): _operation("PutObject", objects.put, objects.put_told, _CONDITIONS),
    ("GET", "object", ""): _operation("GetObject", objects.get, objects.get_told, _READING, _SHOWING),
    ("HEAD", "object", ""): _operation("HeadObject", objects.head, objects.head_told, _READING, _SHOWING),
    ("DELETE", "object", ""): _operation(
        "DeleteObject",
        objects.delete,
        objects.delete_told,
        "if-match x-amz-if-match-size x-amz-if-match-last-modified-time",
        "versionId",
    ),
    ("PUT", "object", "copy"): _operation(
        "CopyObject", objects.copy, _copied, f"{_CONDITIONS} {_COPYING} x-amz-metadata-directive"
    ),
    ("POST", "object", "uploads"): _operation("CreateMultipartUpload", uploads.create, uploads.create_told),
    ("PUT", "object", "partNumber uploadId"): _operation("UploadPart", uploads.part, uploads.part_told),
    ("PUT", "object", "copy partNumber uploadId"): _operation(
        "UploadPartCopy", uploads.copy_part, _copied, f"{_COPYING} x-amz-copy-source-range"
    ),
    ("POST", "object", "uploadId"): _operation(
        "CompleteMultipartUpload", uploads.complete, uploads.complete_told, _CONDITIONS
    ),
    ("DELETE", "object", "uploadId"): _operation("AbortMultipartUpload", uploads.abort, uploads.abort_told),
    ("GET", "object", "uploadId"): _operation(
        "ListParts", uploads.list_parts, uploads.list_parts_told, "", "max-parts part-number-marker"
    ),
    ("GET", "bucket", "list-type"): _operation(
        "ListObjectsV2",
        listings.list_two,
        listings.list_two_told,
        "",
        f"{_LISTING} continuation-token start-after fetch-owner",
    ),
    ("GET", "bucket", ""): _operation(
        "ListObjects", listings.list_one, listings.list_one_told, "", f"{_LISTING} marker"
    ),
    ("GET", "bucket", "versions"): _operation(
        "ListObjectVersions",
        listings.list_versions,
        listings.list_versions_told,
        "",
        f"{_LISTING} key-marker version-id-marker",
    ),
    ("GET", "bucket", "uploads"): _operation(
        "ListMultipartUploads",
        listings.list_uploads,
        listings.list_uploads_told,
        "",
        "prefix delimiter max-uploads encoding-type key-marker upload-id-marker",
    ),
    ("POST", "bucket", "delete"): _operation("DeleteObjects", objects.delete_many, objects.delete_many_told),
    ("PUT", "bucket", ""): Operation(
        "CreateBucket", listings.about(asks.CreateBucket), listings.created_told, also=Outcome.EXISTS
    ),
    ("HEAD", "bucket", ""): _operation("HeadBucket", listings.about(asks.HeadBucket), listings.head_told),
    ("DELETE", "bucket", ""): Operation(
        "DeleteBucket", listings.about(asks.DeleteBucket), listings.deleted_told, also=Outcome.EXISTS
    ),
    ("GET", "bucket", "location"): _operation(
        "GetBucketLocation", listings.about(asks.HeadBucket), listings.location_told
    ),
    ("GET", "bucket", "versioning"): _operation(
        "GetBucketVersioning", listings.about(asks.HeadBucket), listings.versioning_told
    ),
    ("PUT", "bucket", "versioning"): _operation(
        "PutBucketVersioning", listings.keep_versions, listings.done_told
    ),
    ("GET", "service", ""): _operation(
        "ListBuckets",
        listings.about(asks.ListBuckets),
        listings.buckets_told,
        "",
        "max-buckets",
    ),
}
_TELLING = frozenset(word for _, _, words in OPERATIONS for word in words.split())
_MODELLED = "the world answers " + ", ".join(sorted(operation.name for operation in OPERATIONS.values()))


def answer(request: Any, home: str, name: str) -> Any:
    """What the SDK gets for `request`; `home` is the host it would go to, `name` the operation if known."""
    world = here()
    if world is None:
        raise Misuse("a boto3 client of a world was used after the run; make another where it is needed")
    if type(world.bucket) is not Buckets:
        raise Misuse("call world.configure before making a boto3 client, not after")
    message = Message(request, home)
    try:
        operation = _find(message, name)
        status, headers, body = _answered(world, operation, message)
    except Refused as refused:
        status, headers, body = _refused(message, refused)
    headers = {
        "x-amz-request-id": _request_id(world),
        "x-amz-id-2": "world",
        "Server": "AmazonS3",
        "Content-Type": "application/xml",
        "Content-Length": str(len(body)),
        **headers,
    }
    return respond(request.url, status, headers, b"" if message.method == "HEAD" else body)


def _find(message: Message, name: str) -> Operation:
    level = "object" if message.key else "bucket" if message.bucket else "service"
    words = {word for word in message.query if word in _TELLING}
    if "x-amz-copy-source" in message.headers:
        words.add("copy")
    found = OPERATIONS.get((message.method, level, " ".join(sorted(words))))
    if found is None or (name and name != found.name):
        asked = name or f"{message.method} of the {level}"
        raise escape(f"s3:{asked} with {', '.join(message.query) or 'nothing'}", _MODELLED)
    beyond = [word for word in message.query if word not in found.query and word not in _TELLING]
    beyond += fields.unknown_headers(message, found.headers)
    if beyond:
        raise escape(
            f"s3:{found.name} with {', '.join(beyond)}", "leave that out, or hand the code a stand-in"
        )
    return found


def _answered(world: Any, operation: Operation, message: Message) -> Answer:
    if len(message.key.encode()) > 1024:
        raise Refused(400, "KeyTooLongError", "Your key is too long")
    try:
        request = operation.ask(message)
    except LookupError as beyond:
        raise escape(f"s3:{beyond.args[0]}", "leave that out") from None
    store = world.store()
    if isinstance(request, list):
        replies = store.send_all(request)
        if any(reply.outcome is Outcome.UNKNOWN for reply in replies):
            return _lost(world, operation, message)
        return operation.tell(message, request, replies)
    reply = store.send(request)
    if reply.outcome is Outcome.UNKNOWN:
        return _lost(world, operation, message)
    if reply.outcome not in (Outcome.DONE, operation.also):
        raise objects.refusal(request, reply)
    return operation.tell(message, request, reply)


LOST = ("closed", "timeout", "error")
"""How a lost reply can show: the connection closed, silence, or S3's own "I do not know" (500)."""


def _lost(world: Any, operation: Operation, message: Message) -> Answer:
    """Nobody knows what became of the request, the SDK neither."""
    if world.boto3_lost == "timeout":
        raise ReadTimeoutError(endpoint_url=message.url)
    if world.boto3_lost == "closed":
        raise ConnectionClosedError(endpoint_url=message.url)
    broken = Refused(500, "InternalError", "We encountered an internal error. Please try again.")
    status, headers, body = _refused(message, broken)
    # S3 sends the headers of these before it knows how they will end.
    early = operation.name in ("CompleteMultipartUpload", "CopyObject", "UploadPartCopy")
    return 200 if early else status, headers, body


def _refused(message: Message, refused: Refused) -> Answer:
    if refused.status == 304:
        return 304, {}, b""
    told = [("Key", message.key or None), *refused.details.items()]
    return refused.status, {}, xml.error(refused.code, refused.message, [*told, ("HostId", "world")])


def _request_id(world: Any) -> str:
    """Says whose request it was and its how-manieth: the same in every run."""
    process = world.running
    return "WORLD" if process is None else f"W{process.index:03X}{process.ops:012X}"
