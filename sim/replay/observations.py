"""Columns of events as observations: `properties.refinement.reader`, for all runs of a part at once.

What the reader does for one run with dictionaries is done here with columns:

    values   distinct keys through the patterns, distinct trace fields through theirs; all texts that are
             values are numbered together, so that equal texts have equal numbers
    ranks    for each role the values of all events stand in a row, in the order in which a reader meets
             them; each pair of run and text is numbered by first appearance, and its rank is how many of its
             run came before it
    codes    everything that a observation tells mixed into one number; only distinct ones become objects

A test holds both against each other on random runs: whatever is changed here is changed there. One difference
is wanted: a group of a pattern, or a trace field, that is there but empty counts as not there.
"""

from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fencepost.properties.refinement import COUNTED, Observation, Refinement, Role
from fencepost.sim.replay.texts import I64, NONE, Text, extracted, fact, firsts, numbered

PROCESS, LIFE = "process", "life"
NOBODY = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Looks:
    """What is read of some events, a row each, those of a run together and in order."""

    run: I64
    phase: Text
    kind: Text
    key: Text
    condition: Text
    outcome: Text
    trace_fields: Text
    process: Text
    incarnation: I64

    def __len__(self) -> int:
        return len(self.run)

    def take(self, rows: I64) -> "Looks":
        columns = (getattr(self, field.name) for field in fields(self))
        return Looks(*(c.take(rows) if isinstance(c, Text) else c[rows] for c in columns))


@dataclass(frozen=True)
class Observations:
    """For each event that means something: its row among the looks, and the number of its observation."""

    rows: I64
    codes: I64
    distinct: list[Observation]


@dataclass(frozen=True)
class _Value:
    """One entry of a role's `of`."""

    name: str
    scope: str
    lookup: bool
    said: str


@dataclass(frozen=True)
class Rank:
    """One value's ranks: what a observation calls it, the rank in each row, and where there is one."""

    role: Role
    said: str
    rank: I64
    there: NDArray[np.bool_]


@dataclass(frozen=True)
class Seen:
    """The events that mean something, before they become observations."""

    rows: I64
    """Which of the looks they are."""
    looks: Looks
    what: I64
    ranks: tuple[Rank, ...]
    own: NDArray[np.bool_]
    plain: tuple[I64, ...]
    """Of each fact that plays no role the number of its text."""
    said: "_Said"

    def take(self, rows: I64) -> "Seen":
        return Seen(
            self.rows[rows],
            self.looks.take(rows),
            self.what[rows],
            tuple(replace(one, rank=one.rank[rows], there=one.there[rows]) for one in self.ranks),
            self.own[rows],
            tuple(column[rows] for column in self.plain),
            self.said,
        )


class Columns:
    """A refinement, read by columns."""

    def __init__(self, refinement: Refinement) -> None:
        self.refinement = refinement
        self._roles = [(role, _values(role)) for role in refinement.roles]
        self._topics = sorted(refinement.notes)
        self.whats = [keys.name for keys in refinement.keys] + self._topics
        """The kinds of keys and notes, by the numbers that `Seen.what` has."""
        named = [name for _, values in self._roles for value in values for name in (value.name, value.scope)]
        wanted = dict.fromkeys([*named, refinement.owned, *refinement.trace_fields])
        self._names = [name for name in wanted if name and name not in (PROCESS, LIFE)]

    def seen(self, looks: Looks) -> Seen:
        """The events that mean something."""
        what, groups = self._matched(looks)
        rows = np.flatnonzero(what != NONE)
        looks = looks.take(rows)
        said = _Said(looks, groups, self._names)
        ranks = [
            one
            for role, values in self._roles
            for one in (_counted if role.order is COUNTED else _seen)(role, values, looks, said)
        ]
        plain = tuple(said.of(name) for name in self.refinement.trace_fields)
        return Seen(rows, looks, what[rows], tuple(ranks), self._own(looks, said), plain, said)

    def observations(self, seen: Seen) -> Observations:
        """What is seen, event by event, in the order of the looks."""
        stranger, strangers = _strangers(seen)
        lost = stranger != NONE
        plain = [np.where(lost, NONE, column) for column in seen.plain]
        ranks = [replace(one, there=one.there & ~lost) for one in seen.ranks]
        codes, count = numbered(*self._told_apart(seen, plain, ranks), stranger)
        first = firsts(codes, count)
        told = _Told(seen.looks.take(first), [self.whats[number] for number in seen.what[first].tolist()])
        told.own = seen.own[first].tolist()
        told.stranger = [strangers[n] if n != NONE else "" for n in stranger[first].tolist()]
        for name, column in zip(self.refinement.trace_fields, plain, strict=True):
            told.trace_fields.append((name, seen.said.texts(column[first])))
        for one in ranks:
            told.ranks.append((one.said, one.rank[first].tolist(), one.there[first].tolist()))
        return Observations(seen.rows, codes, told.observations())

    def alike(self, seen: Seen) -> I64:
        """A number for each event, equal where within a run all that a observation tells is equal."""
        return numbered(*self._told_apart(seen, list(seen.plain), list(seen.ranks)))[0]

    def _told_apart(self, seen: Seen, plain: list[I64], ranks: list[Rank]) -> list[I64]:
        columns = [
            seen.what,
            *(getattr(seen.looks, name).codes for name in _PLAIN),
            seen.own.astype(np.int64),
        ]
        columns += [_small(column) for column in plain]
        return columns + [
            _small(np.where(one.there, one.rank - one.rank.min(initial=0), NONE)) for one in ranks
        ]

    def meaningful(self, looks: Looks) -> NDArray[np.bool_]:
        """Which rows mean something: a kind that is looked at, and a key that a pattern matches."""
        return self._matched(looks)[0] != NONE

    def _matched(self, looks: Looks) -> tuple[I64, dict[str, list[tuple[I64, pa.Array]]]]:
        """Which pattern's, or which note's, each row is, and what the groups caught, by distinct key."""
        note = looks.phase.codes == looks.phase.number("note")
        what = np.full(len(looks), NONE, np.int64)
        asked = np.flatnonzero(~note & looks.kind.is_in(sorted(self.refinement.kinds)))
        places, groups = self._patterned(looks.key, asked)
        what[asked] = places[looks.key.codes[asked]]
        if self._topics and note.any():
            topics = _first_words(looks.key.values)
            found = pc.index_in(topics, value_set=pa.array(self._topics)).fill_null(
                NONE - len(self.refinement.keys)
            )
            numbers = found.to_numpy().astype(np.int64) + len(self.refinement.keys)
            what[note] = numbers[looks.key.codes[note]]
        return what, groups

    def _patterned(self, key: Text, rows: I64) -> tuple[I64, dict[str, list[tuple[I64, pa.Array]]]]:
        places = np.full(len(key.values), NONE, np.int64)
        groups: dict[str, list[tuple[I64, pa.Array]]] = {}
        left = _used(key, rows)
        for number, keys in enumerate(self.refinement.keys):
            matched, caught = extracted(key.values.take(pa.array(left)), keys.pattern)
            hit = np.flatnonzero(matched)
            places[left[hit]] = number
            for name, values in caught.items():
                groups.setdefault(name, []).append((left[hit], values.take(pa.array(hit))))
            left = left[~matched]
        return places, groups

    def _own(self, looks: Looks, said: "_Said") -> NDArray[np.bool_]:
        own = np.zeros(len(looks), np.bool_)
        if self.refinement.owned:
            owned = said.of(self.refinement.owned)
            rows = np.flatnonzero(owned != NONE)
            me, _ = numbered(looks.process.codes[rows], looks.incarnation[rows])
            what, count = numbered(looks.run[rows], owned[rows])
            own[rows] = me[firsts(what, count)][what] == me
        return own


_PLAIN = ("phase", "kind", "condition", "outcome")


def _strangers(seen: Seen) -> tuple[I64, list[str]]:
    """Of each event the number of the first value for which there is no room, or NONE; and their names."""
    stranger, names = np.full(len(seen.rows), NONE, np.int64), []
    for one in seen.ranks:
        out = one.there & (one.rank < one.role.least)
        if one.role.most is not None:
            out |= one.there & (one.rank > one.role.most)
        stranger[out & (stranger == NONE)] = len(names)
        names.append(one.said)
    return stranger, names


def _values(role: Role) -> list[_Value]:
    found = []
    for entry in role.of:
        name, _, scope = entry.partition("@")
        lookup, name = name.endswith("?"), name.rstrip("?")
        found.append(_Value(name, scope, lookup, f"{name} in {role.name}" if lookup else name))
    return found


class _Said:
    """The values that events name, as numbers of their texts: one numbering for all."""

    def __init__(self, looks: Looks, groups: dict[str, list[tuple[I64, pa.Array]]], names: list[str]) -> None:
        self._looks = looks
        told = _used(looks.trace_fields, np.arange(len(looks)))
        trace_fields = looks.trace_fields.values.take(pa.array(told))
        pieces: list[pa.Array] = [looks.process.values]
        homes: list[tuple[str, str, I64]] = [(PROCESS, PROCESS, np.arange(len(looks.process.values)))]
        for name in names:
            for keys, values in groups.get(name, ()):
                pieces.append(values)
                homes.append((name, "key", keys))
            pieces.append(fact(trace_fields, name))
            homes.append((name, "trace_fields", told))
        whole = pa.concat_arrays([piece.cast(pa.string()) for piece in pieces]).dictionary_encode()
        self._texts = whole.dictionary
        numbers = whole.indices.fill_null(NONE).to_numpy().astype(np.int64)
        self._by_source: dict[tuple[str, str], I64] = {}
        sizes = {
            "key": len(looks.key.values),
            "trace_fields": len(looks.trace_fields.values),
            PROCESS: len(pieces[0]),
        }
        start = 0
        for (name, source, home), piece in zip(homes, pieces, strict=True):
            column = self._by_source.setdefault((name, source), np.full(sizes[source], NONE, np.int64))
            column[home] = numbers[start : start + len(piece)]
            start += len(piece)
        self._columns: dict[str, I64] = {}

    def of(self, name: str) -> I64:
        """The number of a value's text in each row; NONE where it is not named."""
        if name not in self._columns:
            self._columns[name] = self._column(name)
        return self._columns[name]

    def _column(self, name: str) -> I64:
        looks = self._looks
        if name == PROCESS:
            return self._by_source[PROCESS, PROCESS][looks.process.codes]
        if name == LIFE:
            # Only compared with other lives, so that a number for each will do.
            return numbered(looks.process.codes, looks.incarnation)[0]
        if not name:
            return np.full(len(looks), NONE, np.int64)
        trace_fields = self._by_source[name, "trace_fields"][looks.trace_fields.codes]
        if (name, "key") not in self._by_source:
            return trace_fields
        return np.where(trace_fields != NONE, trace_fields, self._by_source[name, "key"][looks.key.codes])

    def texts(self, numbers: I64) -> list[str | None]:
        found = pa.array(numbers, mask=numbers == NONE)
        texts: list[str | None] = self._texts.take(found).to_pylist()
        return texts

    def counts(self) -> tuple[I64, NDArray[np.bool_]]:
        """Every text as a number, modulo 2^64 so that differences stay exact, and whether it is one."""
        decimal = pc.match_substring_regex(self._texts, r"\A[0-9]+\z").to_numpy(zero_copy_only=False)
        bare = pc.utf8_ltrim(self._texts, "0")
        short = decimal & (pc.utf8_length(bare).to_numpy() <= _DIGITS_MAX)
        plain = pc.if_else(pc.and_(pa.array(short), pc.not_equal(bare, "")), bare, "0")
        numbers = plain.cast(pa.int64()).to_numpy().copy()
        for row in np.flatnonzero(decimal & ~short).tolist():
            value = int(bare[row].as_py()) & ((1 << 64) - 1)
            numbers[row] = value - (1 << 64) if value >> 63 else value
        return numbers, decimal


_DIGITS_MAX = 18


def _seen(role: Role, values: list[_Value], looks: Looks, said: _Said) -> list[Rank]:
    """Ranks by first appearance: of a text among those of its run, and of its scope."""
    width, rows = len(values), len(looks)
    text = np.stack([said.of(value.name) for value in values], axis=1).ravel()
    place = np.flatnonzero(text != NONE)
    group = _groups(values, looks, said)[place]
    lookup = np.tile([value.lookup for value in values], rows)[place]
    pair, count = numbered(group, text[place])
    first = np.full(count, NOBODY, np.int64)
    named = np.flatnonzero(~lookup)[::-1]
    first[pair[named]] = named
    group_of = group[firsts(pair, count)]
    order = np.lexsort((first, group_of))
    begins = (
        np.flatnonzero(np.append(True, np.diff(group_of[order]) != 0)) if count else np.empty(0, np.int64)
    )
    lengths = np.diff(np.append(begins, count))
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count) - np.repeat(begins, lengths)
    there = np.zeros(len(text), np.bool_)
    there[place] = ~lookup | (first[pair] < np.arange(len(place)))
    ranks = np.full(len(text), NONE, np.int64)
    ranks[place] = role.start + rank[pair]
    return [
        Rank(role, value.said, ranks[number::width], there[number::width])
        for number, value in enumerate(values)
    ]


def _counted(role: Role, values: list[_Value], looks: Looks, said: _Said) -> list[Rank]:
    """Ranks of numbers: from the first of its run, and of its scope. What is no number is out of bounds."""
    width, rows = len(values), len(looks)
    text = np.stack([said.of(value.name) for value in values], axis=1).ravel()
    place = np.flatnonzero(text != NONE)
    lookup = np.tile([value.lookup for value in values], rows)[place]
    numbers, decimal = said.counts()
    group, count = numbered(_groups(values, looks, said)[place])
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
    return [
        Rank(role, value.said, ranks[number::width], there[number::width])
        for number, value in enumerate(values)
    ]


def _groups(values: list[_Value], looks: Looks, said: _Said) -> I64:
    """Within what each value of each row is ranked, row after row."""
    if not any(value.scope for value in values):
        return np.repeat(looks.run, len(values))
    scopes = np.stack([said.of(value.scope) for value in values], axis=1).ravel()
    return numbered(np.repeat(looks.run, len(values)), scopes)[0]


class _Told:
    """Columns of a few rows, to be made observations of."""

    def __init__(self, looks: Looks, whats: list[str]) -> None:
        self._plain = [
            column.values.take(pa.array(column.codes)).to_pylist()
            for column in (looks.phase, looks.kind, looks.condition, looks.outcome)
        ]
        self._whats = whats
        self.own: list[bool] = []
        self.stranger: list[str] = []
        self.trace_fields: list[tuple[str, list[str | None]]] = []
        self.ranks: list[tuple[str, list[int], list[bool]]] = []

    def observations(self) -> list[Observation]:
        return [self._observation(row) for row in range(len(self._whats))]

    def _observation(self, row: int) -> Observation:
        phase, kind, condition, outcome = (column[row] for column in self._plain)
        return Observation(
            phase,
            kind,
            self._whats[row],
            condition,
            outcome,
            tuple((said, rank[row]) for said, rank, there in self.ranks if there[row]),
            tuple((name, text) for name, texts in self.trace_fields if (text := texts[row]) is not None),
            self.own[row],
            self.stranger[row],
        )


def _used(column: Text, rows: I64) -> I64:
    """The distinct texts that some rows have."""
    used = np.zeros(len(column.values), np.bool_)
    used[column.codes[rows]] = True
    return np.flatnonzero(used)


def _first_words(values: pa.Array) -> pa.Array:
    return pc.extract_regex(values, r"\A(?P<word>[^ ]*)").field("word")


def _small(column: I64) -> I64:
    """The same column, its numbers dense when they are large, so that more columns fit one number."""
    return numbered(column)[0] if len(column) and column.max() > 1 << 8 else column
