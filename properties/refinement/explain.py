"""Why a run is not the model's: the event, what the model knew before it, and which guard stood in its way.

Of the several states that the model could have been in, those are told that came furthest: for each label
that the event could have been, the guard at which the last of them fell out, and one that did.
"""

from dataclasses import dataclass

from fencepost.model import Label
from fencepost.model.kernel.language.errors import FailedGuard
from fencepost.model.kernel.language.layout import U64
from fencepost.model.kernel.report.counterexample import format_value
from fencepost.properties.refinement.automaton import Automaton, Move
from fencepost.properties.refinement.observation import Observation
from fencepost.properties.refinement.refinement import Reading

TOLD_MAX = 8
"""Refusals that are told; a label has many parameters that no event shows."""


@dataclass(frozen=True)
class Refused:
    """One reading of the event, and why it was not possible."""

    reading: str
    why: str


@dataclass(frozen=True)
class Explanation:
    """A death of the automaton, for people."""

    event: str
    candidates: int
    """In how many states the model could have been."""
    state: str
    """One of them: the one that came furthest."""
    refused: tuple[Refused, ...]
    possible: tuple[str, ...]
    """What the model allowed to be seen instead."""

    def sentence(self) -> str:
        if not self.refused:
            return f"{self.event}: this is nothing that the model ever does"
        first = self.refused[0]
        return f"{self.event}: {first.reading} is not possible: {first.why}"

    def lines(self) -> list[str]:
        """The whole of it."""
        told = [f"  event     {self.event}"]
        told += [f"  before    {self.state}" + _others(self.candidates)]
        told += [f"  not       {one.reading}: {one.why}" for one in self.refused[:TOLD_MAX]]
        if len(self.refused) > TOLD_MAX:
            told.append(f"            and {len(self.refused) - TOLD_MAX} more")
        told.append(f"  possible  {', '.join(self.possible) or 'nothing that an event shows'}")
        return told


def _others(candidates: int) -> str:
    return f"  (or one of {candidates - 1} others)" if candidates > 1 else ""


def explain(automaton: Automaton, before: int, letter: int) -> Explanation:
    """Why `letter` cannot be read in the set `before`."""
    read = automaton.letters[letter]
    assert read is not None
    rows = automaton.states(before)
    if read.move is Move.ANSWERED:
        refused = [(Refused("landed", "it cannot have landed between its request and its response"), 0)]
    else:
        refused = [_refused(automaton, rows, reading) for reading in automaton.meaning(read.observation)]
    furthest = refused[0][1] if refused else 0
    return Explanation(
        event=_event(read.move, read.observation),
        candidates=rows.shape[1],
        state=told(automaton, rows, furthest),
        refused=tuple(dict.fromkeys(one for one, _ in refused)),
        possible=tuple(str(label) for label in possible(automaton, rows)),
    )


@dataclass(frozen=True)
class Unmoved:
    """Why a renaming is not possible, and in which state."""

    why: str
    state: str


def refusal(automaton: Automaton, before: int, letter: int) -> Unmoved:
    """Why not every state of the set `before` allows a renaming."""
    read = automaton.letters[letter]
    assert read is not None
    label = automaton.refinement.renaming(read.observation)
    rows = automaton.states(before)
    for row in range(rows.shape[1]):
        found = automaton.model.failed_guard(rows[:, row : row + 1], label)
        if found is not None:
            return Unmoved(str(found), told(automaton, rows, row))
    return Unmoved("the model has no room", told(automaton, rows, 0))


def _event(move: Move, observation: Observation) -> str:
    return str(observation) if move is Move.NOW else f"{observation}, {move.value}"


def told(automaton: Automaton, rows: U64, row: int) -> str:
    """One state in words, the fields that are as in the beginning left out."""
    model = automaton.model
    first = model.unpack(tuple(int(word) for word in model.initial()[:, 0]))
    values = model.unpack(tuple(int(word) for word in rows[:, row]))
    changed = [f"{name}: {format_value(value)}" for name, value in values.items() if value != first[name]]
    return ", ".join(changed) or "as in the beginning"


def possible(automaton: Automaton, rows: U64) -> list[Label]:
    """The labels that an event could have shown next."""
    model, refinement = automaton.model, automaton.refinement
    return [
        label for label in model.labels if refinement.shows(label) and model.apply(rows, label) is not None
    ]


def _refused(automaton: Automaton, rows: U64, reading: Reading) -> tuple[Refused, int]:
    """Why a reading is impossible in all `rows`, and the row that came furthest."""
    name = str(reading.label) if reading.label is not None else "nothing"
    refusal: FailedGuard | None = None
    if reading.label is not None:
        refusal = automaton.model.failed_guard(rows, reading.label)
    if refusal is not None:
        return Refused(name, str(refusal)), refusal.row
    row = int(automaton.model.successors(rows, reading.label).origin[0]) if reading.label else 0
    return Refused(name, f"then {reading.says}"), row
