"""The model as an automaton that reads events, determinised while it is used.

Theory. After some events the model may be in any of several states, because hidden labels may or may not
have happened. The automaton's states are *sets* of model states, numbered in the order in which they are
first met, and closed under hidden labels. Its input is a sequence of *symbols*: observations, each with the
way it is read. Reading a symbol, it goes from set to set:

    every action of the observation    the successors by its label, where its condition holds
    their union                        closed under hidden labels again
    the same set as an earlier one     has that one's number

Nothing is computed twice: `table[set, symbol]` is the next set, filled by the columnar kernel when a pair is
first needed. So a run of real code costs one look-up an event, and ten million events one `take` a column
(`advance`). DEAD is the set without states: the model does not allow this run. OUTSIDE is where a run goes
that exceeds the model's bounds. No symbol leaves either. The symbol NOTHING changes nothing.

Landings that were not recorded. Where a trace records when requests landed, a symbol is read at that place
(`LANDED`). Where it records only requests and responses, the landing is somewhere between, and both ends are
symbols: `REQUESTED` adds the request to what is pending, `RESPONDED` keeps the states in which it has
landed. A pending request may land whenever something hidden may happen. A request without a response is only
requested: it lands at some time or never. This is exact, except for more than `slots` pending requests at
once: OUTSIDE.

Pending symbols are kept in extra words behind the packed state, one a slot, the largest first.

A symbol may be a *renaming* (`RENAMED`, see `renaming`): every state must allow it, or the run goes OUTSIDE.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from fencepost.model import FieldOverflow, Label
from fencepost.model.kernel.language.layout import I64, U64, Mask
from fencepost.properties.refinement.observation import Observation
from fencepost.properties.refinement.refinement import IMPOSSIBLE, OUT_OF_BOUNDS, Action, Actions, Refinement
from fencepost.properties.refinement.renaming import PHASE

DEAD, OUTSIDE, START = 0, 1, 2
"""Numbers of the first sets."""
NOTHING = 0
"""The symbol that changes nothing: it fills columns of runs that have ended."""
ROWS_MAX = 1 << 16
"""Larger sets become OUTSIDE: keeps a map that hides too much from filling the memory."""
PAIRS_MAX = 1 << 12
"""Pairs of set and symbol that are computed together: bounds the memory for the states between."""

_EMPTY = -1
_NEW = np.uint64(1 << 62)
_I32 = NDArray[np.int32]


class SymbolKind(enum.Enum):
    """The ways in which a symbol is read, see the top of this module."""

    LANDED = "landed"
    REQUESTED = "requested"
    RESPONDED = "responded"
    RENAMED = "renamed"


@dataclass(frozen=True)
class Symbol:
    """An observation, and how it is read."""

    kind: SymbolKind
    observation: Observation
    left: int = 0
    """Of a response: how many equal requests are still open."""


class Space:
    """Packed states by number: each is kept once, in the order in which they are first met."""

    def __init__(self, words: int) -> None:
        self._known: dict[bytes, int] = {}
        self._rows: U64 = np.empty((words, 64), np.uint64)

    def __len__(self) -> int:
        return len(self._known)

    def numbers(self, rows: U64) -> list[int]:
        """The numbers of states; new ones get the next."""
        if not rows.shape[1]:
            return []
        packed = np.ascontiguousarray(rows.T).tobytes()
        width = 8 * len(rows)
        known = self._known
        found = []
        for row, start in enumerate(range(0, len(packed), width)):
            key = packed[start : start + width]
            number = known.get(key)
            if number is None:
                number = self._add(key, rows[:, row])
            found.append(number)
        return found

    def rows(self, numbers: I64) -> U64:
        return self._rows.take(numbers, axis=1)

    def _add(self, key: bytes, state: U64) -> int:
        number = len(self._known)
        if number == self._rows.shape[1]:
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)], axis=1)
        self._rows[:, number] = state
        self._known[key] = number
        return number


class Automaton:
    """See the top of this module. Not for several threads at once."""

    def __init__(self, refinement: Refinement, *, slots: int = 0) -> None:
        self.refinement = refinement
        self.model = refinement.model
        self.slots = slots
        self.symbols: list[Symbol | None] = [None]
        self._numbers: dict[Symbol, int] = {}
        self._actions: dict[Observation, Actions] = {}
        self._hidden = refinement.hidden_labels()
        self.space = Space(self._words)
        self._onward: dict[int, list[int]] = {}
        """By state, where hidden labels and pending requests lead."""
        self._after_eager: dict[int, int] = {}
        """By state, the state after its eager labels."""
        self._known: dict[frozenset[int], int] = {}
        self._sets: list[NDArray[np.int64]] = [np.empty(0, np.int64)] * START
        self.table: _I32 = np.full((8, 8), _EMPTY, np.int32)
        """Next set by set and symbol; -1 where it is not computed yet."""
        starts = self.model.initial()
        begun = np.zeros((self._words, starts.shape[1]), np.uint64)
        begun[: self.model.words] = refinement.forgotten(starts)
        (closed,) = self._closed(begun, np.zeros(begun.shape[1], np.int64)).values()
        self._number(closed)
        self.table[[DEAD, OUTSIDE], :] = [[DEAD], [OUTSIDE]]

    # Symbols.

    def symbol(self, observation: Observation, kind: SymbolKind = SymbolKind.LANDED, left: int = 0) -> int:
        symbol = Symbol(kind, observation, left)
        number = self._numbers.get(symbol)
        if number is None:
            number = self._numbers[symbol] = len(self.symbols)
            self.symbols.append(symbol)
        return number

    def actions(self, observation: Observation) -> Actions:
        found = self._actions.get(observation)
        if found is None:
            if observation.out_of_bounds:
                found = OUT_OF_BOUNDS
            else:
                found = IMPOSSIBLE if observation.phase == PHASE else self.refinement.actions(observation)
            self._actions[observation] = found
        return found

    def symbol_of(self, number: int) -> Symbol:
        """The symbol with this number, which is not NOTHING."""
        symbol = self.symbols[number]
        assert symbol is not None
        return symbol

    # Going from set to set.

    def __len__(self) -> int:
        return len(self._sets)

    def states(self, number: int) -> U64:
        """The model states of a set, packed, in an order that does not depend on earlier runs."""
        rows = self._rows(number)[: self.model.words]
        return rows[:, np.lexsort(rows[::-1])]

    def members(self, number: int) -> list[int]:
        """The states of a set, as numbers in `space`."""
        found: list[int] = self._sets[number].tolist()
        return found

    def steps(self, number: int, symbol: int) -> Iterable[tuple[int, int, int]]:
        """The transitions that a symbol can be: state, label (-1 for none), state; without those `inside`."""
        read = self.symbol_of(symbol)
        rows, members = self._rows(number), self._sets[number]
        if read.kind is SymbolKind.REQUESTED:
            yield from self._edges(members, -1, self._pended(rows, read.observation))
        elif read.kind is SymbolKind.RESPONDED:
            members = members[self._waiting(rows, read.observation) <= read.left]
            yield from self._edges(members, -1, self.space.rows(members))
        else:
            for action in self.actions(read.observation):
                after, origin = self._after(rows, action)
                label = -1 if action.label is None else action.label.number
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
        """Return the number of equal requests that are pending in each row."""
        waiting: I64 = (rows[self.model.words :] == self.symbol(observation)).sum(axis=0)
        return waiting

    def _rows(self, number: int) -> U64:
        return self.space.rows(self._sets[number])

    def step(self, number: int, symbol: int) -> int:
        """The set after one symbol."""
        if symbol < self.table.shape[1] and number < self.table.shape[0]:
            found = int(self.table[number, symbol])
            if found != _EMPTY:
                return found
        return self._fill(number, symbol)

    def advance(self, sets: NDArray[np.integer], symbols: NDArray[np.integer]) -> _I32:
        """The sets after one symbol each; both columns line up. New pairs are computed on the way."""
        self._grow()
        found: _I32 = self.table[sets, symbols]
        missing = found == _EMPTY
        if missing.any():
            pairs = np.unique(np.stack([sets[missing], symbols[missing]]), axis=1)
            for start in range(0, pairs.shape[1], PAIRS_MAX):
                self._fill_all(pairs[:, start : start + PAIRS_MAX])
            found = self.table[sets, symbols]
        return found

    def _fill_all(self, pairs: NDArray[np.integer]) -> None:
        """Compute the next sets of many pairs together: a call of the kernel costs far more than its rows."""
        self._grow()
        try:
            after = self._read_all(*pairs.tolist())
        except FieldOverflow:
            for number, symbol in pairs.T.tolist():
                self._fill(number, symbol)
        else:
            self._grow()
            self.table[pairs[0], pairs[1]] = after

    def _fill(self, number: int, symbol: int) -> int:
        self._grow()
        try:
            (after,) = self._read_all([number], [symbol])
        except FieldOverflow:
            after = OUTSIDE  # a count of the model's own runs out of room
        self._grow()
        self.table[number, symbol] = after
        return after

    def _read_all(self, numbers: list[int], symbols: list[int]) -> list[int]:
        """The sets after some pairs of set and symbol."""
        found = [
            number if symbol == NOTHING or number <= OUTSIDE else _EMPTY
            for number, symbol in zip(numbers, symbols, strict=True)
        ]
        by_symbol: dict[int, list[int]] = {}
        for pair, symbol in enumerate(symbols):
            if found[pair] == _EMPTY:
                by_symbol.setdefault(symbol, []).append(pair)
        rows: list[U64] = []
        owners: list[I64] = []
        for symbol, pairs in by_symbol.items():
            sizes = [len(self._sets[numbers[pair]]) for pair in pairs]
            members = np.concatenate([self._sets[numbers[pair]] for pair in pairs])
            owner = np.repeat(np.array(pairs, np.int64), sizes)
            read = self.symbol_of(symbol)
            if read.kind is SymbolKind.RESPONDED:
                kept = self._waiting(self.space.rows(members), read.observation) <= read.left
                for pair, one in zip(pairs, np.split(kept, np.cumsum(sizes)[:-1]), strict=True):
                    found[pair] = self._number(frozenset(self._sets[numbers[pair]][one].tolist()))
                continue
            after, origin, outside = self._taken(self.space.rows(members), read)
            for pair in np.unique(owner[outside]).tolist():
                found[pair] = OUTSIDE
            rows.append(after)
            owners.append(owner[origin])
        if rows:
            owner = np.concatenate(owners)
            inside = np.array(found, np.int64)[owner] == _EMPTY
            after = np.concatenate(rows, axis=1)[:, inside]
            for pair, closed in self._closed(after, owner[inside]).items():
                found[pair] = self._number(closed)
        return [DEAD if one == _EMPTY else one for one in found]

    def _taken(self, rows: U64, read: Symbol) -> tuple[U64, I64, I64]:
        """The rows after a symbol, before hidden labels; where each came from; the rows that go OUTSIDE."""
        every, none = np.arange(rows.shape[1]), np.empty(0, np.int64)
        if read.kind is SymbolKind.RENAMED:
            return self._renamed(rows, self.refinement.renaming(read.observation))
        meant = self.actions(read.observation)
        if meant == OUT_OF_BOUNDS:
            return rows[:, :0], none, every
        if read.kind is SymbolKind.REQUESTED:
            full = np.flatnonzero(rows[-1] != 0) if self.slots else every
            return self._pended(rows, read.observation), every, full
        taken = [self._after(rows, action) for action in meant]
        return (
            np.concatenate([rows[:, :0], *(after for after, _ in taken)], axis=1),
            np.concatenate([none, *(origin for _, origin in taken)]),
            none,
        )

    def _renamed(self, rows: U64, label: Label) -> tuple[U64, I64, I64]:
        after, origin = self._successors(rows, label)
        pending = after[self.model.words :]
        for number in np.unique(pending[pending != 0]).tolist():
            read = self.symbol_of(number)
            name = self.refinement.renamed(read.observation, label)
            # Marked, to distinguish it from those still to be renamed.
            pending[pending == number] = 0 if name is None else np.uint64(self.symbol(name)) | _NEW
        pending[:] = -np.sort(-(pending & ~_NEW).astype(np.int64), axis=0)
        return after, origin, np.setdiff1d(np.arange(rows.shape[1]), origin)

    def _after(self, rows: U64, action: Action) -> tuple[U64, I64]:
        after, origin = rows, np.arange(rows.shape[1])
        if action.label is not None:
            after, origin = self._successors(rows, action.label)
        if action.condition is None:
            return after, origin
        holds = self.judge(after, action)
        return after[:, holds], origin[holds]

    def judge(self, rows: U64, action: Action) -> Mask:
        """In which rows the condition of an action holds."""
        condition = action.condition
        assert condition is not None
        if not rows.shape[1]:
            return np.empty(0, np.bool_)
        return self.refinement.holds(condition, rows[: self.model.words])

    def _successors(self, rows: U64, label: Label) -> tuple[U64, I64]:
        after = self.refinement.successors(rows[: self.model.words], label)
        states = self.refinement.forgotten(after.states)
        if self.slots:
            states = np.concatenate([states, rows[self.model.words :].take(after.origin, axis=1)])
        return states, after.origin

    def _closed(self, rows: U64, owner: I64) -> dict[int, frozenset[int]]:
        """For each owner of some of the states: these and all that hidden labels and pending requests lead
        to, each after its eager labels. Sets that are too large are not complete.
        """
        known: dict[int, set[int]] = {}
        for one, state in zip(owner.tolist(), self.space.numbers(rows), strict=True):
            known.setdefault(one, set()).add(state)
        self._look_onward(
            [state for state in dict.fromkeys(chain(*known.values())) if state not in self._onward]
        )
        onward = self._onward
        for mine in known.values():
            frontier = mine
            while frontier and len(mine) <= ROWS_MAX:
                frontier = {after for state in frontier for after in onward[state]} - mine
                mine |= frontier
        return self._eager(known)

    def _look_onward(self, fresh: list[int]) -> None:
        """Compute where these states lead, and all that they lead to.

        Each label takes all states that it has not seen, including those that the labels before it have just
        found: a few kernel calls for many states instead of many calls for a few.
        """
        self._onward.update((state, []) for state in fresh)
        ways = (*self._hidden, None)
        looked = [0] * len(ways)
        try:
            while fresh and min(looked) < len(fresh):
                for place, label in enumerate(ways):
                    states = np.array(fresh[looked[place] :], np.int64)
                    looked[place] = len(fresh)
                    for after, origin in self._ways(self.space.rows(states), label):
                        self._enter(states[origin], after, fresh)
        except FieldOverflow:
            for state in fresh:  # what was found of them is not all
                del self._onward[state]
            raise

    def _ways(self, rows: U64, label: Label | None) -> Iterable[tuple[U64, I64]]:
        """The successors of rows by a hidden label, or without one by any pending request."""
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

    def _eager(self, sets: dict[int, set[int]]) -> dict[int, frozenset[int]]:
        """The states of some sets after their eager labels."""
        if not self.refinement.eager:
            return {owner: frozenset(states) for owner, states in sets.items()}
        every = dict.fromkeys(chain(*sets.values()))
        new = [state for state in every if state not in self._after_eager]
        if new:
            rows = self.space.rows(np.array(new, np.int64))
            after = rows.copy()
            after[: self.model.words] = self.refinement.saturated(rows[: self.model.words])
            self._after_eager.update(zip(new, self.space.numbers(after), strict=True))
        eager = self._after_eager
        return {owner: frozenset(eager[state] for state in states) for owner, states in sets.items()}

    def _landings(self, rows: U64) -> Iterable[tuple[U64, I64, Label | None]]:
        """The rows after a pending request has landed, where each came from, and by which label."""
        pending = rows[self.model.words :]
        for number in np.unique(pending[pending != 0]).tolist():
            read = self.symbol_of(number)
            origin = np.flatnonzero((pending == number).any(axis=0))
            having = rows[:, origin]
            slots = having[self.model.words :]
            first = (slots == number).argmax(axis=0)
            slots[first, np.arange(slots.shape[1])] = 0
            slots[:] = -np.sort(-slots.astype(np.int64), axis=0)
            for action in self.actions(read.observation):
                after, came_from = self._after(having, action)
                yield after, origin[came_from], action.label

    def _pended(self, rows: U64, observation: Observation) -> U64:
        pended = rows.copy()
        pended[-1] = self.symbol(observation)
        slots = pended[self.model.words :]
        slots[:] = -np.sort(-slots.astype(np.int64), axis=0)
        return pended

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
        """Make room in the table for every set and symbol."""
        sets, symbols = self.table.shape
        if len(self._sets) <= sets and len(self.symbols) <= symbols:
            return
        larger = (max(sets, 2 * len(self._sets)), max(symbols, 2 * len(self.symbols)))
        table = np.full(larger, _EMPTY, np.int32)
        table[:sets, :symbols] = self.table
        table[[DEAD, OUTSIDE], :] = [[DEAD], [OUTSIDE]]
        self.table = table
