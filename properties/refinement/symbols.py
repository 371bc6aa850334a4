"""Which events of a run are read, and how: events as symbols of the automaton, for all runs of a table at
once.

A run that records when requests landed is read there, exactly as it happened. Any other run is read by its
requests and responses (see `automaton`): a request lands between the two; one whose outcome is unknown lands
at some time after it was issued, or never. So a request is read with the outcome of its response (REQUESTED),
and its response with the number of equal requests that are still open after it (RESPONDED). A response that
reports that nothing was done is read as a landing with that outcome. A request that the store refused for
good has no effect and is left out.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np

from fencepost.properties.refinement.automaton import Automaton, SymbolKind
from fencepost.properties.refinement.long_runs import (
    LANDED,
    REQUESTED,
    RESPONDED,
    Lives,
    move_window,
    too_long,
)
from fencepost.properties.refinement.refinement import STUTTER
from fencepost.properties.refinement.renaming import NEEDED, Window
from fencepost.properties.refinement.rules import Events, KeyKinds, Linked, Observations, ReadEvents, Rules
from fencepost.properties.refinement.text import I64, NONE, Mask, Text, firsts, recoded

UNKNOWN_OUTCOMES = ("", "unknown")
"""Outcomes of a response that leave open whether the request landed."""
NO_EFFECT = "refused"


@dataclass(frozen=True)
class Symbols:
    """The symbols of all runs of a table, and the row of the event behind each."""

    symbols: I64
    rows: I64
    starts: I64
    lengths: I64
    orphans: I64
    """The rows of responses whose request is missing."""
    renamings: I64
    """The number of symbols of each run that are renamings, which are no events."""
    lives: Lives | None = None
    """The plans of the runs that are read through a window."""


def operations(events: Events, rows: I64) -> tuple[I64, int]:
    """The number of each row's operation, which ties a response to its request: each process counts its
    own.
    """
    whose = events.process.codes[rows], events.incarnation[rows]
    return events.numbered(events.run[rows], events.op[rows] - events.op.min(initial=0), *whose)


class SymbolReader:
    """Makes symbols of events. The automaton numbers them, under one lock for all threads."""

    def __init__(self, automaton: Automaton, lock: AbstractContextManager[object]) -> None:
        self._automaton = automaton
        self.rules = Rules(automaton.refinement)
        self._lock = lock

    def read(self, events: Events, *, windowed: bool = True, kinds: KeyKinds | None = None) -> Symbols:
        """The symbols of all runs; with `windowed`, runs too long for the model are read through its
        window. `kinds` are those of the keys, if known.
        """
        landed = events.phase.codes == events.phase.number("landed")
        exact = np.zeros(len(events.runs), np.bool_)
        exact[events.run[landed]] = True
        exact_rows = exact[events.run]
        note = events.phase.codes == events.phase.number("note")
        requests = _Requests(events, ~exact_rows)
        rows = np.flatnonzero(note | (landed & exact_rows) | requests.read)
        read = _as_landings(events, rows, requests, exact_rows)
        linked = requests.linked(rows) if self.rules.compared else None
        found = self.rules.read_events(read, kinds, landed=exact_rows[rows], linked=linked)
        window = self._automaton.refinement.window if windowed else None
        long = np.zeros(len(events.runs), np.bool_)
        if window is not None:
            long = too_long(window, found, len(events.runs))
        in_long = long[found.events.run]
        symbols, at = self._ordinary(events, requests, rows, found.take(np.flatnonzero(~in_long)))
        renamings, lives = np.zeros(len(events.runs), np.int64), None
        if window is not None and long.any():
            more, there, renamed, lives = self._windowed(
                events, requests, rows, found.take(np.flatnonzero(in_long)), window
            )
            np.add.at(renamings, events.run[there[renamed]], 1)
            symbols, at = _in_order(np.concatenate([symbols, more]), np.concatenate([at, there]))
        starts = np.searchsorted(events.run[at], np.arange(len(events.runs)))
        lengths = np.diff(np.append(starts, len(at)))
        return Symbols(symbols, at, starts, lengths, requests.orphans, renamings, lives)

    def _ordinary(
        self, events: Events, requests: "_Requests", rows: I64, found: ReadEvents
    ) -> tuple[I64, I64]:
        """The symbols of runs that fit the model, each with the row of its event."""
        observations = self.rules.observations(found)
        codes, at = observations.codes, rows[observations.rows]
        requested = requests.read[at]
        ends, of = requests.responses(at, codes, requested)
        loud = ~self._stutters(observations)
        keep = ~requested | loud[codes] if len(at) else requested
        at, codes, requested = at[keep], codes[keep], requested[keep]
        ends, of = (ends[loud[of]], of[loud[of]]) if len(of) else (ends, of)
        left = _left(events, at[requested], codes[requested], ends, of)
        none = np.zeros(len(at), np.int64)
        symbols = self._numbers(events, observations, codes, none, SymbolKind.LANDED)
        symbols[requested] = self._numbers(
            events, observations, codes[requested], none[requested], SymbolKind.REQUESTED
        )
        responded = self._numbers(events, observations, of, left, SymbolKind.RESPONDED)
        return _in_order(np.concatenate([symbols, responded]), np.concatenate([at, ends]))

    def _windowed(
        self, events: Events, requests: "_Requests", rows: I64, found: ReadEvents, window: Window
    ) -> tuple[I64, I64, Mask, Lives]:
        """The symbols of runs that do not fit, their rows, and which are renamings."""
        at = rows[found.rows]
        requested = requests.read[at]
        ends, of = requests.responses(at, np.arange(len(at)), requested)
        whole = np.append(np.arange(len(at)), of)
        at = np.append(at, ends)
        side = np.append(np.where(requested, REQUESTED, LANDED), np.full(len(of), RESPONDED))
        order = np.argsort(at, kind="stable")
        at, side, whole = at[order], side[order], whole[order]
        alike = self.rules.alike(found)[whole]
        moved = move_window(window, self.rules, found.take(whole), side)
        at, side, alike, all_rows = at[moved.rows], side[moved.rows], alike[moved.rows], at
        observations = self.rules.observations(moved.read)
        left = np.zeros(len(at), np.int64)
        issued, responded_rows = side == REQUESTED, side == RESPONDED
        left[responded_rows] = _left(
            events, at[issued], alike[issued], at[responded_rows], alike[responded_rows]
        )
        silent = self._stutters(observations)
        with self._lock:
            named = [self._automaton.symbol(one, SymbolKind.RENAMED) for one in moved.renamings]
            needed = self._automaton.symbol(NEEDED)
        symbols = np.zeros(len(at), np.int64)
        for which, kind in (
            (LANDED, SymbolKind.LANDED),
            (REQUESTED, SymbolKind.REQUESTED),
            (RESPONDED, SymbolKind.RESPONDED),
        ):
            those = side == which
            symbols[those] = self._numbers(events, observations, observations.codes[those], left[those], kind)
        # A deletion that is allowed once is allowed ever after, so it may be read at its response.
        late = moved.swept & responded_rows
        symbols[late] = self._numbers(
            events, observations, observations.codes[late], left[late] * 0, SymbolKind.LANDED
        )
        symbols[moved.needed] = needed
        heard = (side == LANDED) | ~silent[observations.codes] | moved.needed if len(at) else issued
        loud = np.flatnonzero(heard & ~(moved.swept & issued))
        lives = Lives(
            moved.lives.run,
            all_rows[moved.lives.first],
            np.append(all_rows, len(events))[np.minimum(moved.lives.free, len(all_rows))],
            moved.lives.slot,
        )
        before = all_rows[moved.before]
        symbols = np.concatenate([np.array(named, np.int64)[moved.which], symbols[loud]])
        there = np.concatenate([before, at[loud]])
        order = np.argsort(there, kind="stable")
        return symbols[order], there[order], (np.arange(len(there)) < len(before))[order], lives

    def _stutters(self, found: Observations) -> Mask:
        """Which observations the model never notices."""
        with self._lock:
            return np.array([self._automaton.actions(one) == STUTTER for one in found.distinct], np.bool_)

    def _numbers(self, events: Events, found: Observations, codes: I64, left: I64, kind: SymbolKind) -> I64:
        """The numbers of symbols of one kind; `left` is a part of the symbol."""
        if not len(codes):
            return codes
        pair, count = events.numbered(codes, left)
        first = firsts(pair, count)
        with self._lock:
            numbers = [
                self._automaton.symbol(found.distinct[code], kind, open_)
                for code, open_ in zip(codes[first].tolist(), left[first].tolist(), strict=True)
            ]
        return np.array(numbers, np.int64)[pair]


class _Requests:
    """Requests and their responses, of runs that do not record when requests landed."""

    def __init__(self, events: Events, rows: Mask) -> None:
        self._events = events
        self._issued = np.flatnonzero(rows & (events.phase.codes == events.phase.number("request")))
        self._ends = np.flatnonzero(rows & (events.phase.codes == events.phase.number("response")))
        op, count = operations(events, np.concatenate([self._issued, self._ends]))
        self._op_of_request, self._op_of_end = op[: len(self._issued)], op[len(self._issued) :]
        self._outcome_of_op = last = np.full(count, NONE, np.int64)
        last[self._op_of_end] = events.outcome.codes[self._ends]
        self._outcome = last[self._op_of_request]
        never = self._outcome == events.outcome.number(NO_EFFECT)
        unknown = [events.outcome.number(name) for name in UNKNOWN_OUTCOMES]
        self._known = ~never & (self._outcome != NONE) & ~np.isin(self._outcome, unknown)
        self.read = np.zeros(len(events), np.bool_)
        self.read[self._issued[~never]] = True
        known = np.zeros(count, np.bool_)
        known[self._op_of_request] = True
        self.orphans = self._ends[~known[self._op_of_end]]

    def outcomes(self) -> Text:
        """The outcome each request is read with: that of its response, or `done`."""
        outcome = self._events.outcome
        codes = outcome.codes.copy()
        codes[self._issued] = np.where(self._known, self._outcome, len(outcome.values))
        return recoded(codes, outcome.values, "done")

    def linked(self, rows: I64) -> Linked | None:
        """The ETags of the requests in some rows; None where the trace has none."""
        etag = self._events.etag
        if etag is None:
            return None
        none = etag.number("")
        named, made = (np.full(len(self._events), NONE, np.int64) for _ in range(2))
        matches = self._issued[self._events.condition.take(self._issued).is_in(("matches",))]
        named[matches] = etag.codes[matches]
        of_op = np.full(len(self._outcome_of_op), NONE, np.int64)
        done = self._events.outcome.take(self._ends).is_in(("done",))
        of_op[self._op_of_end[done]] = etag.codes[self._ends[done]]
        made[self._issued] = of_op[self._op_of_request]
        for column in (named, made):
            column[column == none] = NONE
        ended_of_op = np.full(len(self._outcome_of_op), len(self._events), np.int64)
        ended_of_op[self._op_of_end] = self._ends
        ended = np.full(len(self._events), len(self._events), np.int64)
        ended[self._issued] = ended_of_op[self._op_of_request]
        return Linked(named[rows], made[rows], rows, ended[rows])

    def responses(self, at: I64, codes: I64, requested: Mask) -> tuple[I64, I64]:
        """The rows of responses of known outcome, each with the observation of its request."""
        observation = np.full(int(self._op_of_request.max(initial=-1)) + 1, NONE, np.int64)
        place = np.full(int(self._issued.max(initial=-1)) + 1, NONE, np.int64)
        place[self._issued[self._known]] = self._op_of_request[self._known]
        known = requested & (place[at.clip(max=len(place) - 1)] != NONE) if len(place) else requested & False
        observation[place[at[known]]] = codes[known]
        issued = self._op_of_end < len(observation)
        ends, op = self._ends[issued], self._op_of_end[issued]
        of = observation[op]
        ends, op, of = ends[of != NONE], op[of != NONE], of[of != NONE]
        dense, count = self._events.numbered(op)
        once = np.zeros(len(ends), np.bool_)
        once[firsts(dense, count)] = True
        return ends[once], of[once]


def _as_landings(events: Events, rows: I64, requests: _Requests, exact: Mask) -> Events:
    """The events that are read, each as a landing or a note."""
    is_note = events.phase.codes[rows] == events.phase.number("note")
    # The condition and outcome of a note count only in runs that record landings.
    bare = is_note & ~exact[rows]
    taken = events.take(rows)
    return replace(
        taken,
        phase=Text(is_note.astype(np.int64), events.phase.values.of(["landed", "note"])),
        kind=taken.kind.replaced(is_note, "note"),
        condition=taken.condition.replaced(bare, ""),
        outcome=requests.outcomes().take(rows).replaced(bare, ""),
    )


def _in_order(symbols: I64, at: I64) -> tuple[I64, I64]:
    order = np.argsort(at, kind="stable")
    return symbols[order], at[order]


def _left(events: Events, issued: I64, issued_codes: I64, ends: I64, ended: I64) -> I64:
    """For each response: how many requests of its run with its observation are still open after it."""
    rows, codes = np.concatenate([issued, ends]), np.concatenate([issued_codes, ended])
    group, _ = events.numbered(events.run[rows], codes)
    change = np.concatenate([np.ones(len(issued), np.int64), np.full(len(ends), -1)])
    order = np.lexsort((rows, group))
    running = np.cumsum(change[order])
    begins = np.flatnonzero(np.append(True, np.diff(group[order]) != 0)) if len(rows) else order
    before = np.append(0, running)[begins]
    lengths = np.diff(np.append(begins, len(rows)))
    left = np.empty(len(rows), np.int64)
    left[order] = running - np.repeat(before, lengths)
    return left[len(issued) :]
