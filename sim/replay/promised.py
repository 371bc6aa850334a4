"""Ready promises over a recorded trace: the properties of `fencepost audit --promise`, without a model.

A promise reads observations in one order of effects. A trace shows where a request landed, or an interval, so
several orders are judged: by answers, by requests, writes early and reads late, the reverse, some that are
drawn, and those in which the request that breaks the promise comes first or last. In each of them, a write
comes before the requests that read or name its ETag. A promise is broken only if it is broken in all of them.
It holds if the first keeps it, the order of the answers; if only another one does, the trace does not decide.

Doubts are resolved in favour of the trace. A write without an answer took effect if a later read of the key
shows its hash, which no other write had. Otherwise each order is judged with and without the writes and
deletes that have no answer, and the drawn orders with some of them. Listings have no contents in a trace and
are left out. The end of a process is not recorded, so nothing is claimed of what should have happened by the
end. A process that begins another life has crashed, and each may have crashed after its last request. Bodies
are known where the recorder kept them (the trace field `json`), else contents are compared by hash.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pyarrow as pa

from fencepost.impl.recording.files import GAP
from fencepost.properties.promises import Observation, Promise, parse
from fencepost.properties.promises.observation import CRASH, DELETE, LOOK, READ, REFUSED, WRITE
from fencepost.sim.replay.judging import event_text
from fencepost.sim.replay.parts import in_order
from fencepost.sim.replay.result import PromiseVerdict
from fencepost.sim.trace.reading import Report, batches
from fencepost.sim.trace.schema import completed

DRAWN, DRAWN_MAX = 12, 400
"""Orders that are drawn before a promise counts as broken: of a long trace, and of a short one."""
EFFORT = 20_000
"""Requests in the orders that are drawn, where that allows more than `DRAWN`."""
MOVED = 12
"""Requests that are moved before a promise counts as broken."""
EVENTS_MAX = 2_000_000
"""Events that promises are judged on; they are judged one by one."""
_WRITES = frozenset({"put", "complete-upload", "copy"})
_REFUSALS = frozenset({"exists", "changed", "missing", "conflict", "throttled", "refused", "gone"})
_COLUMNS = (
    *("run", "seq", "t_ns", "process", "incarnation", "op", "phase", "kind", "key"),
    *("condition", "etag", "hash", "outcome", "trace_fields"),
)


@dataclass(slots=True)
class _Request:
    """One request and its answer."""

    begin: int
    first: int
    """The earliest place at which it may have taken effect."""
    end: int
    """The latest such place: its landing or answer, else the end of the run."""
    process: str
    life: int
    kind: str
    key: str
    condition: str
    named: str
    """The ETag that its condition names."""
    digest: str
    body: bytes | None
    seq: int
    t_ns: int
    outcome: str = ""
    acknowledged: bool = False
    etag: str = ""
    text: str = ""

    @property
    def content(self) -> "Content":
        return self.key, self.digest

    @property
    def version(self) -> tuple[str, str]:
        return self.key, self.etag.strip('"')

    @property
    def changes(self) -> bool:
        return self.kind in _WRITES or self.kind == "delete"

    @property
    def is_known(self) -> bool:
        """True if the trace has its landing or its answer."""
        return bool(self.outcome)


Content = tuple[str, str]
"""A key and a hash."""
Known = tuple[_Request, _Request, int]
"""A write, a request that knows its version, and the place before which the write took effect."""
Order = Callable[[_Request], int]
Lands = Callable[[_Request], bool]
"""Tells of a change without an answer if it took effect."""
Fate = tuple[Lands, bool]
"""Tells which changes took effect; true if each life of a process ended right after its last request."""
_EITHER = (False, True)
ORDERS: tuple[Order, ...] = (
    lambda one: one.end,
    lambda one: one.first,
    lambda one: one.first if one.changes else one.end,
    lambda one: one.end if one.changes else one.first,
)


def judge_promises(files: Sequence[Path], promises: Sequence[str], report: Report) -> list[PromiseVerdict]:
    """Judge each promise on each run of a trace."""
    tables = [completed(table) for table in batches(files, report)]
    if not tables:
        return []
    whole = in_order(pa.concat_tables(tables, promote_options="permissive"))
    if len(whole) > EVENTS_MAX:
        why = f"the trace has {len(whole):,} events, and promises are judged on at most {EVENTS_MAX:,}"
        return [PromiseVerdict(text, "undecided", reason=why) for text in promises]
    found = []
    for run, rows in _runs(whole):
        requests, has_gap = _requests(rows)
        for text in promises:
            verdict = _judge(text, run, requests)
            if has_gap and verdict.verdict == "violated":
                why = f"the recorder dropped requests: {verdict.reason}"
                verdict = PromiseVerdict(text, "undecided", run, verdict.seq, verdict.event, why)
            found.append(verdict)
    return found


def _runs(whole: pa.Table) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for run, *row in zip(*(whole[name].to_pylist() for name in _COLUMNS), strict=True):
        rows.setdefault(run, []).append(tuple(row))
    yield from rows.items()


def _requests(rows: Sequence[tuple[Any, ...]]) -> tuple[list[_Request], bool]:
    """The requests of a run, and whether some are missing."""
    found: dict[tuple[str, int, int], _Request] = {}
    has_gap = False
    for place, row in enumerate(rows):
        seq, t_ns, process, life, op, phase, kind, key, condition, etag, digest, outcome, words = row
        mark = process, life, op
        if phase == "note":
            has_gap |= kind == GAP
        elif phase == "request":
            body = _body(words)
            asked = process, life, kind, key, condition, etag, digest, body, seq, t_ns
            found[mark] = _Request(place, place, len(rows), *asked)
        elif mark in found and phase in ("response", "landed") and outcome != "unknown":
            one = found[mark]
            if not one.outcome:
                one.end, one.outcome, one.seq, one.t_ns = place, outcome, seq, t_ns
                one.first = place if phase == "landed" else one.first
                one.text = event_text(process, phase, kind, key, condition, words, outcome)
            one.acknowledged |= phase == "response" and outcome == one.outcome
            one.etag, one.digest = etag or one.etag, digest or one.digest
            one.body = one.body if one.kind in _WRITES else _body(words)
    return list(found.values()), has_gap


def _body(words: str) -> bytes | None:
    """The body, where the recorder kept the whole of it."""
    return unquote_to_bytes(words.removeprefix("json=")) if words.startswith("json=") else None


def _judge(text: str, run: str, requests: Sequence[_Request]) -> PromiseVerdict:
    first: PromiseVerdict | None = None
    doubtful = any(not one.is_known and one.changes for one in requests)
    fates: list[Fate] = [(lands, crash) for lands in ([_never, _always][: 1 + doubtful]) for crash in _EITHER]
    ways = deque((order, *fate) for order in ORDERS for fate in fates)
    drawn = min(DRAWN_MAX, max(DRAWN, EFFORT // max(1, len(requests))))
    ways += [(_drawn(number), _drawn_landing(number), bool(number % 2)) for number in range(drawn)]
    moved: set[int] = set()
    known, shown = _known(requests), _shown(requests)
    while ways:
        order, lands, crash = ways.popleft()
        broken = _in_order(parse(text), _sorted(order, requests, known), shown, lands, crash=crash)
        if broken is None:
            if first is None:
                return PromiseVerdict(text, "holds", run)
            why = f"not in every order that the trace allows: {first.reason}"
            return PromiseVerdict(text, "undecided", run, first.seq, first.event, why)
        reason, at = broken
        seq, event = (at.seq, at.text) if at else (-1, "")
        first = first or PromiseVerdict(text, "violated", run, seq, event, reason)
        if at is not None and at.begin not in moved and len(moved) < MOVED:
            moved.add(at.begin)
            ways += [(order, *fate) for order in (_first(at), _last(at)) for fate in fates]
    assert first is not None, "there are orders"
    return first


def _drawn(number: int) -> Order:
    """An order in which each request takes effect anywhere between its beginning and its end."""

    def order(one: _Request) -> int:
        return one.first + _draw(f"place {number} {one.begin}") % (one.end - one.first + 1)

    return order


def _draw(text: str) -> int:
    """Return a number that depends on all of the text; checksums of similar texts are not independent."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def _drawn_landing(number: int) -> Lands:
    return lambda one: bool(_draw(f"landing {number} {one.begin}") & 1)


def _never(_: _Request) -> bool:
    return False


def _always(_: _Request) -> bool:
    return True


def _first(early: _Request) -> Order:
    """An order in which this request comes as early as possible, and all others late."""
    return lambda one: one.first if one is early else one.end


def _last(late: _Request) -> Order:
    return lambda one: one.end if one is late else one.first


def _in_order(
    promise: Promise, placed: Sequence[_Request], shown: set[Content], lands: Lands, *, crash: bool
) -> tuple[str, _Request | None] | None:
    """The reason why a promise is broken in this order, and the request; None if it is kept."""
    promise.begin({})
    exists: set[str] = set()
    lives: dict[str, int] = {}
    last = {(one.process, one.life): one for one in sorted(placed, key=lambda one: one.begin)}
    for one in placed:
        if one.life > lives.get(one.process, one.life):
            why = promise.observe(Observation(CRASH, one.process, one.process, lives[one.process]))
            if why:
                return why, one
        lives[one.process] = max(one.life, lives.get(one.process, one.life))
        seen = _observed(one, shown, exists, lands)
        why = promise.observe(seen) if seen is not None else None
        if why:
            return why, one
        if crash and last[one.process, one.life] is one:
            promise.observe(Observation(CRASH, one.process, one.process, one.life))
    why = promise.finish(whole=False)
    return (why, None) if why else None


def _shown(requests: Sequence[_Request]) -> set[Content]:
    """Contents that somebody read and that one request wrote."""
    writes = Counter(one.content for one in requests if one.kind in _WRITES)
    read = {one.content for one in requests if one.kind == "get" and one.outcome == "done"}
    return {content for content in read if writes[content] == 1}


def _known(requests: Sequence[_Request]) -> list[Known]:
    """Writes, each with a request that knows its version, where no other write can have made it."""
    found: list[Known] = []
    shown = _shown(requests)
    unanswered = {one.content: one for one in requests if one.kind in _WRITES and not one.is_known}
    made: dict[tuple[str, str], _Request | None] = {}
    for one in requests:
        if one.kind in _WRITES and one.outcome == "done" and one.etag:
            several = one.version in made or one.content in unanswered
            made[one.version] = None if several else one
    for one in requests:
        if one.named:
            found += _pair(made.get((one.key, one.named.strip('"'))), one, one.begin)
        if one.kind in ("get", "head") and one.outcome == "done":
            found += _pair(made.get(one.version), one, one.end)
            if one.content in shown:
                found += _pair(unanswered.get(one.content), one, one.end)
    return found


def _pair(write: _Request | None, one: _Request, place: int) -> list[Known]:
    return [(write, one, place)] if write is not None and write.first < place else []


def _sorted(order: Order, requests: Sequence[_Request], known: Sequence[Known]) -> list[_Request]:
    """By this order, except that each write comes before the requests that know its version."""
    places: dict[int, float] = {one.begin: order(one) for one in requests}
    for write, _, place in known:
        places[write.begin] = min(places[write.begin], place - 0.5)
    for write, one, _ in known:
        places[one.begin] = max(places[one.begin], places[write.begin] + 0.25)
    return sorted(requests, key=lambda one: (places[one.begin], one.begin))


def _observed(one: _Request, shown: set[Content], exists: set[str], lands: Lands) -> Observation | None:
    common: dict[str, Any] = {
        "process": one.process,
        "strand": one.process,
        "incarnation": one.life,
        "key": one.key,
        "outcome": one.outcome,
        "condition": one.condition,
        "t_ns": one.t_ns,
        "acknowledged": one.acknowledged,
    }
    asked = "delete" if one.kind == "delete" else "write" if one.changes else ""
    done = one.outcome == "done"
    if one.changes and not one.is_known:
        done = (one.kind in _WRITES and one.content in shown) or lands(one)  # somebody read it
    if done and one.kind in _WRITES:
        exists.add(one.key)
        return Observation(WRITE, asked=asked, body=one.body, digest=one.digest, etag=one.etag, **common)
    if done and one.kind == "delete":
        if one.key not in exists:
            return None
        exists.discard(one.key)
        return Observation(DELETE, asked=asked, **common)
    if one.changes:
        if one.outcome not in _REFUSALS:
            return None
        return Observation(REFUSED, asked=asked, body=one.body, digest=one.digest, **common)
    if one.kind in ("get", "head") and one.outcome in ("done", "missing"):
        kind = READ if one.kind == "get" else LOOK
        is_there = one.outcome == "done"
        return Observation(kind, exists=is_there, body=one.body, digest=one.digest, etag=one.etag, **common)
    return None
