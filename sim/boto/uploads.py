"""Multipart uploads and listings of them, over HTTP."""

from typing import Any

from fencepost.impl.store import requests as ask
from fencepost.sim.boto import asks, fields, objects, xml
from fencepost.sim.boto.asks import Refused
from fencepost.sim.boto.objects import Answer
from fencepost.sim.boto.wire import CHECKSUMS, Message

PARTS_MAX = 10_000
"""S3's own limit on the parts of an upload."""


def create(message: Message) -> ask.CreateUpload:
    return ask.CreateUpload(message.name, fields.content_type(message), fields.metadata(message))


def create_told(message: Message, _request: Any, reply: ask.UploadReply) -> Answer:
    named = [("Bucket", message.bucket), ("Key", message.key), ("UploadId", reply.upload)]
    algorithm = message.headers.get("x-amz-checksum-algorithm")
    headers = {"x-amz-checksum-algorithm": algorithm} if algorithm else {}
    return 200, headers, xml.document("InitiateMultipartUploadResult", named)


def _part(message: Message) -> tuple[str, int]:
    text = message.query["partNumber"]
    if not text.isdecimal() or not 1 <= int(text) <= PARTS_MAX:
        raise Refused(
            400, "InvalidArgument", f"Part number must be an integer between 1 and {PARTS_MAX}, inclusive"
        )
    return message.query["uploadId"], int(text)


def part(message: Message) -> ask.UploadPart:
    upload, number = _part(message)
    return ask.UploadPart(message.name, upload, number, message.body())


def part_told(message: Message, _request: Any, reply: ask.PartReply) -> Answer:
    echoed = {name: message.headers[name] for name in CHECKSUMS if name in message.headers}
    return 200, {"ETag": f'"{reply.etag}"', **echoed}, b""


def copy_part(message: Message) -> asks.CopyPart:
    upload, number = _part(message)
    name, version = objects.source(message)
    given = message.headers.get("x-amz-copy-source-range", "").removeprefix("bytes=")
    first, _, last = given.partition("-")
    if given and not (first.isdecimal() and last.isdecimal()):
        raise Refused(
            400, "InvalidArgument", "The x-amz-copy-source-range value must be of the form bytes=a-b"
        )
    return asks.CopyPart(
        message.name,
        upload=upload,
        number=number,
        source=name,
        version=version,
        start=int(first or 0),
        stop=int(last) + 1 if last else None,
        only_if=objects.only_if(message, "if-match"),
        unless=objects.only_if(message, "if-none-match"),
    )


def complete(message: Message) -> ask.CompleteUpload:
    when = fields.condition(message)
    root = xml.parse(message.body(), "CompleteMultipartUpload")
    parts = tuple(
        (int(entry.findtext("PartNumber") or 0), fields.bare(entry.findtext("ETag") or ""))
        for entry in root.findall("Part")
    )
    numbers = [number for number, _ in parts]
    if not parts:
        raise xml.malformed()
    if numbers != sorted(set(numbers)):
        raise Refused(400, "InvalidPartOrder", "The list of parts was not in ascending order.")
    return ask.CompleteUpload(message.name, message.query["uploadId"], parts, when)


def complete_told(message: Message, _request: Any, reply: ask.PutReply) -> Answer:
    told = [
        ("Location", message.url.partition("?")[0]),
        ("Bucket", message.bucket),
        ("Key", message.key),
        ("ETag", f'"{reply.etag}"'),
    ]
    return 200, dict(fields.version_header(reply)), xml.document("CompleteMultipartUploadResult", told)


def abort(message: Message) -> ask.AbortUpload:
    return ask.AbortUpload(message.name, message.query["uploadId"])


def abort_told(_message: Message, _request: Any, _reply: Any) -> Answer:
    return 204, {}, b""


def list_parts(message: Message) -> asks.ListParts:
    fields.number(message, "max-parts", 1000)
    return asks.ListParts(message.name, message.query["uploadId"])


def list_parts_told(message: Message, _request: Any, reply: asks.PartsReply) -> Answer:
    after = fields.number(message, "part-number-marker", 0, PARTS_MAX)
    limit = fields.number(message, "max-parts", 1000)
    rest = [found for found in reply.parts if found[0] > after]
    page = rest[:limit]
    told: list[xml.Field] = [
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
        shown = [("PartNumber", number), ("LastModified", xml.iso(reply.started_ns))]
        told.append(("Part", [*shown, ("ETag", f'"{etag}"'), ("Size", size)]))
    return 200, {}, xml.document("ListPartsResult", told)
