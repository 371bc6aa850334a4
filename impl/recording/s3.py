"""S3 operations as the columns of events, whichever front end saw them: the SDK, a proxy, a server.

An operation is known by its name and its parameters in S3's service model. It is one request, with two
exceptions: DeleteObjects is one delete for each key. A copy is a put of its destination, whose body the
client does not have. Operations that neither read nor change an object, its versions or its uploads are not
recorded.

`outcome` decides from the status and the code of a reply, by the tables of the S3 driver: whether the
request was applied, was refused, or may have been applied (`unknown`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.impl.store.events import TraceFields, short_hash
from fencepost.impl.store.requests import Outcome

KINDS = {
    "AbortMultipartUpload": "abort-upload",
    "CompleteMultipartUpload": "complete-upload",
    "CopyObject": "put",
    "CreateMultipartUpload": "create-upload",
    "DeleteObject": "delete",
    "DeleteObjects": "delete",
    "GetObject": "get",
    "HeadObject": "head",
    "ListMultipartUploads": "list-uploads",
    "ListObjectVersions": "list-versions",
    "ListObjects": "list",
    "ListObjectsV2": "list",
    "PutObject": "put",
    "RenameObject": "rename",
    "UploadPart": "upload-part",
    "UploadPartCopy": "upload-part",
}
"""The kinds of events of the operations that are recorded. A kind that replay does not know, such as
`rename`, leaves its objects undecided, which is better than leaving it out."""
_READS = frozenset({"get", "head"})
_CONDITIONAL = frozenset({"put", "delete", "complete-upload"})
_OF_UPLOADS = frozenset({"upload-part", "complete-upload", "abort-upload"})
_BROKEN = 500
"""The status of a reply of 200 that holds an error."""


@dataclass(slots=True)
class Asked:
    """One request: the columns of its event."""

    bucket: str
    kind: str
    key: str
    condition: str = ""
    etag: str = ""
    version: str = ""
    upload: str = ""
    size: int = -1
    hash: str = ""
    trace_fields: str = ""
    note: str = ""
    ranged: bool = False
    """Its answer holds a part of the body."""

    def columns(self) -> dict[str, str | int]:
        """Return the columns of the request that are not empty, but for its kind and its key."""
        found: dict[str, str | int] = {}
        for name in _COLUMNS:
            value = getattr(self, name)
            if value:
                found[name] = value
        if self.size >= 0:
            found["size"] = self.size
        return found


_COLUMNS = ("condition", "etag", "version", "upload", "hash", "trace_fields")


def asked(
    operation: str,
    parameters: Mapping[str, Any],
    body: bytes | None = None,
    trace_fields: TraceFields | None = None,
) -> list[Asked]:
    """The requests that an operation is; none where it is not recorded. `body` is that of a put, where it
    is known.
    """
    kind = KINDS.get(operation)
    if kind is None:
        return []
    bucket = _text(parameters.get("Bucket"))
    if operation == "DeleteObjects":
        objects = (parameters.get("Delete") or {}).get("Objects") or ()
        return [_deleted(bucket, one) for one in objects if isinstance(one, Mapping)]
    one = Asked(
        bucket,
        kind,
        _text(parameters.get("Key") if "Key" in parameters else parameters.get("Prefix")),
        version=_text(parameters.get("VersionId")),
        upload=_text(parameters.get("UploadId")),
        ranged="Range" in parameters or "PartNumber" in parameters,
    )
    one.condition, one.etag = _condition(kind, parameters)
    if operation in ("CopyObject", "UploadPartCopy"):
        one.note = "copy"
    if body is not None and kind in ("put", "upload-part"):
        one.size, one.hash = len(body), short_hash(body)
        if trace_fields is not None and kind == "put":
            one.trace_fields = trace_fields(one.key, body)
    return [one]


def _deleted(bucket: str, one: Mapping[str, Any]) -> Asked:
    condition, etag = _condition("delete", {"IfMatch": one["ETag"]} if one.get("ETag") else {})
    key, version = _text(one.get("Key")), _text(one.get("VersionId"))
    return Asked(bucket, "delete", key, condition, etag, version=version)


def _condition(kind: str, parameters: Mapping[str, Any]) -> tuple[str, str]:
    """The condition of a request, and the ETag that it names."""
    matches, none = _text(parameters.get("IfMatch")), _text(parameters.get("IfNoneMatch"))
    if kind in _READS:
        return ("only-if", bare(matches)) if matches else ("unless", bare(none)) if none else ("", "")
    if kind not in _CONDITIONAL:
        return "", ""
    if none:
        return ("absent", "") if none.strip() == "*" else ("unless", bare(none))
    if matches:
        return "matches", "" if matches.strip() == "*" else bare(matches)
    return "anything", ""


def answered(
    operation: str, requests: Sequence[Asked], status: int | None, reply: Mapping[str, Any], failure: str = ""
) -> list[dict[str, str | int]]:
    """The columns of the response to each request of an operation.

    `reply` has the names of the SDK's parsed response; `status` is None where no whole reply came, and
    `failure` then names why.
    """
    if operation == "DeleteObjects" and status is not None and 200 <= status < 300:
        return [_one_of_many(one, reply) for one in requests]
    error = reply.get("Error") or {}
    code = _text(error.get("Code"))
    found = [outcome(one, status, "" if code.isdigit() else code) for one in requests]
    source = reply.get("CopyObjectResult") or reply.get("CopyPartResult") or reply
    etag, version = bare(_text(source.get("ETag"))), _text(reply.get("VersionId"))
    columns: dict[str, str | int] = {"etag": etag, "version": version}
    columns["upload"] = _text(reply.get("UploadId"))
    columns["size"] = _size(operation, reply)
    columns["note"] = failure or code
    return [{"outcome": one, **(columns if one == "done" else {"note": columns["note"]})} for one in found]


def _one_of_many(one: Asked, reply: Mapping[str, Any]) -> dict[str, str | int]:
    for error in reply.get("Errors") or ():
        same_version = _text(error.get("VersionId")) in ("", one.version)
        if _text(error.get("Key")) == one.key and same_version:
            code = _text(error.get("Code"))
            return {"outcome": outcome(one, _STATUS_OF.get(code, 400), code), "note": code}
    return {"outcome": "done"}


_STATUS_OF = {"InternalError": 500, "SlowDown": 503, "ServiceUnavailable": 503, "PreconditionFailed": 412}
"""The statuses of errors about single keys, which come without one."""


def _size(operation: str, reply: Mapping[str, Any]) -> int:
    if operation not in ("GetObject", "HeadObject"):
        return -1
    total = _text(reply.get("ContentRange")).rpartition("/")[2]
    if total.isascii() and total.isdigit():
        return int(total)
    length = reply.get("ContentLength")
    return length if isinstance(length, int) else -1


def outcome(one: Asked, status: int | None, code: str) -> str:
    """The outcome of a request whose reply has this status and S3 error code; no status means no reply."""
    if status is None or status < 200:
        return Outcome.UNKNOWN.value
    if status < 300:
        return Outcome.DONE.value
    from fencepost.impl.store.s3.endings import BUSY_CODES, CODES, DEFINITE_5XX, REFUSED, STATUSES

    if status == 503 and code in BUSY_CODES:
        return Outcome.THROTTLED.value
    if not 300 <= status < 500 and status not in DEFINITE_5XX:
        return Outcome.UNKNOWN.value
    means = (CODES.get(code) or STATUSES.get(status) or REFUSED).means
    if not isinstance(means, Outcome):
        return "missing" if one.version and status == 405 else "refused"
    return _possible(one, means)


def _possible(one: Asked, means: Outcome) -> str:
    """The outcome as this request can have it."""
    match means:
        case Outcome.CHANGED if one.kind in (*_CONDITIONAL, *_READS):
            unknown = "refused" if one.kind in _READS else "exists"  # a log does not show the condition
            return {"absent": "exists", "anything": "refused", "": unknown}.get(one.condition, "changed")
        case Outcome.MISSING if one.kind in _READS or one.condition == "matches":
            return "missing"
        case Outcome.MISSING if one.kind == "delete":
            return "done"  # some stores answer 404 where nothing was there to delete
        case Outcome.GONE if one.kind not in _OF_UPLOADS:
            return "refused"
        case Outcome.UNCHANGED | Outcome.PAST_END if one.kind not in _READS:
            return "refused"
        case Outcome.CHANGED | Outcome.MISSING:
            return "gone" if one.kind in _OF_UPLOADS and means is Outcome.MISSING else "refused"
    return means.value


def broken(status: int, body: bytes) -> int:
    """Return the status that a reply means: one of 200 may hold an error instead of its result."""
    return _BROKEN if status == 200 and body.lstrip()[:200].find(b"<Error>") >= 0 else status


def bare(etag: str) -> str:
    """An ETag without its quotes."""
    return etag.strip().strip('"')


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
