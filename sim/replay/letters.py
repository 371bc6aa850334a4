"""Parts of traces as letters: which events are read, and how, for all runs at once.

The rules are those of `properties.refinement.follow`. A run that tells when requests landed is read there.
Of any other, requests and answers are read: a request as it will have been answered (`ASKED`), and its
answer, with the number of equal requests that are then still open (`ANSWERED`).

What the table cannot tell is said by run: events that are none (an unknown phase or kind), answers to
requests that are not in the trace, numbers that are missing. Such runs are not judged, whatever the
automaton says.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fencepost.properties.refinement import SILENT, Automaton, Move
from fencepost.properties.refinement.follow import NEVER_THERE, UNTOLD
from fencepost.properties.refinement.window import NEEDED, Window
from fencepost.sim.replay.observations import Columns, Looks, Observations, Seen
from fencepost.sim.replay.texts import I64, NONE, Text, firsts, numbered, text
from fencepost.sim.replay.windows import ANSWERED, ASKED, STANDS, Lives, moved, too_long
from fencepost.sim.trace.schema import KINDS

COLUMNS = (
    "run",
    "seq",
    "process",
    "incarnation",
    "op",
    "phase",
    "kind",
    "key",
    "condition",
    "outcome",
    "trace_fields",
)
"""What judging needs of a trace."""
PHASES = ("request", "landed", "response", "note")
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Events:
    """A part's columns as numbers; the events of a run lie together and in order."""

    run: I64
    runs: pa.Array
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

    def __len__(self) -> int:
        return len(self.run)


def events(table: pa.Table) -> Events:
    """The columns of a sorted part."""
    run = text(table["run"])
    # Runs are renumbered by appearance, so that their numbers rise along the table.
    code, count = numbered(run.codes)
    names = run.values.take(pa.array(run.codes[firsts(code, count)]))
    numbers = {name: table[name].to_numpy() for name in ("seq", "incarnation", "op")}
    texts = {name: text(table[name]) for name in COLUMNS if name not in ("run", *numbers)}
    return Events(code, names, **numbers, **texts)


@dataclass(frozen=True)
class Letters:
    """The letters of all runs of a part, and the row of the event behind each."""

    letters: I64
    rows: I64
    starts: I64
    lengths: I64
    untold: dict[int, str]
    """Runs that cannot be judged, and why."""
    renamings: I64
    """How many letters of each run are renamings, which no event is."""
    lives: Lives | None = None
    """Of runs that are read through a window, their plans."""


def operations(seen: Events, rows: I64) -> tuple[I64, int]:
    """What ties a response to its request, by number: processes number theirs by themselves."""
    whose = seen.process.codes[rows], seen.incarnation[rows]
    return numbered(seen.run[rows], seen.op[rows] - seen.op.min(initial=0), *whose)


class Speller:
    """Makes letters of events. The automaton numbers them; one speller a thread, one lock for all."""

    def __init__(self, automaton: Automaton, lock: object) -> None:
        self._automaton = automaton
        self._columns = Columns(automaton.refinement)
        self._lock = lock

    def letters(self, seen: Events) -> Letters:
        landed = seen.phase.codes == seen.phase.number("landed")
        exact = np.zeros(len(seen.runs), np.bool_)
        exact[seen.run[landed]] = True
        exact_rows = exact[seen.run]
        note = seen.phase.codes == seen.phase.number("note")
        told = _Told(seen, ~exact_rows)
        rows = np.flatnonzero(note | (landed & exact_rows) | told.read)
        found = self._columns.seen(_looks(seen, rows, told, exact_rows))
        window = self._automaton.refinement.window
        long = np.zeros(len(seen.runs), np.bool_)
        if window is not None:
            long = too_long(window, found, len(seen.runs))
        in_long = long[found.looks.run]
        letters, at = self._ordinary(seen, told, rows, found.take(np.flatnonzero(~in_long)))
        renamings, lives = np.zeros(len(seen.runs), np.int64), None
        if window is not None and long.any():
            more, there, renamed, lives = self._windowed(
                seen, told, rows, found.take(np.flatnonzero(in_long)), window
            )
            np.add.at(renamings, seen.run[there[renamed]], 1)
            letters, at = np.concatenate([letters, more]), np.concatenate([at, there])
            order = np.argsort(at, kind="stable")
            letters, at = letters[order], at[order]
        starts = np.searchsorted(seen.run[at], np.arange(len(seen.runs)))
        lengths = np.diff(np.append(starts, len(at)))
        return Letters(letters, at, starts, lengths, self._untold(seen, told), renamings, lives)

    def _ordinary(self, seen: Events, told: "_Told", rows: I64, found: Seen) -> tuple[I64, I64]:
        """The letters of runs that fit the model, each with the row of its event."""
        observations = self._columns.observations(found)
        at = rows[observations.rows]
        asked = told.read[at]
        answered = told.answers(at, observations.codes, asked)
        return self._spelt(seen, observations, at, asked, answered)

    def _windowed(
        self, seen: Events, told: "_Told", rows: I64, found: Seen, window: Window
    ) -> tuple[I64, I64, Mask, Lives]:
        """The letters of runs that do not, where they stand, and which are renamings."""
        at = rows[found.rows]
        asked = told.read[at]
        ends, of = told.answers(at, np.arange(len(at)), asked)
        whole = np.append(np.arange(len(at)), of)
        at, side = np.append(at, ends), np.append(np.where(asked, ASKED, STANDS), np.full(len(of), ANSWERED))
        order = np.argsort(at, kind="stable")
        at, side, whole = at[order], side[order], whole[order]
        alike = self._columns.alike(found)[whole]
        through = moved(window, self._columns, found.take(whole), side)
        at, side, alike, all_rows = at[through.rows], side[through.rows], alike[through.rows], at
        observations = self._columns.observations(through.seen)
        left = np.zeros(len(at), np.int64)
        asks, answers = side == ASKED, side == ANSWERED
        left[answers] = _left(seen, at[asks], alike[asks], at[answers], alike[answers])
        with self._lock:  # type: ignore[attr-defined]
            silent = np.array(
                [self._automaton.meaning(one) == SILENT for one in observations.distinct], np.bool_
            )
            named = [self._automaton.letter(one, Move.RENAMED) for one in through.renamings]
            error = self._automaton.letter(NEEDED)
        letters = np.zeros(len(at), np.int64)
        for which, move in ((STANDS, Move.NOW), (ASKED, Move.ASKED), (ANSWERED, Move.ANSWERED)):
            those = side == which
            letters[those] = self._moved(observations, observations.codes[those], left[those], move)
        # What may be deleted at one time may be ever after, so it is as if it were deleted when that is told.
        late = through.swept & answers
        letters[late] = self._moved(observations, observations.codes[late], left[late] * 0, Move.NOW)
        letters[through.needed] = error
        heard = (side == STANDS) | ~silent[observations.codes] | through.needed if len(at) else asks
        loud = np.flatnonzero(heard & ~(through.swept & asks))
        lives = Lives(
            through.lives.run,
            all_rows[through.lives.first],
            np.append(all_rows, len(seen))[np.minimum(through.lives.free, len(all_rows))],
            through.lives.slot,
        )
        before = all_rows[through.before]
        letters = np.concatenate([np.array(named, np.int64)[through.which], letters[loud]])
        there = np.concatenate([before, at[loud]])
        renamed = np.arange(len(there)) < len(before)
        order = np.argsort(there, kind="stable")
        return letters[order], there[order], renamed[order], lives

    def _untold(self, seen: Events, told: "_Told") -> dict[int, str]:
        """Runs of which the trace does not tell enough to judge them; the first reason of each."""
        strange = _strange(seen)
        done = told.orphans[seen.outcome.codes[told.orphans] == seen.outcome.number("done")]
        looks = Looks(
            seen.run[done],
            *(
                column.take(done)
                for column in (seen.phase, seen.kind, seen.key, seen.condition, seen.outcome)
            ),
            *(column.take(done) for column in (seen.trace_fields, seen.process)),
            seen.incarnation[done],
        )
        for row in done[self._columns.meaningful(looks)].tolist():
            why = f"event {seen.seq[row]}: the response to operation {seen.op[row]}, whose request is missing"
            strange.setdefault(int(seen.run[row]), why)
        return strange

    def _spelt(
        self, seen: Events, found: Observations, at: I64, asked: Mask, answered: tuple[I64, I64]
    ) -> tuple[I64, I64]:
        """Letters in the order of their events."""
        with self._lock:  # type: ignore[attr-defined]
            silent = [self._automaton.meaning(one) == SILENT for one in found.distinct]
            now = [self._automaton.letter(one) for one in found.distinct]
        keep = ~(asked & np.array(silent, np.bool_)[found.codes]) if len(at) else asked
        letters = np.array(now, np.int64)[found.codes] if len(at) else at
        letters[asked] = self._moved(
            found, found.codes[asked], np.zeros(int(asked.sum()), np.int64), Move.ASKED
        )
        letters, at, codes = letters[keep], at[keep], found.codes[keep]
        ends, of = answered
        loud = ~np.array(silent, np.bool_)[of] if len(of) else np.zeros(0, np.bool_)
        ends, of = ends[loud], of[loud]
        left = _left(seen, at[asked[keep]], codes[asked[keep]], ends, of)
        letters = np.concatenate([letters, self._moved(found, of, left, Move.ANSWERED)])
        at = np.concatenate([at, ends])
        order = np.argsort(at, kind="stable")
        return letters[order], at[order]

    def _moved(self, found: Observations, codes: I64, left: I64, move: Move) -> I64:
        """Letters of one move; `left` is a part of the letter."""
        if not len(codes):
            return codes
        pair, count = numbered(codes, left)
        first = firsts(pair, count)
        with self._lock:  # type: ignore[attr-defined]
            numbers = [
                self._automaton.letter(found.distinct[code], move, open_)
                for code, open_ in zip(codes[first].tolist(), left[first].tolist(), strict=True)
            ]
        return np.array(numbers, np.int64)[pair]


class _Told:
    """Requests and their answers, of runs that do not tell when requests landed."""

    def __init__(self, seen: Events, rows: Mask) -> None:
        request = rows & (seen.phase.codes == seen.phase.number("request"))
        response = rows & (seen.phase.codes == seen.phase.number("response"))
        self._asks, self._ends = np.flatnonzero(request), np.flatnonzero(response)
        both = np.concatenate([self._asks, self._ends])
        op, count = operations(seen, both)
        self._op_of_ask, self._op_of_end = op[: len(self._asks)], op[len(self._asks) :]
        last = np.full(count, NONE, np.int64)
        last[self._op_of_end] = seen.outcome.codes[self._ends]
        self._outcome = last[self._op_of_ask]
        never = self._outcome == seen.outcome.number(NEVER_THERE)
        untold = [seen.outcome.number(name) for name in sorted(UNTOLD)]
        self._answered = ~never & (self._outcome != NONE) & ~np.isin(self._outcome, untold)
        self.read = np.zeros(len(seen), np.bool_)
        self.read[self._asks[~never]] = True
        asked = np.zeros(count, np.bool_)
        asked[self._op_of_ask] = True
        self.orphans = self._ends[~asked[self._op_of_end]]

    def outcomes(self, seen: Events) -> Text:
        """The outcome each request is read with: its answer's, or that it was done."""
        values = pa.concat_arrays([seen.outcome.values, pa.array(["done"])])
        codes = seen.outcome.codes.copy()
        codes[self._asks] = np.where(self._answered, self._outcome, len(values) - 1)
        whole = values.dictionary_encode()
        return Text(whole.indices.to_numpy().astype(np.int64)[codes], whole.dictionary)

    def answers(self, at: I64, codes: I64, asked: Mask) -> tuple[I64, I64]:
        """The rows of answers that say something, each with the observation of its request."""
        observation = np.full(int(self._op_of_ask.max(initial=-1)) + 1, NONE, np.int64)
        place = np.full(int(self._asks.max(initial=-1)) + 1, NONE, np.int64)
        place[self._asks[self._answered]] = self._op_of_ask[self._answered]
        telling = asked & (place[at.clip(max=len(place) - 1)] != NONE) if len(place) else asked & False
        observation[place[at[telling]]] = codes[telling]
        known = self._op_of_end < len(observation)
        ends, op = self._ends[known], self._op_of_end[known]
        of = observation[op]
        ends, op, of = ends[of != NONE], op[of != NONE], of[of != NONE]
        dense, count = numbered(op)
        once = np.zeros(len(ends), np.bool_)
        once[firsts(dense, count)] = True
        return ends[once], of[once]


def _looks(seen: Events, rows: I64, told: _Told, exact: Mask) -> Looks:
    """The columns as a reader looks at them."""
    note = seen.phase.number("note")
    phases = pa.array(["landed", "note"])
    is_note = seen.phase.codes[rows] == note
    # A note's condition and outcome are looked at only where landings are read.
    bare = is_note & ~exact[rows]
    return Looks(
        seen.run[rows],
        Text(is_note.astype(np.int64), phases),
        _blanked(seen.kind.take(rows), is_note, "note"),
        seen.key.take(rows),
        _blanked(seen.condition.take(rows), bare, ""),
        _blanked(told.outcomes(seen).take(rows), bare, ""),
        seen.trace_fields.take(rows),
        seen.process.take(rows),
        seen.incarnation[rows],
    )


def _blanked(column: Text, rows: Mask, word: str) -> Text:
    if not rows.any():
        return column
    whole = pa.concat_arrays([column.values, pa.array([word])]).dictionary_encode()
    codes = np.where(rows, len(column.values), column.codes)
    return Text(whole.indices.to_numpy().astype(np.int64)[codes], whole.dictionary)


def _left(seen: Events, asks: I64, asked: I64, ends: I64, ended: I64) -> I64:
    """Of each answer: how many requests of its run with its observation are still open after it."""
    rows, codes = np.concatenate([asks, ends]), np.concatenate([asked, ended])
    group, _ = numbered(seen.run[rows], codes)
    change = np.concatenate([np.ones(len(asks), np.int64), np.full(len(ends), -1)])
    order = np.lexsort((rows, group))
    running = np.cumsum(change[order])
    begins = np.flatnonzero(np.append(True, np.diff(group[order]) != 0)) if len(rows) else order
    before = np.append(0, running)[begins]
    lengths = np.diff(np.append(begins, len(rows)))
    left = np.empty(len(rows), np.int64)
    left[order] = running - np.repeat(before, lengths)
    return left[len(asks) :]


def _strange(seen: Events) -> dict[int, str]:
    """Runs with events that are none, and the first of each."""
    found: dict[int, str] = {}
    real = seen.phase.is_in(PHASES[:3])
    for column, name, known, bad in (
        (seen.phase, "phase", PHASES, ~seen.phase.is_in(PHASES)),
        (seen.kind, "kind", sorted(KINDS), real & ~seen.kind.is_in(sorted(KINDS))),
    ):
        rows = np.flatnonzero(bad)
        first = rows[firsts(*numbered(seen.run[rows]))] if len(rows) else rows
        for row in first.tolist():
            why = f"the {name} {_shown(column, row)} is unknown; there are {', '.join(known)}"
            found.setdefault(int(seen.run[row]), f"event {seen.seq[row]}: {why}")
    return found


def _shown(column: Text, row: int) -> str:
    return repr(column.values[int(column.codes[row])].as_py())
