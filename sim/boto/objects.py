"""Objects: what each HTTP request asks of the world, and how the world's reply is told over HTTP."""

import re
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qs, unquote

from fencepost.impl.store import requests as ask
from fencepost.impl.store.requests import ANYTHING, Matches
from fencepost.sim.boto import asks, fields, xml
from fencepost.sim.boto.asks import Refused
from fencepost.sim.boto.buckets import ANY
from fencepost.sim.boto.wire import CHECKSUMS, Message

Answer = tuple[int, dict[str, str], bytes]
DELETES_MAX = 1000
"""S3's own limit on one DeleteObjects."""


def put(message: Message) -> ask.Put:
    when = fields.condition(message)
    body = message.body()
    return ask.Put(message.name, body, when, fields.content_type(message), fields.metadata(message))


def put_told(message: Message, _request: Any, reply: ask.PutReply) -> Answer:
    echoed = {name: message.headers[name] for name in CHECKSUMS if name in message.headers}
    return 200, {"ETag": f'"{reply.etag}"', **fields.version_header(reply), **echoed}, b""


# Reading. What the interface's request cannot say is judged on its reply, which holds all it takes.


def get(message: Message) -> ask.Get:
    only_if = fields.tags(message.headers.get("if-match"))
    unless = fields.tags(message.headers.get("if-none-match"))
    first, last = fields.span(message) or (0, None)
    return ask.Get(
        message.name,
        start=first or 0,
        stop=None if last is None or first is None else last + 1,
        only_if=only_if[0] if _plain(only_if) else None,
        unless=unless[0] if _plain(unless) else None,
        version=message.query.get("versionId", ""),
    )


def _plain(tags: tuple[str, ...] | None) -> bool:
    return tags is not None and len(tags) == 1 and tags != ("*",)


def head(message: Message) -> ask.Head:
    return ask.Head(message.name, message.query.get("versionId", ""))


def get_told(message: Message, request: ask.Get, reply: ask.GetReply) -> Answer:
    assert reply.info is not None
    _judge(message, reply.info)
    status, headers = _shown(message, reply.info)
    span = fields.span(message)
    body = reply.body
    if span is not None and (request.start, request.stop) == (0, None):
        start, stop = _bounds(span, reply.info.size)
        body = body[start:stop]
    return status, headers, body


def head_told(message: Message, _request: Any, reply: ask.HeadReply) -> Answer:
    assert reply.info is not None
    _judge(message, reply.info)
    return *_shown(message, reply.info), b""


def _judge(message: Message, info: ask.ObjectInfo) -> None:
    """Raise the refusal that the conditions on reading ask for."""
    headers = message.headers
    only_if, unless = fields.tags(headers.get("if-match")), fields.tags(headers.get("if-none-match"))
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


def _later(info: ask.ObjectInfo, date: str) -> bool:
    """Whether the object is younger, to the second."""
    return info.modified_ns // 1_000_000_000 > parsedate_to_datetime(date).timestamp()


def _shown(message: Message, info: ask.ObjectInfo) -> tuple[int, dict[str, str]]:
    span = fields.span(message)
    headers = {
        "ETag": f'"{info.etag}"',
        "Last-Modified": xml.http_date(info.modified_ns),
        "Content-Type": info.content_type,
        "Accept-Ranges": "bytes",
        "Content-Length": str(info.size),
        **fields.version_header(info),
        **fields.shown(info, checksums=span is None and "x-amz-checksum-mode" in message.headers),
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


def delete(message: Message) -> ask.Delete:
    for name in ("x-amz-if-match-size", "x-amz-if-match-last-modified-time"):
        if name in message.headers:
            raise fields.not_implemented(
                "A header you provided implies functionality that is not implemented"
            )
    return ask.Delete(
        message.name, _matching(message.headers.get("if-match")), message.query.get("versionId", "")
    )


def _matching(etag: str | None) -> Matches | ask.Anything:
    if etag is None:
        return ANYTHING
    return ANY if etag == "*" else Matches(fields.bare(etag))


def delete_told(_message: Message, _request: Any, reply: ask.DeleteReply) -> Answer:
    marker = {"x-amz-delete-marker": "true"} if reply.marker else {}
    return 204, {**fields.version_header(reply), **marker}, b""


def delete_many(message: Message) -> list[ask.Delete]:
    """Not one landing but one a key: S3 promises nothing about all of them together."""
    root = xml.parse(message.body(), "Delete")
    found = root.findall("Object")
    if not 1 <= len(found) <= DELETES_MAX:
        raise xml.malformed()
    return [
        ask.Delete(
            f"{message.bucket}/{entry.findtext('Key') or ''}",
            _matching(entry.findtext("ETag")),
            entry.findtext("VersionId") or "",
        )
        for entry in found
    ]


def delete_many_told(message: Message, requests: Sequence[ask.Delete], replies: Sequence[Any]) -> Answer:
    quiet = (xml.parse(message.body(), "Delete").findtext("Quiet") or "").lower() == "true"
    told: list[xml.Field] = []
    for request, reply in zip(requests, replies, strict=True):
        named = [("Key", request.key.partition("/")[2]), ("VersionId", request.version or None)]
        if not reply.done:
            refused = refusal(request, reply)
            told.append(("Error", [*named, ("Code", refused.code), ("Message", refused.message)]))
        elif not quiet:
            marked = (
                [("DeleteMarker", True), ("DeleteMarkerVersionId", reply.version)] if reply.marker else []
            )
            told.append(("Deleted", [*named, *marked]))
    return 200, {}, xml.document("DeleteResult", told)


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
    return None if tag is None else fields.bare(tag)


def copy(message: Message) -> asks.Copy:
    when = fields.condition(message)
    name, version = source(message)
    replace = message.headers.get("x-amz-metadata-directive", "COPY").upper() == "REPLACE"
    if name == message.name and not replace and not version and when == ANYTHING:
        raise Refused(
            400,
            "InvalidRequest",
            "This copy request is illegal because it is trying to copy an object to itself without changing "
            "the object's metadata, storage class, website redirect location or encryption attributes.",
        )
    return asks.Copy(
        message.name,
        source=name,
        when=when,
        version=version,
        only_if=only_if(message, "if-match"),
        unless=only_if(message, "if-none-match"),
        content_type=fields.content_type(message) if replace else None,
        metadata=fields.metadata(message) if replace else None,
    )


def copied(tag: str, now_ns: int, etag: str) -> bytes:
    return xml.document(tag, [("LastModified", xml.iso(now_ns)), ("ETag", f'"{etag}"')])


# What went otherwise.


def refusal(request: Any, reply: ask.Reply) -> Refused:
    """S3's way of saying an outcome that is not `done`."""
    outcome = reply.outcome
    if outcome is ask.Outcome.EXISTS:
        return failed("If-None-Match")
    if outcome is ask.Outcome.CHANGED:
        return failed("If-Match")
    if outcome is ask.Outcome.MISSING and getattr(request, "version", ""):
        return Refused(404, "NoSuchVersion", "The specified version does not exist.")
    return _REFUSALS[outcome]()


_REFUSALS = {
    ask.Outcome.MISSING: lambda: Refused(404, "NoSuchKey", "The specified key does not exist."),
    ask.Outcome.UNCHANGED: lambda: Refused(304, "NotModified", "Not Modified"),
    ask.Outcome.PAST_END: out_of_range,
    ask.Outcome.GONE: lambda: Refused(
        404,
        "NoSuchUpload",
        "The specified multipart upload does not exist. The upload ID might be invalid, or the multipart "
        "upload might have been aborted or completed.",
    ),
    ask.Outcome.CONFLICT: lambda: Refused(
        409,
        "ConditionalRequestConflict",
        "The conditional request cannot succeed due to a conflicting operation against this resource.",
    ),
    ask.Outcome.THROTTLED: lambda: Refused(503, "SlowDown", "Please reduce your request rate."),
}
