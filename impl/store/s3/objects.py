"""Objects and multipart uploads: each request as an SDK call, and the SDK's answer to it as a reply."""

import re

from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import BrokenPromise
from fencepost.impl.store.requests import Outcome, Reply
from fencepost.impl.store.s3.fields import (
    Answer,
    Parameters,
    Place,
    at,
    condition,
    etag_of,
    ns_of,
    version_of,
    versioned,
)


def put(place: Place, request: ask.Put) -> Parameters:
    return {
        **at(place, request),
        **condition(request.when),
        "Body": request.body,
        "ContentType": request.content_type,
        "Metadata": dict(request.metadata),
    }


def put_reply(place: Place, request: ask.Put | ask.CompleteUpload, answer: Answer) -> ask.PutReply:
    return ask.PutReply(Outcome.DONE, etag=etag_of(answer, request), version=version_of(answer))


def _ranged(request: ask.Get) -> bool:
    return request.start > 0 or request.stop is not None


def get(place: Place, request: ask.Get) -> Parameters:
    parameters = {**at(place, request), **versioned(request.version)}
    if request.only_if is not None:
        parameters["IfMatch"] = request.only_if
    if request.unless is not None:
        parameters["IfNoneMatch"] = request.unless
    if _ranged(request):
        last = "" if request.stop is None else request.stop - 1
        parameters["Range"] = f"bytes={request.start}-{last}"
    else:
        # Stores that keep a checksum send it along, and the SDK compares.
        parameters["ChecksumMode"] = "ENABLED"
    return parameters


def get_reply(place: Place, request: ask.Get, answer: Answer) -> ask.GetReply:
    stream = answer["Body"]
    try:
        body: bytes = stream.read()
    finally:
        stream.close()
    if not _ranged(request):
        return ask.GetReply(Outcome.DONE, body=body, info=_info(answer, request, len(body)))
    if answer["ResponseMetadata"]["HTTPStatusCode"] == 200:
        # HTTP lets a server ignore ranges and send all.
        return _cut(request, answer, body)
    size = _check_range(request, answer, body)
    return ask.GetReply(Outcome.DONE, body=body, info=_info(answer, request, size))


def _cut(request: ask.Get, answer: Answer, whole: bytes) -> ask.GetReply:
    if request.start >= len(whole):
        return request.ends(Outcome.PAST_END, "the store sent the whole object, which is shorter")
    body = whole[request.start : request.stop]
    return ask.GetReply(Outcome.DONE, body=body, info=_info(answer, request, len(whole)))


_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


def _check_range(request: ask.Get, answer: Answer, body: bytes) -> int:
    """The size of the whole object; raises unless `body` is exactly the range that was asked for."""
    declared = str(answer.get("ContentRange", ""))
    match = _CONTENT_RANGE.fullmatch(declared)
    if match:
        first, last, size = map(int, match.groups())
        stop = size if request.stop is None else min(request.stop, size)
        if (first, last + 1, len(body)) == (request.start, stop, stop - request.start):
            return size
    raise BrokenPromise(
        f"asked for bytes {request.start} to {request.stop} of {request.key!r}, "
        f"got {len(body)} bytes declared as {declared!r}"
    )


def head(place: Place, request: ask.Head) -> Parameters:
    return {**at(place, request), **versioned(request.version)}


def head_reply(place: Place, request: ask.Head, answer: Answer) -> ask.HeadReply:
    if "ContentLength" not in answer:
        raise BrokenPromise(f"the reply to head {request.key!r} does not tell the object's size")
    return ask.HeadReply(Outcome.DONE, info=_info(answer, request, int(answer["ContentLength"])))


def delete(place: Place, request: ask.Delete) -> Parameters:
    return {**at(place, request), **condition(request.when), **versioned(request.version)}


def delete_reply(place: Place, request: ask.Delete, answer: Answer) -> ask.DeleteReply:
    marker = bool(answer.get("DeleteMarker", False))
    return ask.DeleteReply(Outcome.DONE, version=version_of(answer) or request.version, marker=marker)


def _info(answer: Answer, request: ask.Get | ask.Head, size: int) -> ask.ObjectInfo:
    return ask.ObjectInfo(
        key=request.key,
        etag=etag_of(answer, request),
        size=size,
        modified_ns=ns_of(answer.get("LastModified")),
        version=version_of(answer),
        content_type=answer.get("ContentType") or ask.BINARY,
        # Names are headers, and some servers write them with capitals.
        metadata=ask.Metadata({name.lower(): value for name, value in answer.get("Metadata", {}).items()}),
    )


# Multipart uploads.


def create_upload(place: Place, request: ask.CreateUpload) -> Parameters:
    return {
        **at(place, request),
        "ContentType": request.content_type,
        "Metadata": dict(request.metadata),
    }


def create_upload_reply(place: Place, request: ask.CreateUpload, answer: Answer) -> ask.UploadReply:
    return ask.UploadReply(Outcome.DONE, upload=answer["UploadId"])


def upload_part(place: Place, request: ask.UploadPart) -> Parameters:
    return {
        **at(place, request),
        "UploadId": request.upload,
        "PartNumber": request.number,
        "Body": request.body,
    }


def upload_part_reply(place: Place, request: ask.UploadPart, answer: Answer) -> ask.PartReply:
    return ask.PartReply(Outcome.DONE, etag=etag_of(answer, request))


def complete_upload(place: Place, request: ask.CompleteUpload) -> Parameters:
    parts = [{"PartNumber": number, "ETag": etag} for number, etag in request.parts]
    return {
        **at(place, request),
        **condition(request.when),
        "UploadId": request.upload,
        "MultipartUpload": {"Parts": parts},
    }


def abort_upload(place: Place, request: ask.AbortUpload) -> Parameters:
    return {**at(place, request), "UploadId": request.upload}


def abort_upload_reply(place: Place, request: ask.AbortUpload, answer: Answer) -> Reply:
    return Reply(Outcome.DONE)
