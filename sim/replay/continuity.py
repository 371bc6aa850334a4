"""Continuity of every object: judged from conditions, ETags and hashes alone, without a model.

An object is a register. Its value is an ETag, or nothing. A request needs a value, leaves one, or both:

    request                       answer       needs                     leaves
    get, head                     done         the ETag of the answer
    get, head                     missing      nothing
    get unless e                  unchanged    e
    get only-if e                 changed      a value other than e
    get of a range                past-end     a value
    put if absent                 done         nothing                   the ETag of the answer
    put if absent                 exists       a value
    put if it matches e           done         e                         the ETag of the answer
    put or delete, matches e      changed      a value other than e
    put or delete, matches e      missing      nothing
    put of anything               done                                   the ETag of the answer
    delete                        done         e if it matches e         nothing

A completed upload and a copy write as a put does. The history of an object is *continuous* if all its
requests can be put in one order in which every need is met, and which respects the order of time: a request
takes effect at one moment, where it landed if the trace records that, else between its request and its
answer. This is linearizability of a register with conditional writes. Objects are independent, so each is
judged by itself. Two ETags are two values, and equal ETags one: equal bodies may have equal ETags.

The order of time. Requests of a run that records landings are in the order of their landings. A run that is
numbered by one counter (no number twice, times that never fall along the numbers, runs as recorded) is in
the order of its numbers. In any other run only the order within each process is known, its restarts one after
the other: clocks of several hosts prove nothing here.

Uncertainty is always resolved in favour of the trace:

    no answer           the request may take effect at any later time, several times, or never. It leaves any
                        ETag whose body can be its own: one that the trace shows with the same hash or with
                        no hash, or an ETag that the trace does not show
    repetitions         a write may take effect several times while it is under way (SDKs repeat requests),
                        and so also when its answer is a refusal; not so where landings are recorded
    the beginning       an object may have any value before the first event, unless the trace starts empty
    missing columns     a write without an ETag leaves any value; a condition that is not recorded needs none
    versions            reads of a named version are left out; an object with a deleted version is not judged
    other writers       see below

All writers. A trace that records landings comes from a harness that owns its store, so all writers are in
it. Of any other trace the user can declare it (`Claims.all_writers`). Without the declaration, an object that
was found with an ETag that nothing in the trace wrote has another writer, so its order is not judged; it is
counted. Objects without such an ETag are judged as if all their writers were recorded.

Some rules need no order. Within one object an ETag has one hash; another hash is another body. A read that
was answered done has an ETag that its own condition allows. An answer is that of the landing before it, and
comes after its request.

The decision. First by columns, for all objects at once: four orders that respect time are tried (each request
at its beginning, at its end, writes early and reads late, and the reverse). An object with one order without
a contradiction is continuous; this is exact, and takes sorting. The few others are searched, one by one, for
any order (`register`: Wing and Gong's search, with states remembered). The search is exact, too; it is linear
where few requests overlap. It ends after a number of states that is proportional to the history, and then the
object is counted as not decided; where only the order within processes is known, each process is then
searched by itself, with the writes of all others possible at any time. The first request that fits in no
order is the finding. There is one finding for each object.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.impl.recording.files import GAP
from fencepost.properties.refinement.rules import Events
from fencepost.properties.refinement.symbols import operations
from fencepost.properties.refinement.text import I64, Mask, Text, firsts
from fencepost.sim.replay.judging import IN_WORDS, event_text
from fencepost.sim.replay.parts import SEVERAL_COUNTERS
from fencepost.sim.replay.register import ANY, GONE, NONE, Blocked, Need, Register, Step, Undecided, Value
from fencepost.sim.replay.result import ContinuityFinding, ContinuityResult
from fencepost.sim.trace.columns import ArrowValues, numbered, text
from fencepost.sim.trace.schema import KINDS

EXTRA = ("t_ns", "etag", "hash", "version")
"""The columns that continuity needs besides those for verdicts."""
WRITES = ("put", "complete-upload", "copy")
READS = ("get", "head")
_OWN_KINDS = (*WRITES, *READS, "delete")
_HARMLESS = (*KINDS, "copy-part", "list-parts", "head-bucket")
"""Kinds of requests that are known. A request of another kind may change its key."""
_REFUSED = ("exists", "changed", "missing", "gone", "conflict", "throttled", "refused")
_READ = ("done", "missing", "unchanged", "changed", "past-end", "conflict", "throttled", "refused")
_DECIDED = ("done", "exists", "changed", "missing", "unchanged", "past-end")
"""Answers that only the store gives, when it applies or judges a request."""

NO_ETAG = "carry no ETag"
NO_ANSWER = "have no answer"
REPEATED = "are of objects whose requests have numbers that are used twice"
VERSIONED = "are of objects with deleted versions, or of unknown kinds of requests"
OTHER_WRITERS = "are of objects with an ETag that nothing in the trace wrote"
GIVEN_UP = "are of objects whose history is too entangled to decide"
NOTHING_SHOWN = "have an answer that tells nothing of the object"
GAPS = "are of objects about which the recorder dropped requests"
REASONS = (NO_ETAG, NO_ANSWER, REPEATED, VERSIONED, GAPS, OTHER_WRITERS, GIVEN_UP, NOTHING_SHOWN)


@dataclass(frozen=True)
class Claims:
    """Declarations of the user about a trace."""

    all_writers: bool = False
    """The trace records every write of the objects in it."""
    starts_empty: bool = False
    """No object of a run exists before its first event."""


NO_CLAIMS = Claims()


@dataclass
class Continuity:
    """Sums over some parts; `add` joins two."""

    requests: int = 0
    """Requests about one object."""
    judged: int = 0
    objects: int = 0
    unjudged: dict[str, int] = field(default_factory=dict)
    """Requests that were not judged, by reason; see `REASONS`."""
    other_etags: int = 0
    """ETags that were found and that nothing in the trace wrote, of objects with other writers."""
    undecided: int = 0
    """Objects whose history is too entangled to decide."""
    found: int = 0
    """Objects with a finding."""
    findings: list[dict[str, Any]] = field(default_factory=list)
    """The first findings by run and event, with the columns of `ContinuityFinding`."""

    def add(self, other: "Continuity") -> None:
        for name in ("requests", "judged", "objects", "other_etags", "undecided", "found"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for reason, count in other.unjudged.items():
            self.unjudged[reason] = self.unjudged.get(reason, 0) + count
        self.findings += other.findings
        self.findings.sort(key=lambda one: (one["run"], one["seq"], one["key"]))
        del self.findings[LISTED_MAX:]

    def result(self, claims: Claims) -> ContinuityResult:
        """The result of all parts."""
        verdict: Literal["holds", "violated", "undecided"] = "holds" if self.judged else "undecided"
        if self.undecided:
            verdict = "undecided"
        if self.found:
            verdict = "violated"
        return ContinuityResult(
            verdict=verdict,
            requests=self.requests,
            judged=self.judged,
            objects=self.objects,
            violated=self.found,
            undecided=self.undecided,
            unjudged=self.unjudged,
            other_etags=self.other_etags,
            all_writers=claims.all_writers,
            starts_empty=claims.starts_empty,
            findings=tuple(ContinuityFinding(**one) for one in self.findings),
        )

    def as_row(self) -> dict[str, Any]:
        """The sums as JSON; `Continuity(**row)` reads them."""
        return dict(vars(self))


LISTED_MAX = 1000
"""Findings that a result lists."""


def continuity(seen: Events, table: pa.Table, claims: Claims, *, as_recorded: bool) -> Continuity:
    """Judge all objects of a part that is in order. `as_recorded`: its runs are those of the recorder."""
    if not len(seen):
        return Continuity()
    return _Part(seen, table, claims, as_recorded=as_recorded).judged()


@dataclass(frozen=True)
class _Requests:
    """Columns, an item for each request about an object (each landing, in runs that record them)."""

    object: I64
    domain: I64
    """Within one domain the order of time is known."""
    begin: I64
    end: I64
    asked: I64
    """Rows of requests; -1 where missing."""
    answered: I64
    """Rows of answers or landings; -1 where missing."""
    need: I64
    value: I64
    """The ETag that is needed."""
    post: I64
    """The ETag that the request leaves, `GONE`, `ANY`, or `NONE` if it changes nothing."""
    optional: Mask
    """There is no answer: the request may take effect or not."""
    repeats: Mask
    """The request may have taken effect more than once."""
    judged: Mask

    def __len__(self) -> int:
        return len(self.object)

    def take(self, rows: I64) -> "_Requests":
        return _Requests(**{name: column[rows] for name, column in vars(self).items()})


def _etags(column: Any) -> Text:
    """A column of ETags without their quotes, which some clients and stores leave out."""
    found = text(column)
    array = found.values.array
    bare = pc.utf8_trim(array, '"')
    if bare.equals(array):
        return found
    whole = bare.dictionary_encode()
    return Text(whole.indices.to_numpy().astype(np.int64)[found.codes], ArrowValues(whole.dictionary))


def _event(seen: Events, row: int) -> str:
    """An event in words, with its own names."""
    return event_text(*(getattr(seen, name).at(row) for name in IN_WORDS))


class _Part:
    """One table of whole runs."""

    def __init__(self, seen: Events, table: pa.Table, claims: Claims, *, as_recorded: bool) -> None:
        self.seen, self.claims = seen, claims
        self.etag, self.hash, self.version = (
            _etags(table["etag"]),
            text(table["hash"]),
            text(table["version"]),
        )
        self.no_etag, self.no_hash = self.etag.number(""), self.hash.number("")
        self.object, self.objects = numbered(seen.run, seen.key.codes)
        landed = seen.phase.codes == seen.phase.number("landed")
        self.landed = np.zeros(len(seen.runs), np.bool_)
        self.landed[seen.run[landed]] = True
        self.one_order = self._one_order(table, as_recorded=as_recorded)
        self.reasons: dict[str, int] = {}
        self.sums = Continuity()
        self._found: dict[int, dict[str, Any]] = {}

    def _one_order(self, table: pa.Table, *, as_recorded: bool) -> Mask:
        """The runs whose rows are in the order of time."""
        run = self.seen.run
        found = self.landed | as_recorded
        time = table["t_ns"].to_numpy()
        falls = (run[1:] == run[:-1]) & (time[1:] < time[:-1])
        found[run[1:][falls & ~self.landed[run[1:]]]] = False
        if SEVERAL_COUNTERS in table.column_names:
            found[run[table[SEVERAL_COUNTERS].to_numpy()]] = False
        return found

    # Requests.

    def judged(self) -> Continuity:
        requests, unjudged = self._requests()
        self.sums.requests = len(requests)
        present = np.zeros(self.objects, np.bool_)
        present[requests.object] = True
        self.sums.objects = int(present.sum())
        for reason, objects in unjudged.items():
            self._leave_out(requests, objects, reason)
            left = ~objects[requests.object]
            requests = requests.take(np.flatnonzero(left))
        self._find_own_conditions(requests)
        self._find_bodies(requests)
        self._find_orders(requests)
        self.sums.unjudged = {name: self.reasons[name] for name in REASONS if self.reasons.get(name)}
        rows = sorted(self._found.values(), key=lambda one: (one["run"], one["seq"], one["key"]))
        self.sums.found, self.sums.findings = len(rows), rows[:LISTED_MAX]
        return self.sums

    def _count(self, reason: str, count: int) -> None:
        if count:
            self.reasons[reason] = self.reasons.get(reason, 0) + count

    def _leave_out(self, requests: _Requests, objects: Mask, reason: str) -> None:
        self._count(reason, int(objects[requests.object].sum()))

    def _requests(self) -> tuple[_Requests, dict[str, Mask]]:
        """All requests, and the objects that cannot be judged, by reason."""
        seen = self.seen
        own = seen.kind.is_in(_OWN_KINDS)
        phases = [
            np.flatnonzero(own & seen.phase.is_in((name,))) for name in ("request", "response", "landed")
        ]
        issued, ends, landings = phases
        op, count = operations(seen, np.concatenate(phases))
        op_issued, op_ended, op_landed = np.split(op, [len(issued), len(issued) + len(ends)])
        asked, ended = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
        asked[op_issued[::-1]], ended[op_ended[::-1]] = issued[::-1], ends[::-1]
        self._find_answers(landings, op_landed, ends, op_ended)
        twice = (np.bincount(op_issued, minlength=count) > 1) | (np.bincount(op_ended, minlength=count) > 1)
        row = np.maximum(asked, ended)
        alone = np.flatnonzero((row >= 0) & ~self.landed[seen.run[row]])
        answered = np.concatenate([landings, ended[alone]])
        asked = np.concatenate([asked[op_landed], asked[alone]])
        found = self._read(asked, answered, len(landings))
        return found, {
            REPEATED: self._repeated(twice, row),
            VERSIONED: self._versioned(found),
            GAPS: self._with_gaps(),
        }

    def _with_gaps(self) -> Mask:
        """The objects about which requests are missing; all objects of a run where their keys are unknown."""
        seen = self.seen
        objects = np.zeros(self.objects, np.bool_)
        gaps = np.flatnonzero(seen.phase.is_in(("note",)) & seen.kind.is_in((GAP,)))
        if len(gaps):
            objects[self.object[gaps]] = True
            whole = gaps[seen.key.codes[gaps] == seen.key.number("")]
            objects[self.object[np.isin(seen.run, seen.run[whole])]] = True
        return objects

    def _repeated(self, twice: Mask, row: I64) -> Mask:
        """The objects with requests whose order is unclear, because numbers are used twice."""
        seen = self.seen
        objects = np.zeros(self.objects, np.bool_)
        objects[self.object[row[twice]]] = True
        if twice.any():
            rows = row[twice]
            rows = rows[~self.one_order[seen.run[rows]]]
            life = numbered(seen.run, seen.process.codes, seen.incarnation)[0]
            objects[self.object[np.isin(life, life[rows])]] = True
        return objects

    def _versioned(self, found: _Requests) -> Mask:
        seen = self.seen
        objects = np.zeros(self.objects, np.bool_)
        asked = found.asked[found.asked >= 0]
        named = seen.kind.is_in(("delete",))[asked] & (self.version.codes[asked] != self.version.number(""))
        objects[self.object[asked[named]]] = True
        requests = seen.phase.is_in(("request", "landed", "response"))
        objects[self.object[requests & ~seen.kind.is_in((*_HARMLESS, *_OWN_KINDS))]] = True
        return objects

    def _read(self, asked: I64, answered: I64, landings: int) -> _Requests:
        """The requests with these rows; the first so many are landings."""
        seen = self.seen
        has_asked, has_answer = asked >= 0, answered >= 0
        row = np.where(has_answer, answered, asked)
        exact = np.arange(len(row)) < landings
        is_write, is_delete = seen.kind.is_in(WRITES)[row], seen.kind.is_in(("delete",))[row]
        changes = is_write | is_delete

        def answer(*names: str) -> Mask:
            found: Mask = has_answer & seen.outcome.is_in(names)[answered]
            return found

        source = np.where(has_asked, asked, row)
        has_condition = has_asked | exact

        def condition(*names: str) -> Mask:
            found: Mask = has_condition & seen.condition.is_in(names)[source]
            return found

        named = np.where(has_asked, self.etag.codes[asked], self.no_etag)
        shown = np.where(has_answer, self.etag.codes[answered], self.no_etag)
        knows_named, knows_shown = named != self.no_etag, shown != self.no_etag
        done, absent, matches = answer("done"), condition("absent"), condition("matches")
        need = np.full(len(row), Need.NOTHING, np.int64)
        value = np.full(len(row), NONE, np.int64)
        need[answer("missing") & (~changes | matches)] = Need.GONE
        need[answer("exists", "past-end")] = Need.PRESENT
        other = answer("changed")
        need[other] = np.where(knows_named, Need.OTHER, Need.PRESENT)[other]
        same = answer("unchanged") | (done & changes & matches)
        need[same] = np.where(knows_named, Need.EQUAL, Need.PRESENT)[same]
        value[(same | other) & knows_named] = named[(same | other) & knows_named]
        need[done & is_write & absent] = Need.GONE
        read = done & ~changes
        need[read] = np.where(knows_shown, Need.EQUAL, Need.PRESENT)[read]
        value[read & knows_shown] = shown[read & knows_shown]
        post = np.full(len(row), NONE, np.int64)
        post[done & is_write] = np.where(knows_shown, shown, ANY)[done & is_write]
        post[done & is_delete] = GONE
        known = np.where(changes, done | answer(*_REFUSED), answer(*_READ))
        # A read of a named version, and a read without an answer, tell nothing of the present value.
        of_version = has_asked & ~changes & (self.version.codes[asked] != self.version.number(""))
        need[of_version] = Need.NOTHING
        optional = changes & ~known
        no_etag = (done & ~is_delete & ~knows_shown) | ((same | other) & ~knows_named)
        tells = (need != Need.NOTHING) | (post != NONE)
        self._count(NO_ANSWER, int((~known).sum()))
        self._count(NO_ETAG, int((known & no_etag).sum()))
        self._count(NOTHING_SHOWN, int((known & ~no_etag & ~tells).sum()))
        run = seen.run[row]
        process = numbered(run, seen.process.codes[row])[0]
        end = np.where(known, row, len(seen))
        begin = np.where(exact, row, asked)
        backwards = begin > end
        begin[backwards] = NONE
        for at in np.flatnonzero(backwards & self.one_order[run]).tolist():
            why = f"event {seen.seq[row[at]]} answers a request that was sent later"
            self._find("answered-before", int(row[at]), int(asked[at]), why)
        begin, end = self._places(begin, np.where(exact, row, end))
        return _Requests(
            object=self.object[row],
            domain=np.where(self.one_order[run], NONE, process),
            begin=begin,
            end=end,
            asked=asked,
            answered=answered,
            need=need,
            value=value,
            post=post,
            optional=optional,
            repeats=changes & known & ~exact & ~answer("refused"),
            judged=known & ~no_etag & tells,
        )

    # Rules that need no order.

    def _find_answers(self, landings: I64, op_landed: I64, ends: I64, op_ended: I64) -> None:
        """Answers that differ from what landed."""
        if not len(landings):
            return
        seen = self.seen
        last = np.full(int(max(op_landed.max(), op_ended.max(initial=0))) + 1, -1, np.int64)
        last[op_landed] = landings
        decided = seen.outcome.is_in(_DECIDED)[ends]
        decided &= self.landed[seen.run[ends]]
        landing = last[op_ended]
        ends, landing = ends[decided], landing[decided]
        after = landing < ends  # a landing after the answer is a repetition
        ends, landing = ends[after & (landing >= 0)], landing[after & (landing >= 0)]
        differs = seen.outcome.codes[ends] != seen.outcome.codes[landing]
        for column, empty in ((self.etag, self.no_etag), (self.hash, self.no_hash)):
            one, other = column.codes[ends], column.codes[landing]
            differs |= (one != other) & (one != empty) & (other != empty)
        for row, other in zip(ends[differs].tolist(), landing[differs].tolist(), strict=True):
            self._find(
                "other-answer", row, other, f"the answer is not what the store did in event {seen.seq[other]}"
            )

    def _find_own_conditions(self, requests: _Requests) -> None:
        """Reads whose answer has an ETag that their own condition excludes."""
        seen = self.seen
        both = np.flatnonzero((requests.asked >= 0) & (requests.answered >= 0))
        asked, answered = requests.asked[both], requests.answered[both]
        one, other = self.etag.codes[asked], self.etag.codes[answered]
        read = seen.kind.is_in(READS)[answered] & seen.outcome.is_in(("done",))[answered]
        read &= (one != self.no_etag) & (other != self.no_etag)
        only_if = read & seen.condition.is_in(("only-if",))[asked] & (one != other)
        unless = read & seen.condition.is_in(("unless",))[asked] & (one == other)
        for at in np.flatnonzero(only_if | unless).tolist():
            condition = f"{seen.condition.at(asked[at])} {self._name(int(one[at]))}"
            why = f"the read {condition} was answered done with ETag {self._name(int(other[at]))}"
            self._find("wrong-condition", int(answered[at]), int(asked[at]), why)

    def _find_bodies(self, requests: _Requests) -> None:
        """Bodies whose hash is not the one that the same ETag had before."""
        seen = self.seen
        rows = requests.answered
        done = (rows >= 0) & seen.outcome.is_in(("done",))[rows]
        put = done & seen.kind.is_in(("put",))[rows] & (requests.asked >= 0)
        got = done & seen.kind.is_in(("get",))[rows]
        hashes = np.where(put, self.hash.codes[requests.asked], self.hash.codes[rows])
        kept = np.flatnonzero(
            (put | got) & (hashes != self.no_hash) & (self.etag.codes[rows] != self.no_etag)
        )
        if not len(kept):
            return
        rows, hashes = rows[kept], hashes[kept]
        order = np.argsort(rows, kind="stable")
        rows, hashes = rows[order], hashes[order]
        value, count = numbered(requests.object[kept][order], self.etag.codes[rows])
        first = firsts(value, count)
        for at in np.flatnonzero(hashes != hashes[first][value]).tolist():
            row, other = int(rows[at]), int(rows[first[value[at]]])
            why = f"the body is not the one that ETag {self.etag.at(row)} had in event {seen.seq[other]}"
            self._find("other-body", row, other, why)

    # Orders.

    def _find_orders(self, requests: _Requests) -> None:
        bad = self._contradicted(requests)
        judged = requests.judged
        if bad.any():
            rows = np.flatnonzero(bad[requests.object])
            rows = rows[np.argsort(requests.object[rows], kind="stable")]
            cuts = np.flatnonzero(np.diff(requests.object[rows])) + 1
            for one in np.split(rows, cuts):
                reason = self._search(requests.take(one))
                if reason:
                    self._count(reason, int(judged[one].sum()))
                    judged[one] = False
        self.sums.judged = int(judged.sum())

    def _contradicted(self, requests: _Requests) -> Mask:
        """The objects for which no simple order explains all requests."""
        bad = np.zeros(self.objects, np.bool_)
        bad[requests.object] = True
        if self.claims.starts_empty:
            bad[requests.object[requests.optional]] = True
        sure = requests.take(np.flatnonzero(~requests.optional))
        writes = sure.post != NONE
        orders: tuple[Callable[[_Requests, Mask], I64], ...] = (
            lambda one, _: one.end,
            lambda one, _: one.begin,
            lambda one, writes: np.where(writes, one.begin, one.end),
            lambda one, writes: np.where(writes, one.end, one.begin),
        )
        for order in orders:
            rows = np.flatnonzero(bad[sure.object])
            left, changing = sure.take(rows), writes[rows]
            bad = np.zeros(self.objects, np.bool_)
            bad[self._unmet(left, changing, order(left, changing))] = True
            if not bad.any():
                break
        return bad

    def _unmet(self, requests: _Requests, writes: Mask, time: I64) -> I64:
        """The objects with a need that is not met, where requests take effect in this order."""
        order = np.lexsort((time, requests.object))
        object_, need, value = requests.object[order], requests.need[order], requests.value[order]
        place = np.arange(len(order))
        starts = np.append(True, object_[1:] != object_[:-1]) if len(order) else np.zeros(0, np.bool_)
        start = np.maximum.accumulate(np.where(starts, place, 0)) if len(order) else place
        last = np.maximum.accumulate(np.where(writes[order], place, -1)) if len(order) else place
        before = np.append(-1, last[:-1]) if len(order) else place
        shown = before >= start
        initial = self._initial(object_, need, value, shown)
        state: I64 = np.where(shown, requests.post[order][before], initial)
        present = state >= 0
        met: Mask = (need == Need.NOTHING) | (state == ANY)
        met |= (need == Need.EQUAL) & (state == value)
        met |= (need == Need.GONE) & (state == GONE)
        met |= (need == Need.PRESENT) & present
        met |= (need == Need.OTHER) & present & (state != value)
        unmet: I64 = object_[~met]
        return unmet

    def _initial(self, object_: I64, need: I64, value: I64, shown: Mask) -> I64:
        """For each request the value that its object has before the first write, by its first needs."""
        if self.claims.starts_empty:
            return np.full(len(object_), GONE, np.int64)
        initial = np.full(self.objects, ANY, np.int64)
        other = len(self.etag.values)  # an ETag that no request names
        for kind, result in (
            (Need.OTHER, other),
            (Need.PRESENT, other),
            (Need.GONE, GONE),
            (Need.EQUAL, None),
        ):
            rows = np.flatnonzero(~shown & (need == kind))[::-1]
            initial[object_[rows]] = value[rows] if result is None else result
        found: I64 = initial[object_]
        return found

    def _search(self, requests: _Requests) -> str:
        """Decide one object; the reason why it was not decided, or nothing."""
        history = self._history(requests)
        try:
            blocked = history.blocked()
        except Undecided:
            blocked = self._by_processes(history)
            if blocked is None:
                self.sums.undecided += 1
                return GIVEN_UP
        if blocked is None:
            return ""
        run = int(self.seen.run[blocked.step.row])
        foreign = history.foreign()
        if foreign and not (self.claims.all_writers or self.landed[run]):
            self.sums.other_etags += len(foreign)
            return OTHER_WRITERS
        rule, why = self._sentence(history, blocked.step, blocked.state, blocked.setter)
        self._find(rule, blocked.step.row, -1 if blocked.setter is None else blocked.setter.row, why)
        return ""

    def _by_processes(self, history: Register) -> Blocked | None:
        """The first request that does not fit where each process is searched by itself."""
        domains = history.domains()
        for domain in domains if len(domains) > 1 else ():
            try:
                blocked = history.alone(domain).blocked()
            except Undecided:
                continue
            if blocked is not None:
                return blocked
        return None

    def _history(self, requests: _Requests) -> Register:
        hashes: dict[int, set[int]] = {}
        codes, seen = self.hash.codes, self.seen
        steps = []
        sent = []
        for at in range(len(requests)):
            asked, answered = int(requests.asked[at]), int(requests.answered[at])
            row = answered if answered >= 0 else asked
            own = int(codes[asked]) if asked >= 0 else self.no_hash
            got = int(codes[answered]) if answered >= 0 else self.no_hash
            etag, post = int(self.etag.codes[row]), int(requests.post[at])
            if post >= 0 and own != self.no_hash:
                hashes.setdefault(post, set()).add(own)
            if answered >= 0 and got != self.no_hash and etag != self.no_etag:
                hashes.setdefault(etag, set()).add(got)
            absent, matches = (
                asked >= 0 and seen.condition.at(asked) == name for name in ("absent", "matches")
            )
            guard = Need.GONE if absent else Need.NOTHING
            named = int(self.etag.codes[asked]) if asked >= 0 else self.no_etag
            if matches and named != self.no_etag:
                guard = Need.EQUAL
            kind = seen.kind.at(row)
            sent.append((own, kind))
            steps.append(
                Step(
                    row=row,
                    domain=int(requests.domain[at]),
                    begin=int(requests.begin[at]),
                    end=int(requests.end[at]),
                    need=Need(int(requests.need[at])),
                    value=int(requests.value[at]),
                    post=post,
                    optional=bool(requests.optional[at]),
                    repeats=bool(requests.repeats[at]),
                    guard=guard,
                    guarded=named if guard is Need.EQUAL else NONE,
                )
            )
        etags = {step.post for step in steps if step.post >= 0}
        etags |= {int(code) for code in self.etag.codes[requests.asked[requests.asked >= 0]]}
        etags |= {int(code) for code in self.etag.codes[requests.answered[requests.answered >= 0]]}
        etags.discard(self.no_etag)
        known = {
            at: GONE if kind == "delete" else self._left(own, steps[at].post, etags, hashes)
            for at, (own, kind) in enumerate(sent)
            if steps[at].optional or steps[at].repeats or steps[at].post == ANY
        }
        return Register(steps, known, starts_empty=self.claims.starts_empty)

    def _places(self, begin: I64, end: I64) -> tuple[I64, I64]:
        """The beginnings and ends, where a process has its restarts one after the other."""
        seen = self.seen
        life = np.where(self.one_order[seen.run], 0, seen.incarnation)
        if not life.any():
            return begin, end
        place = np.full(len(seen) + 1, len(seen), np.int64)
        place[np.lexsort((life, seen.run))] = np.arange(len(seen))
        return np.where(begin == NONE, begin, place[begin]), place[end]

    def _left(self, own: int, post: int, etags: set[int], hashes: Mapping[int, set[int]]) -> frozenset[int]:
        """The ETags that a write of this hash may leave; `post` is the one that its answer shows, if any."""
        if own == self.no_hash:
            return frozenset({post}) if post >= 0 else frozenset(etags)
        return frozenset(etag for etag in etags if own in hashes.get(etag, {own}))

    # Findings.

    def _sentence(self, history: Register, step: Step, state: Value, setter: Step | None) -> tuple[str, str]:
        """The rule that a request breaks, and why."""
        seen = self.seen
        kind, outcome = seen.kind.at(step.row), seen.outcome.at(step.row)
        by = "" if setter is None else f"event {seen.seq[setter.row]}"
        there = f"ETag {self._name(state)}" if isinstance(state, int) and state >= 0 else "an object"
        if state == GONE:
            now = f"{by} had deleted it" if setter is not None and setter.post == GONE else "there was none"
            now = f"{by} had found none" if by and setter is not None and setter.post != GONE else now
        elif setter is not None and setter.post != NONE:
            now = f"{by} had written {there}"
        else:
            now = f"{by} had found {there}" if by else f"it had {there}"
        if kind in READS and outcome == "done":
            wanted = f"ETag {self._name(step.value)}"
            if step.value not in history.written():
                return (
                    "never-written",
                    f"the read found {wanted}, which nothing in the trace wrote, after {now}",
                )
            if state == GONE:
                return "read-of-deleted", f"the read found {wanted} after {now}, and nothing wrote it since"
            return "stale-read", f"the read found {wanted} after {now}, and nothing wrote {wanted} since"
        if kind in READS and outcome == "missing":
            return "lost-write", f"the read found no object after {now}, and nothing deleted it since"
        if kind in WRITES and step.need is Need.GONE and outcome == "done":
            return "created-over", f"the create was answered done after {now}, and nothing deleted it since"
        condition = {
            Need.EQUAL: f" if it matches {self._name(step.value)}",
            Need.OTHER: f" on ETag {self._name(step.value)}",
        }
        asked = f"the {kind}{condition.get(step.need, '')} was answered {outcome}"
        return "wrong-condition", f"{asked} after {now}, and nothing changed that since"

    def _name(self, etag: int) -> str:
        if not 0 <= etag < len(self.etag.values):
            return "that the trace does not show"
        return str(self.etag.values.texts(np.array([etag]))[0])

    def _find(self, rule: str, row: int, other: int, reason: str) -> None:
        """Keep the first finding of each object."""
        object_ = int(self.object[row])
        seen = self.seen
        found = {
            "run": seen.runs.texts(seen.run[row : row + 1])[0],
            "seq": int(seen.seq[row]),
            "event": _event(seen, row),
            "reason": reason,
            "rule": rule,
            "key": seen.key.at(row),
            "other_seq": int(seen.seq[other]) if other >= 0 else -1,
            "other": _event(seen, other) if other >= 0 else "",
        }
        known = self._found.get(object_)
        if known is None or found["seq"] < known["seq"]:
            self._found[object_] = found
