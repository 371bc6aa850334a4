"""One run at a time, followed in all states that the model may be in: the oracle for the automaton.

It shares with `properties.refinement.automaton` the kernel's successors of one label, and the declarations of
a map. A state is a tuple of words, with the sorted tuple of the requests that may still land.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fencepost.model import FieldOverflow, Property
from fencepost.model.kernel.language.kinds import Condition
from fencepost.properties.refinement import OUT_OF_BOUNDS, Action, Automaton, Observation, SymbolKind

State = tuple[tuple[int, ...], tuple[Observation, ...]]
ACCEPTED, REJECTED, BEYOND = "accepted", "rejected", "beyond the bounds"


@dataclass(frozen=True)
class Followed:
    """The verdict, the place of the symbol that decided it, and the packed states before that."""

    verdict: str
    place: int
    before: frozenset[tuple[int, ...]]


@dataclass
class Oracle:
    """Follows symbols of an automaton without its sets and its table."""

    automaton: Automaton
    _after: dict[Any, list[tuple[int, ...]]] = field(default_factory=dict)

    def follow(self, symbols: Iterable[int]) -> Followed:
        refinement = self.automaton.refinement
        first = refinement.forgotten(self.automaton.model.initial())
        states = self._closed({(_tuple(column), ()) for column in first.T})
        for place, number in enumerate(symbols):
            before = frozenset(words for words, _ in states)
            try:
                after = self._read(states, number)
            except FieldOverflow:
                after = None
            if not after:
                return Followed(BEYOND if after is None else REJECTED, place, before)
            states = after
        return Followed(ACCEPTED, -1, frozenset(words for words, _ in states))

    def _read(self, states: set[State], number: int) -> set[State] | None:
        """The states after a symbol, or None beyond the model's bounds."""
        read = self.automaton.symbols[number]
        if read is None:
            return states
        seen = read.observation
        if read.kind is SymbolKind.RESPONDED:
            return {(words, open_) for words, open_ in states if open_.count(seen) <= read.left}
        if read.kind is SymbolKind.RENAMED:
            return self._renamed(states, seen)
        meant = self.automaton.actions(seen)
        if meant == OUT_OF_BOUNDS:
            return None
        if read.kind is SymbolKind.REQUESTED:
            if any(len(open_) >= self.automaton.slots for _, open_ in states):
                return None
            return self._closed({(words, _sorted((*open_, seen))) for words, open_ in states})
        return self._closed(
            {one for state in states for action in meant for one in self._done(state, action)}
        )

    def _renamed(self, states: set[State], seen: Observation) -> set[State] | None:
        refinement = self.automaton.refinement
        label = refinement.renaming(seen)
        found: set[State] = set()
        for words, open_ in states:
            after = self._successors(words, label)
            if not after:
                return None
            named = [refinement.renamed(one, label) for one in open_]
            found |= {(one, _sorted(name for name in named if name is not None)) for one in after}
        return self._closed(found)

    def _closed(self, states: set[State]) -> set[State]:
        refinement = self.automaton.refinement
        known, frontier = set(states), set(states)
        while frontier:
            found: set[State] = set()
            for words, open_ in frontier:
                for label in refinement.hidden_labels():
                    found |= {(after, open_) for after in self._successors(words, label)}
                for one in set(open_):
                    rest = list(open_)
                    rest.remove(one)
                    for action in self.automaton.actions(one):
                        found |= set(self._done((words, tuple(rest)), action))
            frontier = found - known
            known |= frontier
        return {(self._saturated(words), open_) for words, open_ in known}

    def _saturated(self, words: tuple[int, ...]) -> tuple[int, ...]:
        model, refinement = self.automaton.model, self.automaton.refinement
        for name in refinement.eager:
            for label in model.labels:
                if label.action == name:
                    for after in self._successors(words, label):
                        words = after
        return words

    def _done(self, state: State, action: Action) -> Iterator[State]:
        words, open_ = state
        for after in [words] if action.label is None else self._successors(words, action.label):
            if action.condition is None or self._holds(after, action):
                yield after, open_

    def _holds(self, words: tuple[int, ...], action: Action) -> bool:
        condition = action.condition
        assert condition is not None
        wanted = Property("condition", Condition(), lambda s: condition(s), "")
        return bool(self.automaton.refinement.model.holds(wanted, _column(words))[0])

    def _successors(self, words: tuple[int, ...], label: Any) -> list[tuple[int, ...]]:
        key = words, label.number
        if key not in self._after:
            found = self.automaton.refinement.model.successors(_column(words), label).states
            self._after[key] = [_tuple(one) for one in self.automaton.refinement.forgotten(found).T]
        return self._after[key]


def _column(words: tuple[int, ...]) -> Any:
    return np.array(words, np.uint64)[:, np.newaxis]


def _tuple(column: Any) -> tuple[int, ...]:
    return tuple(int(word) for word in column)


def _sorted(open_: Iterable[Observation]) -> tuple[Observation, ...]:
    return tuple(sorted(open_, key=repr))
