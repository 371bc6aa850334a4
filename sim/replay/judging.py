"""Verdicts on the runs of one part of a trace, and the explanation of those that are rejected.

For a rejected run: the first event that the model does not allow, the state before it, what the model allowed
instead, and the guard that was false. This is computed once for each way in which runs fail, however many do.

Runs that the trace does not record completely are undecided, whatever the automaton concludes: events of an
unknown phase or kind, responses whose request is missing.
"""

import threading
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from fencepost.impl.recording.files import GAP
from fencepost.impl.store.events import PHASES
from fencepost.properties.refinement import DEAD, OUTSIDE, Automaton, SymbolKind, explain, not_judged, refusal
from fencepost.properties.refinement.breaches import Breach, breaches
from fencepost.properties.refinement.long_runs import Lives
from fencepost.properties.refinement.rules import Events, KeyKinds
from fencepost.properties.refinement.symbols import SymbolReader, Symbols
from fencepost.properties.refinement.text import firsts
from fencepost.sim.replay.coverage import DrivenTransitions
from fencepost.sim.replay.tables import VERDICTS
from fencepost.sim.replay.walk import Ends, VectorisedWalk
from fencepost.sim.trace.schema import KINDS

POSSIBLE_MAX = 10
"""Actions that are listed as possible."""
IN_WORDS = ("process", "phase", "kind", "key", "condition", "trace_fields", "outcome")
"""The columns of an event that its text has."""
ACCEPTED, REJECTED, UNDECIDED = "accepted", "rejected", "undecided"


@dataclass
class Judge:
    """One automaton and the explanations that it has given. Thread-safe."""

    automaton: Automaton
    whole: bool = False
    """Runs are as recorded, so that missing numbers are missing events."""
    driven: DrivenTransitions | None = None
    """Computes the share of the model's transitions that was driven, if requested."""
    walk: VectorisedWalk = field(init=False)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self.walk = VectorisedWalk(self.automaton, self._lock)
        self._reader = SymbolReader(self.automaton, self._lock)
        self._explained: dict[tuple[int, int], tuple[str, str, str]] = {}

    @property
    def not_judged(self) -> tuple[str, ...]:
        """Texts on what its verdicts leave open."""
        return not_judged(self.automaton.refinement.request_rules)

    def verdicts(self, seen: Events) -> pa.Table:
        """The verdicts on the runs of a part that is in order."""
        if not len(seen):
            return VERDICTS.empty_table()
        rules = self.automaton.refinement.request_rules
        kinds = self._reader.rules.key_kinds(seen.key)
        symbols = self._reader.read(seen, kinds=kinds)
        broken = {} if rules is None else breaches(rules, self._reader.rules.kinds, seen, kinds)
        unreadable = self._unreadable(seen, symbols, kinds)
        ends = self.walk.follow(symbols.symbols, symbols.starts, symbols.lengths)
        if self.driven is not None:
            self.driven.follow(symbols)
        return self._table(seen, symbols, ends, unreadable, broken)

    def _table(
        self,
        seen: Events,
        symbols: Symbols,
        ends: Ends,
        unreadable: dict[int, str],
        broken: dict[int, Breach],
    ) -> pa.Table:
        runs = len(seen.runs)
        verdict = np.zeros(runs, np.int8)
        verdict[ends.sets == DEAD], verdict[ends.sets == OUTSIDE] = 1, 2
        # The first violation counts; at one event the explanation is the model's.
        decided = np.full(runs, len(seen))
        rejected = np.flatnonzero(verdict == 1)
        decided[rejected] = symbols.rows[symbols.starts[rejected] + ends.places[rejected]]
        broken = {
            run: one
            for run, one in broken.items()
            if run not in unreadable and (verdict[run] != 1 or (one.certain and one.row < decided[run]))
        }
        broken = {run: one for run, one in broken.items() if one.certain or verdict[run] == 0}
        for run, one in broken.items():
            verdict[run] = 1 if one.certain else 2
        verdict[list(unreadable)] = 2
        columns = {name: [""] * runs for name in ("event", "reason", "state", "possible")}
        seq = np.full(runs, -1, np.int64)
        for run in np.flatnonzero(verdict).tolist():
            if run in unreadable:
                row, why = -1, ("", unreadable[run], "", "")
            elif run in broken:
                row = broken[run].row
                why = _event(seen, row), broken[run].reason, "", ""
            else:
                row, why = self._why(seen, symbols, ends, run)
            seq[run] = seen.seq[row] if row >= 0 else -1
            for name, words in zip(columns, why, strict=True):
                columns[name][run] = words
        names = pa.array([ACCEPTED, REJECTED, UNDECIDED])
        return pa.table(
            [
                seen.runs.array,
                names.take(pa.array(verdict)),
                np.bincount(seen.run, minlength=runs),
                symbols.lengths - symbols.renamings,
                seq,
                *columns.values(),
            ],
            schema=VERDICTS,
        )

    def _unreadable(self, seen: Events, symbols: Symbols, kinds: KeyKinds) -> dict[int, str]:
        """Runs that the trace does not record completely; the first reason for each."""
        found = _strange(seen)
        orphans = symbols.orphans
        done = orphans[seen.outcome.codes[orphans] == seen.outcome.number("done")]
        for row in done[self._reader.rules.matters(seen.take(done), kinds)].tolist():
            why = f"event {seen.seq[row]}: the response to operation {seen.op[row]}, whose request is missing"
            found.setdefault(int(seen.run[row]), why)
        return found

    def _why(
        self, seen: Events, symbols: Symbols, ends: Ends, run: int
    ) -> tuple[int, tuple[str, str, str, str]]:
        """The row of the event that decided a run; the event, the reason, the state and what was possible."""
        place = int(symbols.starts[run] + ends.places[run])
        row, symbol = int(symbols.rows[place]), int(symbols.symbols[place])
        key = int(ends.before[run]), symbol
        with self._lock:
            if key not in self._explained:
                self._explained[key] = self._explain(*key, outside=bool(ends.sets[run] == OUTSIDE))
        reason, state, possible = self._explained[key]
        return row, (
            _event(seen, row),
            reason
            + (_under_way(seen, symbols.lives, run, row) if ends.sets[run] == OUTSIDE else "")
            + (_gaps(seen, run, row) if self.whole else ""),
            state,
            possible,
        )

    def _explain(self, before: int, symbol: int, *, outside: bool) -> tuple[str, str, str]:
        read = self.automaton.symbols[symbol]
        assert read is not None
        if read.kind is SymbolKind.RENAMED:
            refused = refusal(self.automaton, before, symbol)
            return f"{read.observation.what} is not possible here: {refused.why}", refused.state, ""
        if outside:
            out_of_bounds = read.observation.out_of_bounds
            what = f"this {out_of_bounds}" if out_of_bounds else "it"
            return f"{read.observation}: the model has no room for {what}", "", ""
        if read.kind is SymbolKind.RESPONDED:
            # It cannot have landed since its request, nor now; the latter can be explained.
            symbol = self.automaton.symbol(read.observation)
        found = explain(self.automaton, before, symbol)
        more = len(found.possible) - POSSIBLE_MAX
        possible = [*found.possible[:POSSIBLE_MAX], *([f"and {more} more"] if more > 0 else [])]
        return found.sentence(), found.state, ", ".join(possible)


@dataclass(frozen=True)
class NoModel:
    """The counterpart of `Judge` without a model: it accepts all runs, and reads none of their events.

    Runs with events of an unknown phase or kind are undecided.
    """

    whole: bool = False
    """As in `Judge`."""
    not_judged: tuple[str, ...] = ("the protocol, since no model was named", "listings")

    def verdicts(self, seen: Events) -> pa.Table:
        """The verdicts on the runs of a part that is in order."""
        if not len(seen):
            return VERDICTS.empty_table()
        runs = len(seen.runs)
        events = np.bincount(seen.run, minlength=runs)
        reasons = _strange(seen)
        blank = pa.repeat("", runs)
        return pa.table(
            [
                seen.runs.array,
                pa.array([UNDECIDED if run in reasons else ACCEPTED for run in range(runs)], pa.string()),
                events,
                np.zeros(runs, np.int64),
                np.full(runs, -1, np.int64),
                blank,
                pa.array([reasons.get(run, "") for run in range(runs)], pa.string()),
                blank,
                blank,
            ],
            schema=VERDICTS,
        )


def _under_way(seen: Events, lives: Lives | None, run: int, row: int) -> str:
    """The plans that held slots of the window, by the events at which they began."""
    begun = [] if lives is None else lives.at(row, run).tolist()
    plans = ", ".join(f"{seen.key.at(one)} (event {seen.seq[one]})" for one in begun)
    return f"; under way: {plans}" if plans else ""


def _gaps(seen: Events, run: int, row: int) -> str:
    """Return the number of events that a run lacks before a row, by the numbers of its events, in words."""
    first = int(np.searchsorted(seen.run, run))
    missing = int(seen.seq[row]) - (row - first)
    return f" ({missing} of the numbers before it are missing: so may events be)" if missing > 0 else ""


def _event(seen: Events, row: int) -> str:
    """An event in words, with its own names."""
    return event_text(*(getattr(seen, name).at(row) for name in IN_WORDS))


def event_text(process: str, *columns: str) -> str:
    """The text of an event with these values of `IN_WORDS`."""
    *words, outcome = columns
    words = [f"{process}:", *words, f"-> {outcome}" if outcome else ""]
    return " ".join(word for word in words if word)


def _strange(seen: Events) -> dict[int, str]:
    """Runs with events of an unknown phase or kind, or with gaps, and the first of each."""
    found: dict[int, str] = {}
    gaps = np.flatnonzero(seen.phase.is_in(("note",)) & seen.kind.is_in((GAP,)))
    for row in gaps[firsts(*seen.numbered(seen.run[gaps]))].tolist() if len(gaps) else ():
        where = f" about {seen.key.at(row)}" if seen.key.at(row) else ""
        why = f"the recorder dropped requests{where}, so what seems to be missing may have been there"
        found[int(seen.run[row])] = f"event {seen.seq[row]}: {why}"
    requests = seen.phase.is_in(PHASES[:3])
    for column, name, known, bad in (
        (seen.phase, "phase", PHASES, ~seen.phase.is_in(PHASES)),
        (seen.kind, "kind", sorted(KINDS), requests & ~seen.kind.is_in(sorted(KINDS))),
    ):
        rows = np.flatnonzero(bad)
        first = rows[firsts(*seen.numbered(seen.run[rows]))] if len(rows) else rows
        for row in first.tolist():
            why = f"the {name} {column.at(row)!r} is unknown; there are {', '.join(known)}"
            found.setdefault(int(seen.run[row]), f"event {seen.seq[row]}: {why}")
    return found
