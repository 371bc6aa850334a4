"""Read runs that are longer than their model by renaming them into it.

A map declares in a `Window` which of its values are plans and which are numbers that rise (see `renaming`).
The whole run is known, so for each kind of number (`Slide`) and each row these are known too:

    reached    the newest number that certainly exists before this row
    wanted     the smallest number that this row or a later one names, without those too old when named
    shift      the largest shift that keeps both at 1 or above

A row's numbers are reduced by its shift. A plan holds a slot of the model from the first row that names it
until after the last, and until the newest numbers have reached those that it made. A plan whose pins have all
moved on leaves as soon as only deletions of its sidecar follow; those deletions are not read. Plans get slots
as they begin, the smallest free slot first. A run with more plans at once than slots is out of bounds.

Where a shift grows, and where a plan leaves its slot, a renaming symbol precedes the row.

A request that did not succeed is not read here, because the model ignores it. The request and the response of
one operation name the same values, so a request keeps its names until its response.

Deletions. A window that has moved on has lost the numbers behind it, and those are what cleanup deletes. But
two rules over the columns of a whole run decide every deletion:

- A commit may be deleted if a boundary that was requested is not older.
- A version that commits pin may be deleted if no commit after that boundary pins it and the newest pin has
  passed it.

Boundaries and pins only rise, so a deletion that is allowed once is allowed at any later time. A request may
have landed as late as its response, so it is judged by the boundaries requested until then. A run does not
record a boundary that moved before it began, nor the commits from then: those forbid nothing.
"""

import heapq
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from fencepost.properties.refinement.observation import Observation
from fencepost.properties.refinement.renaming import Slide, Window, renaming
from fencepost.properties.refinement.rules import Rank, ReadEvents, Rules
from fencepost.properties.refinement.text import I64, NONE, Mask

LANDED, REQUESTED, RESPONDED = 0, 1, 2
"""The kinds of row: an event where it happened, a request, or the response to one."""
FAR = 1 << 30
"""No number is larger: one with more digits is too old or too new for any window."""
NOWHERE = -FAR
"""The boundary of a run that has not requested one."""


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

    read: ReadEvents
    """The events, as the window shows them."""
    rows: I64
    """Their rows among those given."""
    swept: Mask
    """Which of them delete commits or what commits pin."""
    needed: Mask
    """Which of those delete what may still be needed."""
    before: I64
    """For each renaming, the row among those given that it precedes; in order."""
    which: I64
    renamings: list[Observation]
    lives: Lives


def too_long(window: Window, read: ReadEvents, runs: int) -> Mask:
    """Which runs have more plans, or larger numbers, than the model allows."""
    long = np.zeros(runs, np.bool_)
    for one in read.ranks:
        most = window.slots - 1 if one.name == window.value else -1
        for slide in window.slides:
            most = slide.capacity if one.name in slide.values else most
        if most >= 0:
            long[read.events.run[one.there & (one.rank > most)]] = True
    return long


def move_window(window: Window, rules: Rules, read: ReadEvents, side: I64) -> Moved:
    """Read runs through the window; `side` is what each row is. Runs lie together, in order."""
    return _Through(window, rules, read, side).moved()


class _Through:
    """One reading. Rows are those of `read` that may matter."""

    def __init__(self, window: Window, rules: Rules, read: ReadEvents, side: I64) -> None:
        self.window = window
        self.trace_fields = rules.refinement.trace_fields
        note = read.events.phase.codes == read.events.phase.number("note")
        done = ~note & (read.events.outcome.codes == read.events.outcome.number("done"))
        self._places = np.flatnonzero(note | done)
        self.read = read.take(self._places)
        self.run, self.runs = read.events.numbered(self.read.events.run)
        self.starts = np.append(True, np.diff(self.run) != 0)[: len(self.run)]
        self.done = done[self._places]
        self.sure = self.done & (side[self._places] != REQUESTED)
        self.put = self.done & ~self.read.events.kind.is_in(("delete",))
        self.whats = {name: number for number, name in enumerate(rules.whats)}
        self.ranks = {one.name: one for one in self.read.ranks}
        self.ends = np.searchsorted(self.run, np.arange(self.runs), side="right")
        self.commits = self._is(window.commit) & self.put & self.sure
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
        ranks = [self._shifted(one, shifts, group, lives) for one in self.read.ranks]
        before, which, renamings = self._renamings(shifts, lives, leaves)
        swept = self.done & ~self.put & np.any([self._is(name) for name in self.window.swept], axis=0)
        return Moved(
            replace(self.read, ranks=tuple(ranks)).take(kept),
            self._places[kept],
            swept[kept],
            (swept & self.sure & self._needed())[kept],
            self._places[before],
            which,
            renamings,
            Lives(
                self.read.events.run[lives.first] if len(lives.run) else lives.run,
                self._places[lives.first] if len(lives.run) else lives.first,
                np.append(self._places, FAR)[np.minimum(lives.free, len(self._places))],
                lives.slot,
            ),
        )

    # Numbers.

    def _reached(self, slide: Slide) -> I64:
        """The newest number before each row, lifted above those of all runs before its own."""
        rank = self.ranks[slide.reached]
        number = np.where(rank.there & self.commits, np.clip(rank.rank, 0, FAR - 1), 0)
        earlier = np.append(0, number)[: len(number)]
        earlier[self.starts] = 0
        lifted: I64 = np.maximum.accumulate(self.run * FAR + earlier)
        return lifted

    def _shift(self, slide: Slide, group: I64, until: I64) -> I64:
        lift = self.run * FAR
        reached = self.reached[slide] - lift
        named = np.full(len(reached), FAR - 1)
        for one in self.read.ranks:
            if one.name in slide.values:
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

    def _shifted(self, one: Rank, shifts: dict[Slide, I64], group: I64, lives: Lives) -> Rank:
        """A value's ranks as the window shows them."""
        rank = one.rank
        for slide, shift in shifts.items():
            if one.name in slide.values:
                less = rank - shift
                rank = np.where(self._is_old(slide, one) & (shift > 0), np.minimum(less, NONE), less)
            for name, only in slide.looked:
                if one.name == name:
                    rank = rank - np.where(self._is_first(only), shift, 0)
        if one.name == self.window.value and len(lives.slot):
            rank = np.where(group != NONE, lives.slot[group], rank)
        return replace(one, rank=rank)

    def _is_first(self, name: str) -> Mask:
        if not name:
            return np.ones(len(self.run), np.bool_)
        one = self.ranks[name]
        first: Mask = one.there & (one.rank == 0)
        return first

    # Plans.

    def _lives(self) -> tuple[I64, Lives, Mask, I64]:
        """For each row its plan, or NONE; the plans; which of them leave before their sidecars do; and the
        row by which each is settled.
        """
        rank = self.ranks[self.window.value]
        rows = np.flatnonzero(rank.there)
        group = np.full(len(self.run), NONE, np.int64)
        group[rows], count = self.read.events.numbered(self.run[rows], rank.rank[rows])
        whose = group[rows]
        first = np.full(count, FAR, np.int64)
        np.minimum.at(first, whose, rows)
        retired = self._is(self.window.document)[rows] & ~self.put[rows] & self.done[rows]
        last, last_other, passed = (np.zeros(count, np.int64) for _ in range(3))
        np.maximum.at(last, whose, rows + 1)
        np.maximum.at(last_other, whose[~retired], rows[~retired] + 1)
        for slide in self.window.slides:
            if slide.made:  # a plan matters until the numbers that it made are the newest
                made, numbers = self._made(slide, group)
                np.maximum.at(passed, group[made], self._row_of(slide, made, numbers))
        end = np.maximum(last, passed)
        settled = self._settled(group, count)
        early = np.maximum(np.maximum(last_other, passed), settled)
        leaves = early < end
        free = np.where(leaves, early, end)
        lives = Lives(self.run[first] if count else first, first, free, np.zeros(count, np.int64))
        return group, replace(lives, slot=_slots(lives)), leaves, settled

    def _made(self, slide: Slide, group: I64) -> tuple[I64, I64]:
        """The rows in which plans made numbers, and the numbers."""
        made = self.ranks[slide.reached]
        rows = np.flatnonzero((group != NONE) & made.there & self._is(slide.made) & self.put)
        return rows, np.clip(made.rank[rows], 0, FAR - 1)

    def _settled(self, group: I64, count: int) -> I64:
        """The row by which all of a plan's pins have moved on, whichever plan moved them."""
        settled = np.full(count, NONE, np.int64)
        rows = np.flatnonzero((group != NONE) & self._is(self.window.document) & self.put)
        for slide in self.window.slides:
            if slide.base:
                base = self.ranks[slide.base]
                those = rows[base.there[rows] & self._has_word(*slide.moved, rows)]
                place = self._row_of(slide, those, base.rank[those] + 1)
                np.maximum.at(settled, group[those], place)
        return np.where(settled == NONE, FAR, settled)

    def _has_word(self, trace_field: str, word: str, rows: I64) -> Mask:
        """In which rows a trace field, a list with commas, has a word."""
        lists = self.read.plain[self.trace_fields.index(trace_field)][rows]
        distinct = np.unique(lists)
        good = [word in (text or "").split(",") for text in self.read.texts.shown(distinct)]
        return np.isin(lists, distinct[np.array(good, np.bool_)])

    def _row_of(self, slide: Slide, rows: I64, numbers: I64) -> I64:
        """For each of some rows, the first row of its run before which a number is reached."""
        wanted = self.run[rows] * FAR + np.clip(numbers, 0, FAR - 1)
        place = np.searchsorted(self.reached[slide], wanted)
        return np.where(place < self.ends[self.run[rows]], place, FAR)

    # Renamings.

    def _renamings(
        self, shifts: dict[Slide, I64], lives: Lives, leaves: Mask
    ) -> tuple[I64, I64, list[Observation]]:
        window = self.window
        made: list[Observation] = []
        before, which = [], []

        def add(rows: I64, one: Observation) -> None:
            before.append(rows)
            which.append(np.full(len(rows), len(made)))
            made.append(one)

        room = (lives.slot < window.slots) & (lives.free < self.ends[lives.run])
        for slot in range(window.slots):
            for action, those in ((window.forget, ~leaves), (window.leave, leaves)):
                rows = lives.free[room & those & (lives.slot == slot)]
                add(rows, renaming(action, {window.parameter: slot}, ()))
        for slide, shift in shifts.items():
            grown = np.diff(shift, prepend=0)
            grown[self.starts] = shift[self.starts]
            rows = np.repeat(np.arange(len(shift)), grown)
            add(rows, renaming(slide.action, {}, slide.parameters))
        rows, kinds = np.concatenate(before), np.concatenate(which)
        order = np.lexsort((kinds, rows))
        return rows[order], kinds[order], made

    # Deletions.

    def _needed(self) -> Mask:
        """Which rows delete what may still be needed."""
        deletes = self.done & ~self.put
        found = np.zeros(len(self.run), np.bool_)
        id_ = self.ranks[self.window.id]
        boundary = self._highest(self.ranks[self.window.boundary], self.done & ~deletes)
        for slide in self.window.slides:
            for name, only in slide.looked:
                number = self.ranks[name]
                rows = deletes & number.there
                if only:
                    found |= (
                        rows
                        & self._is_first(only)
                        & self._pinned(self.ranks[slide.reached], boundary, number)
                    )
                elif name == self.window.id:
                    # No boundary from before the run can have passed a commit that the run made.
                    made = np.isin(
                        self._lifted(number.rank), self._lifted(id_.rank)[self.commits & id_.there]
                    )
                    found |= rows & (number.rank > boundary) & ((boundary > NOWHERE) | made)
        return found

    def _highest(self, one: Rank, rows: Mask) -> I64:
        """The largest number that some rows of a run have named up to here."""
        named = np.where(rows & one.there, np.clip(one.rank, NOWHERE + 1, FAR - 1), NOWHERE)
        highest: I64 = np.maximum.accumulate(self._lifted(named)) - self.run * (4 * FAR)
        return highest

    def _pinned(self, pin: Rank, boundary: I64, number: Rank) -> Mask:
        """Where a commit after the boundary pins a number. Commits and pins rise together."""
        id_ = self.ranks[self.window.id]
        rows = np.flatnonzero(self.commits & pin.there & id_.there)
        if not len(rows):
            return np.zeros(len(self.run), np.bool_)
        pins = self._lifted(pin.rank)[rows]
        order = np.lexsort((id_.rank[rows], pins))
        pins, ids = pins[order], id_.rank[rows][order]
        wanted = self._lifted(number.rank)
        newest = np.searchsorted(pins, wanted, side="right") - 1
        there: Mask = (newest >= 0) & (pins[newest.clip(0)] == wanted)
        return there & np.asarray(ids[newest.clip(0)] > boundary, np.bool_)

    def _lifted(self, rank: I64) -> I64:
        """Numbers in the order of a run, above those of all runs before it."""
        lifted: I64 = self.run * (4 * FAR) + np.clip(rank, -FAR, FAR)
        return lifted

    def _is(self, what: str) -> Mask:
        found: Mask = self.read.what == self.whats[what]
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
    """Give slots to one run's plans, as they begin."""
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
