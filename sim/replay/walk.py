"""All runs of a part at once: at every place one look-up for every run that is that long.

The symbols of the runs lie one after the other. Runs are taken longest first, so the runs that still go on
at a place are a prefix of the columns. One `advance` of the automaton takes them all one symbol
further. There are as many steps as the longest run has symbols, whatever the number of runs.

A few runs may be far longer than all others. When so few are left that the fixed cost of a step
outweighs its rows, each is followed to its end by `accumulate` in C over rows of Python lists. There a set of
the automaton is the list of its successors by symbol. So reading a symbol is `operator.getitem`, and no
Python code runs for an event.
"""

import operator
import threading
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from fencepost.properties.refinement import DEAD, OUTSIDE, START, Automaton
from fencepost.properties.refinement.text import I64, Mask

FEW = 24
"""Fewer runs than this are followed one by one."""
_STRETCH = 1 << 12
"""Symbols of a long run that are read before its set is checked."""


@dataclass(frozen=True)
class Ends:
    """For each run: the set it ends in, the place of the symbol that decided it or -1, the set before."""

    sets: I64
    places: I64
    before: I64


class VectorisedWalk:
    """Runs one automaton for several threads, and remembers which of its transitions were taken."""

    few = FEW

    def __init__(self, automaton: Automaton, lock: Any = None) -> None:
        self.automaton = automaton
        self._lock = lock or threading.Lock()
        self._taken = np.zeros((8, 8), np.bool_)

    def follow(self, symbols: I64, starts: I64, lengths: I64) -> Ends:
        """Follow runs whose symbols begin at `starts` and are `lengths` many."""
        count = len(starts)
        order = np.argsort(-lengths, kind="stable")
        begin, size = starts[order], lengths[order]
        longest_first = -size
        sets = np.full(count, START, np.int64)
        places, before = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
        place, active = 0, int(np.searchsorted(longest_first, 0, side="left"))
        while active >= max(1, self.few):
            here = sets[:active]
            read = symbols[begin[:active] + place]
            with self._lock:
                after = self.automaton.advance(here, read)
                self._mark(here, read)
            decided = np.flatnonzero((after <= OUTSIDE) & (here > OUTSIDE))
            places[decided], before[decided] = place, here[decided]
            sets[:active] = after
            if after.max() <= OUTSIDE:
                break
            place += 1
            active = int(np.searchsorted(longest_first, -place, side="left"))
        for run in range(min(active, self.few)):
            if sets[run] > OUTSIDE:
                stretch = symbols[begin[run] + place : begin[run] + size[run]]
                ended, at, was = self._alone(stretch, int(sets[run]))
                sets[run] = ended
                places[run], before[run] = (place + at, was) if at >= 0 else (-1, -1)
        back = np.empty(count, np.int64)
        back[order] = np.arange(count)
        return Ends(sets[back], places[back], before[back])

    def taken(self) -> Mask:
        """Which symbols were read in which sets."""
        return self._taken

    def _mark(self, sets: I64, symbols: I64) -> None:
        self._room(len(self.automaton), len(self.automaton.symbols))
        self._taken[sets, symbols] = True

    def _room(self, sets: int, symbols: int) -> None:
        rows, columns = self._taken.shape
        if sets > rows or symbols > columns:
            larger = np.zeros((max(rows, 2 * sets), max(columns, 2 * symbols)), np.bool_)
            larger[:rows, :columns] = self._taken
            self._taken = larger

    def _alone(self, symbols: I64, number: int) -> tuple[int, int, int]:
        """One long run: the set it ends in, the place where it was decided or -1, and the set before."""
        with self._lock:
            rows = _Rows(self.automaton, symbols)
            at = 0
            while at < len(symbols):
                numbers = rows.read(symbols[at : at + _STRETCH].tolist(), number)
                gone = len(numbers)
                here = np.array([number, *numbers[:-1]], np.int64)
                self._mark(here[:gone], symbols[at : at + gone])
                decided = np.flatnonzero(np.array(numbers, np.int64) <= OUTSIDE)
                if len(decided):
                    place = int(decided[0])
                    return numbers[place], at + place, int(here[place])
                number, at = numbers[-1], at + gone
            return number, -1, -1


class _Rows:
    """Sets as lists of their successors. The last item of a list is the number of the set itself."""

    def __init__(self, automaton: Automaton, symbols: I64) -> None:
        self._automaton = automaton
        self._width = int(symbols.max()) + 1 if len(symbols) else 1
        self._rows: dict[int, list[Any]] = {}
        self._unknown: list[Any] = []
        self._unknown += [self._unknown] * self._width + [-1]

    def read(self, symbols: list[int], number: int) -> list[int]:
        """The sets after each symbol, up to the first step that had to be computed."""
        rows = list(accumulate(symbols, operator.getitem, initial=self._row(number)))[1:]
        numbers = [row[-1] for row in (rows if rows[-1] is not self._unknown else self._known(rows))]
        if numbers:
            return numbers
        after = self._automaton.step(number, symbols[0])
        self._row(number)[symbols[0]] = self._row(after)
        return [after]

    def _known(self, rows: list[list[Any]]) -> list[list[Any]]:
        low, high = 0, len(rows)
        while low < high:  # once unknown, always unknown
            middle = (low + high) // 2
            low, high = (low, middle) if rows[middle] is self._unknown else (middle + 1, high)
        return rows[:low]

    def _row(self, number: int) -> list[Any]:
        if number not in self._rows:
            decided = number in (DEAD, OUTSIDE)
            row: list[Any] = []
            row += [row if decided else self._unknown] * self._width + [number]
            self._rows[number] = row
        return self._rows[number]
