"""Arrays and sequences inside an action: views onto cells, not values.

A view is what a list is to Python: a later write to its elements is visible through it. But a name for the
old list survives when another list is assigned in its place, and a view cannot: the old cells are gone.
`s.left, s.right = s.right, s.left` would silently make both alike. So reading a view that is older than
such an assignment is an error.

An array has equal elements, numbered from 0 or named, each of them a cell, a sequence or an array. An index
that is a column may differ from row to row and may be outside in some: it is checked before use, unless its
own bounds keep it inside. A sequence is a length and its items. Places beyond the length hold the item's
first value, so that equal sequences are packed alike; this is why `pop_first` writes every place.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np

from fencepost.model.kernel.language.access import Access, CellAccess, Index
from fencepost.model.kernel.language.assigning import Anything, overflow
from fencepost.model.kernel.language.choices import Choice, pick
from fencepost.model.kernel.language.columns import (
    NO_TRUTH,
    Column,
    Truth,
    all_of,
    any_of,
    as_truth,
    describe,
    to_truth,
)
from fencepost.model.kernel.language.errors import ModellingMistake, NoValue, must_call, names
from fencepost.model.kernel.language.layout import EnumKind, IntKind, PackedState, look_up
from fencepost.model.kernel.language.numbers import Number, count_of

if TYPE_CHECKING:
    from fencepost.model.kernel.language.frame import Frame

R = TypeVar("R")
W = TypeVar("W")
Replaced = tuple[Any, Any]
"""An array or a sequence that was assigned as a whole: its access, and its flat number."""


class View(NoValue):
    """The cells of an array or a sequence in the current rows."""

    __slots__ = ("_access", "_flat", "_frame", "_since")
    noun = "an array"

    def __init__(self, frame: "Frame", access: Any, flat: "Index") -> None:
        self._frame = frame
        self._access = access
        self._flat = flat
        self._since = len(frame.replaced)

    def __bool__(self) -> bool:
        raise ModellingMistake(f"`{self._access.name}` is neither true nor false: {NO_TRUTH}")

    def no_value(self) -> str:
        return f"`{self._access.name}` is {self.noun}, one for each state: it is no text"

    def __ne__(self, other: object) -> Truth:  # type: ignore[override]  # views compare state by state
        return ~as_truth(self == other)

    def __repr__(self) -> str:
        return f"<{self.noun}, `{self._access.name}`>"

    def _now(self) -> "Frame":
        """The rows; an error if the cells were assigned as a whole since this view was read."""
        frame = self._frame
        if frame.replaced:
            for access, flat in frame.replaced[self._since :]:
                if _covers(access, flat, self._access, self._flat):
                    raise ModellingMistake(
                        f"`{self._access.name}` was read before another value was assigned to it, and the "
                        "old one is gone: read what you need of it, element by element, before the assignment"
                    )
        return frame


def _covers(access: Any, flat: "Index", other: Any, at: "Index") -> bool:
    """True if the cells of `other` are among those of `access`."""
    if access is other:
        return not (isinstance(flat, int) and isinstance(at, int)) or flat == at
    return any(each is other for each in _within(access))


def _within(access: Any) -> Iterator[Any]:
    """The accesses of the elements of an array and of the fields of a role."""
    element = getattr(access, "element", None)
    for each in (element,) if element is not None else getattr(access, "ways", {}).values():
        yield each
        yield from _within(each)


def holds_of(condition: Any, element: Any, name: str) -> Truth | bool:
    """A condition, a function of one element, on this one."""
    if not isinstance(condition, FunctionType):
        raise ModellingMistake(
            f"a quantifier over `{name}` takes a function of one item, as in s.{name}.any(lambda m: ...), "
            f"not {describe(condition)}"
        )
    holds = condition(element)
    return holds if isinstance(holds, bool) else to_truth(holds, "a quantifier")


def check_place(frame: "Frame", name: str, index: Any, extent: int, what: str) -> None:
    """An error if an index is outside of `name`, in any row."""
    if type(index) is int and 0 <= index < extent:
        return
    if isinstance(index, Number):
        if isinstance(index.kind, IntKind) and index.kind.least >= 0 and index.kind.most < extent:
            return
        values = np.atleast_1d(index.values())
        outside = np.flatnonzero((values < 0) | (values >= extent))
        if len(outside):
            row = int(outside[0])
            raise ModellingMistake(
                f"{frame.doing()} accesses `{name}[{int(values[row])}]` in state "
                f"{frame.state_before(row)}; its {what} are 0..{extent - 1}: "
                "narrow the rows with s.require(...) before indexing"
            )
    elif isinstance(index, bool) or not isinstance(index, int):
        raise ModellingMistake(f"`{name}` is indexed by numbers 0..{extent - 1}, not by {describe(index)}")
    else:
        raise ModellingMistake(f"{frame.doing()} accesses `{name}[{index}]`; its {what} are 0..{extent - 1}")


class WholeAccess(Access):
    """An array or a sequence, which can be assigned as a whole."""

    name: str

    def write(self, frame: "Frame", flat: Index, value: Any) -> None:
        settled = self.settle(value)
        frame.replace(self, flat)
        self.fill(frame, flat, settled)


class ArrayAccess(WholeAccess):
    """Equal elements, numbered from 0 or named."""

    def __init__(self, name: str, element: Access, extent: int, named: tuple[str, ...] = ()) -> None:
        self.name = name
        self.element = element
        self.extent = extent
        self.places = {key: place for place, key in enumerate(named)}

    def read(self, frame: "Frame", flat: Index) -> "Array[Any, Any]":
        return Array(frame, self, flat)

    def settle(self, value: Any) -> list[Any]:
        """All elements, read before anything is written: they may be elements of this same array."""
        if isinstance(value, Anything):
            return [self.element.settle(value)] * self.extent
        if not isinstance(value, tuple | list | Array) or len(value) != self.extent:
            raise ModellingMistake(
                f"`{self.name}` is an array: assign to `{self.name}[i]`, or {self.extent} values at once"
            )
        return [self.element.settle(element) for element in value]

    def fill(self, frame: "Frame", flat: Index, settled: Any) -> None:
        for i, element in enumerate(settled):
            self.element.fill(frame, flat * self.extent + i, element)

    def decode(self, state: PackedState, flat: int) -> object:
        return tuple(self.element.decode(state, flat * self.extent + i) for i in range(self.extent))

    def encode(self, state: list[int], flat: int, value: Any) -> None:
        if len(value) != self.extent:
            raise ModellingMistake(f"`{self.name}` has {self.extent} elements, not {len(value)}")
        for i, element in enumerate(value):
            self.element.encode(state, flat * self.extent + i, element)

    def element_number(self, frame: "Frame", flat: Index, index: Index | str | Choice) -> Index:
        """The flat number of element `index`; an error unless it exists."""
        if self.places:
            if isinstance(index, Choice):
                return flat * self.extent + self._by_name(index)
            if not isinstance(index, str) or index not in self.places:
                raise ModellingMistake(
                    f"`{self.name}` is indexed by {names(self.places)}, not by {describe(index)}"
                )
            return flat * self.extent + self.places[index]
        check_place(frame, self.name, index, self.extent, "elements")
        assert not isinstance(index, str | Choice)
        return flat * self.extent + index

    def _by_name(self, index: Choice) -> Number:
        """The numbers of the elements that a column of names chooses."""
        assert isinstance(index.kind, EnumKind)
        unknown = [name for name in index.kind.options if name not in self.places]
        if unknown:
            raise ModellingMistake(
                f"`{self.name}` is indexed by {names(self.places)}, and the index can be {unknown[0]}"
            )
        places = np.array([self.places[name] for name in index.kind.options], np.int64)
        return Number(index.frame, IntKind(0, self.extent - 1), look_up(places, index.codes()))


class Array(View, Generic[R, W]):
    """An array inside an action: elements by number, all of them by iteration."""

    __slots__ = ()
    _access: ArrayAccess

    def __len__(self) -> int:
        return self._access.extent

    def __getitem__(self, index: Index | str | Choice) -> R:
        frame, access = self._frame, self._access
        if frame.replaced:
            self._now()
        element: R = access.element.read(frame, access.element_number(frame, self._flat, index))
        return element

    def __setitem__(self, index: Index | str | Choice, value: W) -> None:
        frame, access = self._now(), self._access
        access.element.write(frame, access.element_number(frame, self._flat, index), value)

    def __iter__(self) -> Iterator[R]:
        return (self[key] for key in self._access.places or range(len(self)))

    def __eq__(self, other: object) -> Truth:  # type: ignore[override]  # arrays compare state by state
        if not isinstance(other, tuple | list | Array) or len(other) != len(self):
            raise ModellingMistake(
                f"`{self._access.name}` is an array: compare it with {len(self)} values, or with another"
            )
        return all_of(as_truth(mine == theirs) for mine, theirs in zip(self, other, strict=True))

    @must_call
    def all(self, value: "W | Callable[[R], Truth | bool]") -> Truth:
        """True where every element equals `value`, or a condition (a function of an element) holds of all."""
        return all_of(self._where(value))

    @must_call
    def any(self, value: "W | Callable[[R], Truth | bool]") -> Truth:
        """True where some element equals `value`, or a condition holds of some."""
        return any_of(self._where(value))

    @must_call
    def count(self, value: "W | Callable[[R], Truth | bool]") -> Number:
        """The number of elements that equal `value`, or for which a condition holds."""
        return count_of(self._where(value))

    def _where(self, value: Any) -> "Iterator[Truth | bool]":
        for element in self:
            if isinstance(value, FunctionType):
                yield holds_of(value, element, self._access.name)
            else:
                yield as_truth(element == value)


class SequenceAccess(WholeAccess):
    """A bounded sequence: its length and its items; unused items stay zero."""

    def __init__(self, name: str, lengths: CellAccess, items: CellAccess, capacity: int) -> None:
        self.name = name
        self.lengths = lengths
        self.items = items
        self.capacity = capacity

    def read(self, frame: "Frame", flat: Index) -> "Sequence[Any, Any]":
        return Sequence(frame, self, flat)

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
        """An item of another sequence; beyond the length of that one, the first value of this one."""
        same = item.kind == self.items.kind
        return item if same or not used.frame else pick(used, cast(Any, item), self._nothing())

    def _nothing(self) -> Any:
        return self.items.kind.decode(0)

    def zero_item(self, frame: "Frame", flat: Index) -> None:
        """Clear an item, so that equal sequences are packed alike."""
        self.items.write(frame, flat, self._nothing())

    def decode(self, state: PackedState, flat: int) -> object:
        length = self.lengths.decode(state, flat)
        assert isinstance(length, int)
        return tuple(self.items.decode(state, flat * self.capacity + i) for i in range(length))

    def encode(self, state: list[int], flat: int, value: Any) -> None:
        self.lengths.encode(state, flat, len(value))
        for i, item in enumerate(value):
            self.items.encode(state, flat * self.capacity + i, item)


class Sequence(View, Generic[R, W]):
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
            f"{self._access.name}[i] for i below {self.capacity}, or use .length, .has(...) and .first"
        )

    __len__ = __iter__

    @must_call
    def item(self, index: Index) -> R:
        return self[index]

    @must_call
    def is_empty(self) -> Truth:
        return self.length == 0

    @must_call
    def is_full(self) -> Truth:
        return self.length == self.capacity

    @must_call
    def has(self, value: W) -> Truth:
        """True where some item equals `value`."""
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
        """Equal where the lengths are equal and the items of each position are."""
        length, size = self.length, other.length
        places = range(min(self.capacity, other.capacity))
        shared: list[tuple[Any, Any]] = [(self[i], other[i]) for i in places]
        same = [as_truth(mine == theirs) for mine, theirs in shared]
        if any(mine.kind != theirs.kind for mine, theirs in shared):
            # The value of unused places differs between the two, so those places must not be compared.
            same = [(length <= i) | each for i, each in enumerate(same)]
        return all_of([length == size, *same])

    @must_call
    def append(self, value: W) -> None:
        """Add an item at the end; a full sequence is an overflow."""
        length, frame = self._room(), self._frame
        self._access.items.write(frame, self._flat * self.capacity + length, value)
        self._access.lengths.write(frame, self._flat, length + 1)

    @must_call
    def push_first(self, value: W) -> None:
        """Add an item before the first; a full sequence is an overflow."""
        length, base = self._room(), self._flat * self.capacity
        for i in range(self.capacity - 1, 0, -1):
            self._access.items.write(self._frame, base + i, self[i - 1])
        self._access.items.write(self._frame, base, value)
        self._access.lengths.write(self._frame, self._flat, length + 1)

    @must_call
    def pop_last(self) -> R:
        """Remove and return the last item."""
        end, last = self._pops() - 1, self.last
        self._access.zero_item(self._frame, self._flat * self.capacity + end)
        self._access.lengths.write(self._frame, self._flat, end)
        return last

    @must_call
    def remove(self, value: W) -> None:
        """Remove the first item that equals `value`; the later ones move up."""
        length, items = self.length, [self[i] for i in range(self.capacity)]
        gone, found = Truth.constant(False), []
        for i, item in enumerate(items):
            gone = gone | ((length > i) & as_truth(item == value))
            found.append(gone)
        missing = ~np.atleast_1d(np.broadcast_to(gone.mask(), self._frame.size))
        if missing.any():
            state = self._frame.state_before(int(np.flatnonzero(missing)[0]))
            raise ModellingMistake(
                f"{self._frame.doing()} removes {describe(value)} from `{self._access.name}`, which does not "
                f"have it in state {state}; write s.require(s.{self._access.name}.has(...)) before"
            )
        base = self._flat * self.capacity
        for i, (item, later) in enumerate(pairwise(items)):
            self._access.items.write(self._frame, base + i, pick(found[i], cast(Any, later), cast(Any, item)))
        self._access.zero_item(self._frame, base + (self.capacity - 1))
        self._access.lengths.write(self._frame, self._flat, length - 1)

    send = append

    @must_call
    def at(self, place: int) -> R:
        """The item at a place, as a guard: the rows where the sequence is long enough."""
        length = self.length
        self._frame.narrow_to(length > place)
        return self[place]

    @must_call
    def insert(self, place: int, value: W) -> None:
        """Add an item before the one at a place, as a list does; a full sequence is an overflow."""
        length, base = self._room(), self._flat * self.capacity
        check_place(self._frame, self._access.name, place, self.capacity, "places")
        if bool((length.values() < place).any()):
            raise ModellingMistake(
                f"`{self._access.name}` is shorter than {place} in some state: require more"
            )
        for i in range(self.capacity - 1, place, -1):
            self._access.items.write(self._frame, base + i, self[i - 1])
        self._access.items.write(self._frame, base + place, value)
        self._access.lengths.write(self._frame, self._flat, length + 1)

    @must_call
    def remove_at(self, place: int) -> None:
        """Remove the item at a place; the later ones move up."""
        length, base = self.length, self._flat * self.capacity
        check_place(self._frame, self._access.name, place, self.capacity, "places")
        if bool((length.values() <= place).any()):
            raise ModellingMistake(f"`{self._access.name}` has no item {place} in some state: require more")
        for i in range(place + 1, self.capacity):
            self._access.items.write(self._frame, base + (i - 1), self[i])
        self._access.zero_item(self._frame, base + (self.capacity - 1))
        self._access.lengths.write(self._frame, self._flat, length - 1)

    @must_call
    def any(self, condition: "Callable[[R], Truth | bool]") -> Truth:
        """True where the condition holds of some item."""
        return any_of(self._where(condition))

    @must_call
    def all(self, condition: "Callable[[R], Truth | bool]") -> Truth:
        """True where the condition holds of every item."""
        length = self.length
        return all_of(
            (length <= i) | holds_of(condition, self[i], self._access.name) for i in range(self.capacity)
        )

    @must_call
    def count(self, condition: "Callable[[R], Truth | bool]") -> Number:
        """Of how many items the condition holds."""
        return count_of(self._where(condition))

    def _where(self, condition: "Callable[[R], Truth | bool]") -> Iterator[Truth]:
        length = self.length
        for i in range(self.capacity):
            yield (length > i) & holds_of(condition, self[i], self._access.name)

    def __setitem__(self, index: Index, value: W) -> None:
        frame, access = self._now(), self._access
        check_place(frame, access.name, index, access.capacity, "places")
        beyond = np.atleast_1d((self.length <= index).mask())
        if beyond.any():
            row = int(np.flatnonzero(beyond)[0])
            raise ModellingMistake(
                f"{frame.doing()} assigns to `{access.name}[...]` beyond its length in state "
                f"{frame.state_before(row)}: write s.require(s.{access.name}.length > ...) before, or append"
            )
        access.items.write(frame, self._flat * access.capacity + index, value)

    def _pops(self) -> Number:
        """The length, before an item is taken; an error where there is none."""
        length = self.length
        empty = np.atleast_1d(length.values()) == 0
        if empty.any():
            state = self._frame.state_before(int(np.flatnonzero(empty)[0]))
            raise ModellingMistake(
                f"{self._frame.doing()} pops from `{self._access.name}`, which is empty in state {state}; "
                f"write s.require(~s.{self._access.name}.is_empty()) before"
            )
        return length

    def _room(self) -> Number:
        """The length, before an item is added; an overflow where there is no room."""
        length, frame = self.length, self._frame
        full = np.atleast_1d(length.values()) >= self.capacity
        if full.any():
            what = f"beyond its {self.capacity} places"
            overflow(frame, self._access.name, what, int(np.flatnonzero(full)[0]))
        return length

    @must_call
    def pop_first(self) -> R:
        """Remove and return the first item; the others move up."""
        length, first = self._pops(), self.first
        base = self._flat * self.capacity
        for i in range(1, self.capacity):
            self._access.items.write(self._frame, base + (i - 1), self[i])
        self._access.zero_item(self._frame, base + (self.capacity - 1))
        self._access.lengths.write(self._frame, self._flat, length - 1)
        return first

    @must_call
    def clear(self) -> None:
        self._access.fill(self._now(), self._flat, (0, []))
