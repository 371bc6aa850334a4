"""Leaving out the steps of a walk that were not needed, many attempts at once.

An attempt leaves out a few steps and takes the others again from the same start: it counts when every
label is still enabled where it is taken and the end still tells. Attempts are columns, one row each,
so that all ways to leave out one piece of the walk cost about as much as a single one. Pieces are
halves first, then quarters, down to single steps.
"""

from collections.abc import Sequence

import numpy as np

from fencepost.model.kernel.declare import Property
from fencepost.model.kernel.layout import U64, Mask
from fencepost.model.kernel.model import Label, Model


def tells(model: Model, wanted: Property | None, before: U64, after: U64) -> Mask:
    """Where a property is decided by a step, or by the state after it; None asks for a deadlock."""
    if wanted is None:
        stuck: Mask = ~model.may_end(after)
        for label in model.labels:
            stuck[model.successors(after, label).origin] = False
        return stuck
    if wanted.kind == "step":
        return ~model.holds_between(wanted, before, after)
    holds = model.holds(wanted, after)
    return holds if wanted.kind == "reachable" else ~holds


def needed(model: Model, wanted: Property | None, start: U64, labels: Sequence[Label]) -> list[Label]:
    """The labels of a walk that tells, without what can be left out of it."""
    kept = list(labels)
    size = len(kept) // 2
    while size:
        pieces = np.zeros((-(-len(kept) // size), len(kept)), np.bool_)
        for row, piece in enumerate(pieces):
            piece[row * size : (row + 1) * size] = True
        free = pieces[_still_tells(model, wanted, start, kept, pieces)]
        if len(free):
            # Each can be left out alone. Try all of them at once, then half of them, and so on.
            shares = [free[: max(1, len(free) >> halvings)] for halvings in range(len(free).bit_length())]
            joined = np.array([share.any(axis=0) for share in shares])
            dropped = joined[int(_still_tells(model, wanted, start, kept, joined).argmax())]
            kept = [label for label, gone in zip(kept, dropped, strict=True) if not gone]
            size = min(size, max(1, len(kept) // 2)) if kept else 0
        else:
            size //= 2
    return kept


def _still_tells(
    model: Model, wanted: Property | None, start: U64, labels: Sequence[Label], dropped: Mask
) -> Mask:
    """For each attempt, a row that says which steps it leaves out, whether its end tells."""
    states = np.repeat(start, len(dropped), axis=1)
    before = states.copy()
    alive = np.ones(len(dropped), np.bool_)
    for label, gone in zip(labels, dropped.T, strict=True):
        rows = np.flatnonzero(alive & ~gone)
        found = model.successors(states.take(rows, axis=1), label)
        moved = rows.take(found.origin)
        alive[rows] = False
        alive[moved] = True
        before[:, moved] = states[:, moved]
        states[:, moved] = found.states
    if wanted is not None and wanted.kind == "step":
        alive &= ~dropped.all(axis=1)  # a step is needed to break a step property
    return alive & tells(model, wanted, before, states)
