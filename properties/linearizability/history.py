"""Recorded operations on keys, and where the records come from.

Three ways to get a history: build `Operation`s, turn a request and its reply into one (`operation`), or
turn the events of a trace into many (`operations_of`).

Times are whole numbers from one clock that all processes share: nanoseconds, or the sequence numbers of
a trace. One operation comes before another only when it had *returned before* the other was *called*;
equal times count as overlapping, so a coarse clock loses precision but never invents a violation.

A key starts empty. An earlier object is represented by a put that returned before everything else.

A conditional delete that is `done` removed the object it named. A store that also answers so for a missing
object (204, as S3's directory buckets do to some conditions) breaks the interface, whose reply is `missing`,
and its histories are violated. Otherwise two clients could each "remove" the same lock unnoticed. `fencepost
probe` finds out which a store does.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from fencepost.impl.store import requests
from fencepost.impl.store.events import Event, short_hash
from fencepost.impl.store.requests import Outcome, Reply, Request

WRITES = ("put", "complete-upload", "delete")
READS = ("get", "head")
UNJUDGED = "delete-version"
"""Removing one version for good can bring an older one back; keys where that happens are not checked."""

SHOWN_BYTES_MAX = 32
"""Bodies up to this long are kept as they are, because an explanation is easier to read with them."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One request to one key, and what its caller learned."""

    process: str
    key: str
    kind: str
    """`put`, `complete-upload`, `delete`, `get`, `head` (or `delete-version`, which is not checked)."""
    called: int
    returned: int | None = None
    """None when no reply was seen; then the outcome is unknown."""
    outcome: Outcome = Outcome.UNKNOWN
    condition: str = ""
    """Of writes: `absent`, `matches`, or nothing. Of reads: `only-if`, `unless`, or nothing."""
    named: str = ""
    """The ETag that the condition names."""
    value: Hashable = None
    """The content written or read (or a hash of it); None when not recorded, or read only in part."""
    etag: str = ""
    """The ETag the reply gave."""

    def __post_init__(self) -> None:
        if self.kind not in (*WRITES, *READS, UNJUDGED):
            raise ValueError(f"operation of kind {self.kind!r}; known: {', '.join((*WRITES, *READS))}")
        if self.condition not in (("only-if", "unless", "") if self.reads else ("absent", "matches", "")):
            raise ValueError(f"a {self.kind} cannot have the condition {self.condition!r}")
        if bool(self.named) != (self.condition not in ("", "absent")):
            raise ValueError(
                f"condition {self.condition!r} and named ETag {self.named!r} do not belong together"
            )
        if self.returned is None and self.outcome is not Outcome.UNKNOWN:
            raise ValueError(f"outcome {self.outcome.value!r} without a return time")
        if self.returned is not None and self.returned < self.called:
            raise ValueError(f"returned at {self.returned}, before it was called at {self.called}")

    @property
    def reads(self) -> bool:
        return self.kind in READS

    @property
    def loose(self) -> bool:
        """Of a write: may take effect at any time from the call on, or never."""
        return self.outcome is Outcome.UNKNOWN

    @property
    def applied(self) -> bool:
        """Certainly changed something (or could have)."""
        return not self.reads and self.outcome is Outcome.DONE


def operation(
    process: str, request: Request[Any], reply: Reply | None, *, called: int, returned: int | None
) -> Operation | None:
    """A request and its reply (None: lost) as an operation; None when it reveals nothing about one key."""
    kind, named = _kind(request.kind, getattr(request, "version", "")), ""
    if kind is None or not isinstance(request, requests.Keyed):
        return None
    when = getattr(request, "when", None)
    condition = type(when).__name__.lower() if isinstance(when, requests.Absent | requests.Matches) else ""
    if isinstance(when, requests.Matches):
        named = when.etag
    outcome = Outcome.UNKNOWN if reply is None or returned is None else reply.outcome
    if isinstance(request, requests.Get) and (request.only_if or request.unless):
        condition = _reading("only-if" if request.only_if else "unless", outcome)
        named = request.only_if or request.unless or ""
    source = getattr(reply, "info", None) or reply
    return Operation(
        process=process,
        key=request.key,
        kind=kind,
        called=called,
        returned=returned,
        outcome=outcome,
        condition=condition,
        named=named,
        value=_value(request, reply),
        etag=getattr(source, "etag", ""),
    )


def _value(request: Request[Any], reply: Reply | None) -> Hashable:
    body: bytes | None = None
    if isinstance(request, requests.Put):
        body = request.body
    elif isinstance(request, requests.Get) and isinstance(reply, requests.GetReply) and reply.done:
        whole = request.start == 0 and request.stop is None
        body = reply.body if whole else None
    if body is None:
        return None
    return body if len(body) <= SHOWN_BYTES_MAX else short_hash(body)


def operations_of(events: Iterable[Event]) -> list[Operation]:
    """The operations on single keys in one run's events; the events' sequence numbers serve as the clock.

    Left out: listings, parts of uploads, and reads of a named version, none of which reveal the
    current object of a key. A request without a response is an operation with an unknown outcome.
    """
    issued: dict[int, Event] = {}
    responses: dict[int, Event] = {}
    runs = set()
    for event in events:
        runs.add(event.run)
        phases = {"request": issued, "response": responses}.get(event.phase)
        if phases is not None:
            phases[event.op] = event
    if len(runs) > 1:
        raise ValueError(
            f"events of {len(runs)} runs were given ({', '.join(sorted(runs)[:3])}...); check one at a time"
        )
    found = (_from_events(request, responses.get(op)) for op, request in issued.items())
    return [each for each in found if each is not None]


def _from_events(request: Event, response: Event | None) -> Operation | None:
    kind = _kind(request.kind, request.version)
    if kind is None:
        return None
    condition = "" if request.condition == "anything" else request.condition
    outcome = Outcome.UNKNOWN if response is None else Outcome(response.outcome)
    content = request.hash if kind == "put" else response.hash if response is not None else ""
    return Operation(
        process=request.process,
        key=request.key,
        kind=kind,
        called=request.seq,
        returned=None if response is None else response.seq,
        outcome=outcome,
        condition=_reading(condition, outcome),
        named=request.etag if condition not in ("", "absent") else "",
        value=content or None,
        etag="" if response is None else response.etag,
    )


def _reading(condition: str, outcome: Outcome) -> str:
    """Reads may carry both conditions, events name the first; `unchanged` implies both named one ETag."""
    return "unless" if condition == "only-if" and outcome is Outcome.UNCHANGED else condition


def _kind(kind: str, version: str) -> str | None:
    """The operation's kind, or None when it reveals nothing about the current object of a key."""
    if version:
        return UNJUDGED if kind == "delete" else None
    return kind if kind in (*WRITES, *READS) else None
