"""Which runs of a table break the request rules of a map; see `request_rules`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fencepost.properties.refinement.request_rules import Confirmed, Freed, RequestRules, Staged
from fencepost.properties.refinement.rules import Events, KeyKinds
from fencepost.properties.refinement.symbols import operations
from fencepost.properties.refinement.text import I64, NONE, Mask, firsts

WRITES = ("put", "complete-upload")
READS = ("get", "head")
NO_EFFECT = ("exists", "changed", "missing", "gone", "conflict", "throttled", "refused")
"""Outcomes of writes and deletes that changed nothing. Any other than these and `done` leaves it open."""
FOUND, NOT_FOUND = ("done", "unchanged", "past-end", "exists", "changed"), ("missing",)
"""Outcomes by which a request shows that an object was there, or was not."""


@dataclass(frozen=True)
class Breach:
    """The first request of a run that breaks a rule."""

    row: int
    reason: str
    certain: bool = True
    """Otherwise the run records too little to decide."""


def breaches(rules: RequestRules, kinds: list[str], events: Events, keys: KeyKinds) -> dict[int, Breach]:
    """By run, the first breach. The names of the kinds of `keys` are `kinds`, by place."""
    found: dict[int, Breach] = {}
    judge = _RequestJudge(rules, {name: place for place, name in enumerate(kinds)}, events, keys)
    for rows, reason, certain in judge.checks():
        for row in rows.tolist():
            run = int(events.run[row])
            if run not in found or (not certain, row) < (not found[run].certain, found[run].row):
                found[run] = Breach(row, reason(row), certain)
    return found


Check = tuple[I64, Callable[[int], str], bool]


class _RequestJudge:
    """One table. An array of requests has one item a request (or landing) of a kind that the rules know:
    from `begin` to `end` are the rows between which it took effect.
    """

    def __init__(
        self, rules: RequestRules, places: Mapping[str, int], events: Events, keys: KeyKinds
    ) -> None:
        self.rules, self.places, self.events, self.keys = rules, places, events, keys
        self.span = len(events) + 1
        self.begin, self.end, outcome = self._requests()
        begin = self.begin
        self.place = keys.places[events.key.codes[begin]]
        self.run = events.run[begin]
        self.life, _ = events.numbered(self.run, events.process.codes[begin], events.incarnation[begin])
        kind = events.kind.take(begin)
        self.writes, self.reads = kind.is_in(WRITES), kind.is_in(READS)
        self.deletes = kind.is_in(("delete",))
        self.done = self._is(outcome, ("done",))
        self.effect = (self.writes | self.deletes) & ~self._is(outcome, NO_EFFECT)
        self.refused = self._is(outcome, ("refused",))
        self._sent = np.flatnonzero(events.phase.is_in(("request", "landed")) & events.kind.is_in(WRITES))
        if self.refused.any():
            self._sent = np.setdiff1d(self._sent, begin[self.refused])
        self._sent_place = keys.places[events.key.codes[self._sent]]
        self.found, self.missing = self._is(outcome, FOUND), self._is(outcome, NOT_FOUND)

    def _requests(self) -> tuple[I64, I64, I64]:
        """The first and last row of each request, and the number of its outcome, NONE if it is unknown."""
        events = self.events
        landed = events.phase.codes == events.phase.number("landed")
        exact = np.zeros(len(events.runs), np.bool_)
        exact[events.run[landed]] = True
        known = (self.keys.places != NONE)[events.key.codes]
        known &= events.kind.is_in((*WRITES, *READS, "delete"))
        self.exact = exact
        landings = np.flatnonzero(landed & known)
        rest = known & ~exact[events.run]
        issued = np.flatnonzero(rest & (events.phase.codes == events.phase.number("request")))
        ends = np.flatnonzero(rest & (events.phase.codes == events.phase.number("response")))
        op, count = operations(events, np.concatenate([issued, ends]))
        last = np.full(count, NONE, np.int64)
        last[op[len(issued) :]] = ends
        end = last[op[: len(issued)]]
        outcome = np.where(end == NONE, NONE, events.outcome.codes[end])
        outcome[self._is(outcome, ("", "unknown"))] = NONE
        end[outcome == NONE] = len(events)
        return (
            np.concatenate([landings, issued]),
            np.concatenate([landings, end]),
            np.concatenate([events.outcome.codes[landings], outcome]),
        )

    def _is(self, outcome: I64, names: tuple[str, ...]) -> Mask:
        found: Mask = np.append(self.events.outcome.values.is_in(names), False)[outcome]
        return found

    def _of(self, kind: str) -> Mask:
        found: Mask = self.place == self.places[kind]
        return found

    def checks(self) -> Iterator[Check]:
        """The rows that break a rule, what to say about one of them, and whether that is certain."""
        rules = self.rules
        for kind, allowed in rules.conditions.items():
            yield self._condition(kind, allowed)
        yield from map(self._kept, rules.kept)
        if rules.staged is not None:
            yield self._staged(rules.staged)
        if rules.freed is not None:
            yield from self._freed(rules.freed)
        if rules.confirmed is not None:
            yield self._confirmed(rules.confirmed)
        for written, read in rules.read_first:
            yield self._read_first(written, read)
        yield from map(self._seen_first, rules.seen_first)
        yield from self._existence()

    # Single requests.

    def _condition(self, kind: str, allowed: tuple[str, ...]) -> Check:
        """All requests count, also those that were lost: what is judged is the process that sent them."""
        events = self.events
        rows = self._sent[self._sent_place == self.places[kind]]
        rows = rows[~events.condition.take(rows).is_in((*allowed, ""))]

        def reason(row: int) -> str:
            condition = events.condition.at(row)
            return f"a {kind} is written with condition {condition}, not {' or '.join(allowed)}"

        return rows, reason, True

    def _kept(self, kind: str) -> Check:
        rows = self.begin[self._of(kind) & self.deletes & ~self.refused]
        return rows, lambda _: f"a {kind} is never deleted", True

    # Rules about one request and others.

    def _before(self, items: Mask, group: I64, key: I64, value: I64, asks: Mask, ask: I64) -> I64:
        """For each of `asks` the largest value among items of its group with a key below its own, or NONE."""
        place = np.flatnonzero(items)
        lifted = group[place] * self.span
        order = np.argsort(lifted + key[place], kind="stable")
        best = np.maximum.accumulate((lifted + value[place])[order])
        wanted = group[asks] * self.span
        at = np.searchsorted((lifted + key[place])[order], wanted + ask[asks], side="left") - 1
        if not len(best):
            return np.full(len(wanted), NONE, np.int64)
        highest = np.where(at >= 0, best[at], NONE)
        found: I64 = np.where(highest >= wanted, highest - wanted, NONE)
        return found

    def _read_first(self, written: str, read: str) -> Check:
        asks = self._of(written) & self.writes
        reads = self._of(read) & self.reads & self.found
        last = self._before(reads, self.life, self.end, self.end, asks, self.begin)
        return self.begin[asks][last == NONE], lambda _: f"its process has not read a {read} before", True

    def _seen_first(self, kind: str) -> Check:
        """Requests count from when they were sent: an answer is not needed to know a key."""
        events = self.events
        deletes = self.begin[self._of(kind) & self.deletes & ~self.refused]
        place = self.keys.places[events.key.codes]
        mine = (place == self.places[kind]) & (events.phase.codes != events.phase.number("note"))
        object_, count = events.numbered(events.run, events.key.codes)
        looked, pairs = events.numbered(object_, events.process.codes, events.incarnation)
        written = self._first(mine & events.kind.is_in(WRITES), object_, count)
        seen = self._first(mine & events.kind.is_in((*WRITES, *READS)), looked, pairs)
        unseen = (written[object_[deletes]] < deletes) & (seen[looked[deletes]] > deletes)
        text = f"its process deletes a {kind} that it neither wrote nor read before"
        return deletes[unseen], lambda _: text, True

    def _first(self, rows: Mask, group: I64, count: int) -> I64:
        """The first of some rows in each group, or a row behind all."""
        found = np.full(count, self.span, np.int64)
        np.minimum.at(found, group[rows], np.flatnonzero(rows))
        return found

    def _confirmed(self, rule: Confirmed) -> Check:
        events = self.events
        note = events.phase.codes == events.phase.number("note")
        noted = np.flatnonzero(note & events.outcome.is_in((rule.noted,)))
        rows, ends = np.append(self.begin, noted), np.append(self.end, noted)
        life, _ = events.numbered(events.run[rows], events.process.codes[rows], events.incarnation[rows])
        none = np.zeros(len(noted), np.bool_)
        asks = np.append(self._of(rule.concluded) & self.deletes, none | True)
        written = np.append(self._of(rule.written) & self.writes & self.done, none)
        reads = np.append(self._of(rule.read) & self.reads & (self.found | self.missing), none)
        documents = (self.writes & self.effect) | (self.reads & self.found)
        documents = np.append(self._of(rule.concluded) & documents, none)
        owner = self._owners(rule.owner, rows, asks | written | documents)
        asks &= owner != NONE
        both, _ = events.numbered(life, owner)
        created = self._before(written, both, ends, ends, asks, rows)
        read = self._before(reads, life, ends, rows, asks, rows)
        broken = (created != NONE) & (read <= created)
        text = f"its process created the {rule.written}, and has not read the {rule.read} since"
        if rule.guarded:
            text += f", nor between the {rule.concluded} and that"
            sent, looked = np.full((2, len(rows)), NONE, np.int64)
            sent[asks] = self._before(written, both, ends, rows, asks, rows)
            looked[asks] = self._before(reads, life, ends, rows, asks, sent)
            # A document whose write got no answer may have been there since it was sent.
            there = np.where(ends == len(events), rows, ends)
            broken &= self._before(documents, both, there, there, asks, looked) == NONE
        return rows[asks][broken], lambda _: text, True

    # Data objects.

    def _owners(self, name: str, rows: I64, where: Mask) -> I64:
        """For some of the rows the number of a value, a group of the key or a trace field; else NONE."""
        events = self.events
        groups = self.keys.groups.get(name, [])
        used = events.trace_fields.used(rows[where])
        fields_ = events.trace_fields.values.take(used).trace_field(name)
        numbers, _ = events.key.values.merged([*(values for _, values in groups), fields_])
        by_key = np.full(len(events.key.values), NONE, np.int64)
        start = 0
        for places, values in groups:
            by_key[places] = numbers[start : start + len(values)]
            start += len(values)
        by_field = np.full(len(events.trace_fields.values), NONE, np.int64)
        by_field[used] = numbers[start:]
        found = by_key[events.key.codes[rows]]
        found = np.where(found == NONE, by_field[events.trace_fields.codes[rows]], found)
        return np.where(where, found, NONE)

    def _numbers(self, name: str, rows: I64) -> I64:
        """The numbers in a trace field, 0 where there is none."""
        values, places = self._trace_field(name, rows)
        number, decimal = values.decimals()
        return np.where(places == NONE, 0, np.append(np.where(decimal, number, 0), 0)[places])

    def _has(self, name: str, value: str, rows: I64) -> Mask:
        """Return where a trace field has a value."""
        values, places = self._trace_field(name, rows)
        found: Mask = np.append(values.is_in((value,)), False)[places]
        return found

    def _trace_field(self, name: str, rows: I64) -> tuple[Any, I64]:
        """The distinct values of a trace field, and for each row the place of its own, or NONE."""
        fields_ = self.events.trace_fields
        used = fields_.used(rows)
        numbers, values = fields_.values.merged([fields_.values.take(used).trace_field(name)])
        places = np.full(len(fields_.values), NONE, np.int64)
        places[used] = numbers
        return values, places[fields_.codes[rows]]

    def _staged(self, rule: Staged) -> Check:
        events, begin = self.events, self.begin
        document = self._of(rule.document) & self.effect & self.writes
        data = self._of(rule.data) & ((self.effect & self.writes) | self.found)
        then = self._of(rule.then) & self.writes
        owner = self._owners(rule.owner, begin, document | data | then)
        document, data, then = (mask & (owner != NONE) for mask in (document, data, then))
        group, count = events.numbered(self.run, owner)
        wanted = np.zeros(count, np.int64)
        life = np.full(count, NONE, np.int64)
        rows = np.flatnonzero(document)
        np.maximum.at(wanted, group[rows], self._numbers(rule.count, begin[rows]))
        life[group[rows]] = self.life[rows]
        stored = np.flatnonzero(data)
        stored = stored[np.argsort(begin[stored], kind="stable")]
        same, keys = events.numbered(self.run[stored], events.key.codes[begin[stored]])
        stored = stored[firsts(same, keys)]
        lifted = np.sort(group[stored] * self.span + begin[stored])
        rows = np.flatnonzero(then & (wanted[group] > 0) & (life[group] == self.life))
        rows = rows[~self._has(rule.unless, "yes", begin[rows])]
        base = group[rows] * self.span
        have = np.searchsorted(lifted, base + begin[rows]) - np.searchsorted(lifted, base)
        rows = rows[have < wanted[group[rows]]]

        def reason(_: int) -> str:
            return f"not every {rule.data} that its {rule.document} counts was stored before"

        return begin[rows], reason, True

    def _freed(self, rule: Freed) -> Iterator[Check]:
        events, begin = self.events, self.begin
        deletes = self._of(rule.data) & self.deletes & ~self.refused
        if not deletes.any():
            return
        by = self._of(rule.by) & self.writes & self.effect
        by[by] = self._has(rule.name, rule.value, begin[by])
        object_, _ = events.numbered(self.run, events.key.codes[begin])
        freed = self._before(by, self.run, begin, begin, deletes, self.end)
        written = self._before(self.writes & self.effect, object_, begin, begin, deletes, begin)
        text = f"a {rule.data} is deleted, and no {rule.by} of {rule.name} {rule.value} came before"
        rows = begin[deletes]
        yield rows[(written != NONE) & (freed == NONE)], lambda _: text, True
        older = f"{text}; it is older than the run, which may have begun after that"
        yield rows[(written == NONE) & (freed == NONE)], lambda _: older, False

    # Objects that exist.

    def _existence(self) -> Iterator[Check]:
        events, begin = self.events, self.begin
        exact = self.exact[self.run]
        object_, _ = events.numbered(self.run, events.key.codes[begin])
        order, _ = events.numbered(object_, np.where(exact, 0, 1 + events.process.codes[begin]))
        puts = events.kind.take(begin).is_in(("put",))
        absent = events.condition.take(begin).is_in(("absent",)) & puts & self.done
        here = (self.reads & self.found) | ((self.writes | self.deletes) & self.found & ~self.done)
        gone = ((self.reads | puts | self.deletes) & self.missing) | absent
        removed = self.deletes & self.effect
        written = self.writes & self.effect
        yield self._impossible(
            gone,
            here | (self.writes & self.done),
            removed,
            object_,
            order,
            "was there before, and nothing deleted it",
        )
        if self.rules.deletes_all:
            missed = (gone & ~absent) | (self.deletes & self.done)
            yield self._impossible(
                here, missed, written, object_, order, "was missing before, and nothing wrote it"
            )

    def _impossible(
        self, asks: Mask, evidence: Mask, changes: Mask, object_: I64, order: I64, text: str
    ) -> Check:
        """Rows that contradict earlier evidence, with no change in between that could explain it."""
        since = self._before(evidence, order, self.end, self.begin, asks, self.begin)
        change = self._before(changes, order, self.begin, self.end, asks, self.end)
        by_object = np.bincount(object_[changes], minlength=int(object_.max(initial=-1)) + 1)
        by_order = np.bincount(order[changes], minlength=int(order.max(initial=-1)) + 1)
        elsewhere = by_object[object_[asks]] > by_order[order[asks]]
        rows = self.begin[asks][(since != NONE) & (change <= since) & ~elsewhere]

        def reason(row: int) -> str:
            return f"{self.events.key.at(row)} {text}"

        return rows, reason, True
