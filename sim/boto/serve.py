"""The world as S3: every attempt of the SDK is a request of its own, with a landing of its own.

A lost reply shows as the SDK sees it on a real network, an exception below its retries. So the SDK's own
retries run: on the second attempt a create-only write finds what the first one left, and the answer is 412.
Nothing here decides anything; faults are decided by the schedule.

`DeleteObjects` becomes several deletes at once, each landing by itself, since S3 promises no more; when the
reply to any is lost, the one answer that would carry them all is lost.
"""

import functools
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

from fencepost.impl.objects.wire import codec
from fencepost.impl.objects.wire.body import HEADER
from fencepost.impl.objects.wire.errors import S3Error, error_answer, refuse
from fencepost.impl.objects.wire.parameters import KEY_BYTES_MAX, SHOWN
from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.requests import Outcome
from fencepost.sim.boto import listings, objects
from fencepost.sim.boto import sdk_requests as sdk
from fencepost.sim.boto.buckets import Buckets
from fencepost.sim.boto.http import Message, respond
from fencepost.sim.boto.objects import Values
from fencepost.sim.world.escapes import escape
from fencepost.sim.world.finalizers import place
from fencepost.sim.world.present import here, surely_here
from fencepost.sim.world.run import RunState


class Operation(NamedTuple):
    """The functions that turn one operation into a request of the store, and its reply into values."""

    name: str
    read: Callable[[Message], Any]
    write: Callable[[Message, Any, Any], Values]
    known: frozenset[str]
    """Parameters that have an effect here, besides `IGNORED` and `objects.ATTRIBUTES`."""
    also: Outcome
    """Another outcome for which `write` makes the response."""


IGNORED = frozenset(
    "ACL BucketKeyEnabled BucketRegion ChecksumAlgorithm ChecksumMode ChecksumType ContentLength ContentMD5 "
    "ContentType ExpectedBucketOwner ExpectedSourceBucketOwner GrantFullControl GrantRead GrantReadACP "
    "GrantWrite GrantWriteACP Metadata MpuObjectSize ObjectOwnership OptionalObjectAttributes RequestPayer "
    "SSECustomerAlgorithm SSECustomerKey SSECustomerKeyMD5 SSEKMSEncryptionContext SSEKMSKeyId "
    "ServerSideEncryption Tagging TaggingDirective".split()
)
"""Parameters that any operation may have: permissions, payment, encryption and labels, which have no effect
here, and those that describe the body."""
_TRANSPORT = frozenset(
    "host user-agent accept accept-encoding connection content-length content-type content-md5 expect date "
    "transfer-encoding authorization x-amz-date x-amz-content-sha256 x-amz-security-token x-amz-user-agent "
    "x-amz-trailer x-amz-decoded-content-length x-amz-sdk-checksum-algorithm x-amz-api-version "
    "x-amzn-trace-id amz-sdk-invocation-id amz-sdk-request".split()
)
"""Headers that are no parameters: how the request travels, and who sends it."""

OPERATIONS: dict[str, Operation] = {}


def _operation(name: str, read: Any, write: Any, known: str = "", also: Outcome = Outcome.DONE) -> None:
    OPERATIONS[name] = Operation(name, read, write, frozenset(known.split()), also)


_CONDITIONS = "IfMatch IfNoneMatch"
_READING = f"VersionId {_CONDITIONS} IfModifiedSince IfUnmodifiedSince Range {' '.join(SHOWN)}"
_COPYING = "CopySource CopySourceIfMatch CopySourceIfNoneMatch"
_PART = "UploadId PartNumber"
_LISTING = "Prefix Delimiter MaxKeys EncodingType"

_operation("PutObject", objects.put, objects.put_answer, _CONDITIONS)
_operation("GetObject", objects.get, objects.get_answer, _READING)
_operation("HeadObject", objects.head, objects.head_answer, _READING)
_operation(
    "DeleteObject",
    objects.delete,
    objects.delete_answer,
    "VersionId IfMatch IfMatchSize IfMatchLastModifiedTime",
)
_operation("DeleteObjects", objects.delete_many, objects.delete_many_answer)
_operation("CopyObject", objects.copy, objects.copy_answer, f"{_CONDITIONS} {_COPYING} MetadataDirective")
_operation("CreateMultipartUpload", objects.create_upload, objects.create_upload_answer)
_operation("UploadPart", objects.upload_part, objects.upload_part_answer, _PART)
_operation(
    "UploadPartCopy", objects.copy_part, objects.copy_part_answer, f"{_PART} {_COPYING} CopySourceRange"
)
_operation(
    "CompleteMultipartUpload",
    objects.complete_upload,
    objects.complete_upload_answer,
    f"UploadId {_CONDITIONS}",
)
_operation("AbortMultipartUpload", objects.abort_upload, listings.empty_answer, "UploadId")
_operation("ListParts", objects.list_parts, objects.list_parts_answer, "UploadId MaxParts PartNumberMarker")

_operation(
    "ListObjectsV2",
    listings.list_two,
    listings.list_two_answer,
    f"{_LISTING} ContinuationToken StartAfter FetchOwner",
)
_operation("ListObjects", listings.list_one, listings.list_one_answer, f"{_LISTING} Marker")
_operation(
    "ListObjectVersions",
    listings.list_versions,
    listings.list_versions_answer,
    f"{_LISTING} KeyMarker VersionIdMarker",
)
_operation(
    "ListMultipartUploads",
    listings.list_uploads,
    listings.list_uploads_answer,
    "Prefix Delimiter MaxUploads EncodingType KeyMarker UploadIdMarker",
)

_head_bucket = listings.about(sdk.HeadBucket)
_operation("CreateBucket", listings.create, listings.created_answer, also=Outcome.EXISTS)
_operation("HeadBucket", _head_bucket, listings.head_answer)
_operation("DeleteBucket", listings.about(sdk.DeleteBucket), listings.deleted_answer, also=Outcome.EXISTS)
_operation("GetBucketLocation", _head_bucket, listings.empty_answer)
_operation("GetBucketVersioning", _head_bucket, listings.versioning_answer)
_operation("PutBucketVersioning", listings.keep_versions, listings.empty_answer)
_operation("ListBuckets", listings.about(sdk.ListBuckets), listings.buckets_answer, "MaxBuckets")

_MODELLED = "the world answers " + ", ".join(sorted(OPERATIONS))


def answer(request: Any, home: str, name: str, attempt: "Attempt | None" = None) -> Any:
    """Return the response that the SDK receives.

    `home` is the host of the service, `name` the operation, if the SDK names it, and `attempt` belongs to the
    call of the SDK if that is observed.
    """
    run = here()
    if run is None:
        raise used_after_the_run(request)
    if type(run.bucket) is not Buckets:
        raise Misuse("call world.configure before making a boto3 client, not after")
    try:
        return respond(request.url, *reply(request, home, name, attempt))
    except Unanswered as beyond:
        raise escape(beyond.call, beyond.instead) from None


class Unanswered(Exception):
    """A request that the world does not know how to answer: what it is, and what to do instead."""

    def __init__(self, call: str, instead: str) -> None:
        super().__init__(call)
        self.call, self.instead = call, instead


class Prepared(NamedTuple):
    """One request of the SDK, ready to be sent."""

    message: Message
    operation: Operation
    request: Any
    """The request of the store; a list where one call sends several."""


class Exchanged(NamedTuple):
    """The result of a request that was sent."""

    request: Any
    """The request that was answered; of the two steps of a copy, one."""
    reply: Any
    """The reply; or the exception that the store raised."""


def reply(request: Any, home: str, name: str = "", attempt: "Attempt | None" = None) -> codec.Answer:
    """Return the response to a request; a lost one raises an exception of the SDK."""
    message = Message(request, home)
    if attempt is not None and attempt.is_sent(message):
        return attempt.answer()
    try:
        prepared = prepare(message, name)
    except S3Error as error:
        return _framed(surely_here(), message, _refused(surely_here(), message, error))
    found = send(prepared)
    if attempt is not None:
        attempt.note(prepared, found)
    return respond_to(prepared, found)


class Attempt:
    """The first attempt of one call of the SDK: either it is observed, or it was sent already."""

    def __init__(self, prepared: Prepared | None = None, found: Exchanged | None = None) -> None:
        self.prepared = prepared
        self.found = found
        self.count = 0
        """Number of attempts that the SDK has made."""
        self.request_id = ""
        """The identifier of the request, as the response shows it."""

    def is_sent(self, message: Message) -> bool:
        """Count an attempt; return True if it is the one that was sent already."""
        self.count += 1
        if self.count > 1 or self.prepared is None:
            return False
        known = self.prepared.message
        same_body = known.raw == message.raw or type(message.raw) is not bytes  # else a new stream
        if (known.method, known.url) != (message.method, message.url) or not same_body:
            raise Misuse(
                f"the SDK made {message.method} {message.url} of a call of which it made {known.method} "
                f"{known.url} before: something else than the call decides, such as a patch of the SDK"
            )
        return True

    def note(self, prepared: Prepared, found: Exchanged) -> None:
        if self.count == 1:
            self.prepared, self.found = prepared, found
            self.request_id = request_id(surely_here())

    def answer(self) -> codec.Answer:
        """Return the response to the attempt that was sent already."""
        assert self.prepared is not None, "it was sent"
        assert self.found is not None, "it was sent"
        self.request_id = request_id(surely_here())
        return respond_to(self.prepared, self.found)


def prepare(message: Message, name: str) -> Prepared:
    """Return a request as the store takes it; raise what S3 answers where it does not get that far."""
    operation = _find(message, name)
    if len(message.key.encode()) > KEY_BYTES_MAX:
        refuse("KeyTooLongError")
    try:
        return Prepared(message, operation, operation.read(message))
    except LookupError as beyond:
        raise Unanswered(f"s3:{beyond.args[0]}", "leave that out") from None


def send(prepared: Prepared) -> Exchanged:
    """Send a request: its step."""
    store = surely_here().store
    request = prepared.request
    try:
        if type(request) is list:
            return Exchanged(request, store.send_all(request))
        if type(request) in _COPIES:
            return _copied(store, request)
        return Exchanged(request, store.send(request))
    except Exception as error:  # noqa: BLE001 - the SDK receives it, and decides
        return Exchanged(request, error)


_COPIES = (sdk.Copy, sdk.CopyPart)


def respond_to(prepared: Prepared, found: Exchanged) -> codec.Answer:
    """Return the response to a request that was sent; a lost one raises an exception of the SDK."""
    run = surely_here()
    message = prepared.message
    try:
        answer = _answered(run, prepared, found)
    except S3Error as error:
        answer = _refused(run, message, error)
    return _framed(run, message, answer)


def _framed(run: RunState, message: Message, answer: codec.Answer) -> codec.Answer:
    """Add the headers that every response has."""
    status, headers, body = answer
    headers = {
        "x-amz-request-id": request_id(run),
        "x-amz-id-2": "world",
        "Server": "AmazonS3",
        "Content-Length": str(len(body)),
        **headers,
    }
    return codec.Answer(status, headers, b"" if message.method == "HEAD" else body)


def used_after_the_run(request: Any) -> Misuse:
    """For what a client of a world sends when no world is there to answer."""
    return Misuse(
        f"a boto3 client of a world was used after the run, at {place(sys._getframe(1))}: {request.method} "
        "was not sent; make another client where it is needed"
    )


def _find(message: Message, name: str) -> Operation:
    """Return the operation of a request, and set its parameters; the SDK may have named it."""
    level = codec.level_of(message.bucket, message.key)
    query, headers = message.query, message.headers
    operation = _resolve(message.method, level, tuple(query), query.get("list-type"), tuple(headers))
    found = OPERATIONS.get(operation)
    if found is None or (name and name != operation):
        wanted = name or operation or f"{message.method} of the {level}"
        raise Unanswered(f"s3:{wanted} with {', '.join(query) or 'nothing'}", _MODELLED)
    message.operation = operation
    message.parameters = codec.parameters_of(operation, message.bucket, message.key, query, headers)
    return found


@functools.lru_cache(1024)
def _resolve(
    method: str, level: str, words: tuple[str, ...], list_type: str | None, headers: tuple[str, ...]
) -> str:
    """Return the name of an operation; empty if S3 has none like this.

    `list-type` is the one word of a query whose value makes a difference. Raise `Unanswered` for an operation
    of this module with words or headers that have no effect here.
    """
    query = dict.fromkeys(words, "") | ({} if list_type is None else {"list-type": list_type})
    try:
        operation = codec.operation_of(method, level, query, dict.fromkeys(headers, ""))
    except S3Error:
        return ""
    beyond = _beyond(operation, words, headers) if operation in OPERATIONS else []
    if beyond:
        raise Unanswered(
            f"s3:{operation} with {', '.join(beyond)}", "leave that out, or hand the code a stand-in"
        )
    return operation


def _beyond(name: str, words: tuple[str, ...], headers: tuple[str, ...]) -> list[str]:
    """Return the words of the query and the headers that have a meaning, and none here."""
    known = OPERATIONS[name].known | IGNORED | objects.ATTRIBUTES
    plain = codec.words_of(name)
    beyond = [word for word in words if word not in plain and codec.member_of(name, word) not in known]
    return beyond + [
        header
        for header in headers
        if header not in _TRANSPORT
        and not header.startswith("x-amz-meta-")
        and not header.startswith(HEADER)
        # Clients send headers of a put with other requests, where S3 ignores them.
        and (codec.member_of(name, header) or codec.member_of("PutObject", header)) not in known
    ]


def _answered(run: RunState, prepared: Prepared, found: Exchanged) -> codec.Answer:
    message, operation, _ = prepared
    request, reply = found
    if isinstance(reply, Exception):
        raise reply
    if type(request) is list:
        if any(one.outcome is Outcome.UNKNOWN for one in reply):
            return _lost(run, operation, message)
    elif reply.outcome is Outcome.UNKNOWN:
        return _lost(run, operation, message)
    elif reply.outcome not in (Outcome.DONE, operation.also):
        raise objects.refusal(request, reply)
    values = operation.write(message, request, reply)
    status, headers, body = codec.write(operation.name, values, 206 if "ContentRange" in values else None)
    return codec.Answer(status, headers, values.get("Body", body))


def _copied(store: Any, request: Any) -> Exchanged:
    """Send a copy, which is two steps."""
    while True:
        found = store.send(request.source)
        if found.outcome is not Outcome.DONE:
            return Exchanged(request.source, found)
        copying = replace(request, found=found)
        reply = store.send(copying)
        if type(reply) is not sdk.Repeated:
            return Exchanged(copying, reply)


LOST = ("closed", "timeout", "error")
"""Forms of a lost reply: the connection closed, silence, or S3's own "I do not know" (500)."""


def _lost(run: RunState, operation: Operation, message: Message) -> codec.Answer:
    """Show a lost reply to the SDK, which cannot tell whether the request was applied."""
    if run.settings.lost_reply == "timeout":
        raise ReadTimeoutError(endpoint_url=message.url)
    if run.settings.lost_reply == "closed":
        raise ConnectionClosedError(endpoint_url=message.url)
    status, headers, body = _refused(run, message, S3Error("InternalError"))
    # S3 sends the headers of these before they have ended.
    early = operation.name in ("CompleteMultipartUpload", "CopyObject", "UploadPartCopy")
    return codec.Answer(200 if early else status, headers, body)


def _refused(run: RunState, message: Message, error: S3Error) -> codec.Answer:
    resource = f"/{message.bucket}/{message.key}" if message.key else f"/{message.bucket}"
    return codec.Answer(*error_answer(error, message.method, resource, request_id(run)))


def request_id(run: RunState) -> str:
    """Return the process of a request and its number there: the same in every run."""
    process = run.running
    return "WORLD" if process is None else f"W{process.index:03X}{process.ops:012X}"
