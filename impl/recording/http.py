"""HTTP messages of S3 as events: for a proxy and for a server, which see what any client in any language
sends.

    exchange = recording.begin(method, target, headers, body)      before it is passed on or served
    exchange.end(status, headers, body)                             once the answer is known

All processes are numbered by the one counter of the recorder, so their order is known. The process of an
event is that of the client: the value of a header that was named, or the application id in its user agent
(`app/NAME`, which SDKs of AWS write: `Config(user_agent_appid="worker-1")`), or its access key, or its
address. No other header is kept.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote
from xml.sax.saxutils import unescape

from fencepost.impl.recording.files import Recorder
from fencepost.impl.recording.s3 import KINDS, Asked, answered, asked, broken
from fencepost.impl.store.events import TraceFields, short_hash

_APPLICATION = re.compile(r"(?:^| )app/([A-Za-z0-9!#$%&'*+.^_`|~-]+)")
_CREDENTIAL = re.compile(r"Credential=([^/,\s]+)/")
_IN_XML = re.compile(r"<(ETag|UploadId|Code)>([^<]*)</")
_ENTRY = re.compile(r"<(Deleted|Error)>(.*?)</\1>", re.DOTALL)
_FIELD = re.compile(r"<(Key|VersionId|Code)>([^<]*)</")
_QUOTES = {"&quot;": '"', "&#34;": '"', "&apos;": "'"}
XML_BYTES_MAX = 2 << 20
"""Bytes of a body of XML that is read."""


class HttpRecording:
    """Makes events of exchanges. `domain` is the host below which buckets have names of their own, if any."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        trace_fields: TraceFields | None = None,
        process_header: str = "",
        domain: str = "",
    ) -> None:
        self._recorder = self.recorder = recorder
        self._trace_fields = trace_fields
        self._header = process_header.lower()
        # Another recorder numbers its own events: the order between both is not known, so names differ.
        self._suffix = "" if recorder.is_first else f"@{recorder.process}"
        self._domain = domain

    def begin(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        client: str = "",
    ) -> "Exchange | None":
        """Record a request, with header names in lower case; None if it is none that is recorded.

        `body` is as it came; None if it is not known, or too long to be kept.
        """
        found = self._understood(method, target, headers, body)
        if found is None:
            return None
        operation, requests = found
        process = self._process(headers, client)
        return Exchange(self._recorder, operation, requests, process, self._trace_fields)

    def close(self) -> None:
        """Write everything, and close the files."""
        self._recorder.close()

    def _understood(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[str, list[Asked]] | None:
        from fencepost.impl.objects.wire import codec
        from fencepost.impl.objects.wire.errors import S3Error
        from fencepost.impl.objects.wire.requests import bucket_of_host, parse_query, place

        path, _, words = target.partition("?")
        host = headers.get("host", "").rsplit(":", 1)[0].lower()
        try:
            of_host = bucket_of_host(host, self._domain.lower()) if self._domain else None
            bucket, key = place(unquote(path, errors="strict"), of_host)
            query = dict(parse_query(words))
            operation = codec.operation_of(method, codec.level_of(bucket, key), query, headers)
            if operation not in KINDS:
                return None
            parameters: dict[str, Any] = codec.parameters_of(operation, bucket, key, query, headers)
            content = None if body is None else _content(headers, body)
            if operation == "DeleteObjects" and content is not None:
                call = codec.Call(operation, parameters)
                parameters = codec.read_body(call, content)
        except (S3Error, ValueError):
            return None  # the store refuses it, and nothing changes
        return operation, asked(operation, parameters, content, self._trace_fields)

    def _process(self, headers: Mapping[str, str], client: str) -> str:
        return self._client(headers, client) + self._suffix

    def _client(self, headers: Mapping[str, str], client: str) -> str:
        if self._header and headers.get(self._header):
            return headers[self._header][:200]
        application = _APPLICATION.search(headers.get("user-agent", ""))
        if application:
            return application[1]
        credential = _CREDENTIAL.search(headers.get("authorization", ""))
        return credential[1] if credential else client or "client"


class Exchange:
    """One request that was recorded, and its answer."""

    def __init__(
        self,
        recorder: Recorder,
        operation: str,
        requests: list[Asked],
        process: str,
        trace_fields: TraceFields | None,
    ) -> None:
        self._recorder, self._operation, self._process = recorder, operation, process
        self._trace_fields = trace_fields
        self._requests: list[tuple[int, Asked]] = []
        for one in requests:
            op = recorder.next_op()
            columns = one.columns() | {"note": one.note}
            kept = recorder.emit("request", one.kind, one.key, op, columns, run=one.bucket, process=process)
            if kept:
                self._requests.append((op, one))

    @property
    def wants_body(self) -> bool:
        """True if the body of the answer tells something that its headers do not."""
        return self._operation in (
            "GetObject",
            "CopyObject",
            "CompleteMultipartUpload",
            "CreateMultipartUpload",
            "DeleteObjects",
            "UploadPartCopy",
        )

    def end(
        self,
        status: int | None,
        headers: Mapping[str, str],
        body: bytes | None,
        note: str = "",
    ) -> None:
        """Record the answer; no status means that there was none. `headers` have names in lower case;
        `body` is whole, or None. `note` remarks what became of the answer."""
        reply = _reply(self._operation, status, headers, body or b"")
        if status is not None and self._operation in ("CopyObject", "CompleteMultipartUpload"):
            status = broken(status, body or b"")
        columns = answered(self._operation, [one for _, one in self._requests], status, reply)
        for (op, one), found in zip(self._requests, columns, strict=True):
            if self._operation == "GetObject" and status == 200 and body is not None and not one.ranged:
                found["hash"] = short_hash(body)
                if self._trace_fields is not None:
                    found["trace_fields"] = self._trace_fields(one.key, body)
            if note:
                found["note"] = note
            self._recorder.emit(
                "response", one.kind, one.key, op, found, run=one.bucket, process=self._process
            )


def _content(headers: Mapping[str, str], body: bytes) -> bytes | None:
    """A body without the framing of chunked transfer and of aws-chunked; None where it cannot be read."""
    try:
        if headers.get("transfer-encoding"):
            body = dechunked(body)
        if headers.get("x-amz-content-sha256", "").startswith("STREAMING-"):
            body = dechunked(body)
    except (ValueError, IndexError):
        return None
    return body


def dechunked(body: bytes) -> bytes:
    """The content of a body in chunks, each behind a line with its size; extensions and trailers are
    dropped.
    """
    pieces: list[bytes] = []
    at = 0
    while True:
        end = body.index(b"\r\n", at)
        size = int(body[at:end].split(b";")[0], 16)
        if not size:
            return b"".join(pieces)
        pieces.append(body[end + 2 : end + 2 + size])
        at = end + 2 + size + 2


def _reply(operation: str, status: int | None, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """An answer with the names of the SDK."""
    found: dict[str, Any] = {}
    for header, name in (
        ("etag", "ETag"),
        ("x-amz-version-id", "VersionId"),
        ("content-range", "ContentRange"),
    ):
        if headers.get(header):
            found[name] = headers[header]
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit():
        found["ContentLength"] = int(length)
    if operation in ("GetObject", "HeadObject") and (status or 0) < 300:
        return found
    text = body[:XML_BYTES_MAX].decode("utf-8", "replace")
    if operation == "DeleteObjects":
        entries = [(kind, dict(_FIELD.findall(inside))) for kind, inside in _ENTRY.findall(text)]
        found["Errors"] = [
            {name: unescape(value, _QUOTES) for name, value in fields.items()}
            for kind, fields in entries
            if kind == "Error"
        ]
    named = {name: unescape(value, _QUOTES) for name, value in _IN_XML.findall(text)}
    if "Code" in named:
        found["Error"] = {"Code": named["Code"]}
    if "UploadId" in named:
        found["UploadId"] = named["UploadId"]
    if "ETag" in named and operation in ("CopyObject", "CompleteMultipartUpload", "UploadPartCopy"):
        found["ETag"] = named["ETag"]
    return found
