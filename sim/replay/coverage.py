"""Which of the model's labels and transitions the runs of a trace took.

`taken_labels` and `label_coverage` count labels, of all that events can show: a transition counts by its
label, an action with its parameters. Hidden labels do not count. Where an event may have been one of several
labels, all possible ones count, so the true share is at most the share shown.

`DrivenTransitions` counts transitions, as an audit does for its runs. The model for verdicts is made for
verdicts: some of its states represent many, and it may have no bound. So every symbol is read a second time
by the observed machine at a bound, whose transitions can be counted (`Refinement.covering`, `Driven`).
The observation is known by then, so this costs one more look-up an event. A run that leaves the bound counts
up to there; so does a run that is read through a window, up to where the window moves.
"""

import threading
from dataclasses import replace
from typing import Any

import numpy as np

from fencepost.properties.refinement import (
    OUTSIDE,
    Action,
    Automaton,
    Driven,
    Observation,
    Refinement,
    Share,
    Symbol,
    SymbolKind,
)
from fencepost.properties.refinement.symbols import Symbols
from fencepost.properties.refinement.text import I64
from fencepost.sim.replay.result import LabelCoverage
from fencepost.sim.replay.walk import VectorisedWalk

PAIRS_MAX = 20_000
"""Pairs of set and symbol that are examined; a trace that takes more has taken the common ones by then."""
BEYOND = Observation("window", "beyond", "the bound", "", "", (), (), out_of_bounds="event")


def taken_labels(walk: VectorisedWalk) -> set[int]:
    """The numbers of the labels that the runs took."""
    automaton = walk.automaton
    found: set[int] = set()
    for number, symbol in np.argwhere(walk.taken())[:PAIRS_MAX].tolist():
        read = automaton.symbols[symbol] if 0 < symbol < len(automaton.symbols) else None
        if number <= OUTSIDE or read is None or read.kind is SymbolKind.RESPONDED:
            continue
        if read.observation.out_of_bounds:
            continue
        rows = None
        for action in automaton.actions(read.observation):
            label = action.label
            if label is None or label.number in found or not automaton.refinement.shows(label):
                continue
            rows = automaton.states(number) if rows is None else rows
            if _possible(automaton, rows, action):
                found.add(label.number)
    return found


def _possible(automaton: Automaton, rows: Any, action: Action) -> bool:
    assert action.label is not None
    after = automaton.model.successors(rows, action.label).states
    if action.condition is None or not after.shape[1]:
        return bool(after.shape[1])
    return bool(automaton.judge(after, action).any())


def label_coverage(automaton: Automaton, labels: set[int]) -> LabelCoverage:
    """Return how many of the labels that events can show were taken, and the others by action."""
    shown = [label for label in automaton.model.labels if automaton.refinement.shows(label)]
    missing = [label for label in shown if label.number not in labels]
    by_action: dict[str, list[int]] = {}
    for label in shown:
        counts = by_action.setdefault(label.action, [0, 0])
        counts[0] += label.number in labels
        counts[1] += 1
    return LabelCoverage(
        taken=len(shown) - len(missing),
        of=len(shown),
        actions={action: {"taken": one, "of": all_} for action, (one, all_) in by_action.items()},
        missing=tuple(str(label) for label in missing),
    )


class DrivenTransitions:
    """Follows the symbols of an automaton in the model as it is checked. Thread-safe."""

    def __init__(self, automaton: Automaton, covering: Refinement) -> None:
        self._source = automaton
        self._lock = threading.Lock()
        self._automaton = Automaton(covering, slots=automaton.slots)
        self._walk = VectorisedWalk(self._automaton, self._lock)
        self._translation = np.zeros(1, np.int64)
        self._ends: set[int] = set()
        self._runs = self._beyond = 0
        self._names = {
            entry.partition("@")[0].rstrip("?") + (f" in {role.name}" if "?" in entry else ""): role
            for role in covering.roles
            for entry in role.of
        }

    def follow(self, read: Symbols) -> None:
        """Follow the runs of a part."""
        found = self._walk.follow(self._translated(read.symbols), read.starts, read.lengths)
        ended = np.where(found.sets > OUTSIDE, found.sets, found.before)
        with self._lock:
            self._ends.update(np.unique(ended).tolist())
            self._runs += len(ended)
            self._beyond += int((found.sets <= OUTSIDE).sum())

    def share(self) -> Share:
        """The share of the whole model, which this explores."""
        driven = Driven(self._automaton)
        taken = np.argwhere(self._walk.taken())
        driven.spread(
            ((int(number), int(symbol)) for number, symbol in taken if number > OUTSIDE), self._ends
        )
        driven.runs, driven.beyond = self._runs, self._beyond
        return driven.share()

    def _translated(self, symbols: I64) -> I64:
        """The same events, as symbols of the model as it is checked."""
        with self._lock:
            for number in range(len(self._translation), len(self._source.symbols)):
                self._translation = np.append(self._translation, self._symbol(self._source.symbols[number]))
            translated: I64 = self._translation[symbols]
        return translated

    def _symbol(self, read: Symbol | None) -> int:
        assert read is not None
        if read.kind is SymbolKind.RENAMED or read.observation.out_of_bounds:
            return self._automaton.symbol(BEYOND)
        return self._automaton.symbol(self._seen(read.observation), read.kind, read.left)

    def _seen(self, seen: Observation) -> Observation:
        """The observation in the model as it is checked, which may have fewer roles and smaller bounds."""
        ranks = [(name, rank) for name, rank in seen.ranks if name in self._names]
        for name, rank in ranks:
            role = self._names[name]
            if rank < role.least or (role.most is not None and rank > role.most):
                return BEYOND
        return replace(seen, ranks=tuple(ranks))
