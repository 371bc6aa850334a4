"""A part of a trace in, a verdict a run out; and what an operator asks of a rejected one.

Of a rejected run: the first event that the model does not allow, the state before it, what the model
allowed instead, and the guard that was false. That is worked out once for each way in which runs fail,
however many do.
"""

import threading
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from fencepost.properties.refinement import DEAD, OUTSIDE, Automaton, Move, explain, refusal
from fencepost.sim.replay.driving import Driving
from fencepost.sim.replay.letters import Events, Letters, Speller
from fencepost.sim.replay.lockstep import Ends, Lockstep
from fencepost.sim.replay.windows import Lives

ACCEPTED, REJECTED, UNDECIDED = "accepted", "rejected", "undecided"
VERDICTS = pa.schema(
    [
        ("run", pa.string()),
        ("verdict", pa.string()),
        ("events", pa.int64()),
        ("read", pa.int64()),
        ("seq", pa.int64()),
        ("event", pa.string()),
        ("reason", pa.string()),
        ("state", pa.string()),
        ("possible", pa.string()),
    ]
)
"""A row a run. `events` are all of them, `read` those that meant something; the rest is empty when
accepted."""


@dataclass
class Judge:
    """One automaton and what it has been asked. For several threads."""

    automaton: Automaton
    whole: bool = False
    """Runs are as they were written down, so that numbers that are missing are events that are."""
    driving: Driving | None = None
    """What tells the share of the model's transitions that was driven, when somebody wants it."""
    lockstep: Lockstep = field(init=False)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self.lockstep = Lockstep(self.automaton, self._lock)
        self._speller = Speller(self.automaton, self._lock)
        self._told: dict[tuple[int, int], tuple[str, str, str]] = {}

    def verdicts(self, seen: Events) -> pa.Table:
        """The verdicts on the runs of a part that is in order."""
        if not len(seen):
            return VERDICTS.empty_table()
        letters = self._speller.letters(seen)
        ends = self.lockstep.follow(letters.letters, letters.starts, letters.lengths)
        if self.driving is not None:
            self.driving.follow(letters)
        return self._table(seen, letters, ends)

    def _table(self, seen: Events, letters: Letters, ends: Ends) -> pa.Table:
        runs = len(seen.runs)
        verdict = np.zeros(runs, np.int8)
        verdict[ends.sets == DEAD], verdict[ends.sets == OUTSIDE] = 1, 2
        verdict[list(letters.untold)] = 2
        columns = {name: [""] * runs for name in ("event", "reason", "state", "possible")}
        seq = np.full(runs, -1, np.int64)
        for run in np.flatnonzero(verdict).tolist():
            row, told = self._why(seen, letters, ends, run)
            seq[run] = seen.seq[row] if row >= 0 else -1
            for name, words in zip(columns, told, strict=True):
                columns[name][run] = words
        names = pa.array([ACCEPTED, REJECTED, UNDECIDED])
        return pa.table(
            [
                seen.runs,
                names.take(pa.array(verdict)),
                np.bincount(seen.run, minlength=runs),
                letters.lengths - letters.renamings,
                seq,
                *columns.values(),
            ],
            schema=VERDICTS,
        )

    def _why(
        self, seen: Events, letters: Letters, ends: Ends, run: int
    ) -> tuple[int, tuple[str, str, str, str]]:
        """The row of the event that decided a run, and what is to be said."""
        if run in letters.untold:
            return -1, ("", letters.untold[run], "", "")
        place = int(letters.starts[run] + ends.places[run])
        row, letter = int(letters.rows[place]), int(letters.letters[place])
        key = int(ends.before[run]), letter
        with self._lock:
            if key not in self._told:
                self._told[key] = self._explained(*key, outside=bool(ends.sets[run] == OUTSIDE))
        reason, state, possible = self._told[key]
        return row, (
            _event(seen, row),
            reason
            + (_under_way(seen, letters.lives, run, row) if ends.sets[run] == OUTSIDE else "")
            + (_gaps(seen, run, row) if self.whole else ""),
            state,
            possible,
        )

    def _explained(self, before: int, letter: int, *, outside: bool) -> tuple[str, str, str]:
        read = self.automaton.letters[letter]
        assert read is not None
        if read.move is Move.RENAMED:
            refused = refusal(self.automaton, before, letter)
            return f"{read.observation.what} is not possible here: {refused.why}", refused.state, ""
        if outside:
            stranger = read.observation.stranger
            what = f"this {stranger}" if stranger else "it"
            return f"{read.observation}: the model has no room for {what}", "", ""
        if read.move is Move.ANSWERED:
            # It did not land since it was asked for: nor could it now, and that is what can be explained.
            letter = self.automaton.letter(read.observation)
        told = explain(self.automaton, before, letter)
        return told.sentence(), told.state, ", ".join(told.possible)


def _under_way(seen: Events, lives: Lives | None, run: int, row: int) -> str:
    """The plans for which a model that moves along had to have room, by the events at which they began."""
    begun = [] if lives is None else lives.at(row, run).tolist()
    keys = [str(seen.key.values[int(seen.key.codes[one])].as_py()) for one in begun]
    told = ", ".join(f"{key} (event {seen.seq[one]})" for key, one in zip(keys, begun, strict=True))
    return f"; under way: {told}" if told else ""


def _gaps(seen: Events, run: int, row: int) -> str:
    """What the numbers of a run's events say of events that are not there."""
    first = int(np.searchsorted(seen.run, run))
    missing = int(seen.seq[row]) - (row - first)
    return f" ({missing} of the numbers before it are missing: so may events be)" if missing > 0 else ""


def _event(seen: Events, row: int) -> str:
    """An event in words, its own names in it."""

    def said(name: str) -> str:
        column = getattr(seen, name)
        return str(column.values[int(column.codes[row])].as_py())

    words = [
        f"{said('process')}:",
        said("phase"),
        said("kind"),
        said("key"),
        said("condition"),
        said("trace_fields"),
    ]
    outcome = said("outcome")
    return " ".join(word for word in [*words, f"-> {outcome}" if outcome else ""] if word)
