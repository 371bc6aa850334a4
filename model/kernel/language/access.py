"""Access to the fields of a machine in a frame, and to a single cell of them.

An `Access` reads and writes one field, once per model; fields nest, and so do their accesses: cells here,
arrays and sequences in `views`. The result of a read is a column (of a cell) or a *view* (`Sequence`,
`Array`).

Theory. The cells of one field, over all elements of all arrays around it, are one run (see `layout`), and
every element has a flat number in that run: `s.grid[r][c]` is `r * columns + c`. The number is an `int` if
the indices are constants or parameters of the action: the place of the cell is then known, and reading it
costs nothing until it is compared. It is a `Number` if an index is another column: the place then differs
from row to row, so the read is a variable shift, and a run wider than a word is read from each of its words.

A write checks the value (see `assigning`). The frame gathers a constant with its neighbours.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from fencepost.model.kernel.language.assigning import Anything, codes_of
from fencepost.model.kernel.language.columns import Column, Match, Truth, column_class
from fencepost.model.kernel.language.errors import ModellingMistake
from fencepost.model.kernel.language.layout import I64, U64, BoolKind, IntKind, Kind, PackedState, Slot
from fencepost.model.kernel.language.numbers import Number

if TYPE_CHECKING:
    from fencepost.model.kernel.language.frame import Frame


Index = int | Number
_ONE_BIT = BoolKind()


class Access:
    """Reads and writes one field, or one element of an array of them."""

    def read(self, frame: "Frame", flat: Index) -> Any:
        raise NotImplementedError

    def write(self, frame: "Frame", flat: Index, value: Any) -> None:
        raise NotImplementedError

    def settle(self, value: Any) -> Any:
        """The argument of `fill` for `value`: everything that it needs of the state is read now."""
        return value

    def fill(self, frame: "Frame", flat: Index, settled: Any) -> None:
        """Write the result of `settle`."""
        self.write(frame, flat, settled)

    def decode(self, state: PackedState, flat: int) -> object:
        """The plain value in one packed state."""
        raise NotImplementedError

    def encode(self, state: list[int], flat: int, value: Any) -> None:
        """Write a plain value; the bits of the packed state are still zero."""
        raise NotImplementedError


class CellAccess(Access):
    """A single cell of a run."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.kind = slot.kind
        self._column = column_class(slot.kind)
        self._full = (1 << slot.kind.width) - 1
        self._places = [slot.place(index) for index in range(slot.count)]

    def read(self, frame: "Frame", flat: Index) -> Column:
        if not isinstance(flat, int):
            return _column(frame, self.kind, self.codes_at(frame, flat))
        word, shift = self._places[flat]
        raw = frame.word(word)
        if isinstance(self.kind, BoolKind):
            return Match(frame, raw, 1 << shift, 1 << shift)
        return self._column(frame, self.kind, raw=raw, shift=shift)

    def codes_at(self, frame: "Frame", flat: Number) -> I64:
        """The codes of a cell whose flat number is a column."""
        numbers = flat.values()
        word, shift = self._shifts(numbers)
        raw = frame.word(self.slot.word)
        for step in range(1, self._spanned()):
            raw = np.where(word == step, frame.word(self.slot.word + step), raw)
        codes: I64 = ((raw >> shift) & self._full).view(np.int64)
        return codes

    def write(self, frame: "Frame", flat: Index, value: object) -> None:
        if isinstance(value, Anything):
            codes = value.codes(frame, self.kind, self.slot.name)
            chosen = frame.widen(len(codes))
            self.put_codes(frame, flat, codes.take(chosen))
            return
        self.put_codes(frame, flat, codes_of(frame, self.kind, self.slot.name, value))

    def codes(self, frame: "Frame", flat: Index) -> U64:
        """The codes of a cell, row by row."""
        if not isinstance(flat, int):
            return self.codes_at(frame, flat).view(np.uint64)
        word, shift = self._places[flat]
        raw = frame.word(word)
        return (raw >> np.uint64(shift) if shift else raw) & np.uint64(self._full)

    def put_codes(self, frame: "Frame", flat: Index, codes: "int | U64") -> None:
        """Write codes that are known to fit."""
        if isinstance(flat, int):
            word, shift = self._places[flat]
            self._put(frame, word, shift, codes)
        else:
            self._put_at(frame, flat, codes)

    def decode(self, state: PackedState, flat: int) -> object:
        word, shift = self._places[flat]
        return self.kind.decode(state[word] >> shift & self._full)

    def encode(self, state: list[int], flat: int, value: Any) -> None:
        word, shift = self._places[flat]
        try:
            state[word] |= self.kind.encode(value) << shift
        except ModellingMistake as error:
            raise ModellingMistake(f"`{self.slot.name}`: {error}") from None

    def _put(self, frame: "Frame", word: int, shift: int, codes: "int | U64") -> None:
        if isinstance(codes, int):
            frame.put_constant(word, self._full << shift, codes << shift)
            return
        kept: U64 = frame.word(word) & np.uint64(_FULL ^ (self._full << shift))
        kept |= codes << np.uint64(shift) if shift else codes
        frame.put_word(word, kept)

    def _put_at(self, frame: "Frame", flat: Number, codes: "int | U64") -> None:
        word, shift = self._shifts(flat.values())
        clear = np.left_shift(np.uint64(self._full), shift)
        put = np.left_shift(np.uint64(codes) if isinstance(codes, int) else codes, shift)
        for step in range(self._spanned()):
            here = frame.word(self.slot.word + step)
            written = here & ~clear | put
            if self._spanned() > 1:
                written = np.where(word == step, written, here)
            frame.put_word(self.slot.word + step, written)

    def _spanned(self) -> int:
        return -(-self.slot.count // self.slot.in_word) if self.slot.spans_words() else 1

    def _shifts(self, numbers: I64) -> tuple[I64, U64]:
        """The word (from the first of the run) and the shift of each row's cell."""
        if self.slot.spans_words():
            word, inside = np.divmod(numbers, self.slot.in_word)
            return word, (inside * self.kind.width).view(np.uint64)
        shift = numbers * self.kind.width + self.slot.shift
        return numbers, shift.view(np.uint64)


def cell_column(cells: CellAccess, frame: "Frame", flat: Index, at: int, kind: Kind = _ONE_BIT) -> Column:
    """The column of some bits of a cell, from bit `at` on."""
    if not isinstance(flat, int):
        return _column(frame, kind, cells.codes_at(frame, flat) >> at & ((1 << kind.width) - 1))
    word, shift = cells.slot.place(flat)
    raw = frame.word(word)
    if isinstance(kind, BoolKind):
        return Match(frame, raw, 1 << shift + at, 1 << shift + at)
    return column_class(kind)(frame, kind, raw=raw, shift=shift + at)


def _column(frame: "Frame", kind: Kind, codes: I64) -> Column:
    """A computed column of a kind."""
    if isinstance(kind, BoolKind):
        return Truth.of(frame, codes != 0)
    if isinstance(kind, IntKind):
        return Number(frame, kind, codes + kind.least if kind.least else codes)
    return column_class(kind)(frame, kind, codes)


_FULL = (1 << 64) - 1
