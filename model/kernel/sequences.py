"""Bounded sequences: a length, and the items from the first on.

Places beyond the length are kept at the item's first value, so that equal sequences are packed alike. That is
why taking the first item out writes every place: the others move up, and the last is cleared.
"""

from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast

import numpy as np

from holdfast.model.kernel.access import Access, CellAccess, Index, PackedState, overflow
from holdfast.model.kernel.columns import ONE_TRUTH, Truth, all_of, any_of, as_truth
from holdfast.model.kernel.errors import ModellingMistake
from holdfast.model.kernel.numbers import Number

if TYPE_CHECKING:
    from holdfast.model.kernel.frame import Frame

R = TypeVar("R")
W = TypeVar("W")


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


class Sequence(Generic[R, W]):
    """A bounded sequence inside an action. Places beyond its length read as the item's first value."""

    __hash__ = None  # type: ignore[assignment]  # == compares whole columns, so a view cannot be a key

    def __init__(self, frame: "Frame", access: SequenceAccess, flat: Index) -> None:
        self._frame = frame
        self._access = access
        self._flat = flat

    def __bool__(self) -> NoReturn:
        raise ModellingMistake(ONE_TRUTH)

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
        return any_of((self.length > i) & as_truth(same) for i, same in enumerate(items))

    def __eq__(self, other: object) -> Truth:  # type: ignore[override]  # sequences compare state by state
        if isinstance(other, Sequence):
            size, others = other.length, [other.item(i) for i in range(min(self.capacity, other.capacity))]
            same = [as_truth(self.item(i) == item) for i, item in enumerate(others)]
            return all_of([self.length == size, *same])
        if not isinstance(other, tuple | list):
            raise ModellingMistake(f"`{self._access.name}` is a sequence: compare it with a tuple")
        if len(other) > self.capacity:
            return Truth.constant(False)
        same = [as_truth(self.item(i) == item) for i, item in enumerate(other)]
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
