"""The model as a machine that reads events, determinised while it is used.

Theory. After some events the model may be in any of several states: what is hidden may or may not have
happened. This machine's states are *sets* of model states, numbered in the order in which they are first
met, and closed under hidden labels. Reading a letter, it goes from set to set:

    every reading of the letter's meaning    the successors by its label, where its test holds
    their union                              closed under hidden labels again
    the same set as one before               has that one's number

Nothing is computed twice: `table[set, letter]` is the next set, filled by the columnar kernel when a pair is
asked for the first time. So a run of real code costs one look-up an event, and ten million events one
`take` a column (`advance`). DEAD is the set without states: the model does not allow this run. OUTSIDE is
where a run goes that the model is too small for. Nobody leaves either. The letter NOTHING changes nothing.

Landings that nobody saw. Where a trace tells when requests landed, a letter is read at that place (`NOW`).
Where it tells only when they were issued and answered, the landing is somewhere between, and both ends are
letters: `ASKED` adds it to what is pending, `ANSWERED` keeps the states in which it has landed. What is
pending may land whenever something hidden may happen. A request that nobody answered is only asked: it
lands at some time or never. That is exact, but for more than `slots` pending requests at once: OUTSIDE.

Pending letters stand in extra words behind the packed state, one a slot, the largest first.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.model import FieldOverflow, Label, Property, Truth
from holdfast.model.kernel.layout import U64, Mask
from holdfast.properties.refinement.refinement import NO_ROOM, Meaning, Reading, Refinement
from holdfast.properties.refinement.sighting import Sighting

DEAD, OUTSIDE, START = 0, 1, 2
"""Numbers of the first sets."""
NOTHING = 0
"""The letter that changes nothing: it fills columns of runs that have ended."""
ROWS_MAX = 1 << 16
"""A larger set is given up as OUTSIDE: keeps a map that hides too much from filling the memory."""

_EMPTY = -1
_I32 = NDArray[np.int32]


class Move(enum.Enum):
    """How a letter is read, see the top of this module."""

    NOW = "now"
    ASKED = "asked"
    ANSWERED = "answered"


@dataclass(frozen=True)
class Letter:
    """One letter: a sighting, and how it is read."""

    move: Move
    sighting: Sighting
    left: int = 0
    """Of an answer: how many equal requests are still unanswered."""


class Automaton:
    """See the top of this module. Not for several threads at once."""

    def __init__(self, refinement: Refinement, *, slots: int = 0) -> None:
        self.refinement = refinement
        self.model = refinement.model
        self.slots = slots
        self.letters: list[Letter | None] = [None]
        self._numbers: dict[Letter, int] = {}
        self._meanings: dict[Sighting, Meaning] = {}
        self._hidden = refinement.hidden_labels()
        self._known: dict[bytes, int] = {}
        self._sets: list[U64] = []
        self.table: _I32 = np.full((8, 8), _EMPTY, np.int32)
        """Next set by set and letter; -1 where nobody has asked."""
        nothing = np.empty((self._words, 0), np.uint64)
        for rows in (nothing, nothing):
            self._sets.append(rows)
        starts = self.model.initial()
        begun = np.zeros((self._words, starts.shape[1]), np.uint64)
        begun[: self.model.words] = starts
        self._number(self._closed(begun))
        self.table[[DEAD, OUTSIDE], :] = [[DEAD], [OUTSIDE]]

    # Letters.

    def letter(self, sighting: Sighting, move: Move = Move.NOW, left: int = 0) -> int:
        """The number of a letter."""
        letter = Letter(move, sighting, left)
        number = self._numbers.get(letter)
        if number is None:
            number = self._numbers[letter] = len(self.letters)
            self.letters.append(letter)
        return number

    def meaning(self, sighting: Sighting) -> Meaning:
        found = self._meanings.get(sighting)
        if found is None:
            found = NO_ROOM if sighting.stranger else self.refinement.meaning(sighting)
            self._meanings[sighting] = found
        return found

    # Going from set to set.

    def __len__(self) -> int:
        return len(self._sets)

    def states(self, number: int) -> U64:
        """The model states of a set, packed."""
        return self._sets[number][: self.model.words]

    def step(self, number: int, letter: int) -> int:
        """The set after one letter."""
        if letter < self.table.shape[1] and number < self.table.shape[0]:
            found = int(self.table[number, letter])
            if found != _EMPTY:
                return found
        return self._fill(number, letter)

    def advance(self, sets: NDArray[np.integer], letters: NDArray[np.integer]) -> _I32:
        """The sets after one letter each; both columns line up. New pairs are worked out on the way."""
        self._grow()
        found: _I32 = self.table[sets, letters]
        missing = found == _EMPTY
        if missing.any():
            pairs = np.unique(np.stack([sets[missing], letters[missing]]), axis=1)
            for number, letter in pairs.T.tolist():
                self._fill(number, letter)
            found = self.table[sets, letters]
        return found

    def _fill(self, number: int, letter: int) -> int:
        self._grow()
        try:
            after = number if letter == NOTHING or number <= OUTSIDE else self._read(number, letter)
        except FieldOverflow:
            after = OUTSIDE  # a count of the model's own runs out of room
        self._grow()
        self.table[number, letter] = after
        return after

    def _read(self, number: int, letter: int) -> int:
        read = self.letters[letter]
        assert read is not None
        rows = self._sets[number]
        if read.move is Move.ANSWERED:
            waiting = (rows[self.model.words :] == self.letter(read.sighting)).sum(axis=0)
            return self._number(rows[:, waiting <= read.left])
        meaning = self.meaning(read.sighting)
        if meaning == NO_ROOM:
            return OUTSIDE
        if read.move is Move.ASKED:
            full = (rows[-1] != 0).any() if self.slots else True
            return OUTSIDE if full else self._number(self._closed(self._pended(rows, read.sighting)))
        return self._number(self._closed(self._taken(rows, meaning)))

    def _taken(self, rows: U64, meaning: Meaning) -> U64:
        """The rows after an event of this meaning, hidden labels aside."""
        return np.concatenate([rows[:, :0], *(self._after(rows, reading) for reading in meaning)], axis=1)

    def _after(self, rows: U64, reading: Reading) -> U64:
        after = rows if reading.label is None else self._successors(rows, reading.label)
        return after if reading.test is None else after[:, self.judge(after, reading)]

    def judge(self, rows: U64, reading: Reading) -> Mask:
        """In which rows the test of a reading holds."""
        test = reading.test
        assert test is not None
        if not rows.shape[1]:
            return np.empty(0, np.bool_)

        def asked(s: object) -> Truth:
            return test(s)

        return self.model.holds(Property(reading.says, "invariant", asked, ""), rows[: self.model.words])

    def _successors(self, rows: U64, label: Label) -> U64:
        after = self.model.successors(rows[: self.model.words], label)
        if not self.slots:
            return after.states
        return np.concatenate([after.states, rows[self.model.words :].take(after.origin, axis=1)])

    def _closed(self, rows: U64) -> U64:
        """The rows, and all that hidden labels and pending requests make of them; sorted, each once."""
        known = dict.fromkeys(_bytes(rows))
        frontier = rows
        while frontier.shape[1]:
            found = [self._successors(frontier, label) for label in self._hidden]
            found += self._landings(frontier)
            together = np.concatenate([frontier[:, :0], *found], axis=1)
            new = [key for key in dict.fromkeys(_bytes(together)) if key not in known]
            known.update(dict.fromkeys(new))
            frontier = _rows(new, self._words)
            if len(known) > ROWS_MAX:
                break
        return _rows(sorted(known), self._words)

    def _landings(self, rows: U64) -> Iterable[U64]:
        """The rows after a pending request has landed."""
        pending = rows[self.model.words :]
        for number in np.unique(pending[pending != 0]).tolist():
            read = self.letters[number]
            assert read is not None
            having = rows[:, (pending == number).any(axis=0)].copy()
            slots = having[self.model.words :]
            first = (slots == number).argmax(axis=0)
            slots[first, np.arange(slots.shape[1])] = 0
            slots[:] = -np.sort(-slots.astype(np.int64), axis=0)
            yield self._taken(having, self.meaning(read.sighting))

    def _pended(self, rows: U64, sighting: Sighting) -> U64:
        asked = rows.copy()
        asked[-1] = self.letter(sighting)
        slots = asked[self.model.words :]
        slots[:] = -np.sort(-slots.astype(np.int64), axis=0)
        return asked

    # Sets.

    @property
    def _words(self) -> int:
        return self.model.words + self.slots

    def _number(self, rows: U64) -> int:
        """The number of a set of sorted rows."""
        if not rows.shape[1]:
            return DEAD
        if rows.shape[1] > ROWS_MAX:
            return OUTSIDE
        key = np.ascontiguousarray(rows.T).tobytes()
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self._sets)
            self._sets.append(rows)
        return number

    def _grow(self) -> None:
        """Room in the table for every set and letter that there is."""
        sets, letters = self.table.shape
        if len(self._sets) <= sets and len(self.letters) <= letters:
            return
        larger = (max(sets, 2 * len(self._sets)), max(letters, 2 * len(self.letters)))
        table = np.full(larger, _EMPTY, np.int32)
        table[:sets, :letters] = self.table
        table[[DEAD, OUTSIDE], :] = [[DEAD], [OUTSIDE]]
        self.table = table


def _bytes(rows: U64) -> list[bytes]:
    """Every row as bytes, to compare and to sort by."""
    packed = np.ascontiguousarray(rows.T).tobytes()
    width = 8 * len(rows)
    return [packed[start : start + width] for start in range(0, len(packed), width)]


def _rows(keys: list[bytes], words: int) -> U64:
    packed = np.frombuffer(b"".join(keys), np.uint64).reshape(len(keys), words)
    return np.ascontiguousarray(packed.T)
