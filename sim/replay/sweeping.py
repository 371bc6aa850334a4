"""Whether what a long run deletes might be deleted, seen from the run itself.

A window that has moved on knows nothing of what is behind it, and that is what cleanup deletes. But the
rule is one that columns can check for a whole run at once: of the things that commits made, one may go when
it is not newer than a boundary that somebody has asked for; of the things that they pin, one that no commit
behind that boundary pins and the newest is past. Boundaries and pins only rise, so what may go at one time
may go ever after; and a request may have landed as late as its answer says, so it is judged by what was
asked for until then.

What a run does not tell (a boundary that moved before it began, and commits from then) forbids nothing.
"""

import numpy as np
from numpy.typing import NDArray

from fencepost.properties.refinement.window import Window
from fencepost.sim.replay.observations import Rank, Seen
from fencepost.sim.replay.texts import I64

FAR = 1 << 30
"""No number is larger: what has more digits is too old or too new for any window."""
Mask = NDArray[np.bool_]


NOWHERE = -FAR
"""The boundary of a run that has not said one."""


def needed(window: Window, seen: Seen, run: I64, done: Mask, commits: Mask) -> Mask:
    """Which rows delete what somebody may need. Rows lie in the order of their runs, numbered `run`."""
    ranks = {one.said: one for one in seen.ranks}
    deletes = done & seen.looks.kind.is_in(("delete",))
    found = np.zeros(len(run), np.bool_)
    asked = _highest(run, ranks[window.boundary], done & ~deletes)
    for slide in window.slides:
        for name, only in slide.looked:
            rows, number = deletes & ranks[name].there, ranks[name]
            if only:
                rows &= ranks[only].there & (ranks[only].rank == 0)
                found |= rows & _pinned(ranks[slide.reached], ranks[window.id], run, commits, asked, number)
            elif name == window.id:
                known = (asked > NOWHERE) | _made(ranks[window.id], run, commits, number)
                found |= rows & (number.rank > asked) & known
    return found


def _highest(run: I64, one: Rank, rows: Mask) -> I64:
    """The largest number that some rows of a run have said up to here."""
    said = np.where(rows & one.there, np.clip(one.rank, NOWHERE + 1, FAR - 1), NOWHERE)
    highest: I64 = np.maximum.accumulate(_lifted(run, said)) - run * (4 * FAR)
    return highest


def _pinned(pin: Rank, id_: Rank, run: I64, commits: Mask, asked: I64, number: Rank) -> Mask:
    """Where a commit behind the boundary pins a number. Commits and pins rise together."""
    rows = np.flatnonzero(commits & pin.there & id_.there)
    if not len(rows):
        return np.zeros(len(run), np.bool_)
    pins = _lifted(run[rows], pin.rank[rows])
    order = np.lexsort((id_.rank[rows], pins))
    pins, ids = pins[order], id_.rank[rows][order]
    wanted = _lifted(run, number.rank)
    newest = np.searchsorted(pins, wanted, side="right") - 1
    there: Mask = (newest >= 0) & (pins[newest.clip(0)] == wanted)
    return there & (ids[newest.clip(0)] > asked)


def _made(id_: Rank, run: I64, commits: Mask, number: Rank) -> Mask:
    """Which numbers are of commits that the run has made: no boundary from before it can be that far."""
    made: Mask = np.isin(_lifted(run, number.rank), _lifted(run, id_.rank)[commits & id_.there])
    return made


def _lifted(run: I64, rank: I64) -> I64:
    """Numbers as they are within a run, and above those of all runs before it."""
    return run * (4 * FAR) + np.clip(rank, -FAR, FAR)
