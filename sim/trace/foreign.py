"""Logs of others as event tables: CloudTrail, audits of MinIO, spans of OpenTelemetry, access logs as JSON.

Each record is one answered request. `FORMATS` has a function for each kind of record, which takes it apart:

    cloudtrail     data events of S3: files with `Records`, or one event a line. Seconds; no ETags
    minio-audit    what the audit webhook of MinIO sends, one a line: with conditions and ETags of its headers
    otel           spans in OTLP's JSON, whose names are S3 operations: with attributes of the AWS SDK
    access-json    S3 server access logs as CloudWatch and Amazon S3 Tables have them (JSON lines, or Parquet)

A request took effect between its beginning and its end, and a log knows both only roughly: many servers stamp
the records. So the interval is widened by a second (`SLACK_NS`), and each client has numbers of its own: the
order between clients is not claimed. Spans are stamped by the client itself. Columns that a
format leaves out are empty. A record of another service, or of an operation that reads and changes no
object, is passed over; one that cannot be read is a damaged line.
"""

import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.impl.recording.files import GAP
from fencepost.impl.recording.s3 import KINDS, Asked, answered, asked
from fencepost.impl.store.events import Event
from fencepost.sim.trace.reading import Report, blocks, is_parquet
from fencepost.sim.trace.schema import Problem, TraceError, table_of

SECOND_NS = 10**9
SLACK_NS = SECOND_NS
"""By how much the clocks of the servers of a store may differ."""
UNKNOWN_NS = 900 * SECOND_NS
"""Nanoseconds that a request may have taken where the log has no duration."""
_BAD_NAMED = 20


@dataclass
class Seen:
    """One request, as a log has it."""

    begin_ns: int
    end_ns: int
    process: str
    operation: str
    parameters: Mapping[str, Any]
    status: int | None
    reply: Mapping[str, Any] = field(default_factory=dict)
    has_headers: bool = True
    """The log shows the headers of requests: without a condition there, there was none."""


Format = Callable[[Mapping[str, Any]], Seen | None]


class _NoRecord(ValueError):
    """A record that lacks what it must have."""


def read_foreign(files: Iterable[Path], name: str, report: Report) -> pa.Table:
    """All requests of all files, each as a request and its response, in the order of their times."""
    read = FORMATS[name]
    found: list[Seen] = []
    for path in files:
        found += _file(path, read, report)
    rows = list(_rows(found))
    if not rows:
        raise TraceError(f"no record of the files named is an S3 request as {name} logs it; see --from")
    rows.sort(key=lambda row: (row[0], row[1]))
    numbers: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)
    return table_of(
        Event(seq=next(numbers[columns["process"]]), t_ns=t_ns, **columns) for t_ns, _, columns in rows
    )


def _rows(found: Iterable[Seen]) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Time, rank among those of one time (requests first), and the other columns of each event."""
    op = 0
    for seen in found:
        requests = asked(seen.operation, seen.parameters)
        if seen.operation == "DeleteObjects" and not requests and (seen.status or 0) < 400:
            # The keys are in the body alone: any object of the bucket may be gone.
            note = {
                "phase": "note",
                "kind": GAP,
                "key": "",
                "note": "the log has no keys of this DeleteObjects",
            }
            whose = {"run": seen.parameters.get("Bucket", ""), "process": seen.process, "incarnation": 0}
            yield seen.begin_ns, 0, {**whose, "op": -1, **note}
        for request in requests if not seen.has_headers else ():
            if request.condition == "anything":
                request.condition = ""
        for one, end in zip(
            requests, answered(seen.operation, requests, seen.status, seen.reply), strict=True
        ):
            common = {"run": one.bucket, "process": seen.process, "incarnation": 0, "op": op}
            common |= {"kind": one.kind, "key": one.key}
            yield seen.begin_ns, 0, {**common, "phase": "request", **_known(one)}
            yield max(seen.end_ns, seen.begin_ns + 1), 1, {**common, "phase": "response", **end}
            op += 1


def _known(one: Asked) -> dict[str, Any]:
    return {**one.columns(), "note": one.note}


def _file(path: Path, read: Format, report: Report) -> list[Seen]:
    found: list[Seen] = []
    bad = 0
    for number, record in _records(path, report):
        try:
            seen = read(record) if isinstance(record, dict) else None
            if not isinstance(record, dict):
                raise _NoRecord("it is no JSON object")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            bad += 1
            if bad <= _BAD_NAMED:
                report(Problem(f"{path}, record {number}", f"cannot be read: {_why(error)}", 1))
            continue
        if seen is not None and seen.operation in KINDS:
            found.append(seen)
    if bad > _BAD_NAMED:
        rest = bad - _BAD_NAMED
        report(Problem(str(path), f"has {rest} more records that cannot be read", rest))
    return found


def _why(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)


def _records(path: Path, report: Report) -> Iterator[tuple[int, Any]]:
    """The records of a file: JSON, one document or one a line, packed or not; or Parquet."""
    if is_parquet(path):
        try:
            for number, row in enumerate(pq.read_table(path).to_pylist(), start=1):
                yield number, row
        except pa.ArrowException as error:
            report(Problem(str(path), f"is no whole Parquet file: {error}"))
        return
    text = b"".join(block for block, _ in blocks(path, report))
    try:
        whole = json.loads(text)
    except ValueError:
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                yield from ((number, one) for one in _inside(_parsed(line)))
        return
    yield from enumerate(_inside(whole), start=1)


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _inside(document: Any) -> Iterator[Any]:
    """The records of a document: itself, or those that it holds."""
    if isinstance(document, list):
        for one in document:
            yield from _inside(one)
    elif isinstance(document, dict) and isinstance(document.get("Records"), list):
        yield from document["Records"]
    elif isinstance(document, dict) and isinstance(document.get("resourceSpans"), list):
        for resource in document["resourceSpans"]:
            process = _attributes(resource.get("resource", {})).get("service.instance.id", "")
            service = _attributes(resource.get("resource", {})).get("service.name", "")
            for scope in resource.get("scopeSpans", ()):
                for span in scope.get("spans", ()):
                    yield {**span, "process": process or service}
    elif isinstance(document, dict) and isinstance(document.get("message"), str):
        yield _parsed(document["message"].encode())  # as CloudWatch exports it
    else:
        yield document


# Formats.


def _cloudtrail(record: Mapping[str, Any]) -> Seen | None:
    if record.get("eventSource") not in ("s3.amazonaws.com", "s3express.amazonaws.com"):
        return None
    given = record.get("requestParameters") or {}
    begin = _time(record["eventTime"])
    code = record.get("errorCode") or ""
    identity = record.get("userIdentity") or {}
    process = identity.get("arn") or identity.get("principalId") or "unknown"
    parameters = {"Bucket": given.get("bucketName", ""), "Key": given.get("key", "")}
    for word, name in (("uploadId", "UploadId"), ("versionId", "VersionId"), ("prefix", "Prefix")):
        if given.get(word):
            parameters[name] = given[word]
    if not parameters["Key"]:
        parameters.pop("Key")
    parameters |= _conditions(given)
    version = (record.get("responseElements") or {}).get("x-amz-version-id", "")
    return Seen(
        begin,
        begin + SLACK_NS + UNKNOWN_NS,
        f"{process}@{record.get('sourceIPAddress', '')}",
        record["eventName"],
        parameters,
        _STATUS_OF.get(code, 400) if code else 200,
        {"Error": {"Code": code}, "VersionId": version},
        has_headers=False,
    )


_STATUS_OF = {
    "PreconditionFailed": 412,
    "ConditionalRequestConflict": 409,
    "NoSuchKey": 404,
    "NotModified": 304,
    "SlowDown": 503,
    "ServiceUnavailable": 503,
    "InternalError": 500,
    "InvalidRange": 416,
}


def _minio(record: Mapping[str, Any]) -> Seen | None:
    call = record["api"]
    headers = _lower(record.get("requestHeader"))
    reply = _lower(record.get("responseHeader"))
    query = {str(name): str(value) for name, value in (record.get("requestQuery") or {}).items()}
    took = int(call.get("timeToResponseInNS") or call.get("timeToResponse", "0ns").removesuffix("ns") or 0)
    at = _time(record["time"])
    operation = _MINIO_NAMES.get(call.get("name", ""), call.get("name", ""))
    parameters: dict[str, Any] = {"Bucket": call.get("bucket", "")}
    if call.get("object"):
        parameters["Key"] = call["object"]
    for word, name in (("uploadId", "UploadId"), ("versionId", "VersionId"), ("prefix", "Prefix")):
        if query.get(word):
            parameters[name] = query[word]
    if "range" in headers or "partNumber" in query:
        parameters["Range"] = headers.get("range", "part")
    if operation == "DeleteObjects":
        keys = [{"Key": one.get("objectName", "")} for one in call.get("objects") or ()]
        parameters["Delete"] = {"Objects": keys}
    found: dict[str, Any] = {
        "ETag": reply.get("etag", ""),
        "VersionId": reply.get("x-amz-version-id", ""),
        "ContentRange": reply.get("content-range", ""),
        "Error": {"Code": call.get("errorCode") or ""},
    }
    if str(reply.get("content-length", "")).isdigit():
        found["ContentLength"] = int(reply["content-length"])
    process = f"{record.get('accessKey') or 'anonymous'}@{record.get('remotehost', '')}"
    # Releases differ in whether `time` is that of the request or of its end.
    return Seen(
        at - took,
        at + took + SLACK_NS,
        process,
        operation,
        parameters | _conditions(headers),
        call["statusCode"],
        found,
    )


_MINIO_NAMES = {
    "ListObjectsV1": "ListObjects",
    "NewMultipartUpload": "CreateMultipartUpload",
    "PutObjectPart": "UploadPart",
    "CopyObjectPart": "UploadPartCopy",
    "DeleteMultipleObjects": "DeleteObjects",
}
"""Operations that MinIO calls otherwise than the service model of S3."""


def _otel(span: Mapping[str, Any]) -> Seen | None:
    known = _attributes(span)
    service = str(known.get("rpc.service", ""))
    operation = str(known.get("rpc.method", "")).rpartition("/")[2] or str(span.get("name", ""))
    operation = operation.removeprefix("S3.")
    if service not in ("", "S3", "AmazonS3") or operation not in KINDS:
        return None
    parameters: dict[str, Any] = {"Bucket": known.get("aws.s3.bucket", "")}
    for attribute, name in (
        ("aws.s3.key", "Key"),
        ("aws.s3.upload_id", "UploadId"),
        ("aws.s3.copy_source", "CopySource"),
    ):
        if known.get(attribute):
            parameters[name] = known[attribute]
    headers = {
        name.removeprefix("http.request.header."): _first(value)
        for name, value in known.items()
        if name.startswith("http.request.header.")
    }
    status = known.get("http.response.status_code", known.get("http.status_code"))
    failed = (span.get("status") or {}).get("code") in (2, "STATUS_CODE_ERROR")
    if status is None:
        status = None if failed else 200
    etag = _first(known.get("http.response.header.etag", ""))
    code = str(known.get("error.type", known.get("aws.error.code", "")))
    return Seen(
        int(span["startTimeUnixNano"]),
        int(span["endTimeUnixNano"]),
        str(span.get("process") or "unknown"),
        operation,
        parameters | _conditions(headers),
        None if status is None else int(status),
        {"ETag": etag, "Error": {"Code": code}},
        has_headers=bool(headers),
    )


def _access_json(record: Mapping[str, Any]) -> Seen | None:
    operation = _ACCESS_NAMES.get(str(record.get("operation") or ""))
    if operation is None:
        return None
    moment = record["request_time"]
    begin = int(moment.timestamp() * 1e9) if isinstance(moment, datetime) else _time(moment)
    parameters: dict[str, Any] = {"Bucket": record["bucket_name"]}
    if record.get("key_name"):
        parameters["Key"] = unquote(str(record["key_name"]))
    if record.get("version_id"):
        parameters["VersionId"] = record["version_id"]
    took = _number(record, "total_time", "total_time_ms")
    length = SECOND_NS if took is None else took * 10**6
    status = _number(record, "http_status")
    return Seen(
        begin,
        begin + length + SLACK_NS,
        f"{record.get('requester') or 'anonymous'}@{record.get('remote_ip') or ''}",
        operation,
        parameters,
        200 if status is None else status,  # what the store does by itself has no status
        {"Error": {"Code": record.get("error_code") or ""}},
        has_headers=False,
    )


_ACCESS_NAMES = {
    "REST.PUT.OBJECT": "PutObject",
    "REST.GET.OBJECT": "GetObject",
    "REST.HEAD.OBJECT": "HeadObject",
    "REST.DELETE.OBJECT": "DeleteObject",
    "BATCH.DELETE.OBJECT": "DeleteObject",
    "S3.EXPIRE.OBJECT": "DeleteObject",
    "REST.COPY.OBJECT": "CopyObject",
    "REST.GET.BUCKET": "ListObjectsV2",
    "REST.GET.BUCKETVERSIONS": "ListObjectVersions",
    "REST.POST.UPLOADS": "CreateMultipartUpload",
    "REST.PUT.PART": "UploadPart",
    "REST.POST.UPLOAD": "CompleteMultipartUpload",
    "REST.DELETE.UPLOAD": "AbortMultipartUpload",
    "REST.GET.UPLOADS": "ListMultipartUploads",
}

FORMATS: Mapping[str, Format] = {
    "cloudtrail": _cloudtrail,
    "minio-audit": _minio,
    "otel": _otel,
    "access-json": _access_json,
}


# Values.


def _time(text: object) -> int:
    """`2026-11-20T04:00:00.123456789Z` in nanoseconds."""
    if not isinstance(text, str):
        raise _NoRecord(f"{text!r} is no time")
    whole, dot, rest = text.removesuffix("Z").partition(".")
    digits = rest.partition("+")[0]
    zone = rest[len(digits) :] if dot else ""
    seconds = int(datetime.fromisoformat(f"{whole}{zone or '+00:00'}").timestamp())
    return seconds * SECOND_NS + int(f"{digits[:9]:0<9}" if digits else 0)


def _conditions(given: Mapping[str, Any]) -> dict[str, str]:
    headers = _lower(given)
    return {
        name: headers[header]
        for header, name in (("if-match", "IfMatch"), ("if-none-match", "IfNoneMatch"))
        if headers.get(header)
    }


def _lower(headers: Any) -> dict[str, str]:
    found = headers if isinstance(headers, dict) else {}
    return {str(name).lower(): str(_first(value)) for name, value in found.items()}


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value


def _attributes(holder: Any) -> dict[str, Any]:
    """The attributes of a span or a resource in OTLP's JSON."""
    found: dict[str, Any] = {}
    for one in holder.get("attributes") or () if isinstance(holder, dict) else ():
        value = one.get("value") or {}
        inner = next(iter(value.values()), "")
        if isinstance(inner, dict):  # an array
            inner = [next(iter(each.values()), "") for each in inner.get("values") or ()]
        found[str(one.get("key"))] = inner
    return found


def _number(record: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = record.get(name)
        if value not in (None, "", "-"):
            return int(value)
    return None
