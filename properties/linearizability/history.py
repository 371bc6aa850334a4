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

Operations as the search reads them (`Move`): when each may have taken effect, and what it does at its key.

The search needs the ETag that every write leaves, and for every read whether it fits the current object. A
write whose reply was lost never learned its ETag, so it is derived from other operations:

- the same bytes put under the same key have the same ETag in every reply, and no other bytes have it;
- a read that returned both the bytes and the ETag ties them together;
- what is left over on both sides (ETags that were read and that no put returned; writes of unknown ETag) is
  matched by trial: such a write has several `options`, and the search picks one for each content and keeps
  it.

The ETag of a completed upload depends on how it was cut into parts, and its bytes are seldom recorded. So an
upload whose reply was lost may have left any ETag that no put is known to have left: a *puzzle*.

Objects that no operation read are interchangeable, and all become `OTHER`: so a thousand blind writes are
not a thousand different states.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.impl.store import requests
from fencepost.impl.store.events import Event, short_hash
from fencepost.impl.store.requests import Outcome, Reply, Request
from fencepost.model.store_reference import KeyOperation, Standing, When, on_key

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


NEVER = 1 << 200
"""Later than any time: the return time of an operation that did not return."""
OTHER = "\0other"
"""Every object that no read and no condition can distinguish. No store has such an ETag."""


class Contents:
    """The objects that one key ever held, as its operations reveal them."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._writes = [each for each in operations if each.kind in ("put", "complete-upload")]
        self._times = Counter(each.value for each in self._writes if _plain_put(each))
        self._ties: dict[Hashable, set[str]] = defaultdict(set)
        """Values to the ETags they were read with."""
        self._returned: dict[Hashable, set[str]] = defaultdict(set)
        """Values to the ETags that puts of them returned."""
        self._value_of: dict[str, Hashable] = {}
        self.torn: tuple[Operation, Operation] | None = None
        """Two operations with different contents under one ETag: no order explains that."""
        self._tie(operations)
        produced = {each.etag for each in self._writes if each.etag}
        put = {each.etag for each in self._writes if each.etag and each.kind == "put"}
        sought = {seen for _, seen in map(saw, operations) if seen is not None}
        # A write without reply may have landed because the object it names was there.
        sought |= {each.named for each in operations if each.loose and each.condition == "matches"}
        self._for_puts = sought - produced
        self._for_puzzles = sought - put
        self._mentioned = sought | {each.named for each in operations if each.named}
        self._values_read = {each.value for each in operations if each.reads and not each.etag} - {None}
        self.puzzles = any(not each.etag and not _plain_put(each) for each in self._writes)

    def _tie(self, operations: Sequence[Operation]) -> None:
        first: dict[str, Operation] = {}
        for each in operations:
            if each.value is None or not each.etag or each.kind == "delete":
                continue
            self._ties[each.value].add(each.etag)
            if _plain_put(each):
                self._returned[each.value].add(each.etag)
            known = first.setdefault(each.etag, each)
            if known.value != each.value:
                self.torn = self.torn or (known, each)
            self._value_of[each.etag] = each.value

    def options(self, write: Operation) -> tuple[str, ...]:
        """The symbols of the objects that `write` may leave: one where it is known, else several."""
        if write.etag:
            return (self._plain(write.etag),)
        if not _plain_put(write):
            known = {each for each in self._for_puzzles if self._may_hold(each, write.value)}
            return (*sorted(known), self._plain(self._unnamed(write)))
        returned = self._returned.get(write.value)
        if returned:
            return tuple(sorted({self._plain(etag) for etag in returned}))
        tied = self._ties.get(write.value, set()) & self._for_puts
        if tied and not self.puzzles:
            return tuple(sorted(tied))
        unseen = {etag for etag in self._for_puts if etag not in self._value_of}
        return (*sorted(tied | unseen), self._plain(self._unnamed(write)))

    def _may_hold(self, etag: str, value: Hashable) -> bool:
        return value is None or self._value_of.get(etag, value) == value

    def free(self, write: Operation) -> bool:
        """Return True if the ETag of `write` implies nothing about other ETags: a puzzle."""
        return not _plain_put(write)

    def content(self, write: Operation) -> Hashable:
        """A content of several puts, which left the same ETag; None for a content put once."""
        return write.value if self._times[write.value] > 1 else None

    def fits(self, read: Operation, symbol: str) -> bool:
        """Return True if a successful read can have returned the object `symbol`."""
        if read.etag:
            return symbol == read.etag
        if read.value is None or symbol == OTHER:
            return read.value is None
        return self._may_hold(symbol, read.value)

    def _unnamed(self, write: Operation) -> str:
        if not _plain_put(write):
            symbol = f"\0write {self._writes.index(write)}"
        else:
            symbol = f"\0put {write.value!r}"
        if write.value is not None:
            self._value_of[symbol] = write.value
        return symbol

    def _plain(self, symbol: str) -> str:
        """`symbol`, or `OTHER` when nothing in the history distinguishes it from other such objects."""
        if symbol in self._mentioned:
            return symbol
        unread = not self._values_read or self._value_of.get(symbol) not in {None, *self._values_read}
        return OTHER if unread else symbol


def _plain_put(write: Operation) -> bool:
    return write.kind == "put" and write.value is not None


def saw(each: Operation) -> tuple[bool, Standing]:
    """Return True and the object that the key held at that moment, if the reply implies exactly one."""
    if each.outcome is Outcome.MISSING or (each.applied and each.condition == "absent"):
        return True, None
    if each.reads and each.outcome is Outcome.DONE and each.etag:
        return True, each.etag
    agreed = each.applied or (each.reads and each.outcome in (Outcome.DONE, Outcome.PAST_END))
    if (agreed and each.condition in ("matches", "only-if")) or each.outcome is Outcome.UNCHANGED:
        return True, each.named
    return False, None


@dataclass(slots=True, eq=False)
class Move:
    """One operation as the search reads it."""

    operation: Operation
    contents: Contents
    called: int
    returned: int
    loose: bool
    """It may never have taken effect."""
    options: tuple[str, ...] = ()
    """The objects that a write may leave."""
    alike: Hashable = None
    """Equal for interchangeable writes."""
    needs: Standing = None
    """The only object that the key may hold before, when `constrained`."""
    constrained: bool = False
    _known: dict[Standing, tuple[Standing, ...]] = field(default_factory=dict)

    def outcomes(self, standing: Standing) -> tuple[Standing, ...]:
        """The objects that the key may hold afterwards; none when the operation cannot come next."""
        if standing not in self._known:
            self._known[standing] = self._try(standing)
        return self._known[standing]

    def _try(self, standing: Standing) -> tuple[Standing, ...]:
        each = self.operation
        _, outcome = on_key(standing, reference_operation(each))
        if each.reads:
            expected = Outcome.DONE if each.outcome is Outcome.PAST_END else each.outcome
            fits = standing is None or expected is not Outcome.DONE or self.contents.fits(each, standing)
            return (standing,) if outcome == expected.value and fits else ()
        if each.loose or each.applied:
            return self.left() if outcome == "done" else ()
        return (standing,) if outcome == each.outcome.value else ()

    def left(self) -> tuple[Standing, ...]:
        """The objects that the key may hold once it took effect."""
        return self.options or (None,)

    @property
    def changes(self) -> bool:
        return self.operation.loose or self.operation.applied


def reference_operation(each: Operation) -> KeyOperation:
    """The operation in the terms of the reference. `Contents` supplies the ETag that a write leaves."""
    if each.reads:
        only_if = each.named if each.condition == "only-if" else None
        return "read", only_if, each.named if each.condition == "unless" else None
    when: When = ("anything",)
    if each.condition:
        when = ("absent",) if each.condition == "absent" else ("matches", each.named)
    return ("delete", when) if each.kind == "delete" else ("write", when, OTHER)


def moves_of(operations: Sequence[Operation], contents: Contents) -> list[Move]:
    """The informative operations, ready for the search."""
    return [_move(each, contents) for each in operations if is_informative(each)]


def is_informative(each: Operation) -> bool:
    """A refusal for the store's own reasons has no effect and proves nothing; neither does a lost read."""
    empty = (Outcome.CONFLICT, Outcome.THROTTLED, Outcome.GONE)
    return each.outcome not in empty and not (each.reads and each.outcome is Outcome.UNKNOWN)


def _move(each: Operation, contents: Contents) -> Move:
    loose = each.loose and not each.reads
    returned = NEVER if loose or each.returned is None else each.returned
    move = Move(each, contents, each.called, returned, loose)
    if each.kind in ("put", "complete-upload"):
        move.options = contents.options(each)
    free = len(move.options) < 2 or contents.free(each)
    tied = (free, None if free else contents.content(each))
    move.alike = (each.kind == "delete", each.condition, each.named, move.options, tied)
    move.constrained, move.needs = saw(each)
    return move
