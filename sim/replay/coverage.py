"""Which of the model's transitions the runs took, of all that events could have shown, and which never.

A transition is counted by its label: an action with its parameters. What is hidden is not counted, neither
taken nor to be taken. Where an event may have been one of several labels, all that were possible count, so
that the share is at most what is told here.
"""

from typing import Any

import numpy as np

from fencepost.properties.refinement import OUTSIDE, Automaton, Move
from fencepost.properties.refinement.refinement import Reading
from fencepost.sim.replay.lockstep import Lockstep

PAIRS_MAX = 20_000
"""Pairs of set and letter that are looked at; a trace that takes more has taken the common ones by then."""


def taken(lockstep: Lockstep) -> set[int]:
    """The numbers of the labels that the runs took."""
    automaton = lockstep.automaton
    found: set[int] = set()
    pairs = np.argwhere(lockstep.taken())[:PAIRS_MAX].tolist()
    for number, letter in pairs:
        read = automaton.letters[letter] if 0 < letter < len(automaton.letters) else None
        if number <= OUTSIDE or read is None or read.move is Move.ANSWERED or read.observation.stranger:
            continue
        open_ = [one for one in automaton.meaning(read.observation) if _counts(automaton, one, found)]
        rows = automaton.states(number) if open_ else None
        for reading in open_:
            if _possible(automaton, rows, reading):
                assert reading.label is not None
                found.add(reading.label.number)
    return found


def coverage(automaton: Automaton, labels: set[int]) -> dict[str, Any]:
    """How many of the labels that events can show were taken, and the names of the others, by action."""
    shown = [label for label in automaton.model.labels if automaton.refinement.shows(label)]
    missing = [label for label in shown if label.number not in labels]
    by_action: dict[str, list[int]] = {}
    for label in shown:
        counts = by_action.setdefault(label.action, [0, 0])
        counts[0] += label.number in labels
        counts[1] += 1
    return {
        "taken": len(shown) - len(missing),
        "of": len(shown),
        "actions": {action: {"taken": one, "of": all_} for action, (one, all_) in by_action.items()},
        "missing": [str(label) for label in missing],
    }


def _counts(automaton: Automaton, reading: Reading, found: set[int]) -> bool:
    label = reading.label
    return label is not None and label.number not in found and automaton.refinement.shows(label)


def _possible(automaton: Automaton, rows: Any, reading: Reading) -> bool:
    assert reading.label is not None
    after = automaton.model.successors(rows, reading.label).states
    if reading.test is None or not after.shape[1]:
        return bool(after.shape[1])
    return bool(automaton.judge(after, reading).any())
