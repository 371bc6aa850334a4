"""Objects and uploads: from each HTTP request to a request of the store, and from its reply to an HTTP
answer.
"""

import re
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qs, unquote

from fencepost.impl.store import requests as req
from fencepost.impl.store.requests import ANYTHING, Matches
from fencepost.sim.boto import http
from fencepost.sim.boto import sdk_requests as sdk
from fencepost.sim.boto.buckets import ANY
from fencepost.sim.boto.http import CHECKSUMS, Message
from fencepost.sim.boto.sdk_requests import Refused
from fencepost.sim.world import stamps

Answer = tuple[int, dict[str, str], bytes]
DELETES_MAX = 1000
"""S3's own limit on one DeleteObjects."""
PARTS_MAX = 10_000
"""S3's own limit on the parts of an upload."""


def put(message: Message) -> req.Put:
    when = http.condition(message)
    body = message.body()
    return req.Put(message.name, body, when, http.content_type(message), http.metadata(message))


def put_answer(message: Message, _request: Any, reply: req.PutReply) -> Answer:
    echoed = {name: message.headers[name] for name in CHECKSUMS if name in message.headers}
    return 200, {"ETag": f'"{reply.etag}"', **http.version_header(reply), **echoed}, b""


# Reading. What the interface's request cannot say is judged on its reply, which holds all it takes.


def get(message: Message) -> req.Get:
    only_if = http.etags(message.headers.get("if-match"))
    unless = http.etags(message.headers.get("if-none-match"))
    first, last = http.byte_range(message) or (0, None)
    return req.Get(
        message.name,
        start=first or 0,
        stop=None if last is None or first is None else last + 1,
        only_if=only_if[0] if _plain(only_if) else None,
        unless=unless[0] if _plain(unless) else None,
        version=message.query.get("versionId", ""),
    )


def _plain(tags: tuple[str, ...] | None) -> bool:
    return tags is not None and len(tags) == 1 and tags != ("*",)


def head(message: Message) -> req.Head:
    return req.Head(message.name, message.query.get("versionId", ""))


def get_answer(message: Message, request: req.Get, reply: req.GetReply) -> Answer:
    assert reply.info is not None
    _judge(message, reply.info)
    status, headers = _shown(message, reply.info)
    span = http.byte_range(message)
    body = reply.body
    if span is not None and (request.start, request.stop) == (0, None):
        start, stop = _bounds(span, reply.info.size)
        body = body[start:stop]
    return status, headers, body


def head_answer(message: Message, _request: Any, reply: req.HeadReply) -> Answer:
    assert reply.info is not None
    _judge(message, reply.info)
    return *_shown(message, reply.info), b""


def _judge(message: Message, info: req.ObjectInfo) -> None:
    """Raise a refusal when a condition on the read does not hold."""
    headers = message.headers
    only_if, unless = http.etags(headers.get("if-match")), http.etags(headers.get("if-none-match"))
    if only_if is not None:
        if info.etag not in only_if and "*" not in only_if:
            raise failed("If-Match")
    elif "if-unmodified-since" in headers and _later(info, headers["if-unmodified-since"]):
        raise failed("If-Unmodified-Since")
    if unless is not None:
        if info.etag in unless or "*" in unless:
            raise Refused(304, "NotModified", "Not Modified")
    elif "if-modified-since" in headers and not _later(info, headers["if-modified-since"]):
        raise Refused(304, "NotModified", "Not Modified")


def failed(condition: str) -> Refused:
    message = "At least one of the pre-conditions you specified did not hold"
    return Refused(412, "PreconditionFailed", message, Condition=condition)


def _later(info: req.ObjectInfo, date: str) -> bool:
    """Whether the object is younger, to the second."""
    return info.modified_ns // 1_000_000_000 > parsedate_to_datetime(date).timestamp()


def _shown(message: Message, info: req.ObjectInfo) -> tuple[int, dict[str, str]]:
    span = http.byte_range(message)
    headers = {
        "ETag": f'"{info.etag}"',
        "Last-Modified": http.http_date(stamps.modified_ns(info)),
        "Content-Type": info.content_type,
        "Accept-Ranges": "bytes",
        "Content-Length": str(info.size),
        **http.version_header(info),
        **http.metadata_headers(info, checksums=span is None and "x-amz-checksum-mode" in message.headers),
    }
    for name, value in message.query.items():
        if name.startswith("response-"):
            headers["-".join(word.capitalize() for word in name[9:].split("-"))] = value
    if span is None:
        return 200, headers
    start, stop = _bounds(span, info.size)
    headers["Content-Length"] = str(stop - start)
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{info.size}"
    return 206, headers


def _bounds(span: tuple[int | None, int | None], size: int) -> tuple[int, int]:
    first, last = span
    if first is None:
        assert last is not None
        start, stop = max(0, size - last), size
    else:
        start, stop = first, size if last is None else min(size, last + 1)
    if start >= stop:
        raise out_of_range()
    return start, stop


def out_of_range() -> Refused:
    return Refused(416, "InvalidRange", "The requested range is not satisfiable")


# Deleting.


def delete(message: Message) -> req.Delete:
    for name in ("x-amz-if-match-size", "x-amz-if-match-last-modified-time"):
        if name in message.headers:
            raise http.not_implemented("A header you provided implies functionality that is not implemented")
    return req.Delete(
        message.name, _matching(message.headers.get("if-match")), message.query.get("versionId", "")
    )


def _matching(etag: str | None) -> Matches | req.Anything:
    if etag is None:
        return ANYTHING
    return ANY if etag == "*" else Matches(http.bare_etag(etag))


def delete_answer(_message: Message, _request: Any, reply: req.DeleteReply) -> Answer:
    marker = {"x-amz-delete-marker": "true"} if reply.marker else {}
    return 204, {**http.version_header(reply), **marker}, b""


def delete_many(message: Message) -> list[req.Delete]:
    """Not one landing but one a key: S3 promises nothing about all of them together."""
    root = http.parse_xml(message.body(), "Delete")
    found = root.findall("Object")
    if not 1 <= len(found) <= DELETES_MAX:
        raise http.malformed_xml()
    return [
        req.Delete(
            f"{message.bucket}/{entry.findtext('Key') or ''}",
            _matching(entry.findtext("ETag")),
            entry.findtext("VersionId") or "",
        )
        for entry in found
    ]


def delete_many_answer(message: Message, requests: Sequence[req.Delete], replies: Sequence[Any]) -> Answer:
    quiet = (http.parse_xml(message.body(), "Delete").findtext("Quiet") or "").lower() == "true"
    listed: list[http.Field] = []
    for request, reply in zip(requests, replies, strict=True):
        named = [("Key", request.key.partition("/")[2]), ("VersionId", request.version or None)]
        if not reply.done:
            refused = refusal(request, reply)
            listed.append(("Error", [*named, ("Code", refused.code), ("Message", refused.message)]))
        elif not quiet:
            marked = (
                [("DeleteMarker", True), ("DeleteMarkerVersionId", reply.version)] if reply.marker else []
            )
            listed.append(("Deleted", [*named, *marked]))
    return 200, {}, http.xml_document("DeleteResult", listed)


# Copies.

_SOURCE = re.compile(r"/?([^/?]+)/([^?]*)(?:\?(.*))?", re.DOTALL)


def source(message: Message) -> tuple[str, str]:
    """The name of what is to be copied, and its version."""
    found = _SOURCE.fullmatch(message.headers["x-amz-copy-source"])
    if found is None:
        raise Refused(400, "InvalidArgument", "Copy Source must mention the source bucket and key")
    version = parse_qs(found[3] or "").get("versionId", [""])[0]
    return f"{unquote(found[1])}/{unquote(found[2])}", version


def only_if(message: Message, name: str) -> str | None:
    tag = message.headers.get(f"x-amz-copy-source-{name}")
    return None if tag is None else http.bare_etag(tag)


def copy(message: Message) -> sdk.Copy:
    when = http.condition(message)
    name, version = source(message)
    replace = message.headers.get("x-amz-metadata-directive", "COPY").upper() == "REPLACE"
    if name == message.name and not replace and not version and when == ANYTHING:
        raise Refused(
            400,
            "InvalidRequest",
            "This copy request is illegal because it is trying to copy an object to itself without changing "
            "the object's metadata, storage class, website redirect location or encryption attributes.",
        )
    return sdk.Copy(
        message.name,
        source=name,
        when=when,
        version=version,
        only_if=only_if(message, "if-match"),
        unless=only_if(message, "if-none-match"),
        content_type=http.content_type(message) if replace else None,
        metadata=http.metadata(message) if replace else None,
    )


def copied(tag: str, now_ns: int, etag: str) -> bytes:
    return http.xml_document(tag, [("LastModified", http.iso_date(now_ns)), ("ETag", f'"{etag}"')])


# Uploads.


def create_upload(message: Message) -> req.CreateUpload:
    return req.CreateUpload(message.name, http.content_type(message), http.metadata(message))


def create_upload_answer(message: Message, _request: Any, reply: req.UploadReply) -> Answer:
    named = [("Bucket", message.bucket), ("Key", message.key), ("UploadId", reply.upload)]
    algorithm = message.headers.get("x-amz-checksum-algorithm")
    headers = {"x-amz-checksum-algorithm": algorithm} if algorithm else {}
    return 200, headers, http.xml_document("InitiateMultipartUploadResult", named)


def _part(message: Message) -> tuple[str, int]:
    text = message.query["partNumber"]
    if not text.isdecimal() or not 1 <= int(text) <= PARTS_MAX:
        raise Refused(
            400, "InvalidArgument", f"Part number must be an integer between 1 and {PARTS_MAX}, inclusive"
        )
    return message.query["uploadId"], int(text)


def upload_part(message: Message) -> req.UploadPart:
    upload, number = _part(message)
    return req.UploadPart(message.name, upload, number, message.body())


def upload_part_answer(message: Message, _request: Any, reply: req.PartReply) -> Answer:
    echoed = {name: message.headers[name] for name in CHECKSUMS if name in message.headers}
    return 200, {"ETag": f'"{reply.etag}"', **echoed}, b""


def copy_part(message: Message) -> sdk.CopyPart:
    upload, number = _part(message)
    name, version = source(message)
    given = message.headers.get("x-amz-copy-source-range", "").removeprefix("bytes=")
    first, _, last = given.partition("-")
    if given and not (first.isdecimal() and last.isdecimal()):
        raise Refused(
            400, "InvalidArgument", "The x-amz-copy-source-range value must be of the form bytes=a-b"
        )
    return sdk.CopyPart(
        message.name,
        upload=upload,
        number=number,
        source=name,
        version=version,
        start=int(first or 0),
        stop=int(last) + 1 if last else None,
        only_if=only_if(message, "if-match"),
        unless=only_if(message, "if-none-match"),
    )


def complete_upload(message: Message) -> req.CompleteUpload:
    when = http.condition(message)
    root = http.parse_xml(message.body(), "CompleteMultipartUpload")
    parts = tuple(
        (int(entry.findtext("PartNumber") or 0), http.bare_etag(entry.findtext("ETag") or ""))
        for entry in root.findall("Part")
    )
    numbers = [number for number, _ in parts]
    if not parts:
        raise http.malformed_xml()
    if numbers != sorted(set(numbers)):
        raise Refused(400, "InvalidPartOrder", "The list of parts was not in ascending order.")
    return req.CompleteUpload(message.name, message.query["uploadId"], parts, when)


def complete_upload_answer(message: Message, _request: Any, reply: req.PutReply) -> Answer:
    listed = [
        ("Location", message.url.partition("?")[0]),
        ("Bucket", message.bucket),
        ("Key", message.key),
        ("ETag", f'"{reply.etag}"'),
    ]
    return 200, dict(http.version_header(reply)), http.xml_document("CompleteMultipartUploadResult", listed)


def abort_upload(message: Message) -> req.AbortUpload:
    return req.AbortUpload(message.name, message.query["uploadId"])


def abort_upload_answer(_message: Message, _request: Any, _reply: Any) -> Answer:
    return 204, {}, b""


def list_parts(message: Message) -> sdk.ListParts:
    http.count(message, "max-parts", 1000)
    return sdk.ListParts(message.name, message.query["uploadId"])


def list_parts_answer(message: Message, _request: Any, reply: sdk.PartsReply) -> Answer:
    after = http.count(message, "part-number-marker", 0, PARTS_MAX)
    limit = http.count(message, "max-parts", 1000)
    rest = [found for found in reply.parts if found[0] > after]
    page = rest[:limit]
    listed: list[http.Field] = [
        ("Bucket", message.bucket),
        ("Key", message.key),
        ("UploadId", message.query["uploadId"]),
        ("PartNumberMarker", after),
        ("NextPartNumberMarker", page[-1][0] if page else 0),
        ("MaxParts", limit),
        ("IsTruncated", len(rest) > limit),
        ("StorageClass", "STANDARD"),
    ]
    for number, etag, size in page:
        shown = [("PartNumber", number), ("LastModified", http.iso_date(reply.started_ns))]
        listed.append(("Part", [*shown, ("ETag", f'"{etag}"'), ("Size", size)]))
    return 200, {}, http.xml_document("ListPartsResult", listed)


# Refusals.


def refusal(request: Any, reply: req.Reply) -> Refused:
    """S3's way of saying an outcome that is not `done`."""
    outcome = reply.outcome
    if outcome is req.Outcome.EXISTS:
        return failed("If-None-Match")
    if outcome is req.Outcome.CHANGED:
        return failed("If-Match")
    if outcome is req.Outcome.MISSING and getattr(request, "version", ""):
        return Refused(404, "NoSuchVersion", "The specified version does not exist.")
    return _REFUSALS[outcome]()


_REFUSALS = {
    req.Outcome.MISSING: lambda: Refused(404, "NoSuchKey", "The specified key does not exist."),
    req.Outcome.UNCHANGED: lambda: Refused(304, "NotModified", "Not Modified"),
    req.Outcome.PAST_END: out_of_range,
    req.Outcome.GONE: lambda: Refused(
        404,
        "NoSuchUpload",
        "The specified multipart upload does not exist. The upload ID might be invalid, or the multipart "
        "upload might have been aborted or completed.",
    ),
    req.Outcome.CONFLICT: lambda: Refused(
        409,
        "ConditionalRequestConflict",
        "The conditional request cannot succeed due to a conflicting operation against this resource.",
    ),
    req.Outcome.THROTTLED: lambda: Refused(503, "SlowDown", "Please reduce your request rate."),
}
