"""Runs that are longer than their model, read in a window that moves along (`refinement.window`).

The whole run is there, so it can be known what its rest still names. For each slide, row by row:

    reached    the newest number that surely stands before this row
    wanted     the smallest that this row or a later one names, those left out that are too old when named
    shift      as far as both stay at 1 or above; numbers of this row are told less by it

and for each plan the rows between which it has a slot: from the first that names it to behind the last, and
until the newest numbers have come as far as those that it made. One whose pins have all moved on leaves as
soon as only deletions of its sidecar are to come; those are not read. Slots are given as plans begin, the
smallest first.

Where a shift grows, and where a slot is left, a renaming label stands before the row. A reader that sees
more plans at once than there are slots finds a stranger, as ever.

What did not succeed is not read here: it means nothing to the model. Requests and answers of one operation
name the same, so that what is asked keeps its names until it is answered.
"""

import heapq
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fencepost.properties.refinement import Observation
from fencepost.properties.refinement.window import Slide, Window, renaming
from fencepost.sim.replay.observations import Columns, Rank, Seen
from fencepost.sim.replay.sweeping import FAR, needed
from fencepost.sim.replay.texts import I64, NONE, numbered

STANDS, ASKED, ANSWERED = 0, 1, 2
"""What a row is: something where it happened, a request, the answer to one."""
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Lives:
    """The plans of some runs: the run, the first row, the row before which it has left, and its slot."""

    run: I64
    first: I64
    free: I64
    slot: I64

    def at(self, row: int, run: int) -> I64:
        """The first rows of the plans of a run that are under way at a row."""
        rows: I64 = self.first[(self.run == run) & (self.first <= row) & (row < self.free)]
        return rows


@dataclass(frozen=True)
class Moved:
    """Long runs as a small model can read them."""

    seen: Seen
    """What is read, as the window shows it."""
    rows: I64
    """Which of the rows given these are."""
    swept: Mask
    """Which of them delete what commits made or pin."""
    needed: Mask
    """Which of those delete what somebody may need."""
    before: I64
    """Of each renaming the row, of those given, before which it stands; in order."""
    which: I64
    renamings: list[Observation]
    lives: Lives


def too_long(window: Window, seen: Seen, runs: int) -> Mask:
    """Which runs have more plans, or larger numbers, than the model has room for."""
    long = np.zeros(runs, np.bool_)
    for one in seen.ranks:
        most = window.slots - 1 if one.said == window.value else -1
        for slide in window.slides:
            most = slide.capacity if one.said in slide.values else most
        if most >= 0:
            long[seen.looks.run[one.there & (one.rank > most)]] = True
    return long


def moved(window: Window, columns: Columns, seen: Seen, side: I64) -> Moved:
    """Read runs through the window; of each row `side` says what it is. Runs lie together, in order."""
    return _Through(window, columns, seen, side).moved()


class _Through:
    """One reading. Rows are those of `seen` that may mean something."""

    def __init__(self, window: Window, columns: Columns, seen: Seen, side: I64) -> None:
        self.window = window
        self.trace_fields = columns.refinement.trace_fields
        note = seen.looks.phase.codes == seen.looks.phase.number("note")
        done = ~note & (seen.looks.outcome.codes == seen.looks.outcome.number("done"))
        self._places = np.flatnonzero(note | done)
        self.seen = seen.take(self._places)
        self.run, self.runs = numbered(self.seen.looks.run)
        self.done = done[self._places]
        self.sure = self.done & (side[self._places] != ASKED)
        self.put = self.done & ~self.seen.looks.kind.is_in(("delete",))
        self.whats = {name: number for number, name in enumerate(columns.whats)}
        self.ends = np.searchsorted(self.run, np.arange(self.runs), side="right")
        self.reached = {slide: self._reached(slide) for slide in window.slides}

    def moved(self) -> Moved:
        group, lives, leaves, settled = self._lives()
        until = np.minimum(lives.free, settled)
        shifts = {slide: self._shift(slide, group, until) for slide in self.window.slides}
        gone = self._is(self.window.document) & ~self.put & self.done & (group != NONE)
        gone &= (
            leaves[group] & (np.arange(len(group)) >= lives.free[group]) if len(lives.run) else gone & False
        )
        kept = np.flatnonzero(~gone)
        ranks = [self._told(one, shifts, group, lives) for one in self.seen.ranks]
        before, which, renamings = self._renamings(shifts, lives, leaves)
        swept = self.done & ~self.put & np.any([self._is(name) for name in self.window.swept], axis=0)
        commits = self._is(self.window.commit) & self.put & self.sure
        error = swept & self.sure & needed(self.window, self.seen, self.run, self.done, commits)
        return Moved(
            replace(self.seen, ranks=tuple(ranks)).take(kept),
            self._places[kept],
            swept[kept],
            error[kept],
            self._places[before],
            which,
            renamings,
            Lives(
                self.seen.looks.run[lives.first] if len(lives.run) else lives.run,
                self._places[lives.first] if len(lives.run) else lives.first,
                np.append(self._places, FAR)[np.minimum(lives.free, len(self._places))],
                lives.slot,
            ),
        )

    # Numbers.

    def _reached(self, slide: Slide) -> I64:
        """The newest number that stands before each row, lifted above those of all runs before its own."""
        rank = self._of(slide.reached)
        counts = rank.there & self._is(self.window.commit) & self.put & self.sure
        number = np.where(counts, np.clip(rank.rank, 0, FAR - 1), 0)
        earlier = np.append(0, number)[: len(number)]
        earlier[np.append(True, np.diff(self.run) != 0)[: len(number)]] = 0
        lifted: I64 = np.maximum.accumulate(self.run * FAR + earlier)
        return lifted

    def _shift(self, slide: Slide, group: I64, until: I64) -> I64:
        lift = self.run * FAR
        reached = self.reached[slide] - lift
        named = np.full(len(reached), FAR - 1)
        for one in self._named(slide):
            waits = one.there & self.done & ~self._is_old(slide, one)
            named = np.minimum(named, np.where(waits, np.clip(one.rank, 0, FAR - 1), FAR - 1))
        if slide.base:
            rows, numbers = self._made(slide, group)
            last = np.minimum(until[group[rows]], self.ends[self.run[rows]]) - 1
            last = np.maximum(last, rows)
            young = numbers >= reached[last] - slide.room
            np.minimum.at(named, last[young], numbers[young])
        wanted = np.minimum.accumulate((lift + named)[::-1])[::-1] - lift
        shift: I64 = np.maximum(np.minimum(wanted, reached) - 1, 0)
        return shift

    def _is_old(self, slide: Slide, one: Rank) -> Mask:
        old: Mask = one.rank < self.reached[slide] - self.run * FAR - slide.room
        return old

    def _named(self, slide: Slide) -> list[Rank]:
        return [one for one in self.seen.ranks if one.said in slide.values]

    def _told(self, one: Rank, shifts: dict[Slide, I64], group: I64, lives: Lives) -> Rank:
        """A value's ranks as the window shows them."""
        rank = one.rank
        for slide, shift in shifts.items():
            if one.said in slide.values:
                less = rank - shift
                rank = np.where(self._is_old(slide, one) & (shift > 0), np.minimum(less, NONE), less)
            for name, only in slide.looked:
                if one.said == name:
                    rank = rank - np.where(self._is_first(only), shift, 0)
        if one.said == self.window.value and len(lives.slot):
            rank = np.where(group != NONE, lives.slot[group], rank)
        return replace(one, rank=rank)

    def _is_first(self, name: str) -> Mask:
        if not name:
            return np.ones(len(self.run), np.bool_)
        one = self._of(name)
        return one.there & (one.rank == 0)

    # Plans.

    def _lives(self) -> tuple[I64, Lives, Mask, I64]:
        """Of each row its plan, or NONE; the plans; which of them leave before their sidecars do; and by
        which row each is settled.
        """
        rank = self._of(self.window.value)
        rows = np.flatnonzero(rank.there)
        group = np.full(len(self.run), NONE, np.int64)
        group[rows], count = numbered(self.run[rows], rank.rank[rows])
        whose = group[rows]
        first = np.full(count, FAR, np.int64)
        np.minimum.at(first, whose, rows)
        retired = self._is(self.window.document)[rows] & ~self.put[rows] & self.done[rows]
        last, last_other, passed = (np.zeros(count, np.int64) for _ in range(3))
        np.maximum.at(last, whose, rows + 1)
        np.maximum.at(last_other, whose[~retired], rows[~retired] + 1)
        for slide in self.window.slides:
            self._pass(slide, group, passed)
        end = np.maximum(last, passed)
        settled = self._settled(group, count)
        early = np.maximum(np.maximum(last_other, passed), settled)
        leaves = early < end
        free = np.where(leaves, early, end)
        lives = Lives(self.run[first] if count else first, first, free, np.zeros(count, np.int64))
        return group, replace(lives, slot=_slots(lives)), leaves, settled

    def _pass(self, slide: Slide, group: I64, passed: I64) -> None:
        """Until which row plans matter for the numbers that they made."""
        if slide.made:
            rows, numbers = self._made(slide, group)
            np.maximum.at(passed, group[rows], self._row_of(slide, rows, numbers))

    def _made(self, slide: Slide, group: I64) -> tuple[I64, I64]:
        """The rows in which plans made numbers, and those."""
        made = self._of(slide.reached)
        rows = np.flatnonzero((group != NONE) & made.there & self._is(slide.made) & self.put)
        return rows, np.clip(made.rank[rows], 0, FAR - 1)

    def _settled(self, group: I64, count: int) -> I64:
        """The row by which a plan's pins have moved on, all of them, whoever moved them."""
        settled = np.full(count, NONE, np.int64)
        rows = np.flatnonzero((group != NONE) & self._is(self.window.document) & self.put)
        for slide in self.window.slides:
            if slide.base:
                base = self._of(slide.base)
                those = rows[base.there[rows] & self._says(*slide.moved, rows)]
                place = self._row_of(slide, those, base.rank[those] + 1)
                np.maximum.at(settled, group[those], place)
        return np.where(settled == NONE, FAR, settled)

    def _says(self, fact: str, word: str, rows: I64) -> Mask:
        """In which rows a fact, a list with commas, has a word."""
        said = self.seen.plain[self.trace_fields.index(fact)][rows]
        distinct = np.unique(said)
        good = [word in (text or "").split(",") for text in self.seen.said.texts(distinct)]
        return np.isin(said, distinct[np.array(good, np.bool_)])

    def _row_of(self, slide: Slide, rows: I64, numbers: I64) -> I64:
        """For each of some rows the first of its run before which a number is reached."""
        wanted = self.run[rows] * FAR + np.clip(numbers, 0, FAR - 1)
        place = np.searchsorted(self.reached[slide], wanted)
        return np.where(place < self.ends[self.run[rows]], place, FAR)

    # What stands between.

    def _renamings(
        self, shifts: dict[Slide, I64], lives: Lives, leaves: Mask
    ) -> tuple[I64, I64, list[Observation]]:
        window = self.window
        made: list[Observation] = []
        before, which = [], []
        room = (lives.slot < window.slots) & (lives.free < self.ends[lives.run])
        for slot in range(window.slots):
            for action, those in ((window.forget, ~leaves), (window.leave, leaves)):
                rows = lives.free[room & those & (lives.slot == slot)]
                before.append(rows)
                which.append(np.full(len(rows), len(made)))
                made.append(renaming(action, {window.parameter: slot}, ()))
        begins = np.append(True, np.diff(self.run) != 0)[: len(self.run)]
        for slide, shift in shifts.items():
            grown = np.diff(shift, prepend=0)
            grown[begins] = shift[begins]
            rows = np.repeat(np.arange(len(shift)), grown)
            before.append(rows)
            which.append(np.full(len(rows), len(made)))
            made.append(renaming(slide.action, {}, slide.parameters))
        rows, kinds = np.concatenate(before), np.concatenate(which)
        order = np.lexsort((kinds, rows))
        return rows[order], kinds[order], made

    def _of(self, said: str) -> Rank:
        return next(one for one in self.seen.ranks if one.said == said)

    def _is(self, what: str) -> Mask:
        found: Mask = self.seen.what == self.whats[what]
        return found


def _slots(lives: Lives) -> I64:
    """A slot for each plan, the smallest that is free when it begins; plans of one run do not meet others."""
    slot = np.zeros(len(lives.run), np.int64)
    order = np.lexsort((lives.first, lives.run))
    begins = np.flatnonzero(np.append(True, np.diff(lives.run[order]) != 0)[: len(order)])
    for start, stop in pairwise([*begins.tolist(), len(order)]):
        _give(slot, order[start:stop].tolist(), lives.first, lives.free)
    return slot


def _give(slot: I64, plans: list[int], first: I64, free: I64) -> None:
    """The slots of one run's plans, as they begin."""
    left: list[int] = []
    held: list[tuple[int, int]] = []
    many = 0
    for plan, begins, ends in zip(plans, first[plans].tolist(), free[plans].tolist(), strict=True):
        while held and held[0][0] <= begins:
            heapq.heappush(left, heapq.heappop(held)[1])
        if not left:
            heapq.heappush(left, many)
            many += 1
        slot[plan] = heapq.heappop(left)
        heapq.heappush(held, (ends, int(slot[plan])))
