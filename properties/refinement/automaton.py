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

A letter may be a *renaming* (`RENAMED`, see `window`): every state must allow it, or the run goes OUTSIDE.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fencepost.model import FieldOverflow, Label, Property, Truth
from fencepost.model.kernel.language.layout import I64, U64, Mask
from fencepost.properties.refinement.observation import Observation
from fencepost.properties.refinement.refinement import IMPOSSIBLE, NO_ROOM, Meaning, Reading, Refinement
from fencepost.properties.refinement.space import Space
from fencepost.properties.refinement.window import PHASE

DEAD, OUTSIDE, START = 0, 1, 2
"""Numbers of the first sets."""
NOTHING = 0
"""The letter that changes nothing: it fills columns of runs that have ended."""
ROWS_MAX = 1 << 16
"""A larger set is given up as OUTSIDE: keeps a map that hides too much from filling the memory."""

_EMPTY = -1
_NEW = np.uint64(1 << 62)
_I32 = NDArray[np.int32]


class Move(enum.Enum):
    """How a letter is read, see the top of this module."""

    NOW = "now"
    ASKED = "asked"
    ANSWERED = "answered"
    RENAMED = "renamed"


@dataclass(frozen=True)
class Letter:
    """One letter: a observation, and how it is read."""

    move: Move
    observation: Observation
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
        self._meanings: dict[Observation, Meaning] = {}
        self._hidden = refinement.hidden_labels()
        self.space = Space(self._words)
        self._onward: dict[int, list[int]] = {}
        """By state, where hidden labels and pending requests lead."""
        self._at_once: dict[int, int] = {}
        """By state, the state after everything that happens at once."""
        self._known: dict[frozenset[int], int] = {}
        self._sets: list[NDArray[np.int64]] = [np.empty(0, np.int64)] * START
        self.table: _I32 = np.full((8, 8), _EMPTY, np.int32)
        """Next set by set and letter; -1 where nobody has asked."""
        starts = self.model.initial()
        begun = np.zeros((self._words, starts.shape[1]), np.uint64)
        begun[: self.model.words] = refinement.forgotten(starts)
        self._number(self._closed(begun))
        self.table[[DEAD, OUTSIDE], :] = [[DEAD], [OUTSIDE]]

    # Letters.

    def letter(self, observation: Observation, move: Move = Move.NOW, left: int = 0) -> int:
        """The number of a letter."""
        letter = Letter(move, observation, left)
        number = self._numbers.get(letter)
        if number is None:
            number = self._numbers[letter] = len(self.letters)
            self.letters.append(letter)
        return number

    def meaning(self, observation: Observation) -> Meaning:
        found = self._meanings.get(observation)
        if found is None:
            found = NO_ROOM if observation.stranger else self._meant(observation)
            self._meanings[observation] = found
        return found

    def _meant(self, observation: Observation) -> Meaning:
        return IMPOSSIBLE if observation.phase == PHASE else self.refinement.meaning(observation)

    # Going from set to set.

    def __len__(self) -> int:
        return len(self._sets)

    def states(self, number: int) -> U64:
        """The model states of a set, packed."""
        return self._rows(number)[: self.model.words]

    def members(self, number: int) -> list[int]:
        """The states of a set, as numbers in `space`."""
        found: list[int] = self._sets[number].tolist()
        return found

    def steps(self, number: int, letter: int) -> Iterable[tuple[int, int, int]]:
        """The transitions that a letter can be: state, label (-1 for none), state; those `inside` aside."""
        read = self.letters[letter]
        assert read is not None
        rows, members = self._rows(number), self._sets[number]
        if read.move is Move.ASKED:
            yield from self._edges(members, -1, self._pended(rows, read.observation))
        elif read.move is Move.ANSWERED:
            members = members[self._waiting(rows, read.observation) <= read.left]
            yield from self._edges(members, -1, self.space.rows(members))
        else:
            for reading in self.meaning(read.observation):
                after, origin = self._after(rows, reading)
                label = -1 if reading.label is None else reading.label.number
                yield from self._edges(members[origin], label, after)

    def inside(self, number: int) -> Iterable[tuple[int, int, int]]:
        """The transitions within a set: hidden ones, and landings of what is pending."""
        rows, members = self._rows(number), self._sets[number]
        for label in self._hidden:
            after, origin = self._successors(rows, label)
            yield from self._edges(members[origin], label.number, after)
        for after, origin, landed in self._landings(rows):
            yield from self._edges(members[origin], -1 if landed is None else landed.number, after)

    def _edges(self, members: I64, label: int, after: U64) -> Iterable[tuple[int, int, int]]:
        numbers = self.space.numbers(after)
        return ((int(one), label, to) for one, to in zip(members.tolist(), numbers, strict=True))

    def _waiting(self, rows: U64, observation: Observation) -> I64:
        """How many equal requests are pending in each row."""
        waiting: I64 = (rows[self.model.words :] == self.letter(observation)).sum(axis=0)
        return waiting

    def _rows(self, number: int) -> U64:
        return self.space.rows(self._sets[number])

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
        rows = self._rows(number)
        if read.move is Move.ANSWERED:
            kept = self._waiting(rows, read.observation) <= read.left
            return self._number(frozenset(self._sets[number][kept].tolist()))
        if read.move is Move.RENAMED:
            return self._renamed(rows, self.refinement.renaming(read.observation))
        meaning = self.meaning(read.observation)
        if meaning == NO_ROOM:
            return OUTSIDE
        if read.move is Move.ASKED:
            full = (rows[-1] != 0).any() if self.slots else True
            return OUTSIDE if full else self._number(self._closed(self._pended(rows, read.observation)))
        return self._number(self._closed(self._taken(rows, meaning)))

    def _renamed(self, rows: U64, label: Label) -> int:
        after, origin = self._successors(rows, label)
        if len(origin) < rows.shape[1]:
            return OUTSIDE
        pending = after[self.model.words :]
        for number in np.unique(pending[pending != 0]).tolist():
            read = self.letters[number]
            assert read is not None
            name = self.refinement.renamed(read.observation, label)
            pending[pending == number] = self._later(name)
        pending[:] = -np.sort(-(pending & ~_NEW).astype(np.int64), axis=0)
        return self._number(self._closed(after))

    def _later(self, name: Observation | None) -> np.uint64:
        """A letter that was just written, told from those that are still to be renamed."""
        return np.uint64(0) if name is None else np.uint64(self.letter(name)) | _NEW

    def _taken(self, rows: U64, meaning: Meaning) -> U64:
        """The rows after an event of this meaning, hidden labels aside."""
        return np.concatenate([rows[:, :0], *(self._after(rows, reading)[0] for reading in meaning)], axis=1)

    def _after(self, rows: U64, reading: Reading) -> tuple[U64, I64]:
        after, origin = rows, np.arange(rows.shape[1])
        if reading.label is not None:
            after, origin = self._successors(rows, reading.label)
        if reading.test is None:
            return after, origin
        holds = self.judge(after, reading)
        return after[:, holds], origin[holds]

    def judge(self, rows: U64, reading: Reading) -> Mask:
        """In which rows the test of a reading holds."""
        test = reading.test
        assert test is not None
        if not rows.shape[1]:
            return np.empty(0, np.bool_)

        def asked(s: object) -> Truth:
            return test(s)

        return self.model.holds(Property(reading.says, "invariant", asked, ""), rows[: self.model.words])

    def _successors(self, rows: U64, label: Label) -> tuple[U64, I64]:
        after = self.model.successors(rows[: self.model.words], label)
        states = self.refinement.forgotten(after.states)
        if self.slots:
            states = np.concatenate([states, rows[self.model.words :].take(after.origin, axis=1)])
        return states, after.origin

    def _closed(self, rows: U64) -> frozenset[int]:
        """The states, and all that hidden labels and pending requests make of them; each with what happens
        at once.
        """
        known = set(self.space.numbers(rows))
        frontier = known
        while frontier and len(known) <= ROWS_MAX:
            self._look_onward([state for state in frontier if state not in self._onward])
            frontier = {after for state in frontier for after in self._onward[state]} - known
            known |= frontier
        return self._hurried(known)

    def _look_onward(self, fresh: list[int]) -> None:
        """Work out where these states lead, and all that they lead to.

        Each label takes all states that it has not seen, those included that the labels before it have just
        found: that asks the kernel a few times for many states instead of many times for a few.
        """
        self._onward.update((state, []) for state in fresh)
        ways = (*self._hidden, None)
        looked = [0] * len(ways)
        while fresh and min(looked) < len(fresh):
            for place, label in enumerate(ways):
                states = np.array(fresh[looked[place] :], np.int64)
                looked[place] = len(fresh)
                for after, origin in self._ways(self.space.rows(states), label):
                    self._enter(states[origin], after, fresh)

    def _ways(self, rows: U64, label: Label | None) -> Iterable[tuple[U64, I64]]:
        """What a hidden label, or without one any pending request, makes of rows."""
        if not rows.shape[1]:
            return ()
        if label is None:
            return ((after, origin) for after, origin, _ in self._landings(rows))
        return (self._successors(rows, label),)

    def _enter(self, origins: I64, after: U64, fresh: list[int]) -> None:
        for origin, number in zip(origins.tolist(), self.space.numbers(after), strict=True):
            self._onward[origin].append(number)
            if number not in self._onward:
                self._onward[number] = []
                fresh.append(number)

    def _hurried(self, states: set[int]) -> frozenset[int]:
        """The states after what happens at once."""
        if not self.refinement.eager:
            return frozenset(states)
        new = [state for state in states if state not in self._at_once]
        if new:
            rows = self.space.rows(np.array(new, np.int64))
            after = rows.copy()
            after[: self.model.words] = self.refinement.saturated(rows[: self.model.words])
            self._at_once.update(zip(new, self.space.numbers(after), strict=True))
        return frozenset(self._at_once[state] for state in states)

    def _landings(self, rows: U64) -> Iterable[tuple[U64, I64, Label | None]]:
        """The rows after a pending request has landed, where each came from, and by which label."""
        pending = rows[self.model.words :]
        for number in np.unique(pending[pending != 0]).tolist():
            read = self.letters[number]
            assert read is not None
            origin = np.flatnonzero((pending == number).any(axis=0))
            having = rows[:, origin]
            slots = having[self.model.words :]
            first = (slots == number).argmax(axis=0)
            slots[first, np.arange(slots.shape[1])] = 0
            slots[:] = -np.sort(-slots.astype(np.int64), axis=0)
            for reading in self.meaning(read.observation):
                after, came_from = self._after(having, reading)
                yield after, origin[came_from], reading.label

    def _pended(self, rows: U64, observation: Observation) -> U64:
        asked = rows.copy()
        asked[-1] = self.letter(observation)
        slots = asked[self.model.words :]
        slots[:] = -np.sort(-slots.astype(np.int64), axis=0)
        return asked

    # Sets.

    @property
    def _words(self) -> int:
        return self.model.words + self.slots

    def _number(self, states: frozenset[int]) -> int:
        """The number of a set of states."""
        if not states:
            return DEAD
        if len(states) > ROWS_MAX:
            return OUTSIDE
        number = self._known.get(states)
        if number is None:
            number = self._known[states] = len(self._sets)
            self._sets.append(np.array(sorted(states)))
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
