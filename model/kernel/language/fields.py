"""The fields and sizes that a machine is declared with.

    managers = Size(3, most=16)
    decided = Bool()
    votes = Int(0, managers)
    tickets = Int(0, 2 * managers + 1)         # arithmetic on sizes gives an extent, resolved at check time
    phase = Enum("init", "committed", "aborted")
    seen = Flags(managers)                     # or Flags("red", "green")
    inbox = Seq(4, Enum("ask", "answer"))      # at most 4 items
    manager = Each(managers, Enum("working", "prepared"))
    last = Record(type=Enum("ask", "answer"), src=Id(managers))    # s.last.src
    sent = Set(Record(src=Id(managers), vote=Bool()))              # any of these records
    network = Bag(4, Record(type=Enum("ask", "answer"), src=Id(managers)))    # at most 4, in no order
    wire = Channel(4, Bool(), lossy=True)      # a queue that may lose what is in it
    grid = Each(rows, Each(columns, Bool()))   # s.grid[r][c]
    pin = Each(("nodes", "edges"), Int(0, 3))  # s.pin["nodes"]: one element for each name

A size has a default and is given at check time; inside an action `s.managers` is a plain `int`. Every field
begins at its first value (False, the lower bound, the first name, the empty set, the empty sequence) unless
it has `start=...` or an `@initial` function sets it.
"""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar, overload

from fencepost.model.kernel.language.access import Access, CellAccess
from fencepost.model.kernel.language.bags import BagAccess, BagView, Place, SetAccess, SetView
from fencepost.model.kernel.language.choices import Choice
from fencepost.model.kernel.language.columns import Truth, describe
from fencepost.model.kernel.language.errors import BadSettings, ModellingMistake, names, suggestion
from fencepost.model.kernel.language.layout import (
    BoolKind,
    EnumKind,
    FlagsKind,
    IntKind,
    Kind,
    PlaceKind,
    RecordKind,
    Slot,
)
from fencepost.model.kernel.language.members import Members
from fencepost.model.kernel.language.numbers import Number
from fencepost.model.kernel.language.records import NOT_A_PART, Recorded
from fencepost.model.kernel.language.views import Array, ArrayAccess, Sequence, SequenceAccess

if TYPE_CHECKING:
    from fencepost.model.kernel.language.machine import Machine


NOT_YET = (
    "this is a declaration: it has a value in an action or a property, and none in the body of the class, "
    "where an `if` is a choice that is made when the machine is built"
)


class Extent:
    """A whole number that is known once the sizes are known."""

    def __init__(self, resolve: Callable[[Mapping[str, int]], int]) -> None:
        self.resolve = resolve

    def __bool__(self) -> NoReturn:
        raise ModellingMistake(NOT_YET)

    def __add__(self, other: "int | Extent") -> "Extent":
        return Extent(lambda sizes: resolve(self, sizes) + resolve(other, sizes))

    def __sub__(self, other: "int | Extent") -> "Extent":
        return Extent(lambda sizes: resolve(self, sizes) - resolve(other, sizes))

    def __rsub__(self, other: int) -> "Extent":
        return Extent(lambda sizes: other - resolve(self, sizes))

    def __mul__(self, other: "int | Extent") -> "Extent":
        return Extent(lambda sizes: resolve(self, sizes) * resolve(other, sizes))

    def __pow__(self, other: "int | Extent") -> "Extent":
        return Extent(lambda sizes: int(resolve(self, sizes) ** resolve(other, sizes)))

    def __rpow__(self, other: int) -> "Extent":
        return Extent(lambda sizes: int(other ** resolve(self, sizes)))

    __radd__, __rmul__ = __add__, __mul__


AnyExtent = int | str | Extent


class Size(Extent):
    """One parameter of a machine. `least` and `most` are the range that the machine was written for."""

    def __init__(self, default: int, *, least: int = 1, most: int = 64, doc: str = "") -> None:
        if not least <= default <= most:
            raise ModellingMistake(f"a size with default {default} must allow it: {least}..{most} does not")
        super().__init__(lambda sizes: sizes[self.name])
        self.default = default
        self.least = least
        self.most = most
        self.doc = doc
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, s: None, owner: type) -> Self: ...
    @overload
    def __get__(self, s: "Machine", owner: type) -> int: ...
    def __get__(self, s: "Machine | None", owner: type) -> "Self | int":
        return self if s is None else s.frame.model.sizes[self.name]

    def __set__(self, s: "Machine", value: object) -> None:
        raise ModellingMistake(f"`{self.name}` is a size: it is given at check time and no action changes it")


def resolve(extent: AnyExtent, sizes: Mapping[str, int]) -> int:
    """The number of an extent. A string is the name of a size."""
    if isinstance(extent, Extent):
        return extent.resolve(sizes)
    if isinstance(extent, str):
        if extent not in sizes:
            raise ModellingMistake(
                f"no size is called '{extent}'{suggestion(extent, sizes)}; the sizes are {names(sizes)}"
            )
        return sizes[extent]
    if isinstance(extent, bool) or not isinstance(extent, int):
        raise ModellingMistake(
            f"{extent!r} is no extent: give a whole number, a size, or arithmetic on sizes"
        )
    return extent


def settle(declared: Mapping[str, Size], given: Mapping[str, int]) -> dict[str, int]:
    """The value of every size: the given one, checked, or its default."""
    for name, value in given.items():
        if name not in declared:
            raise BadSettings(
                f"no size is called '{name}'{suggestion(name, declared)}; the sizes are {names(declared)}"
            )
        size = declared[name]
        if isinstance(value, bool) or not isinstance(value, int):
            raise BadSettings(
                f"{name}={value!r} is not a whole number; give one in {size.least}..{size.most}"
            )
        if not size.least <= value <= size.most:
            raise BadSettings(f"{name}={value} is outside {size.least}..{size.most}")
    return {name: given.get(name, size.default) for name, size in declared.items()}


class Subset(frozenset[int]):
    """A set of numbers as a parameter of an action; it prints as `{0, 2}`."""

    __slots__ = ()

    def __str__(self) -> str:
        return "{" + ", ".join(map(str, sorted(self))) + "}"


class Subsets:
    """The domain of all sets of at least `least` of the numbers below an extent, the smallest first."""

    def __init__(self, of: AnyExtent, *, least: int = 0) -> None:
        self.of = of
        self.least = least

    def within(self, sizes: Mapping[str, int]) -> tuple[Subset, ...]:
        """The sets, once the sizes are known."""
        members = range(resolve(self.of, sizes))
        return tuple(
            Subset(each)
            for size in range(len(members) + 1)
            if self.has_size(size, len(members))
            for each in combinations(members, size)
        )

    def has_size(self, size: int, members: int) -> bool:
        """True if sets of this size belong to the domain."""
        return self.least <= size <= members


class Majorities(Subsets):
    """The domain of all sets of more than half of the numbers below an extent, the smallest first."""

    def has_size(self, size: int, members: int) -> bool:
        return 2 * size > members


R = TypeVar("R")
W = TypeVar("W")
Run = tuple[str, Kind, tuple[int, ...]]
Cells = tuple[str, tuple[AnyExtent, ...], "Cell[Any, Any]"]
Leaf = tuple[tuple[str, ...], int, "Cell[Any, Any]"]
"""A part of a record that is no record: its path, its first bit, and the cell that it was declared as."""
MOST_VALUES = 1 << 12


class Field(Generic[R, W]):
    """A named part of the state; `R` is the type of a read, `W` the type of a value to write."""

    name = ""

    def __bool__(self) -> NoReturn:
        raise ModellingMistake(NOT_YET)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, s: None, owner: type) -> Self: ...
    @overload
    def __get__(self, s: "Machine", owner: type) -> R: ...
    def __get__(self, s: "Machine | None", owner: type) -> "Self | R":
        if s is None:
            return self
        frame = s.frame
        column: R = frame.model.access[self.name].read(frame, 0)
        return column

    def __set__(self, s: "Machine", value: W) -> None:
        frame = s.frame
        frame.model.access[self.name].write(frame, 0, value)

    def access(self, name: str, sizes: Mapping[str, int], slots: Mapping[str, Slot]) -> Access:
        raise NotImplementedError

    def first(self, sizes: Mapping[str, int]) -> object:
        """The value that the field begins with."""
        raise NotImplementedError

    def cells(self, name: str, dimensions: tuple[AnyExtent, ...]) -> "Iterator[Cells]":
        """The runs of cells of this field inside of an array of `dimensions`, as they are declared."""
        raise NotImplementedError

    def runs(self, name: str, sizes: Mapping[str, int]) -> "Iterator[Run]":
        """The runs of cells at given sizes."""
        for run, dimensions, cell in self.cells(name, ()):
            yield run, cell.kind(sizes), tuple(resolve(extent, sizes) for extent in dimensions)


class Cell(Field[R, W]):
    """A field of one cell."""

    def __init__(self, start: object) -> None:
        self._start = start

    def kind(self, sizes: Mapping[str, int]) -> Kind:
        raise NotImplementedError

    def access(self, name: str, sizes: Mapping[str, int], slots: Mapping[str, Slot]) -> CellAccess:
        return CellAccess(slots[name])

    def cells(self, name: str, dimensions: tuple[AnyExtent, ...]) -> Iterator[Cells]:
        yield name, dimensions, self

    def first(self, sizes: Mapping[str, int]) -> object:
        return self.kind(sizes).decode(0) if self._start is None else self._start

    @property
    def has_start(self) -> bool:
        """True if `start` was given."""
        return self._start is not None

    def leaves(self, sizes: Mapping[str, int]) -> Iterator[Leaf]:
        """The parts of a record that are no records, with their path and first bit; else the cell itself."""
        yield (), 0, self


class Bool(Cell[Truth, Truth | bool]):
    """True or False."""

    def __init__(self, *, start: bool | None = None) -> None:
        super().__init__(start)

    def kind(self, sizes: Mapping[str, int]) -> BoolKind:
        return BoolKind()


class Int(Cell[Number, Number | int]):
    """A whole number in `least`..`most`, both included."""

    def __init__(self, least: AnyExtent, most: AnyExtent, *, start: int | None = None) -> None:
        super().__init__(start)
        self._least = least
        self._most = most

    @property
    def bounds(self) -> tuple[AnyExtent, AnyExtent]:
        """The declared bounds."""
        return self._least, self._most

    def kind(self, sizes: Mapping[str, int]) -> IntKind:
        return IntKind(resolve(self._least, sizes), resolve(self._most, sizes))


class Id(Int):
    """The number of one of `extent` things, or -1 for none: a name, not a quantity.

    Symmetry renames it with the thing that it names, and leaves an `Int` as it is.
    """

    def __init__(self, extent: AnyExtent, *, nobody: bool = False, start: int | None = None) -> None:
        last = Extent(lambda sizes: resolve(extent, sizes) - 1)
        super().__init__(-1 if nobody else 0, last, start=start)
        self.extent = extent
        self.nobody = nobody


class Enum(Cell[Choice, Choice | str]):
    """One of a few names."""

    def __init__(self, *options: str, start: str | None = None) -> None:
        super().__init__(start)
        self._kind = EnumKind(options)

    def kind(self, sizes: Mapping[str, int]) -> EnumKind:
        return self._kind


class Flags(Cell[Members, Members | AbstractSet[int] | AbstractSet[str]]):
    """A set over a finite domain: the numbers below a size, or a few names."""

    def __init__(self, *domain: AnyExtent, start: AbstractSet[int] | AbstractSet[str] | None = None) -> None:
        super().__init__(start)
        self._domain = domain

    @property
    def domain(self) -> tuple[AnyExtent, ...]:
        """The declared members: one size, or names."""
        return self._domain

    def kind(self, sizes: Mapping[str, int]) -> FlagsKind:
        if len(self._domain) == 1:
            domain = self._domain[0]
            if not isinstance(domain, str) or domain in sizes:
                return FlagsKind(tuple(range(resolve(domain, sizes))))
        return FlagsKind(tuple(str(member) for member in self._domain))


class Record(Cell[Recorded, "Recorded | Mapping[str, Any]"]):
    """Several parts in one cell, by name; a part with `start` may be left out of a record.

    A part is a Bool, Int, Id, Enum, Flags or Record. An Id that may be -1 may be left out, too.
    """

    def __init__(self, **parts: "Cell[Any, Any]") -> None:
        super().__init__(None)
        if not parts:
            raise ModellingMistake("a Record needs parts, as in Record(type=Enum(...), src=Id(nodes))")
        for name, part in parts.items():
            if not isinstance(part, Cell):
                raise ModellingMistake(
                    f"the part `{name}` of a Record is {describe(part)}: give a Bool, Int, Id, Enum, Flags "
                    "or Record; an array or a sequence is a field of its own"
                )
            if name in NOT_A_PART or name.startswith("_"):
                raise ModellingMistake(f"`{name}` is part of every column; give the part another name")
        self.parts = parts

    def kind(self, sizes: Mapping[str, int]) -> RecordKind:
        parts = tuple((name, part.kind(sizes)) for name, part in self.parts.items())
        left_out = tuple(
            (name, part.first(sizes))
            for name, part in self.parts.items()
            if part.has_start or (isinstance(part, Id) and part.nobody)
        )
        return RecordKind(parts, left_out)

    def first(self, sizes: Mapping[str, int]) -> object:
        return {name: part.first(sizes) for name, part in self.parts.items()}

    def leaves(self, sizes: Mapping[str, int]) -> Iterator[Leaf]:
        for name, (at, _) in self.kind(sizes).places.items():
            for path, inside, cell in self.parts[name].leaves(sizes):
                yield (name, *path), at + inside, cell


class _Length(Cell[Number, int]):
    """The length of a sequence: a quantity, even if the capacity is a size."""

    def __init__(self, capacity: AnyExtent) -> None:
        super().__init__(None)
        self._capacity = capacity

    def kind(self, sizes: Mapping[str, int]) -> IntKind:
        return IntKind(0, resolve(self._capacity, sizes))


class Seq(Field[Sequence[R, W], Sequence[R, W] | tuple[W, ...]]):
    """A sequence of at most `capacity` items, each of them one cell."""

    def __init__(self, capacity: AnyExtent, item: Cell[R, W]) -> None:
        _check_item("Seq", item)
        self._capacity = capacity
        self._item = item

    def access(self, name: str, sizes: Mapping[str, int], slots: Mapping[str, Slot]) -> SequenceAccess:
        lengths, items = CellAccess(slots[f"{name}.length"]), CellAccess(slots[f"{name}.items"])
        return SequenceAccess(name, lengths, items, resolve(self._capacity, sizes))

    def first(self, sizes: Mapping[str, int]) -> object:
        return ()

    def cells(self, name: str, dimensions: tuple[AnyExtent, ...]) -> Iterator[Cells]:
        yield f"{name}.length", dimensions, _Length(self._capacity)
        # A position in a sequence names no member, even if the capacity is a size.
        places = Extent(lambda sizes: resolve(self._capacity, sizes))
        yield f"{name}.items", (*dimensions, places), self._item


class _Place(Cell[Any, Any]):
    """A place of a bag."""

    def __init__(self, item: Cell[Any, Any]) -> None:
        super().__init__(None)
        self.item = item

    def kind(self, sizes: Mapping[str, int]) -> PlaceKind:
        return PlaceKind(self.item.kind(sizes))

    def leaves(self, sizes: Mapping[str, int]) -> Iterator[Leaf]:
        yield from ((("item", *path), at, cell) for path, at, cell in self.item.leaves(sizes))
        yield ("is_there",), self.item.kind(sizes).width, Bool()


class Bits(Bool):
    """A bit for each value of an item."""

    def __init__(self, item: Cell[Any, Any]) -> None:
        super().__init__()
        self.item = item


class Received(Field[R, W]):
    """A field whose items an action can take as a parameter: `@action(m=network)`."""

    def within(self, sizes: Mapping[str, int]) -> tuple[object, ...]:
        """The values of such a parameter: places, or the items themselves."""
        raise NotImplementedError

    def take(self, s: "Machine", value: Any) -> Any:
        """The item of a value of the parameter, as a guard: the rows where it is there."""
        raise NotImplementedError


class Bag(Received[BagView[R, W], BagView[R, W] | tuple[W, ...]]):
    """At most `capacity` items in no order, such as the messages in a network."""

    def __init__(self, capacity: AnyExtent, item: Cell[R, W]) -> None:
        _check_item("Bag", item)
        self._capacity = capacity
        self._item = item

    def access(self, name: str, sizes: Mapping[str, int], slots: Mapping[str, Slot]) -> BagAccess:
        cells = CellAccess(slots[f"{name}.places"])
        return BagAccess(name, cells, self._item.kind(sizes), resolve(self._capacity, sizes))

    def first(self, sizes: Mapping[str, int]) -> object:
        return ()

    def cells(self, name: str, dimensions: tuple[AnyExtent, ...]) -> Iterator[Cells]:
        places = Extent(lambda sizes: resolve(self._capacity, sizes))
        yield f"{name}.places", (*dimensions, places), _Place(self._item)

    def within(self, sizes: Mapping[str, int]) -> tuple[object, ...]:
        return tuple(Place(self.name, number) for number in range(resolve(self._capacity, sizes)))

    def take(self, s: "Machine", value: Place) -> Any:
        return getattr(s, self.name).at(value.number)


class Set(Received[SetView[R, W], SetView[R, W] | AbstractSet[W]]):
    """Any of the values that an item can have: a bit for each, so the item has a few thousand at most."""

    def __init__(self, item: Cell[R, W]) -> None:
        _check_item("Set", item)
        self._item = item

    def access(self, name: str, sizes: Mapping[str, int], slots: Mapping[str, Slot]) -> SetAccess:
        return SetAccess(name, CellAccess(slots[f"{name}.items"]), self._item.kind(sizes))

    def first(self, sizes: Mapping[str, int]) -> object:
        return frozenset()

    def cells(self, name: str, dimensions: tuple[AnyExtent, ...]) -> Iterator[Cells]:
        yield f"{name}.items", (*dimensions, Extent(partial(self._count, name))), Bits(self._item)

    def within(self, sizes: Mapping[str, int]) -> tuple[object, ...]:
        kind = self._item.kind(sizes)
        return tuple(kind.decode(code) for code in kind.codes())

    def take(self, s: "Machine", value: Any) -> Any:
        s.require(getattr(s, self.name).has(value))
        return value

    def _count(self, name: str, sizes: Mapping[str, int]) -> int:
        count = self._item.kind(sizes).count
        if count > MOST_VALUES:
            raise ModellingMistake(
                f"`{name}` is a set of items with {count:,} values, at most {MOST_VALUES:,}: give the parts "
                "smaller bounds, or declare a Bag, which has a bit for none of them"
            )
        return count


class Channel(Received[Any, Any]):
    """Messages on their way: at most `capacity`, received in the order sent unless `reordering`.

    A `lossy` channel has an action `NAME_loses`, which may take any message away; a `duplicating` one has
    `NAME_duplicates`, which may repeat any message as long as there is room. Sending into a full channel is
    an overflow.
    """

    def __init__(
        self,
        capacity: AnyExtent,
        item: Cell[Any, Any],
        *,
        lossy: bool = False,
        duplicating: bool = False,
        reordering: bool = False,
    ) -> None:
        _check_item("Channel", item)
        self._capacity = capacity
        self.is_lossy = lossy
        self.is_duplicating = duplicating
        self.is_reordering = reordering
        self._inner: Bag[Any, Any] | Seq[Any, Any]
        self._inner = Bag(capacity, item) if reordering else Seq(capacity, item)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = self._inner.name = name

    def access(self, name: str, sizes: Mapping[str, int], slots: Mapping[str, Slot]) -> Access:
        return self._inner.access(name, sizes, slots)

    def first(self, sizes: Mapping[str, int]) -> object:
        return ()

    def cells(self, name: str, dimensions: tuple[AnyExtent, ...]) -> Iterator[Cells]:
        return self._inner.cells(name, dimensions)

    def within(self, sizes: Mapping[str, int]) -> tuple[object, ...]:
        """The places from which a message is received."""
        return self.places(sizes) if self.is_reordering else (Place(self.name, 0),)

    def places(self, sizes: Mapping[str, int]) -> tuple[Place, ...]:
        """All places: those where one can be lost."""
        return tuple(Place(self.name, number) for number in range(resolve(self._capacity, sizes)))

    def take(self, s: "Machine", value: Place) -> Any:
        return getattr(s, self.name).at(value.number)

    def faults(self) -> "Iterator[tuple[str, Any]]":
        """The actions of the channel itself: their names, and functions of the rows and a place."""

        def loses(s: Any, m: Place) -> None:
            """A message is lost."""
            channel = getattr(s, self.name)
            item = channel.at(m.number)
            if self.is_reordering:
                channel.remove(item)
            else:
                channel.remove_at(m.number)

        def duplicates(s: Any, m: Place) -> None:
            """A message is there once more."""
            channel = getattr(s, self.name)
            s.require(~channel.is_full())
            item = channel.at(m.number)
            if self.is_reordering:
                channel.add(item)
            else:
                channel.insert(m.number, item)

        if self.is_lossy:
            yield f"{self.name}_loses", loses
        if self.is_duplicating:
            yield f"{self.name}_duplicates", duplicates


class AnyPlace:
    """The domain of all places of a channel."""

    def __init__(self, channel: Channel) -> None:
        self.within = channel.places


def _check_item(what: str, item: object) -> None:
    if not isinstance(item, Cell):
        raise ModellingMistake(
            f"the items of a {what} are Bool, Int, Id, Enum, Flags or Record, not {describe(item)}"
        )


class Each(Field[Array[R, W], "Array[R, W] | tuple[Any, ...]"]):
    """One `element` for each number below `extent`, or for each of these names."""

    def __init__(self, extent: AnyExtent | tuple[str, ...], element: Field[R, W]) -> None:
        if not isinstance(element, Field):
            raise ModellingMistake(
                f"the elements of an Each are fields, as in Each(2, Bool()), not {element!r}"
            )
        self.names = extent if isinstance(extent, tuple) else ()
        self.extent = len(extent) if isinstance(extent, tuple) else extent
        self.element = element

    def access(self, name: str, sizes: Mapping[str, int], slots: Mapping[str, Slot]) -> ArrayAccess:
        element = self.element.access(name, sizes, slots)
        return ArrayAccess(name, element, resolve(self.extent, sizes), self.names)

    def first(self, sizes: Mapping[str, int]) -> object:
        return (self.element.first(sizes),) * resolve(self.extent, sizes)

    def cells(self, name: str, dimensions: tuple[AnyExtent, ...]) -> Iterator[Cells]:
        return self.element.cells(name, (*dimensions, self.extent))


AnyField = Field[Any, Any]
