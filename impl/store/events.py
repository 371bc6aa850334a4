"""Everything observable about a request, as rows that every part of Fencepost writes and reads alike.

One request makes up to three events: `request` when it is issued, `landed` when the store applied it
(only a harness that owns the store can tell), `response` when the caller learns the outcome. A request
with no `response` has an unknown outcome. `note` is a remark by the code itself, such as "accepted".

The columns are flat, so that a column file holds them as they are. Bodies are never recorded, only
their length and a hash: a trace must be safe to keep and to send to a colleague. An extractor reads
the parts of a body that a model needs (whose plan, which epoch) out of it as *trace fields*:
`plan=01J... epoch=3`.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fencepost.impl.store import requests as ask
from fencepost.impl.store.requests import Reply, Request

PHASES = ("request", "landed", "response", "note")

TraceFields = Callable[[str, bytes], str]
"""From a key and a whole body, the trace fields: words `name=value`, sorted by name, without spaces. Pure;
empty where there is nothing to say, and for a body that is not what it should be. Nothing secret."""


@dataclass(frozen=True, slots=True)
class Event:
    """One row of a trace. Columns that do not apply are empty, or -1 for numbers."""

    run: str
    seq: int
    """Rises by one with every event of the run. Where one counter numbers all processes, it is the order of
    their events; where each process has its own, only the order within each process is known."""
    t_ns: int
    process: str
    incarnation: int
    """The number of earlier restarts of the process."""
    op: int
    """Ties the phases of one request together, unique in the run."""
    phase: str
    kind: str
    key: str
    """The key; the prefix of a listing."""
    condition: str = ""
    """`absent`, `matches`, `anything`; of reads `only-if`, `unless`."""
    etag: str = ""
    """In a request, the ETag the condition names; in a response, the one the store gave."""
    version: str = ""
    upload: str = ""
    size: int = -1
    hash: str = ""
    """SHA-256 of the whole body sent or received, the first 16 hexadecimal digits; none for a range."""
    outcome: str = ""
    note: str = ""
    trace_fields: str = ""
    """Of the body: where a put is issued and where it lands, and in the response to a get that found one."""


def arguments(request: Request[Any], trace_fields: TraceFields | None = None) -> dict[str, Any]:
    """The columns that a request fills."""
    columns: dict[str, Any] = {"kind": request.kind, "key": request.subject}
    when = getattr(request, "when", None)
    if when is not None:
        columns["condition"] = type(when).__name__.lower()
        columns["etag"] = getattr(when, "etag", "")
    if isinstance(request, ask.Get) and (request.only_if or request.unless):
        columns["condition"] = "only-if" if request.only_if else "unless"
        columns["etag"] = request.only_if or request.unless
    body = getattr(request, "body", None)
    if body is not None:
        columns["size"] = len(body)
        columns["hash"] = short_hash(body)
        if trace_fields is not None:
            columns["trace_fields"] = trace_fields(request.subject, body)
    for name in ("version", "upload"):
        columns[name] = getattr(request, name, "")
    return columns


def results(request: Request[Any], reply: Reply, trace_fields: TraceFields | None = None) -> dict[str, Any]:
    """The columns that a reply fills, those that name the request included."""
    info = getattr(reply, "info", None)
    source = info if info is not None else reply
    columns: dict[str, Any] = {
        "kind": request.kind,
        "key": request.subject,
        "outcome": reply.outcome.value,
        "etag": getattr(source, "etag", ""),
        "version": getattr(source, "version", ""),
        "upload": getattr(reply, "upload", "") or getattr(request, "upload", ""),
        "size": getattr(source, "size", -1),
    }
    body = getattr(reply, "body", None)
    ranged = isinstance(request, ask.Get) and (request.start > 0 or request.stop is not None)
    if body is not None and reply.done and not ranged:
        columns["hash"] = short_hash(body)
        if trace_fields is not None:
            columns["trace_fields"] = trace_fields(request.subject, body)
    return columns


def landing(request: Request[Any], trace_fields: TraceFields | None = None) -> dict[str, Any]:
    """The columns by which a landed request is known again, its outcome aside."""
    columns: dict[str, Any] = {"kind": request.kind, "key": request.subject}
    when = getattr(request, "when", None)
    if when is not None:
        columns["condition"] = type(when).__name__.lower()
    body = getattr(request, "body", None)
    if body is not None and trace_fields is not None:
        columns["trace_fields"] = trace_fields(request.subject, body)
    return columns


def short_hash(body: bytes) -> str:
    """Enough of a body's SHA-256 to tell bodies apart in a trace."""
    return hashlib.sha256(body).hexdigest()[:16]
