"""Bounded sequences: a length, and the items from the first on.

Places beyond the length are kept at the item's first value, so that equal sequences are packed alike. That is
why taking the first item out writes every place: the others move up, and the last is cleared.
"""

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np

from fencepost.model.kernel.access import Access, CellAccess, Index, PackedState, overflow
from fencepost.model.kernel.choices import pick
from fencepost.model.kernel.columns import Column, Truth, all_of, any_of, as_truth
from fencepost.model.kernel.errors import ModellingMistake
from fencepost.model.kernel.numbers import Number
from fencepost.model.kernel.refusing import question
from fencepost.model.kernel.views import Live, check_place

if TYPE_CHECKING:
    from fencepost.model.kernel.frame import Frame

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
        settled = self.settle(value)
        frame.replace(self, flat)
        self.fill(frame, flat, settled)

    def settle(self, value: Any) -> tuple[Number | int, list[Any]]:
        """The length and the items, read before anything is written."""
        if isinstance(value, Sequence):
            length = value.length
            shared = range(min(self.capacity, value.capacity))
            return length, [self._own(value[i], length > i) for i in shared]
        if isinstance(value, tuple | list):
            return len(value), list(value)
        raise ModellingMistake(f"`{self.name}` is a sequence: assign a tuple or another sequence to it")

    def fill(self, frame: "Frame", flat: Index, settled: Any) -> None:
        length, items = settled
        self.lengths.write(frame, flat, length)
        for i in range(self.capacity):
            if i < len(items):
                self.items.write(frame, flat * self.capacity + i, items[i])
            else:
                self.zero_item(frame, flat * self.capacity + i)

    def _own(self, item: Column, used: Truth) -> Any:
        """An item of another sequence; where it has none, what stands for none here."""
        same = item.kind == self.items.kind
        return item if same or not used.frame else pick(used, cast(Any, item), self._nothing())

    def _nothing(self) -> Any:
        return self.items.kind.decode(0)

    def zero_item(self, frame: "Frame", flat: Index) -> None:
        """Forget an item, so that equal sequences are packed alike."""
        self.items.write(frame, flat, self._nothing())

    def decode(self, state: PackedState, flat: int) -> object:
        length = self.lengths.decode(state, flat)
        assert isinstance(length, int)
        return tuple(self.items.decode(state, flat * self.capacity + i) for i in range(length))

    def encode(self, state: list[int], flat: int, value: Any) -> None:
        self.lengths.encode(state, flat, len(value))
        for i, item in enumerate(value):
            self.items.encode(state, flat * self.capacity + i, item)


class Sequence(Live, Generic[R, W]):
    """A bounded sequence inside an action. Places beyond its length read as the item's first value."""

    __slots__ = ()
    noun = "a sequence"
    _access: SequenceAccess

    @property
    def capacity(self) -> int:
        return self._access.capacity

    @property
    def length(self) -> Number:
        column = self._access.lengths.read(self._now(), self._flat)
        assert isinstance(column, Number)
        return column

    @property
    def first(self) -> R:
        return self[0]

    @property
    def last(self) -> R:
        """The last item; where the sequence is empty, the item's first value."""
        end = self.length - 1
        clipped = Number.of(end.frame, np.maximum(end.values(), 0), self.capacity)
        return self[clipped]

    def __getitem__(self, index: Index) -> R:
        frame, access = self._now(), self._access
        check_place(frame, access.name, index, access.capacity, "places")
        item: Any = access.items.read(frame, self._flat * access.capacity + index)
        return cast(R, item)

    def __iter__(self) -> Any:
        raise ModellingMistake(
            f"`{self._access.name}` has another length in every state: go through its places by number, "
            f"{self._access.name}[i] for i below {self.capacity}, or ask .length, .has(...) and .first"
        )

    __len__ = __iter__

    @question
    def item(self, index: Index) -> R:
        return self[index]

    @question
    def is_empty(self) -> Truth:
        return self.length == 0

    @question
    def is_full(self) -> Truth:
        return self.length == self.capacity

    @question
    def has(self, value: W) -> Truth:
        """Whether some item equals `value`."""
        length = self.length
        items = [self[i] == value for i in range(self.capacity)]
        return any_of((length > i) & as_truth(same) for i, same in enumerate(items))

    def __eq__(self, other: object) -> Truth:  # type: ignore[override]  # sequences compare state by state
        if isinstance(other, Sequence):
            return self._like(other)
        if not isinstance(other, tuple | list):
            raise ModellingMistake(f"`{self._access.name}` is a sequence: compare it with a tuple")
        if len(other) > self.capacity:
            return Truth.constant(False)
        same = [as_truth(self[i] == item) for i, item in enumerate(other)]
        return all_of([self.length == len(other), *same])

    def _like(self, other: "Sequence[Any, Any]") -> Truth:
        """Equal where both are as long and each item of the one is that of the other."""
        length, size = self.length, other.length
        places = range(min(self.capacity, other.capacity))
        shared: list[tuple[Any, Any]] = [(self[i], other[i]) for i in places]
        same = [as_truth(mine == theirs) for mine, theirs in shared]
        if any(mine.kind != theirs.kind for mine, theirs in shared):
            # What stands for no item is another value in the other one: it must not be compared.
            same = [(length <= i) | each for i, each in enumerate(same)]
        return all_of([length == size, *same])

    def __ne__(self, other: object) -> Truth:  # type: ignore[override]  # sequences compare state by state
        return ~(self == other)

    @question
    def append(self, value: W) -> None:
        """Add an item at the end; a full sequence is an overflow."""
        length, frame = self.length, self._frame
        full = np.atleast_1d(length.values()) >= self.capacity
        if full.any():
            what = f"beyond its {self.capacity} places"
            overflow(frame, self._access.name, what, int(np.flatnonzero(full)[0]))
        self._access.items.write(frame, self._flat * self.capacity + length, value)
        self._access.lengths.write(frame, self._flat, length + 1)

    @question
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
            self._access.items.write(self._frame, base + (i - 1), self[i])
        self._access.zero_item(self._frame, base + (self.capacity - 1))
        self._access.lengths.write(self._frame, self._flat, length - 1)
        return first

    @question
    def clear(self) -> None:
        self._access.fill(self._now(), self._flat, (0, []))
