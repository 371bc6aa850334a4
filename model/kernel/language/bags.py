"""Bags and sets of items inside an action: messages in a network, in no order.

A *bag* has places for a bounded number of items. The items are kept sorted, the largest code first and the
empty places last, so equal bags are packed alike. Adding one is a chain of maxima and minima along the
places; nothing ever depends on the order in which items were added.

A *set* has a bit for each value that its item can have, so it needs no bound, and the same item added twice
is one. Selecting items by some of their parts is a test of the words against one mask.

Both are views, as arrays and sequences are. A condition on some or all items is a function of one:

    s.network.any(lambda m: (m.type == "ask") & (m.term > s.term[n]))
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import product
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np

from fencepost.model.kernel.language.access import CellAccess, Index, cell_column
from fencepost.model.kernel.language.assigning import codes_of, overflow
from fencepost.model.kernel.language.columns import (
    Column,
    Match,
    Truth,
    all_of,
    any_of,
    as_truth,
    describe,
)
from fencepost.model.kernel.language.errors import ModellingMistake, must_call, names, suggestion
from fencepost.model.kernel.language.layout import U64, Kind, PackedState, RecordKind
from fencepost.model.kernel.language.numbers import Number, count_of
from fencepost.model.kernel.language.views import View, WholeAccess, holds_of

if TYPE_CHECKING:
    from fencepost.model.kernel.language.frame import Frame

R = TypeVar("R")
W = TypeVar("W")


class Items(tuple[object, ...]):
    """The plain value of a bag: its items in the order in which they are packed."""

    __slots__ = ()

    def __str__(self) -> str:
        return "{" + ", ".join(map(str, self)) + "}"


class Place:
    """A place of a bag or a queue as the parameter of an action; it prints as `network[0]`."""

    def __init__(self, field: str, number: int) -> None:
        self.field = field
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and (self.field, self.number) == (other.field, other.number)

    def __hash__(self) -> int:
        return hash((self.field, self.number))

    def __str__(self) -> str:
        return f"{self.field}[{self.number}]"

    __repr__ = __str__


class _ItemsView(View, Generic[R, W]):
    """The common part of bags and sets: an item given by its parts, and conditions on some or all items."""

    __slots__ = ()

    def _item_kind(self) -> Kind:
        raise NotImplementedError

    def check_items(self, kind: Kind, name: str) -> None:
        """An error unless it has items of this kind, as `name` has."""
        if self._item_kind() != kind:
            raise ModellingMistake(
                f"the items of `{name}` are {kind.describe()}, those of `{self._access.name}` "
                f"{self._item_kind().describe()}"
            )

    def each(self) -> Iterator[tuple[Truth, R]]:
        """Every possible item, and where it is one."""
        raise NotImplementedError

    def _where(self, condition: "Callable[[R], Truth | bool]", wanted: bool = True) -> Iterator[Truth]:
        for there, item in self.each():
            holds = holds_of(condition, item, self._access.name)
            if isinstance(holds, bool):
                if holds is wanted:
                    yield there
            else:
                yield there & (holds if wanted else ~holds)

    def _given(self, value: Any, parts: Mapping[str, Any]) -> Any:
        """The item that a call means: itself, or its parts by name."""
        if parts and value is not None:
            raise ModellingMistake(f"give `{self._access.name}` an item, or its parts by name, and not both")
        if not parts and value is None:
            raise ModellingMistake(f"an item is missing: s.{self._access.name}.add(...) takes one")
        return parts or value

    def _check_parts(self, parts: Mapping[str, Any]) -> None:
        kind = self._item_kind()
        known = kind.places if isinstance(kind, RecordKind) else {}
        for name in parts:
            if name not in known:
                raise ModellingMistake(
                    f"an item of `{self._access.name}` has no part '{name}'{suggestion(name, known)}; "
                    f"its parts are {names(known)}"
                )

    @must_call
    def any(self, condition: "Callable[[R], Truth | bool]") -> Truth:
        """True where the condition holds of some item."""
        return any_of(self._where(condition))

    @must_call
    def all(self, condition: "Callable[[R], Truth | bool]") -> Truth:
        """True where the condition holds of every item."""
        return ~any_of(self._where(condition, wanted=False))

    @must_call
    def count(self, condition: "Callable[[R], Truth | bool] | None" = None, /, **parts: Any) -> Number:
        """Of how many items the condition holds, or how many have these parts."""
        if isinstance(condition, FunctionType):
            return count_of(self._where(condition))
        return self._count(self._given(condition, parts), partly=bool(parts))

    def _count(self, value: Any, *, partly: bool) -> Number:
        raise NotImplementedError

    def __iter__(self) -> Any:
        raise ModellingMistake(
            f"`{self._access.name}` has other items in every state: write .any(lambda m: ...), "
            f".all(lambda m: ...), or give an action the parameter m={self._access.name}"
        )

    __len__ = __contains__ = __iter__


class BagAccess(WholeAccess):
    """A bounded number of items in no order."""

    def __init__(self, name: str, cells: CellAccess, item: Kind, capacity: int) -> None:
        self.name = name
        self.cells = cells
        self.item = item
        self.capacity = capacity
        self.present = 1 << item.width

    def read(self, frame: "Frame", flat: Index) -> "BagView[Any, Any]":
        return BagView(frame, self, flat)

    def settle(self, value: Any) -> list[tuple[U64 | None, Any]]:
        """The content to add to an empty bag: codes of places, or items."""
        if isinstance(value, BagView):
            value.check_items(self.item, self.name)
            return [(codes, None) for codes in value.codes()]
        if not isinstance(value, tuple | list):
            raise ModellingMistake(f"`{self.name}` is a bag: assign a tuple of items or another bag to it")
        return [(None, item) for item in value]

    def fill(self, frame: "Frame", flat: Index, settled: Any) -> None:
        for place in range(self.capacity):
            self.cells.put_codes(frame, flat * self.capacity + place, 0)
        for codes, item in settled:
            self.insert(frame, flat, self.codes(frame, item) if codes is None else codes)

    def codes(self, frame: "Frame", item: Any) -> U64:
        """The code of an item as a place has it, row by row."""
        codes = codes_of(frame, self.item, self.name, item)
        every = np.uint64(codes) if isinstance(codes, int) else codes
        return np.broadcast_to(every, frame.size) | np.uint64(self.present)

    def insert(self, frame: "Frame", flat: Index, codes: U64) -> None:
        """Put an item (or 0, nothing) where it belongs; an overflow where there is no room."""
        last = self.cells.codes(frame, flat * self.capacity + (self.capacity - 1))
        full = np.flatnonzero((last != 0) & (codes != 0))
        if len(full):
            overflow(frame, self.name, f"beyond its {self.capacity} places", int(full[0]))
        for place in range(self.capacity):
            at = flat * self.capacity + place
            here = self.cells.codes(frame, at)
            self.cells.put_codes(frame, at, np.maximum(here, codes))
            codes = np.minimum(here, codes)

    def decode(self, state: PackedState, flat: int) -> object:
        places = (self.cells.decode(state, flat * self.capacity + place) for place in range(self.capacity))
        return Items(item for item in places if item is not None)

    def encode(self, state: list[int], flat: int, value: Any) -> None:
        if len(value) > self.capacity:
            raise ModellingMistake(f"`{self.name}` has {self.capacity} places, not {len(value)}")
        ordered = sorted(value, key=self.item.encode, reverse=True)
        for place, item in enumerate(ordered):
            self.cells.encode(state, flat * self.capacity + place, item)


class BagView(_ItemsView[R, W]):
    """A bag inside an action."""

    __slots__ = ()
    noun = "a bag"
    _access: BagAccess

    def _item_kind(self) -> Kind:
        return self._access.item

    @property
    def capacity(self) -> int:
        return self._access.capacity

    @must_call
    def add(self, item: Any = None, /, **parts: Any) -> None:
        """Add an item, or a record of these parts; a full bag is an overflow."""
        frame, access = self._now(), self._access
        access.insert(frame, self._flat, access.codes(frame, self._given(item, parts)))

    send = add

    @must_call
    def remove(self, item: Any = None, /, **parts: Any) -> None:
        """Remove one of the items that equal it; an error where there is none."""
        frame, access = self._now(), self._access
        wanted, here = access.codes(frame, self._given(item, parts)), self.codes()
        gone, found = np.zeros(frame.size, np.bool_), []
        for codes in here:
            gone = gone | (codes == wanted)
            found.append(gone)
        if not gone.all():
            state = frame.state_before(int(np.flatnonzero(~gone)[0]))
            raise ModellingMistake(
                f"{frame.doing()} removes an item from `{access.name}` that it does not have in state "
                f"{state}; write s.require(s.{access.name}.has(...)) before"
            )
        later = [*here[1:], np.zeros(frame.size, np.uint64)]
        for place, (codes, after) in enumerate(zip(here, later, strict=True)):
            at = self._flat * access.capacity + place
            access.cells.put_codes(frame, at, np.where(found[place], after, codes))

    @must_call
    def clear(self) -> None:
        self._access.fill(self._now(), self._flat, [])

    @must_call
    def has(self, item: Any = None, /, **parts: Any) -> Truth:
        """True where it has an item that equals this one, or one with these parts."""
        return any_of(self._equal(self._given(item, parts), partly=bool(parts)))

    @must_call
    def size(self) -> Number:
        return count_of(self._there(place) for place in range(self.capacity))

    @must_call
    def is_empty(self) -> Truth:
        return ~self._there(0)

    @must_call
    def is_full(self) -> Truth:
        return self._there(self.capacity - 1)

    @must_call
    def at(self, place: Any) -> R:
        """The item at a place, as a guard: the rows where it is there, and not equal to the one before.

        So an action with the parameter `k=capacity` takes each different item once.
        """
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < self.capacity:
            raise ModellingMistake(
                f"`{self._access.name}` has the places 0..{self.capacity - 1}, not {describe(place)}"
            )
        there = self._there(place)
        if place:
            before, codes = (self._codes(at) for at in (place - 1, place))
            there = there & Truth.of(self._frame, before != codes)
        self._now().narrow_to(there)
        return self._item(place)

    def __eq__(self, other: object) -> Truth:  # type: ignore[override]  # bags compare state by state
        if isinstance(other, BagView):
            other.check_items(self._access.item, self._access.name)
            mine, theirs = self.codes(), other.codes()
            size = max(len(mine), len(theirs))
            nothing = np.zeros(self._frame.size, np.uint64)
            pairs = zip(
                [*mine, *[nothing] * (size - len(mine))],
                [*theirs, *[nothing] * (size - len(theirs))],
                strict=True,
            )
            return all_of(Truth.of(self._frame, one == another) for one, another in pairs)
        if not isinstance(other, tuple | list):
            raise ModellingMistake(f"`{self._access.name}` is a bag: compare it with a tuple of items")
        if len(other) > self.capacity:
            return Truth.constant(False)
        kind = self._access.item
        codes = [self._access.present | kind.encode(item) for item in other]
        wanted = [*sorted(codes, reverse=True), *[0] * (self.capacity - len(other))]
        return all_of(
            Truth.of(self._frame, mine == np.uint64(code))
            for mine, code in zip(self.codes(), wanted, strict=True)
        )

    def codes(self) -> list[U64]:
        """The codes of all places."""
        return [self._codes(place) for place in range(self.capacity)]

    def _codes(self, place: int) -> U64:
        return self._access.cells.codes(self._now(), self._flat * self.capacity + place)

    def _there(self, place: int) -> Truth:
        frame, at = self._now(), self._flat * self.capacity + place
        return cast(Truth, cell_column(self._access.cells, frame, at, self._access.item.width))

    def _item(self, place: int) -> R:
        frame, at = self._now(), self._flat * self.capacity + place
        return cast(R, cell_column(self._access.cells, frame, at, 0, self._access.item))

    def each(self) -> Iterator[tuple[Truth, R]]:
        return ((self._there(place), self._item(place)) for place in range(self.capacity))

    def _equal(self, value: Any, *, partly: bool) -> Iterator[Truth]:
        if partly:
            self._check_parts(value)
        for there, item in self.each():
            yield there & as_truth(cast(Any, item).matches(**value) if partly else item == value)

    def _count(self, value: Any, *, partly: bool) -> Number:
        return count_of(self._equal(value, partly=partly))


class SetAccess(WholeAccess):
    """A bit for each value that an item can have."""

    def __init__(self, name: str, bits: CellAccess, item: Kind) -> None:
        self.name = name
        self.bits = bits
        self.item = item
        self.count = item.count
        self._numbers: dict[tuple[tuple[str, int], ...], list[int]] = {}

    @cached_property
    def values(self) -> tuple[Any, ...]:
        """Every value that an item can have, by its number."""
        return tuple(map(self.item.decode, self.item.codes()))

    def read(self, frame: "Frame", flat: Index) -> "SetView[Any, Any]":
        return SetView(frame, self, flat)

    def settle(self, value: Any) -> list[tuple[Any, Truth]]:
        """The items to put into an empty set, and where."""
        if isinstance(value, SetView):
            value.check_items(self.item, self.name)
            return [(item, Truth.of(there.frame, there.mask())) for there, item in value.each()]
        if not isinstance(value, set | frozenset | tuple | list):
            raise ModellingMistake(f"`{self.name}` is a set: assign a set or a tuple of items to it")
        return [(item, Truth.constant(True)) for item in value]

    def fill(self, frame: "Frame", flat: Index, settled: Any) -> None:
        for number in range(self.count):
            self.bits.write(frame, flat * self.count + number, False)
        for item, there in settled:
            self.bits.write(frame, flat * self.count + self.number(frame, item), there)

    def numbers(self, wanted: Mapping[str, int]) -> list[int]:
        """The numbers of the items whose parts have these codes."""
        key = tuple(wanted.items())
        if key not in self._numbers:
            assert isinstance(self.item, RecordKind)
            places = {name: self.item.places[name] for name in wanted}
            self._numbers[key] = [
                number
                for number, code in enumerate(self.item.codes())
                if all(
                    code >> at & ((1 << kind.width) - 1) == wanted[name]
                    for name, (at, kind) in places.items()
                )
            ]
        return self._numbers[key]

    def number(self, frame: "Frame", item: Any) -> Index:
        """The number of an item, in all rows or row by row."""
        codes = codes_of(frame, self.item, self.name, item)
        number = self.item.number(codes if isinstance(codes, int) else codes.view(np.int64))
        return number if isinstance(number, int) else Number.of(frame, number, self.count)

    def decode(self, state: PackedState, flat: int) -> object:
        return frozenset(
            value
            for number, value in enumerate(self.values)
            if self.bits.decode(state, flat * self.count + number)
        )

    def encode(self, state: list[int], flat: int, value: Any) -> None:
        for item in value:
            self.bits.encode(state, flat * self.count + self.item.number(self.item.encode(item)), True)


class SetView(_ItemsView[R, W]):
    """A set inside an action."""

    __slots__ = ()
    noun = "a set"
    _access: SetAccess

    def _item_kind(self) -> Kind:
        return self._access.item

    @must_call
    def add(self, item: Any = None, /, **parts: Any) -> None:
        """Add an item, or a record of these parts."""
        self._write(self._given(item, parts), there=True)

    send = add

    @must_call
    def discard(self, item: Any = None, /, **parts: Any) -> None:
        """Remove an item where it is there."""
        self._write(self._given(item, parts), there=False)

    @must_call
    def remove(self, item: Any = None, /, **parts: Any) -> None:
        """Remove an item; an error where it is not there."""
        frame, value = self._now(), self._given(item, parts)
        missing = np.flatnonzero(~np.broadcast_to(self.there(value).mask(), frame.size))
        if len(missing):
            raise ModellingMistake(
                f"{frame.doing()} removes an item from `{self._access.name}` that it does not have in state "
                f"{frame.state_before(int(missing[0]))}; write s.require(s.{self._access.name}.has(...)) "
                "before, or discard"
            )
        self._write(value, there=False)

    @must_call
    def clear(self) -> None:
        self._access.fill(self._now(), self._flat, [])

    @must_call
    def add_all(self, other: "SetView[R, W]") -> None:
        """Add every item of another set."""
        for item, there in self._access.settle(other):
            self._access.bits.write(self._now(), self._at(item), there | self.there(item))

    @must_call
    def has(self, item: Any = None, /, **parts: Any) -> Truth:
        """True where it has this item, or one with these parts."""
        value = self._given(item, parts)
        return any_of(self._partly(value)) if parts else self.there(value)

    @must_call
    def size(self) -> Number:
        return self._counted(range(self._access.count))

    @must_call
    def is_empty(self) -> Truth:
        return ~any_of(self._among(range(self._access.count)))

    @must_call
    def within(self, other: "SetView[R, W]") -> Truth:
        """True where every item is also in `other`."""
        return all_of(~there | other.there(item) for there, item in self.each())

    def __eq__(self, other: object) -> Truth:  # type: ignore[override]  # sets compare state by state
        if isinstance(other, SetView):
            other.check_items(self._access.item, self._access.name)
            return all_of(as_truth(there == other.there(item)) for there, item in self.each())
        if not isinstance(other, set | frozenset):
            raise ModellingMistake(f"`{self._access.name}` is a set: compare it with a set, or with another")
        wanted = {self._access.item.encode(item) for item in other}
        return all_of(
            there if self._access.item.encode(item) in wanted else ~there for there, item in self.each()
        )

    def _write(self, value: Any, *, there: bool) -> None:
        self._access.bits.write(self._now(), self._at(value), there)

    def _at(self, value: Any) -> Index:
        return self._flat * self._access.count + self._access.number(self._now(), value)

    def there(self, value: Any) -> Truth:
        """True where it has this item."""
        return cast(Truth, self._access.bits.read(self._now(), self._at(value)))

    def each(self) -> Iterator[tuple[Truth, R]]:
        bits, base = self._access.bits, self._flat * self._access.count
        for number, value in enumerate(self._access.values):
            yield cast(Truth, bits.read(self._now(), base + number)), value

    def _count(self, value: Any, *, partly: bool) -> Number:
        if not partly:
            return count_of([self.there(value)])
        counts = [self._counted(found, there) for there, found in self._candidates(value)]
        first, *others = counts or [count_of([])]
        for other in others:
            first = first + other
        return first

    def _partly(self, parts: Mapping[str, Any]) -> Iterator[Truth]:
        for there, found in self._candidates(parts):
            yield there & any_of(self._among(found))

    def _candidates(self, parts: Mapping[str, Any]) -> Iterator[tuple[Truth, list[int]]]:
        """The numbers of the items with these parts, for each choice of the parts that are columns."""
        self._check_parts(parts)
        kind = self._access.item
        assert isinstance(kind, RecordKind)
        columns = {name: value for name, value in parts.items() if isinstance(value, Column)}
        fixed = {name: kind.places[name][1].encode(v) for name, v in parts.items() if name not in columns}
        choices = [list(kind.places[name][1].codes()) for name in columns]
        for chosen in product(*choices):
            wanted = {**fixed, **dict(zip(columns, chosen, strict=True))}
            here = all_of(
                as_truth(column == kind.places[name][1].decode(wanted[name]))
                for name, column in columns.items()
            )
            yield here, self._access.numbers(wanted)

    def _among(self, numbers: Iterable[int]) -> Iterator[Truth]:
        """Some truths of which one holds where one of these bits is set."""
        frame, base = self._now(), self._flat * self._access.count
        if isinstance(base, int):
            for word, mask in self._masks(base, numbers).items():
                yield Match(frame, frame.word(word), mask, 0, negated=True)
        else:
            for number in numbers:
                yield cast(Truth, self._access.bits.read(frame, base + number))

    def _counted(self, numbers: Iterable[int], where: Truth | None = None) -> Number:
        frame, base = self._now(), self._flat * self._access.count
        if not isinstance(base, int):
            total = count_of(self._access.bits.read(frame, base + n) for n in numbers)  # type: ignore[misc]  # a bit is a truth
            return total if where is None else total * where
        found = np.zeros(frame.size, np.int64)
        for word, mask in self._masks(base, numbers).items():
            found = found + np.bitwise_count(frame.word(word) & np.uint64(mask))
        counted = Number.of(frame, found, self._access.count)
        return counted if where is None else counted * where

    def _masks(self, base: int, numbers: Iterable[int]) -> dict[int, int]:
        masks: dict[int, int] = {}
        for number in numbers:
            word, shift = self._access.bits.slot.place(base + number)
            masks[word] = masks.get(word, 0) | 1 << shift
        return masks
