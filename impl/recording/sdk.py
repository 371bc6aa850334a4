"""A hook into botocore: every request of a client as events, in one line.

    fencepost.record(boto3.client("s3"), "traces")

It works for clients, resources and sessions of boto3 and botocore, and for those of aiobotocore, from any
number of threads and tasks. Every attempt that the SDK makes is a request of its own, with its own end: so
a reply that was lost is seen, which the answer to the call hides. Transfers in parts and pages of listings
are the requests that they consist of.

Nothing that identifies anybody is written: no header, no signature, no body; of a body its length and its
hash, and the fields that the caller named. A body is hashed if it is bytes or a plain file of at most
`HASH_BYTES_MAX`; the body of an answer while the program reads it. The response event of a get is written
when its body was read or closed.
"""

import hashlib
import io
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fencepost.impl.recording.bodies import json_fields
from fencepost.impl.recording.files import KEPT_BYTES, QUEUE_BYTES, ROTATE_BYTES, Recorder, Sizes
from fencepost.impl.recording.s3 import KINDS, Asked, answered, asked
from fencepost.impl.store.events import TraceFields

HASH_BYTES_MAX = 64 << 20
"""The largest body that is hashed."""
KEPT_BYTES_MAX = 64 << 10
"""The largest body of an answer that is kept until it ends, for its fields."""
_recorders: dict[tuple[str, str, int], Recorder] = {}
_lock = threading.Lock()


def record(
    client: Any,
    folder: str | os.PathLike[str],
    *,
    process: str = "",
    fields: Mapping[str, Sequence[str]] | None = None,
    trace_fields: TraceFields | None = None,
    rotate_bytes: int = ROTATE_BYTES,
    kept_bytes: int = KEPT_BYTES,
    queue_bytes: int = QUEUE_BYTES,
) -> Recorder:
    """Record the S3 requests of `client` below `folder`, from now on; `fencepost replay` judges what is
    there.

    `client` is a client, resource or session of boto3 or botocore, or a client of aiobotocore. `process`
    names the program in the trace (by default host and process id); clients with the same folder and
    process share one recorder. `fields` names the fields of JSON bodies that are recorded, by patterns of
    keys: `{"claims/.+": ("state",)}`; `trace_fields` is a function of key and body instead. Nothing else of
    a body is written, only its hash.
    """
    if fields is not None and trace_fields is not None:
        raise ValueError("give fields or trace_fields, not both")
    events = _events_of(client)
    sizes = Sizes(rotate_bytes, kept_bytes, queue_bytes)
    recorder = _recorder(Path(folder), process, sizes)
    hook = _Hook(recorder, json_fields(fields) if fields is not None else trace_fields)
    mark = f"fencepost-{id(recorder)}"
    for name, handler in (
        ("before-parameter-build.s3", hook.called),
        ("request-created.s3", hook.sent),
        ("response-received.s3", hook.ended),
    ):
        events.register_last(name, handler, unique_id=f"{mark}-{name}")
    return recorder


def _recorder(folder: Path, process: str, sizes: Sizes) -> Recorder:
    place = str(folder.absolute()), process, os.getpid()
    with _lock:
        found = _recorders.get(place)
        if found is None or found.is_closed:
            found = _recorders[place] = Recorder(folder, process, sizes)
        return found


def _events_of(client: Any) -> Any:
    """The event system of a client, a resource or a session."""
    meta = getattr(client, "meta", None)
    meta = getattr(getattr(meta, "client", None), "meta", meta)  # of a resource
    for owner in (meta, client):
        events = getattr(owner, "events", None)
        if hasattr(events, "register_last"):
            return events
    if hasattr(client, "get_component"):
        return client.get_component("event_emitter")
    raise TypeError(
        "record() takes a client, a resource or a session of boto3, botocore or aiobotocore, "
        f"not {client!r:.80}"
    )


class _Call:
    """One call of the API: its requests, repeated with every attempt."""

    __slots__ = ("attempts", "first", "op", "operation", "requests", "run")

    def __init__(self, operation: str, requests: list[Asked]) -> None:
        self.operation, self.requests = operation, requests
        self.attempts = 0
        self.first = -1
        self.run = ""
        """Of the present attempt."""
        self.op: list[int] = []
        """The operations of the present attempt; -1 for one that was dropped."""


class _Hook:
    """Handlers of botocore's events. They raise nothing: a recorder must not break what it records."""

    def __init__(self, recorder: Recorder, trace_fields: TraceFields | None) -> None:
        self._recorder = recorder
        self._trace_fields = trace_fields
        self._place = f"fencepost-{id(recorder)}"

    def called(self, params: Any, model: Any, context: Any, **_: Any) -> None:
        """Take the parameters of a call."""
        if model.name not in KINDS or not isinstance(params, dict):
            return
        body = None
        if "Body" in params or model.name == "PutObject":
            body = _content(params.get("Body", b""))
        context[self._place] = _Call(model.name, asked(model.name, params, body, self._trace_fields))

    def sent(self, request: Any, **_: Any) -> None:
        """Record an attempt, before it is sent."""
        call = (getattr(request, "context", None) or {}).get(self._place)
        if not isinstance(call, _Call):
            return
        call.attempts += 1
        call.op = []
        call.run = self._run(call.requests[0].bucket, request.url) if call.requests else ""
        for one in call.requests:
            op = self._recorder.next_op()
            if call.first < 0:
                call.first = op
            note = one.note if call.attempts == 1 else f"attempt {call.attempts} of {call.first}"
            columns = one.columns()
            columns["note"] = note
            kept = self._recorder.emit("request", one.kind, one.key, op, columns, run=call.run)
            call.op.append(op if kept else -1)

    def ended(
        self, context: Any, parsed_response: Any = None, exception: BaseException | None = None, **_: Any
    ) -> None:
        """Record the end of an attempt."""
        call = (context or {}).get(self._place)
        if not isinstance(call, _Call) or not call.op:
            return
        ops, call.op = call.op, []
        if exception is not None or parsed_response is None:
            self._failed(call, ops, exception)
            return
        status = (parsed_response.get("ResponseMetadata") or {}).get("HTTPStatusCode")
        ends = answered(call.operation, call.requests, status, parsed_response)
        if call.operation == "GetObject" and ends and ends[0]["outcome"] == "done" and ops[0] >= 0:
            body = parsed_response.get("Body")
            one, columns = call.requests[0], ends[0]
            if _Tee.put_into(body, self._finisher(call, one, ops[0], columns), one.ranged, columns["size"]):
                return
        for one, op, columns in zip(call.requests, ops, ends, strict=True):
            self._respond(call, one, op, columns)

    def _run(self, bucket: str, url: str) -> str:
        """The name of the run: the bucket; with its endpoint, where one of that name at another endpoint was
        there before.
        """
        host = url.split("/", 3)[2]
        if ".amazonaws.com" in host:
            host = "aws"  # where a bucket has one name, and several hosts
        host = host.removeprefix(f"{bucket}.")
        first = self._recorder.endpoints.setdefault(bucket, host)
        return bucket if host == first else f"{bucket}@{host}"

    def _respond(self, call: _Call, one: Asked, op: int, columns: dict[str, str | int]) -> None:
        if op >= 0:
            self._recorder.emit("response", one.kind, one.key, op, columns, run=call.run)

    def _failed(self, call: _Call, ops: list[int], exception: BaseException | None) -> None:
        for one, op in zip(call.requests, ops, strict=True):
            columns: dict[str, str | int] = {"outcome": _outcome_of(exception)}
            self._respond(call, one, op, columns | {"note": type(exception).__name__})

    def _finisher(self, call: _Call, one: Asked, op: int, columns: dict[str, str | int]) -> "Finish":
        run = call.run  # of this attempt

        def finish(digest: str, body: bytes | None, *, late: bool) -> None:
            found = {**columns, "hash": digest}
            if body is not None and self._trace_fields is not None:
                found["trace_fields"] = self._trace_fields(one.key, body)
            write = self._recorder.emit_later if late else self._recorder.emit
            write("response", one.kind, one.key, op, found, run=run)

        return finish


Finish = Callable[..., None]


def _outcome_of(exception: BaseException | None) -> str:
    """The outcome of an attempt without a reply, by the table of the S3 driver."""
    from fencepost.impl.store.requests import Outcome
    from fencepost.impl.store.s3.endings import NO_ANSWER, UNKNOWN

    names = (ancestor.__name__ for ancestor in type(exception).__mro__)
    means = next((NO_ANSWER[name] for name in names if name in NO_ANSWER), UNKNOWN).means
    return means.value if isinstance(means, Outcome) else "refused"


def _content(body: Any) -> bytes | None:
    """The bytes of a body, if reading them changes nothing for the SDK."""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytes | bytearray):
        return bytes(body) if len(body) <= HASH_BYTES_MAX else None
    if isinstance(body, io.BytesIO) and type(body) is io.BytesIO:
        found = body.getbuffer()[body.tell() :]
        return bytes(found) if len(found) <= HASH_BYTES_MAX else None
    if type(body) is io.BufferedReader and body.seekable():
        at = body.tell()
        try:
            found_bytes = body.read(HASH_BYTES_MAX + 1)
        finally:
            body.seek(at)
        return found_bytes if len(found_bytes) <= HASH_BYTES_MAX else None
    return None


def _is_streaming_body(kind: type) -> bool:
    """Return True for botocore's class and those derived from it; botocore is not imported for that."""
    if kind not in _streaming:
        ancestors = {f"{one.__module__}.{one.__name__}" for one in kind.__mro__}
        _streaming[kind] = "botocore.response.StreamingBody" in ancestors
    return _streaming[kind]


_streaming: dict[type, bool] = {}


class _Tee:
    """The raw stream of an answer, which hashes what the program reads of it."""

    def __init__(self, raw: Any, finish: Finish, size: int, *, whole: bool) -> None:
        self._raw, self._finish, self._size = raw, finish, size
        self._digest = hashlib.sha256() if whole else None
        self._kept = bytearray()
        self._read = 0
        self._is_finished = False

    @classmethod
    def put_into(cls, body: Any, finish: Finish, ranged: bool, size: str | int) -> bool:
        """Watch a body of botocore's own kind; false for any other."""
        if not isinstance(size, int) or not _is_streaming_body(type(body)):
            return False
        body._raw_stream = cls(body._raw_stream, finish, size, whole=not ranged)  # noqa: SLF001  no way else
        return True

    def read(self, *amount: Any, **options: Any) -> Any:
        piece = self._raw.read(*amount, **options)
        self._take(piece)
        if not piece or not amount or amount[0] is None:
            self._end()
        return piece

    def readinto(self, buffer: Any) -> Any:
        count = self._raw.readinto(buffer)
        self._take(bytes(memoryview(buffer)[:count]))
        if not count:
            self._end()
        return count

    def close(self) -> None:
        self._end()
        self._raw.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def __del__(self) -> None:
        if not self.__dict__.get("_is_finished", True):
            self._end(late=True)

    def _take(self, piece: bytes) -> None:
        if self._is_finished:
            return
        self._read += len(piece)
        if self._digest is not None:
            self._digest.update(piece)
            if self._read <= KEPT_BYTES_MAX:
                self._kept += piece
        if self._size >= 0 and self._read >= self._size:
            self._end()

    def _end(self, *, late: bool = False) -> None:
        if self._is_finished:
            return
        self._is_finished = True
        is_whole = self._digest is not None and self._read == self._size
        digest = self._digest.hexdigest()[:16] if self._digest is not None and is_whole else ""
        body = bytes(self._kept) if is_whole and self._read <= KEPT_BYTES_MAX else None
        self._finish(digest, body, late=late)
