"""A refinement map's rules for reading events, compiled to columns: event -> observation.

    values   distinct keys through the patterns, distinct trace fields by name; all texts that are values
    share
             one numbering, so that equal texts have equal numbers
    ranks    for each role, the values of all events stand in one row, in the order in which events name
             them; each pair of run and text is numbered by first appearance, and its rank is the number of
             pairs of its run before it
    results  for each comparison, the value of each event against what an earlier write showed (`comparing`)
    codes    everything an observation holds, mixed into one number; only distinct ones become objects

`read_events` does this for all runs of a table at once. A single event is read the same way: `Reader` (in
`follow`) evaluates it together with the few events that introduced the names its run knows so far.

A group of a pattern or a trace field that is present but empty counts as absent.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from fencepost.properties.refinement.comparing import (
    Compared,
    Shown,
    after_delete,
    after_write,
    compare,
    results,
)
from fencepost.properties.refinement.observation import COUNTED, SEEN, Observation, Role
from fencepost.properties.refinement.refinement import Refinement
from fencepost.properties.refinement.text import I64, NONE, Mask, Text, Values, firsts, modulo64, python_text

PROCESS, LIFE = "process", "life"
"""Values that every event has: its process, and the process with its restarts distinguished."""
NOBODY = np.iinfo(np.int64).max
RESULTS = ("same", "next", "more", "less", "other")
"""The results of comparisons, by number."""
_WHAT, _KIND = "", " "
"""The places of the two kinds among the values of an event; no value has such a name."""

EventRow = tuple[str, str, str, str, str, str]
"""Phase, kind, key, condition, outcome, trace fields: the columns of an event without its process."""


@dataclass(frozen=True)
class Events:
    """Columns of events; those of a run lie together and in order."""

    run: I64
    seq: I64
    incarnation: I64
    op: I64
    process: Text
    phase: Text
    kind: Text
    key: Text
    condition: Text
    outcome: Text
    trace_fields: Text
    runs: Any
    """The names of the runs (`Values`); `run` holds places in it, rising along the table."""
    etag: Text | None = None
    """Of a request the ETag that its condition names, of a response the one that the store gave; None where
    the trace has no such column."""

    def __len__(self) -> int:
        return len(self.run)

    def take(self, rows: I64) -> "Events":
        columns = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "runs"}
        taken: dict[str, Any] = {
            name: c.take(rows) if isinstance(c, Text) else c[rows]
            for name, c in columns.items()
            if c is not None
        }
        return Events(**taken, runs=self.runs)

    def numbered(self, *columns: I64) -> tuple[I64, int]:
        """A number for each distinct row of some columns, by first appearance."""
        found: tuple[I64, int] = self.process.values.numbered(*columns)
        return found


def events_of_rows(rows: Sequence[tuple[EventRow, str, int]], op: Sequence[int] | None = None) -> Events:
    """The events of one run, each with its process and incarnation, and the numbers of their operations."""
    zeros = np.zeros(len(rows), np.int64)
    texts = [python_text([row[number] for row, _, _ in rows]) for number in range(6)]
    phase, kind, key, condition, outcome, trace_fields = texts
    return Events(
        zeros,
        np.arange(len(rows)),
        np.array([incarnation for *_, incarnation in rows], np.int64),
        zeros if op is None else np.array(op, np.int64),
        python_text([process for _, process, _ in rows]),
        phase,
        kind,
        key,
        condition,
        outcome,
        trace_fields,
        Values([""]),
    )


@dataclass(frozen=True)
class Observations:
    """For each event that matters to the map: its row, and the number of its observation."""

    rows: I64
    codes: I64
    distinct: list[Observation]


@dataclass(frozen=True)
class _Value:
    """One entry of a role's `of`."""

    source: str
    scope: str
    lookup: bool
    name: str
    """Its name in observations, which includes the role if the value is only looked up."""


@dataclass(frozen=True)
class Rank:
    """One value's ranks: what observations call it, the rank in each row, and which rows name it."""

    role: Role
    name: str
    rank: I64
    there: Mask


@dataclass(frozen=True)
class ReadEvents:
    """The events that matter to the map, before they become observations."""

    rows: I64
    """Their rows among the events given."""
    events: Events
    what: I64
    """The kind of keys or notes, a place in `Rules.whats`."""
    ranks: tuple[Rank, ...]
    own: Mask
    plain: tuple[I64, ...]
    """For each trace field that plays no role, the number of its text."""
    texts: "_Texts"
    compared: tuple[I64, ...] = ()
    """For each comparison the number of its result in `RESULTS`, or NONE."""

    def take(self, rows: I64) -> "ReadEvents":
        return ReadEvents(
            self.rows[rows],
            self.events.take(rows),
            self.what[rows],
            tuple(replace(one, rank=one.rank[rows], there=one.there[rows]) for one in self.ranks),
            self.own[rows],
            tuple(column[rows] for column in self.plain),
            self.texts,
            tuple(column[rows] for column in self.compared),
        )


@dataclass(frozen=True)
class Linked:
    """The ETags that tie conditional writes together, by number; NONE where there is none."""

    named: I64
    """The one that the condition of a request names."""
    made: I64
    """The one that its response shows."""
    issued: I64
    """The row of the request."""
    ended: I64
    """The row of its response; the end of the table where there is none."""

    def take(self, rows: I64) -> "Linked":
        return Linked(self.named[rows], self.made[rows], self.issued[rows], self.ended[rows])


@dataclass(frozen=True)
class KeyKinds:
    """By distinct key the place of its kind, or NONE; by name of a group, the keys and what it matched."""

    places: I64
    groups: dict[str, list[tuple[I64, Any]]]


class Rules:
    """The rules of one refinement map, compiled."""

    def __init__(self, refinement: Refinement) -> None:
        self.refinement = refinement
        self._roles = [(role, _values(role)) for role in refinement.roles]
        self._topics = sorted(refinement.notes)
        rules = refinement.request_rules
        self._keys = (*refinement.keys, *(rules.keys if rules else ()))
        self.kinds = [keys.name for keys in self._keys]
        """The kinds of keys, by their places in `KeyKinds`."""
        self.whats = [keys.name for keys in refinement.keys] + self._topics
        """The kinds of keys and notes, by the numbers in `ReadEvents.what`."""
        named = [
            name for _, values in self._roles for value in values for name in (value.source, value.scope)
        ]
        self.compared = refinement.compared
        named += [name for one in self.compared for name in (one.value, one.shown, *one.of)]
        wanted = dict.fromkeys([*named, refinement.owned, *refinement.trace_fields])
        self._names = [name for name in wanted if name and name not in (PROCESS, LIFE)]

    def read_events(
        self,
        events: Events,
        kinds: KeyKinds | None = None,
        *,
        landed: Mask | None = None,
        linked: Linked | None = None,
    ) -> ReadEvents:
        """`kinds` are those of the keys, if known. Only the rows in `landed` (without it all) are where
        requests landed, so that their values can be compared with earlier ones; those of the others with what
        `linked` shows to be the write before.
        """
        what, groups = self._matched(events, kinds)
        rows = np.flatnonzero(what != NONE)
        events = events.take(rows)
        texts = _Texts(events, groups, self._names)
        ranks = [
            one
            for role, values in self._roles
            for one in (_counted if role.order is COUNTED else _seen)(role, values, events, texts)
        ]
        plain = tuple(texts.of(name) for name in self.refinement.trace_fields)
        own = self._own(events, texts)
        read = ReadEvents(rows, events, what[rows], tuple(ranks), own, plain, texts)
        if not self.compared:
            return read
        taken = None if linked is None else linked.take(rows)
        return self._compared(read, None if landed is None else landed[rows], taken)

    def _compared(self, read: ReadEvents, landed: Mask | None, linked: Linked | None) -> ReadEvents:
        """The events with the results of the comparisons, each run by itself."""
        found = [np.full(len(read.rows), NONE, np.int64) for _ in self.compared]
        wanted = self.comparable(read)
        if landed is not None:
            wanted = wanted & landed
        places = np.flatnonzero(wanted)
        shown: Shown = {}
        run = NONE
        for row, of, values in zip(
            places.tolist(), read.events.run[places].tolist(), self.values(read, places), strict=True
        ):
            shown, run = (shown if of == run else {}), of
            for column, result in zip(found, results(self.compared, shown, values), strict=True):
                column[row] = RESULTS.index(result) if result else NONE
            shown = self.shown_after(shown, values)
        if landed is not None and linked is not None:
            self._compare_linked(read, np.flatnonzero(self.comparable(read) & ~landed), linked, found)
        return replace(read, compared=tuple(found))

    def _compare_linked(self, read: ReadEvents, places: I64, linked: Linked, found: list[I64]) -> None:
        """Compare each conditional write with the write of the same key whose ETag it names.

        The condition held, or the write did not land: so that one was the last before it, whatever the order
        of the events. Of documents of other kinds only the largest value of all writes is known that may have
        come before, so a result of `more` or `next` is certain, and any other may be too small.
        """
        values = self.values(read, places)
        objects = list(
            zip(read.events.run[places].tolist(), read.events.key.codes[places].tolist(), strict=True)
        )
        writes: dict[tuple[int, int, int], dict[str, str | None] | None] = {}
        for place, one, etag in zip(objects, values, linked.made[places].tolist(), strict=True):
            if etag != NONE:
                writes[*place, etag] = None if (*place, etag) in writes else one  # ambiguous: not known
        for row, place, one, etag in zip(
            places.tolist(), objects, values, linked.named[places].tolist(), strict=True
        ):
            before = writes.get((*place, etag))
            if before is None:
                continue
            shown = after_write(self.compared, {}, before[_WHAT] or "", before)
            for column, each, result in zip(
                found, self.compared, results(self.compared, shown, one), strict=True
            ):
                if result and each.shown_by == one[_WHAT] and not each.largest:
                    column[row] = RESULTS.index(result)
        for column, each in zip(found, self.compared, strict=True):
            if each.largest:
                self._compare_largest(read, places, each, values, linked, column)

    def _compare_largest(
        self,
        read: ReadEvents,
        places: I64,
        each: Compared,
        values: list[dict[str, str | None]],
        linked: Linked,
        column: I64,
    ) -> None:
        """Compare with the largest number of all writes of the run that may have landed before."""
        runs = read.events.run[places].tolist()
        shown = [
            (run, issued, int(text))
            for run, issued, one in zip(runs, linked.issued[places].tolist(), values, strict=True)
            if one[_WHAT] == each.shown_by and (text := one[each.shown] or "").isdecimal()
        ]
        for row, run, ended, one in zip(
            places.tolist(), runs, linked.ended[places].tolist(), values, strict=True
        ):
            now = one[each.value]
            before = max((number for of, at, number in shown if of == run and at < ended), default=None)
            if now is not None and before is not None:
                column[row] = RESULTS.index(compare(str(before), now))

    def comparable(self, read: ReadEvents) -> Mask:
        """The rows that show, delete or compare a value: requests that were successful."""
        events = read.events
        note = events.phase.codes == events.phase.number("note")
        found: Mask = ~note & (events.outcome.codes == events.outcome.number("done"))
        return found

    def values(self, read: ReadEvents, places: I64) -> list[dict[str, str | None]]:
        """For some rows the values that comparisons read, with the kinds of the key and of the request."""
        named = (name for one in self.compared for name in (one.value, one.shown, *one.of))
        names = list(dict.fromkeys(named))
        columns = [read.texts.shown(read.texts.of(name)[places]) for name in names]
        kinds = read.events.take(places).kind.texts()
        whats = [self.whats[what] for what in read.what[places].tolist()]
        return [
            {_WHAT: what, _KIND: kind, **dict(zip(names, row, strict=True))}
            for what, kind, *row in zip(whats, kinds, *columns, strict=True)
        ]

    def shown_after(self, shown: Shown, values: Mapping[str, str | None]) -> Shown:
        """The values to compare with after a successful write or deletion."""
        after = after_delete if values[_KIND] == "delete" else after_write
        return after(self.compared, shown, values[_WHAT] or "", values)

    def observations(self, read: ReadEvents) -> Observations:
        """The observations, event by event."""
        out, names = _out_of_bounds(read)
        lost = out != NONE
        plain = [np.where(lost, NONE, column) for column in read.plain]
        compared = [np.where(lost, NONE, column) for column in read.compared]
        ranks = [replace(one, there=one.there & ~lost) for one in read.ranks]
        codes, count = read.events.numbered(*self._distinguishing(read, [*plain, *compared], ranks), out)
        first = firsts(codes, count)
        shown = read.take(first)
        columns = [getattr(shown.events, name).texts() for name in _PLAIN]
        own, outside = shown.own.tolist(), out[first].tolist()
        ranked = [(one.name, one.rank[first].tolist(), one.there[first].tolist()) for one in ranks]
        fields_ = [
            (name, read.texts.shown(column[first]))
            for name, column in zip(self.refinement.trace_fields, plain, strict=True)
        ]
        fields_ += [
            (one.name, [None if code == NONE else RESULTS[code] for code in column[first].tolist()])
            for one, column in zip(self.compared, compared, strict=False)
        ]
        distinct = []
        for row, what in enumerate(shown.what.tolist()):
            phase, kind, condition, outcome = (column[row] for column in columns)
            distinct.append(
                Observation(
                    phase,
                    kind,
                    self.whats[what],
                    condition,
                    outcome,
                    tuple((name, rank[row]) for name, rank, there in ranked if there[row]),
                    tuple((name, text) for name, texts in fields_ if (text := texts[row]) is not None),
                    own[row],
                    names[outside[row]] if outside[row] != NONE else "",
                )
            )
        return Observations(read.rows, codes, distinct)

    def alike(self, read: ReadEvents) -> I64:
        """A number for each event, equal where within a run everything that an observation holds is equal."""
        plain = [*read.plain, *read.compared]
        return read.events.numbered(*self._distinguishing(read, plain, list(read.ranks)))[0]

    def names(self, read: ReadEvents) -> Hashable:
        """The names that the events of one run introduced. Runs with equal names read every event alike."""
        known: dict[tuple[int, str], dict[Hashable, None]] = {}
        for number, (role, values) in enumerate(self._roles):
            columns = [
                (_shown(read, value.source), _shown(read, value.scope))
                for value in values
                if not value.lookup
            ]
            for row in range(len(read.rows)):
                for texts, scopes in columns:
                    text = texts[row]
                    if text is not None:
                        place = known.setdefault((number, scopes[row] or ""), {})
                        if role.order is SEEN:
                            place.setdefault(text)
                        elif text.isascii() and text.isdecimal() and not place:
                            place[modulo64(text)] = None
        owners: dict[str, tuple[str, int]] = {}
        if self.refinement.owned:
            processes, lives = read.events.process.texts(), read.events.incarnation.tolist()
            for row, text in enumerate(_shown(read, self.refinement.owned)):
                if text is not None:
                    owners.setdefault(text, (str(processes[row]), lives[row]))
        return (
            tuple((place, tuple(names)) for place, names in sorted(known.items()) if names),
            tuple(owners.items()),
        )

    def matters(self, events: Events, kinds: KeyKinds) -> Mask:
        """Which events matter to the map: those of its kinds whose key matches a pattern, and its notes."""
        found: Mask = self._matched(events, kinds)[0] != NONE
        return found

    def _distinguishing(self, read: ReadEvents, plain: list[I64], ranks: list[Rank]) -> list[I64]:
        """The columns in which two observations may differ."""
        columns = [
            read.what,
            *(getattr(read.events, name).codes for name in _PLAIN),
            read.own.astype(np.int64),
        ]
        columns += [_small(read.events, column) for column in plain]
        return columns + [
            _small(read.events, np.where(one.there, one.rank - one.rank.min(initial=0), NONE))
            for one in ranks
        ]

    def key_kinds(self, key: Text) -> KeyKinds:
        """The kinds of all keys of a column."""
        places = np.full(len(key.values), NONE, np.int64)
        groups: dict[str, list[tuple[I64, Any]]] = {}
        left = np.arange(len(key.values))
        for number, keys in enumerate(self._keys):
            matched, caught = key.values.take(left).extract(keys.pattern)
            hit = np.flatnonzero(matched)
            places[left[hit]] = number
            for name, values in caught.items():
                groups.setdefault(name, []).append((left[hit], values.take(hit)))
            left = left[~matched]
        return KeyKinds(places, groups)

    def _matched(
        self, events: Events, kinds: KeyKinds | None
    ) -> tuple[I64, dict[str, list[tuple[I64, Any]]]]:
        """The place in `whats` of each row, and what the groups of patterns matched, by distinct key."""
        note = events.phase.codes == events.phase.number("note")
        what = np.full(len(events), NONE, np.int64)
        requests = np.flatnonzero(~note & events.kind.is_in(sorted(self.refinement.kinds)))
        found = kinds or self.key_kinds(events.key)
        modelled = np.where(found.places < len(self.refinement.keys), found.places, NONE)
        what[requests] = modelled[events.key.codes[requests]]
        if self._topics and note.any():
            words = Text(np.arange(len(events.key.values)), events.key.values.first_words())
            topics = np.full(len(events.key.values), NONE, np.int64)
            for number, topic in enumerate(self._topics, len(self.refinement.keys)):
                topics[words.is_in([topic])] = number
            what[note] = topics[events.key.codes[note]]
        return what, found.groups

    def _own(self, events: Events, texts: "_Texts") -> Mask:
        own = np.zeros(len(events), np.bool_)
        if self.refinement.owned:
            owned = texts.of(self.refinement.owned)
            rows = np.flatnonzero(owned != NONE)
            me, _ = events.numbered(events.process.codes[rows], events.incarnation[rows])
            what, count = events.numbered(events.run[rows], owned[rows])
            own[rows] = me[firsts(what, count)][what] == me
        return own


def _shown(read: ReadEvents, name: str) -> list[str | None]:
    """The text of a value in each row."""
    if name == LIFE:
        lives = zip(read.events.process.texts(), read.events.incarnation.tolist(), strict=True)
        return [f"{process}/{incarnation}" for process, incarnation in lives]
    return read.texts.shown(read.texts.of(name))


_PLAIN = ("phase", "kind", "condition", "outcome")


def _values(role: Role) -> list[_Value]:
    found = []
    for entry in role.of:
        source, _, scope = entry.partition("@")
        lookup, source = source.endswith("?"), source.rstrip("?")
        found.append(_Value(source, scope, lookup, f"{source} in {role.name}" if lookup else source))
    return found


def _small(events: Events, column: I64) -> I64:
    """The column with its numbers made dense when they are large, so that more columns fit one number."""
    return events.numbered(column)[0] if len(column) and column.max() > 1 << 8 else column


def _out_of_bounds(read: ReadEvents) -> tuple[I64, list[str]]:
    """For each event the number of its first value beyond the model's bounds, or NONE; and their names."""
    out, names = np.full(len(read.rows), NONE, np.int64), list[str]()
    for one in read.ranks:
        beyond = one.there & (one.rank < one.role.least)
        if one.role.most is not None:
            beyond |= one.there & (one.rank > one.role.most)
        out[beyond & (out == NONE)] = len(names)
        names.append(one.name)
    return out, names


class _Texts:
    """The values that events name, as numbers of their texts: one numbering for all."""

    def __init__(self, events: Events, groups: dict[str, list[tuple[I64, Any]]], names: list[str]) -> None:
        self._events = events
        used = events.trace_fields.used(np.arange(len(events)))
        trace_fields = events.trace_fields.values.take(used)
        pieces: list[Any] = [events.process.values]
        homes: list[tuple[str, str, I64]] = [(PROCESS, PROCESS, np.arange(len(events.process.values)))]
        for name in names:
            for keys, values in groups.get(name, ()):
                pieces.append(values)
                homes.append((name, "key", keys))
            pieces.append(trace_fields.trace_field(name))
            homes.append((name, "trace_fields", used))
        numbers, self._distinct = events.process.values.merged(pieces)
        self._by_source: dict[tuple[str, str], I64] = {}
        sizes = {
            "key": len(events.key.values),
            "trace_fields": len(events.trace_fields.values),
            PROCESS: len(pieces[0]),
        }
        start = 0
        for (name, source, home), piece in zip(homes, pieces, strict=True):
            column = self._by_source.setdefault((name, source), np.full(sizes[source], NONE, np.int64))
            column[home] = numbers[start : start + len(piece)]
            start += len(piece)
        self._columns: dict[str, I64] = {}

    def of(self, name: str) -> I64:
        """The number of a value's text in each row; NONE in rows that do not name it."""
        if name not in self._columns:
            self._columns[name] = self._column(name)
        return self._columns[name]

    def _column(self, name: str) -> I64:
        events = self._events
        if name == PROCESS:
            return self._by_source[PROCESS, PROCESS][events.process.codes]
        if name == LIFE:
            # Only compared with other lives, so that a number for each will do.
            return events.numbered(events.process.codes, events.incarnation)[0]
        if not name:
            return np.full(len(events), NONE, np.int64)
        trace_fields = self._by_source[name, "trace_fields"][events.trace_fields.codes]
        if (name, "key") not in self._by_source:
            return trace_fields
        return np.where(trace_fields != NONE, trace_fields, self._by_source[name, "key"][events.key.codes])

    def shown(self, numbers: I64) -> list[str | None]:
        found: list[str | None] = self._distinct.texts(numbers)
        return found

    def decimals(self) -> tuple[I64, Mask]:
        found: tuple[I64, Mask] = self._distinct.decimals()
        return found


def _seen(role: Role, values: list[_Value], events: Events, texts: _Texts) -> list[Rank]:
    """Ranks by first appearance: of a text among those of its run and scope."""
    rows = len(events)
    text = np.stack([texts.of(value.source) for value in values], axis=1).ravel()
    place = np.flatnonzero(text != NONE)
    group = _groups(values, events, texts)[place]
    lookup = np.tile([value.lookup for value in values], rows)[place]
    pair, count = events.numbered(group, text[place])
    first = np.full(count, NOBODY, np.int64)
    named = np.flatnonzero(~lookup)[::-1]
    first[pair[named]] = named
    group_of = group[firsts(pair, count)]
    order = np.lexsort((first, group_of))
    begins = np.flatnonzero(np.append(True, np.diff(group_of[order]) != 0)) if count else order
    lengths = np.diff(np.append(begins, count))
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count) - np.repeat(begins, lengths)
    there = np.zeros(len(text), np.bool_)
    there[place] = ~lookup | (first[pair] < np.arange(len(place)))
    ranks = np.full(len(text), NONE, np.int64)
    ranks[place] = role.start + rank[pair]
    return _by_value(role, values, ranks, there)


def _counted(role: Role, values: list[_Value], events: Events, texts: _Texts) -> list[Rank]:
    """Ranks of numbers: from the first of its run and scope. A text that is no number is out of bounds."""
    rows = len(events)
    text = np.stack([texts.of(value.source) for value in values], axis=1).ravel()
    place = np.flatnonzero(text != NONE)
    lookup = np.tile([value.lookup for value in values], rows)[place]
    numbers, decimal = texts.decimals()
    group, count = events.numbered(_groups(values, events, texts)[place])
    number, good = numbers[text[place]], decimal[text[place]]
    begins = np.full(count, NOBODY, np.int64)
    counts = np.flatnonzero(good & ~lookup)[::-1]
    begins[group[counts]] = counts
    begun = begins[group] < NOBODY
    first = np.where(begun, number[np.where(begun, begins[group], 0)], 0) if len(place) else number
    ranks = np.full(len(text), NONE, np.int64)
    ranks[place] = np.where(good, role.start + number - first, role.least - 1)
    there = np.zeros(len(text), np.bool_)
    there[place] = ~lookup | (begins[group] < np.arange(len(place)))
    return _by_value(role, values, ranks, there)


def _by_value(role: Role, values: list[_Value], ranks: I64, there: Mask) -> list[Rank]:
    width = len(values)
    return [
        Rank(role, value.name, ranks[number::width], there[number::width])
        for number, value in enumerate(values)
    ]


def _groups(values: list[_Value], events: Events, texts: _Texts) -> I64:
    """The scope within which each value of each row is ranked, row after row."""
    runs = np.repeat(events.run, len(values))
    if not any(value.scope for value in values):
        return runs
    scopes = np.stack([texts.of(value.scope) for value in values], axis=1).ravel()
    return events.numbered(runs, scopes)[0]
