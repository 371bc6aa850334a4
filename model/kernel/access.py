"""How the fields of a machine are reached in a frame: cells, sequences, arrays, nested as declared.

Every element has a flat number within its run of cells. It is an `int` when the index is a constant
or an action's parameter: the place of the cell is then known and reading it costs nothing until it
is compared. It is a `Number` when the index is another column: the place is then a shift that
differs from row to row.

An `Access` knows the way, once per model. A *view* (`Sequence`, `Array`) is what an action holds.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast

import numpy as np

from holdfast.model.kernel.choices import Choice
from holdfast.model.kernel.columns import Column, Match, Truth, all_of, any_of
from holdfast.model.kernel.errors import FieldOverflow, ModellingMistake
from holdfast.model.kernel.kinds import BoolKind, EnumKind, FlagsKind, IntKind
from holdfast.model.kernel.layout import I64, U64, Slot
from holdfast.model.kernel.members import Members
from holdfast.model.kernel.numbers import Number, count_of

if TYPE_CHECKING:
    from holdfast.model.kernel.frame import Frame

Index = int | Number
PackedState = tuple[int, ...]
R = TypeVar("R")
W = TypeVar("W")


class Access:
    """The way to one field, or to one element of an array of them."""

    def read(self, frame: "Frame", flat: Index) -> Any:
        raise NotImplementedError

    def write(self, frame: "Frame", flat: Index, value: Any) -> None:
        raise NotImplementedError

    def decode(self, state: PackedState, flat: int) -> object:
        """The plain value in one packed state."""
        raise NotImplementedError

    def encode(self, state: list[int], flat: int, value: Any) -> None:
        """Write a plain value where the packed state's bits are still zero."""
        raise NotImplementedError


class CellAccess(Access):
    """A single cell of a run."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.kind = slot.kind
        self._full = (1 << slot.kind.width) - 1
        self._places = [slot.place(index) for index in range(slot.count)]

    def read(self, frame: "Frame", flat: Index) -> Column:
        if not isinstance(flat, int):
            return _column(frame, self.kind, self.codes_at(frame, flat))
        word, shift = self._places[flat]
        raw = frame.word(word)
        if isinstance(self.kind, BoolKind):
            return Match(frame, raw, 1 << shift, 1 << shift)
        return _COLUMNS[type(self.kind)](frame, self.kind, raw=raw, shift=shift)

    def codes_at(self, frame: "Frame", flat: Number) -> I64:
        """The codes of the cell whose number is a column."""
        numbers = flat.values()
        word, shift = self._shifts(numbers)
        raw = frame.word(self.slot.word)
        for step in range(1, self._spanned()):
            raw = np.where(word == step, frame.word(self.slot.word + step), raw)
        codes: I64 = ((raw >> shift) & self._full).view(np.int64)
        return codes

    def write(self, frame: "Frame", flat: Index, value: object) -> None:
        codes = self._checked(frame, value)
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
        except ModellingMistake as wrong:
            raise ModellingMistake(f"`{self.slot.name}`: {wrong}") from None

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
        """The word (counted from the run's first) and the shift of each row's cell."""
        if self.slot.spans_words():
            word, inside = np.divmod(numbers, self.slot.in_word)
            return word, (inside * self.kind.width).view(np.uint64)
        shift = numbers * self.kind.width + self.slot.shift
        return numbers, shift.view(np.uint64)

    def _checked(self, frame: "Frame", value: object) -> "int | U64":
        """The codes to store: a constant, or one a row; refuses what the cell cannot hold."""
        if not isinstance(value, Column):
            try:
                return self.kind.encode(value)
            except ModellingMistake as wrong:
                if isinstance(self.kind, IntKind) and isinstance(value, int) and not isinstance(value, bool):
                    self._overflow(frame, int(value), 0)
                raise ModellingMistake(f"{frame.doing()} assigns to `{self.slot.name}`: {wrong}") from None
        if not isinstance(value, _COLUMNS[type(self.kind)]):
            raise ModellingMistake(
                f"{frame.doing()} assigns {value.describe()} to `{self.slot.name}`, "
                f"which holds {self.kind.describe()}"
            )
        codes = value.codes()
        if isinstance(self.kind, BoolKind):
            return codes.astype(np.uint64)
        if isinstance(self.kind, IntKind):
            # A field of the very same bounds cannot overflow: copying is free of checks.
            if value.kind != self.kind and codes.size:
                self._check_bounds(frame, codes)
            if self.kind.least:
                codes = codes - self.kind.least
        elif isinstance(value.kind, EnumKind) and value.kind != self.kind:
            codes = self._renamed(frame, value.kind).take(codes)
        elif value.kind != self.kind:
            raise ModellingMistake(
                f"{frame.doing()} assigns {value.kind.describe()} to `{self.slot.name}`, "
                f"which holds {self.kind.describe()}"
            )
        return codes.view(np.uint64)

    def _renamed(self, frame: "Frame", kind: EnumKind) -> I64:
        """This field's codes for the names of another enum, when it has them all."""
        try:
            return np.array([self.kind.encode(option) for option in kind.options], np.int64)
        except ModellingMistake as wrong:
            raise ModellingMistake(f"{frame.doing()} assigns to `{self.slot.name}`: {wrong}") from None

    def _check_bounds(self, frame: "Frame", codes: I64) -> None:
        assert isinstance(self.kind, IntKind)
        if int(codes.min()) >= self.kind.least and int(codes.max()) <= self.kind.most:
            return
        wrong = (codes < self.kind.least) | (codes > self.kind.most)
        row = int(np.flatnonzero(wrong)[0])
        self._overflow(frame, int(codes.flat[row]), row)

    def _overflow(self, frame: "Frame", value: int, row: int) -> NoReturn:
        overflow(frame, self.slot.name, f"to {value}, outside {self.kind.describe()}", row)


class SequenceAccess(Access):
    """A bounded sequence: its length, and its items from the first on; unused items stay zero."""

    def __init__(self, name: str, lengths: CellAccess, items: CellAccess, capacity: int) -> None:
        self.name = name
        self.lengths = lengths
        self.items = items
        self.capacity = capacity

    def read(self, frame: "Frame", flat: Index) -> "Sequence[Any, Any]":
        return Sequence(frame, self, flat)

    def write(self, frame: "Frame", flat: Index, value: Any) -> None:
        if isinstance(value, Sequence):
            items = [value.item(i) for i in range(min(self.capacity, value.capacity))]
            length: Number | int = value.length
        elif isinstance(value, tuple | list):
            items = list(value)
            length = len(items)
        else:
            raise ModellingMistake(f"`{self.name}` is a sequence: assign a tuple or another sequence to it")
        self.lengths.write(frame, flat, length)
        for i in range(self.capacity):
            if i < len(items):
                self.items.write(frame, flat * self.capacity + i, items[i])
            else:
                self.zero_item(frame, flat * self.capacity + i)

    def zero_item(self, frame: "Frame", flat: Index) -> None:
        """Forget an item, so that equal sequences are packed alike."""
        self.items.write(frame, flat, self.items.kind.decode(0))

    def decode(self, state: PackedState, flat: int) -> object:
        length = self.lengths.decode(state, flat)
        assert isinstance(length, int)
        return tuple(self.items.decode(state, flat * self.capacity + i) for i in range(length))

    def encode(self, state: list[int], flat: int, value: Any) -> None:
        self.lengths.encode(state, flat, len(value))
        for i, item in enumerate(value):
            self.items.encode(state, flat * self.capacity + i, item)


class ArrayAccess(Access):
    """Equal elements, numbered from 0."""

    def __init__(self, name: str, element: Access, extent: int) -> None:
        self.name = name
        self.element = element
        self.extent = extent

    def read(self, frame: "Frame", flat: Index) -> "Array[Any, Any]":
        return Array(frame, self, flat)

    def write(self, frame: "Frame", flat: Index, value: Any) -> None:
        if not isinstance(value, tuple | list | Array) or len(value) != self.extent:
            raise ModellingMistake(
                f"`{self.name}` is an array: assign to `{self.name}[i]`, or {self.extent} values at once"
            )
        for i, element in enumerate(list(value)):
            self.element.write(frame, flat * self.extent + i, element)

    def decode(self, state: PackedState, flat: int) -> object:
        return tuple(self.element.decode(state, flat * self.extent + i) for i in range(self.extent))

    def encode(self, state: list[int], flat: int, value: Any) -> None:
        if len(value) != self.extent:
            raise ModellingMistake(f"`{self.name}` has {self.extent} elements, not {len(value)}")
        for i, element in enumerate(value):
            self.element.encode(state, flat * self.extent + i, element)

    def element_number(self, frame: "Frame", flat: Index, index: Index) -> Index:
        """The flat number of element `index`, once it is known to exist."""
        if isinstance(index, Number):
            self._check_column(frame, index)
        elif isinstance(index, bool) or not isinstance(index, int):
            raise ModellingMistake(
                f"`{self.name}` is indexed by numbers 0..{self.extent - 1}, not by {index!r}"
            )
        elif not 0 <= index < self.extent:
            raise ModellingMistake(
                f"{frame.doing()} reaches for `{self.name}[{index}]`; its elements are 0..{self.extent - 1}"
            )
        return flat * self.extent + index

    def _check_column(self, frame: "Frame", index: Number) -> None:
        if isinstance(index.kind, IntKind) and index.kind.least >= 0 and index.kind.most < self.extent:
            return
        values = index.values()
        wrong = (values < 0) | (values >= self.extent)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise ModellingMistake(
                f"{frame.doing()} reaches for `{self.name}[{int(values.flat[row])}]` in state "
                f"{frame.state_before(row)}; its elements are 0..{self.extent - 1}: "
                "narrow the rows with s.require(...) before indexing"
            )


class Sequence(Generic[R, W]):
    """A bounded sequence inside an action. Places beyond its length read as the item's first value."""

    __hash__ = None  # type: ignore[assignment]  # == compares whole columns, so a view cannot be a key

    def __init__(self, frame: "Frame", access: SequenceAccess, flat: Index) -> None:
        self._frame = frame
        self._access = access
        self._flat = flat

    @property
    def capacity(self) -> int:
        return self._access.capacity

    @property
    def length(self) -> Number:
        column = self._access.lengths.read(self._frame, self._flat)
        assert isinstance(column, Number)
        return column

    @property
    def first(self) -> R:
        return self.item(0)

    @property
    def last(self) -> R:
        """The last item; where the sequence is empty, the item's first value."""
        end = self.length - 1
        clipped = Number.of(end.frame, np.maximum(end.values(), 0))
        return self.item(clipped)

    def item(self, index: Index) -> R:
        if isinstance(index, int) and not 0 <= index < self.capacity:
            raise ModellingMistake(f"`{self._access.name}` has places 0..{self.capacity - 1}, not {index}")
        item: Any = self._access.items.read(self._frame, self._flat * self.capacity + index)
        return cast(R, item)

    def __getitem__(self, index: Index) -> R:
        return self.item(index)

    def is_empty(self) -> Truth:
        return self.length == 0

    def is_full(self) -> Truth:
        return self.length == self.capacity

    def has(self, value: W) -> Truth:
        """Whether some item equals `value`."""
        items = [self.item(i) == value for i in range(self.capacity)]
        return any_of((self.length > i) & _as_truth(same) for i, same in enumerate(items))

    def __eq__(self, other: object) -> Truth:  # type: ignore[override]  # sequences compare state by state
        if isinstance(other, Sequence):
            size, others = other.length, [other.item(i) for i in range(min(self.capacity, other.capacity))]
            same = [_as_truth(self.item(i) == item) for i, item in enumerate(others)]
            return all_of([self.length == size, *same])
        if not isinstance(other, tuple | list):
            raise ModellingMistake(f"`{self._access.name}` is a sequence: compare it with a tuple")
        if len(other) > self.capacity:
            return Truth.constant(False)
        same = [_as_truth(self.item(i) == item) for i, item in enumerate(other)]
        return all_of([self.length == len(other), *same])

    def __ne__(self, other: object) -> Truth:  # type: ignore[override]  # sequences compare state by state
        return ~(self == other)

    def append(self, value: W) -> None:
        """Add an item at the end; a full sequence is an overflow."""
        length = self.length
        full = np.atleast_1d(length.values()) >= self.capacity
        if full.any():
            what = f"beyond its {self.capacity} places"
            overflow(self._frame, self._access.name, what, int(np.flatnonzero(full)[0]))
        self._access.items.write(self._frame, self._flat * self.capacity + length, value)
        self._access.lengths.write(self._frame, self._flat, length + 1)

    def pop_first(self) -> R:
        """Take the first item out and answer it; the others move up."""
        length = self.length
        empty = np.atleast_1d(length.values()) == 0
        if empty.any():
            state = self._frame.state_before(int(np.flatnonzero(empty)[0]))
            raise ModellingMistake(
                f"{self._frame.doing()} takes from `{self._access.name}`, which is empty in state {state}; "
                f"write s.require(~s.{self._access.name}.is_empty()) before"
            )
        first = self.first
        base = self._flat * self.capacity
        for i in range(1, self.capacity):
            self._access.items.write(self._frame, base + (i - 1), self.item(i))
        self._access.zero_item(self._frame, base + (self.capacity - 1))
        self._access.lengths.write(self._frame, self._flat, length - 1)
        return first

    def clear(self) -> None:
        self._access.write(self._frame, self._flat, ())


class Array(Generic[R, W]):
    """An array inside an action: elements by number, all of them by iteration."""

    def __init__(self, frame: "Frame", access: ArrayAccess, flat: Index) -> None:
        self._frame = frame
        self._access = access
        self._flat = flat

    def __len__(self) -> int:
        return self._access.extent

    def __getitem__(self, index: Index) -> R:
        element: R = self._access.element.read(
            self._frame, self._access.element_number(self._frame, self._flat, index)
        )
        return element

    def __setitem__(self, index: Index, value: W) -> None:
        self._access.element.write(
            self._frame, self._access.element_number(self._frame, self._flat, index), value
        )

    def __iter__(self) -> Iterator[R]:
        return (self[i] for i in range(len(self)))

    def all(self, value: W) -> Truth:
        """Whether every element equals `value`."""
        return all_of(_as_truth(element == value) for element in self)

    def any(self, value: W) -> Truth:
        """Whether some element equals `value`."""
        return any_of(_as_truth(element == value) for element in self)

    def count(self, value: W) -> Number:
        """How many elements equal `value`."""
        return count_of(_as_truth(element == value) for element in self)


def overflow(frame: "Frame", field: str, what: str, row: int) -> NoReturn:
    """Refuse a write that does not fit, and say which action, from which state."""
    state = frame.state_before(row)
    action = frame.doing()
    cure = (
        f"narrow its guard or widen `{field}`"
        if frame.guarded
        else "the action has no guard, so nothing ever stops it: begin it with s.require(...), "
        f"or widen `{field}`"
    )
    raise FieldOverflow(
        f"{action} takes `{field}` {what}, from state {state}; {cure}",
        action=action,
        field=field,
        state=state,
    )


def _column(frame: "Frame", kind: object, codes: I64) -> Column:
    """A computed column of a kind."""
    if isinstance(kind, BoolKind):
        return Truth.of(frame, codes != 0)
    if isinstance(kind, IntKind):
        return Number(frame, kind, codes + kind.least if kind.least else codes)
    if isinstance(kind, EnumKind):
        return Choice(frame, kind, codes)
    return Members(frame, kind, codes)  # type: ignore[arg-type]  # the fourth and last kind


def _as_truth(value: object) -> Truth:
    assert isinstance(value, Truth)
    return value


_FULL = (1 << 64) - 1
_COLUMNS: dict[type, type[Column]] = {BoolKind: Truth, IntKind: Number, EnumKind: Choice, FlagsKind: Members}
