"""Which share of the model's transitions the runs of a trace took, as an audit tells it of its runs.

A judge's model is made for judging: some of its states stand for many, and it may have no bound. So what the
judge reads is read a second time, by the model as it is checked, whose transitions can be counted
(`Refinement.modelled`, `refinement.Driven`). What an event is apart from names is known by then, so this
costs one more look-up an event. A run that leaves the bound counts up to there; so does one that is read
through a window, up to where that moves.
"""

import threading

import numpy as np

from fencepost.properties.refinement import (
    OUTSIDE,
    Automaton,
    Driven,
    Letter,
    Move,
    Observation,
    Refinement,
    Share,
)
from fencepost.sim.replay.letters import Letters
from fencepost.sim.replay.lockstep import Lockstep
from fencepost.sim.replay.texts import I64

BEYOND = Observation("window", "beyond", "the bound", "", "", (), (), stranger="event")


class Driving:
    """Follows what a judge reads. For several threads."""

    def __init__(self, judge: Automaton, modelled: Refinement) -> None:
        self._judge = judge
        self._lock = threading.Lock()
        self._automaton = Automaton(modelled, slots=judge.slots)
        self._lockstep = Lockstep(self._automaton, self._lock)
        self._called = np.zeros(1, np.int64)
        self._ends: set[int] = set()
        self._runs = self._beyond = 0
        self._names = {
            entry.partition("@")[0].rstrip("?") + (f" in {role.name}" if "?" in entry else ""): role
            for role in modelled.roles
            for entry in role.of
        }

    def follow(self, read: Letters) -> None:
        """The runs of a part."""
        letters = self._translated(read.letters)
        found = self._lockstep.follow(letters, read.starts, read.lengths)
        ended = np.where(found.sets > OUTSIDE, found.sets, found.before)
        with self._lock:
            self._ends.update(np.unique(ended).tolist())
            self._runs += len(ended)
            self._beyond += int((found.sets <= OUTSIDE).sum())

    def share(self) -> Share:
        """Of the whole model, which is explored for it."""
        driven = Driven(self._automaton)
        taken = np.argwhere(self._lockstep.taken())
        driven.spread(
            ((int(number), int(letter)) for number, letter in taken if number > OUTSIDE), self._ends
        )
        driven.runs, driven.beyond = self._runs, self._beyond
        return driven.share()

    def _translated(self, letters: I64) -> I64:
        """The same events, as the letters of the model as it is checked."""
        with self._lock:
            for number in range(len(self._called), len(self._judge.letters)):
                self._called = np.append(self._called, self._letter(self._judge.letters[number]))
            called: I64 = self._called[letters]
        return called

    def _letter(self, read: Letter | None) -> int:
        assert read is not None
        if read.move is Move.RENAMED or read.observation.stranger:
            return self._automaton.letter(BEYOND)
        return self._automaton.letter(self._seen(read.observation), read.move, read.left)

    def _seen(self, seen: Observation) -> Observation:
        """What the model as it is checked sees, which may know fewer roles and have less room."""
        ranks = [(name, rank) for name, rank in seen.ranks if name in self._names]
        for name, rank in ranks:
            role = self._names[name]
            if rank < role.least or (role.most is not None and rank > role.most):
                return BEYOND
        return Observation(
            seen.phase,
            seen.kind,
            seen.what,
            seen.condition,
            seen.outcome,
            tuple(ranks),
            seen.trace_fields,
            seen.own,
        )
