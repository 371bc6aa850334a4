"""Why the model does not allow a run: the event, the state before it, and the guard that refused it.

Of the states that the model may have been in, the explanation shows the ones that came furthest: for each
label that the event may have been, the guard that refused the last of them, and one such state.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from fencepost.model import Label
from fencepost.model.kernel.language.errors import FailedGuard
from fencepost.model.kernel.language.layout import U64
from fencepost.model.kernel.report.counterexample import format_value
from fencepost.properties.refinement.automaton import Automaton, SymbolKind
from fencepost.properties.refinement.observation import Observation
from fencepost.properties.refinement.refinement import Action

_NAMED = re.compile(r"\b\w+\.(\w+)(?:\[[^\]]*\]\.(\w+))?")
"""A field in the text of a guard, and the field of a role: `s.epoch`, `s.writer[w].at`."""
REFUSALS_SHOWN = 8
"""A label has many parameters that no event shows."""


@dataclass(frozen=True)
class Refused:
    """One action that the event may have been, and why it was not possible."""

    action: str
    why: str


@dataclass(frozen=True)
class Explanation:
    """A run that the model does not allow, for people."""

    event: str
    candidates: int
    """The number of states in which the model may have been."""
    state: str
    """The one of them that came furthest."""
    refused: tuple[Refused, ...]
    find_possible: Callable[[], tuple[str, ...]] = field(repr=False, compare=False)

    @cached_property
    def possible(self) -> tuple[str, ...]:
        """The labels that events could have shown instead: every label is tried, so only on demand."""
        return self.find_possible()

    def sentence(self) -> str:
        if not self.refused:
            return f"{self.event}: this is nothing that the model ever does"
        first = self.refused[0]
        return f"{self.event}: {first.action} is not possible: {first.why}"

    def lines(self) -> list[str]:
        others = f"  (or one of {self.candidates - 1} others)" if self.candidates > 1 else ""
        lines = [f"  event     {self.event}", f"  before    {self.state}{others}"]
        lines += [f"  not       {one.action}: {one.why}" for one in self.refused[:REFUSALS_SHOWN]]
        if len(self.refused) > REFUSALS_SHOWN:
            lines.append(f"            and {len(self.refused) - REFUSALS_SHOWN} more")
        lines.append(f"  possible  {', '.join(self.possible) or 'nothing that an event shows'}")
        return lines


def explain(automaton: Automaton, before: int, symbol: int) -> Explanation:
    """Why `symbol` cannot be read in the set `before`."""
    read = automaton.symbol_of(symbol)
    rows = automaton.states(before)
    if read.kind is SymbolKind.RESPONDED:
        refused = [(Refused("landed", "it cannot have landed between its request and its response"), 0)]
    else:
        refused = [_refused(automaton, rows, action) for action in automaton.actions(read.observation)]
    furthest = refused[0][1] if refused else 0
    return Explanation(
        event=_event(read.kind, read.observation),
        candidates=rows.shape[1],
        state=show_state(automaton, rows, furthest),
        refused=tuple(dict.fromkeys(one for one, _ in refused)),
        find_possible=lambda: tuple(str(label) for label in possible(automaton, rows)),
    )


@dataclass(frozen=True)
class Unmoved:
    """Why a renaming is not possible, and in which state."""

    why: str
    state: str


def refusal(automaton: Automaton, before: int, symbol: int) -> Unmoved:
    """Why not every state of the set `before` allows a renaming."""
    read = automaton.symbol_of(symbol)
    label = automaton.refinement.renaming(read.observation)
    rows = automaton.states(before)
    for row in range(rows.shape[1]):
        found = automaton.model.failed_guard(rows[:, row : row + 1], label)
        if found is not None:
            return Unmoved(str(found), show_state(automaton, rows, row))
    return Unmoved("the model has no room", show_state(automaton, rows, 0))


def _event(kind: SymbolKind, observation: Observation) -> str:
    return str(observation) if kind is SymbolKind.LANDED else f"{observation}, {kind.value}"


def guard_values(automaton: Automaton, rows: U64, row: int, guard: str) -> str:
    """The values of the fields that a guard names, in one state: `epoch: 2, writer.at: [new, heads]`."""
    state = automaton.model.unpack(tuple(int(word) for word in rows[:, row]))
    shown: dict[str, object] = {}
    for name, part in _NAMED.findall(guard):
        members = state.get(name)
        if part and isinstance(members, Sequence) and all(part in member for member in members):
            shown[f"{name}.{part}"] = tuple(member[part] for member in members)
        elif name in state:
            shown[name] = members
    return ", ".join(f"{name}: {format_value(value)}" for name, value in shown.items())


def show_state(automaton: Automaton, rows: U64, row: int) -> str:
    """One state in words, without the fields that have their initial values."""
    model = automaton.model
    first = model.unpack(tuple(int(word) for word in model.initial()[:, 0]))
    values = model.unpack(tuple(int(word) for word in rows[:, row]))
    changed = [f"{name}: {format_value(value)}" for name, value in values.items() if value != first[name]]
    return ", ".join(changed) or "as in the beginning"


def possible(automaton: Automaton, rows: U64) -> list[Label]:
    """The labels that the next event could have shown."""
    model, refinement = automaton.model, automaton.refinement
    return [
        label for label in model.labels if refinement.shows(label) and model.apply(rows, label) is not None
    ]


def _refused(automaton: Automaton, rows: U64, action: Action) -> tuple[Refused, int]:
    """Why an action is impossible in all `rows`, and the row that came furthest."""
    name = str(action.label) if action.label is not None else "nothing"
    refusal: FailedGuard | None = None
    if action.label is not None:
        refusal = automaton.model.failed_guard(rows, action.label)
    if refusal is not None:
        values = guard_values(automaton, rows, refusal.row, refusal.text)
        return Refused(name, f"{refusal}{values and f'; {values}'}"), refusal.row
    row = int(automaton.model.successors(rows, action.label).origin[0]) if action.label else 0
    return Refused(name, f"then {action.description}"), row
