"""The packed state: what one cell can hold, and where the cells of every field are.

A *value* is what a modeller reads and writes (`True`, `3`, `"working"`, `{0, 2}`); a *code* is the unsigned
number that is packed. Codes start at 0, and the all-zero word is the first value of every field.

A state is a few 64-bit words. A field is a run of equal *cells*: one cell for a plain field, the product of
its dimensions for an array. The rules that place them:

- no cell straddles two words, so reading one is a shift and a mask;
- a run that fits into one word is kept in one word, wherever there is room (largest run first), so an
  element chosen by another column is a variable shift of that single word;
- only a run wider than a word spans words, as many whole cells in each as fit; the rest of its last word
  stays free for others.

States are arrays of shape (words, states): one word of all states is contiguous.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fencepost.model.kernel.language.errors import ModellingMistake, names, suggestion

WIDEST_CELL = 62
"""Bits of one cell: keeps every code and every sum of two codes inside a signed 64-bit column."""


class Kind:
    """One cell: its width, and the conversion between values and codes."""

    width: int

    def encode(self, value: object) -> int:
        """The code of `value`; an error if the cell cannot hold it."""
        raise NotImplementedError

    def decode(self, code: int) -> object:
        raise NotImplementedError

    def describe(self) -> str:
        """The values of the cell, in words."""
        raise NotImplementedError

    @property
    def count(self) -> int:
        """The number of values that the cell can hold."""
        return 1 << self.width

    def codes(self) -> Iterable[int]:
        """The codes of all its values, by their number; only records leave gaps."""
        return range(self.count)

    def number(self, code: Any) -> Any:
        """The number of a code among `codes`, also of a column of codes."""
        return code


@dataclass(frozen=True)
class BoolKind(Kind):
    width: int = 1

    def encode(self, value: object) -> int:
        if not isinstance(value, bool):
            raise ModellingMistake(f"{value!r} is neither True nor False")
        return int(value)

    def decode(self, code: int) -> bool:
        return bool(code)

    def describe(self) -> str:
        return "a truth value"


@dataclass(frozen=True)
class IntKind(Kind):
    least: int
    most: int
    width: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", max(1, (self.most - self.least).bit_length()))
        if self.most < self.least:
            raise ModellingMistake(
                f"Int({self.least}, {self.most}) has no value: the lower bound comes first"
            )
        if self.width > WIDEST_CELL:
            raise ModellingMistake(
                f"Int({self.least}, {self.most}) needs {self.width} bits, more than {WIDEST_CELL}; "
                "a model wants the smallest range that still shows the behaviour"
            )

    def encode(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ModellingMistake(f"{value!r} is not a whole number")
        if not self.least <= value <= self.most:
            raise ModellingMistake(f"{value} is outside {self.least}..{self.most}")
        return value - self.least

    def decode(self, code: int) -> int:
        return code + self.least

    @property
    def count(self) -> int:
        return self.most - self.least + 1

    def describe(self) -> str:
        return f"{self.least}..{self.most}"


@dataclass(frozen=True)
class EnumKind(Kind):
    options: tuple[str, ...]
    width: int = field(init=False, compare=False)
    _codes: dict[object, int] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", max(1, (len(self.options) - 1).bit_length()))
        object.__setattr__(self, "_codes", {option: code for code, option in enumerate(self.options)})
        if not self.options or len(set(self.options)) != len(self.options):
            raise ModellingMistake(f"Enum{self.options} needs names, each of them once")

    def encode(self, value: object) -> int:
        code = self._codes.get(value) if isinstance(value, str) else None
        if code is None:
            raise ModellingMistake(
                f"{value!r} is not one of {names(self.options)}{suggestion(value, self.options)}"
            )
        return code

    def decode(self, code: int) -> str:
        return self.options[code]

    @property
    def count(self) -> int:
        return len(self.options)

    def describe(self) -> str:
        return f"one of {names(self.options)}"


@dataclass(frozen=True)
class FlagsKind(Kind):
    members: tuple[int, ...] | tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.members) > WIDEST_CELL:
            raise ModellingMistake(
                f"a flag set over {len(self.members)} members needs more than {WIDEST_CELL} bits; "
                "declare it as Set(Id(size)) or Each(size, Bool()), which may span words"
            )

    @property
    def width(self) -> int:  # type: ignore[override]  # derived from the members rather than stored
        return len(self.members)

    def bit(self, member: object) -> int:
        """The number of the bit of `member`."""
        for number, known in enumerate(self.members):
            if known == member and not isinstance(member, bool):
                return number
        known_names = [str(known) for known in self.members]
        raise ModellingMistake(
            f"{member!r} is not a member of {{{names(known_names)}}}{suggestion(member, known_names)}"
        )

    def encode(self, value: object) -> int:
        if isinstance(value, str) or not isinstance(value, AbstractSet | tuple | list):
            raise ModellingMistake(f"{value!r} is not a set; write {{{value!r}}}")
        return sum({1 << self.bit(member) for member in value})

    def decode(self, code: int) -> frozenset[int] | frozenset[str]:
        return frozenset(  # type: ignore[return-value]  # members are all numbers or all names
            member for number, member in enumerate(self.members) if code >> number & 1
        )

    def describe(self) -> str:
        return f"a set over {names(str(known) for known in self.members)}"


class Item(dict[str, object]):
    """The value of a record: its parts, by name or as attributes. It prints as `(type: ask, src: 1)`."""

    def __hash__(self) -> int:  # type: ignore[override]  # nobody changes a decoded value
        return hash(tuple(self.items()))

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            if name.startswith("__"):
                raise AttributeError(name) from None
            raise ModellingMistake(
                f"the record has no part '{name}'{suggestion(name, self)}; its parts are {names(self)}"
            ) from None

    def __str__(self) -> str:
        return "(" + ", ".join(f"{name}: {_printed(value)}" for name, value in self.items()) + ")"


def _printed(value: object) -> str:
    if isinstance(value, frozenset):
        return "{" + ", ".join(map(str, sorted(value))) + "}"
    if type(value) is tuple:
        return "[" + ", ".join(map(_printed, value)) + "]"
    return str(value)


@dataclass(frozen=True)
class RecordKind(Kind):
    """Several parts in one cell, side by side, the first in the lowest bits."""

    parts: tuple[tuple[str, Kind], ...]
    left_out: tuple[tuple[str, object], ...] = ()
    """The values of parts that a record may leave out."""
    width: int = field(init=False, compare=False)
    places: dict[str, tuple[int, Kind]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        at, places = 0, {}
        for name, kind in self.parts:
            places[name] = (at, kind)
            at += kind.width
        object.__setattr__(self, "width", at)
        object.__setattr__(self, "places", places)
        if at > WIDEST_CELL - 1:
            widest = sorted(self.parts, key=lambda part: -part[1].width)[:3]
            raise ModellingMistake(
                f"a record of {at} bits is too wide (at most {WIDEST_CELL - 1}); its widest parts are "
                + ", ".join(f"{name} ({kind.width} bits)" for name, kind in widest)
                + "; give smaller bounds, or declare two arrays instead of one"
            )

    def completed(self, value: object) -> dict[str, Any]:
        """All parts of a value, in order; an error for one that is missing or unknown."""
        if not isinstance(value, Mapping):
            raise ModellingMistake(f"{value!r} is not a record: write dict({self._example()})")
        for name in value:
            if name not in self.places:
                raise ModellingMistake(
                    f"the record has no part '{name}'{suggestion(name, self.places)}; "
                    f"its parts are {names(self.places)}"
                )
        given = {**dict(self.left_out), **value}
        missing = [name for name in self.places if name not in given]
        if missing:
            raise ModellingMistake(
                f"the record has no {names(missing)}: give every part, or declare with start=... "
                "what a record without it has"
            )
        return {name: given[name] for name in self.places}

    def encode(self, value: object) -> int:
        code = 0
        for name, given in self.completed(value).items():
            at, kind = self.places[name]
            try:
                code |= kind.encode(given) << at
            except ModellingMistake as error:
                raise ModellingMistake(f"its part `{name}`: {error}") from None
        return code

    def decode(self, code: int) -> Item:
        return Item(
            (name, kind.decode(code >> at & (1 << kind.width) - 1))
            for name, (at, kind) in self.places.items()
        )

    @property
    def count(self) -> int:
        return prod(kind.count for _, kind in self.parts)

    def codes(self) -> Iterator[int]:
        for parts in product(*(kind.codes() for _, kind in reversed(self.parts))):
            code = 0
            for part, (at, _) in zip(reversed(parts), self.places.values(), strict=True):
                code |= part << at
            yield code

    def number(self, code: Any) -> Any:
        strides = self.strides()
        return sum(
            kind.number(code >> at & (1 << kind.width) - 1) * strides[name]
            for name, (at, kind) in self.places.items()
        )

    def strides(self) -> dict[str, int]:
        """The weight of each part in the number of a code."""
        found, stride = {}, 1
        for name, kind in self.parts:
            found[name] = stride
            stride *= kind.count
        return found

    def describe(self) -> str:
        return f"a record of {names(self.places)}"

    def _example(self) -> str:
        return ", ".join(f"{name}=..." for name in self.places)


@dataclass(frozen=True)
class PlaceKind(Kind):
    """A place of a bag: empty, or an item, whose code has one more bit above it."""

    item: Kind

    @property
    def width(self) -> int:  # type: ignore[override]  # derived from the item rather than stored
        return self.item.width + 1

    def encode(self, value: object) -> int:
        return 0 if value is None else 1 << self.item.width | self.item.encode(value)

    def decode(self, code: int) -> object:
        present = code >> self.item.width
        return self.item.decode(code & (1 << self.item.width) - 1) if present else None

    def describe(self) -> str:
        return f"nothing, or {self.item.describe()}"


U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]
PackedState = tuple[int, ...]


def look_up(table: I64, places: I64) -> I64:
    """The entries of a table at these places. A traced column has its own way, see `compiled.trace`."""
    found: I64 = places.look_up(table) if hasattr(places, "look_up") else table.take(places)
    return found


WORD = 64
MOST_WORDS = 1 << 10
"""A wider state is a mistake in the model: its space is too large to explore."""


@dataclass(frozen=True)
class Slot:
    """A run of cells: its kind, its shape and its place."""

    name: str
    kind: Kind
    shape: tuple[int, ...]
    word: int
    shift: int
    in_word: int

    @property
    def count(self) -> int:
        return prod(self.shape)

    def place(self, index: int) -> tuple[int, int]:
        """The word and the shift of the cell `index` (flattened)."""
        if self.count <= self.in_word:
            return self.word, self.shift + index * self.kind.width
        return self.word + index // self.in_word, index % self.in_word * self.kind.width

    def spans_words(self) -> bool:
        return self.count > self.in_word

    def part(self, name: str, at: int, kind: Kind) -> "PartSlot":
        """The run of one part of records: the same places, a few bits of each."""
        return PartSlot(
            f"{self.name}.{name}", kind, self.shape, self.word, self.shift, self.in_word, self, at
        )


@dataclass(frozen=True)
class PartSlot(Slot):
    """The run of some bits of each cell of another run."""

    whole: Slot
    at: int

    def place(self, index: int) -> tuple[int, int]:
        word, shift = self.whole.place(index)
        return word, shift + self.at


@dataclass(frozen=True)
class Layout:
    """All slots of a machine at given sizes."""

    slots: dict[str, Slot]
    words: int
    bits: int


def arrange(wanted: Iterable[tuple[str, Kind, tuple[int, ...]]]) -> Layout:
    """Place all runs; the result depends only on the names, kinds and shapes, in order."""
    runs = list(wanted)
    bits = {name: kind.width * prod(shape) for name, kind, shape in runs}
    total = sum(bits.values())
    if total > MOST_WORDS * WORD:
        widest = sorted(bits.items(), key=lambda item: -item[1])[:3]
        raise ModellingMistake(
            f"a state of {total:,} bits is too wide (at most {MOST_WORDS * WORD:,}); the widest fields are "
            + ", ".join(f"{name} ({width:,} bits)" for name, width in widest)
            + "; give smaller sizes or bounds"
        )
    slots: dict[str, Slot] = {}
    used: list[int] = []
    for name, kind, shape in sorted(runs, key=lambda run: -bits[run[0]]):
        in_word = WORD // kind.width
        count = prod(shape)
        if count > in_word:
            slots[name] = Slot(name, kind, shape, len(used), 0, in_word)
            whole, rest = divmod(count, in_word)
            used += [in_word * kind.width] * whole + ([rest * kind.width] if rest else [])
            continue
        word = next((w for w, taken in enumerate(used) if taken + bits[name] <= WORD), len(used))
        if word == len(used):
            used.append(0)
        slots[name] = Slot(name, kind, shape, word, used[word], in_word)
        used[word] += bits[name]
    in_order = {name: slots[name] for name, _, _ in runs}
    return Layout(in_order, max(1, len(used)), total)


def packed(states: U64, row: int) -> PackedState:
    """One packed state as plain numbers."""
    return tuple(int(word) for word in states[:, row])


def one_row(state: PackedState) -> U64:
    """A packed state as a batch of one."""
    return np.array(state, np.uint64)[:, np.newaxis]


def whole_states(states: U64) -> NDArray[Any]:
    """Each state as one value, so that they can be compared as a whole."""
    rows = np.ascontiguousarray(states.T)
    whole: NDArray[Any] = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))
    return whole.ravel()
