"""The fields and sizes that a machine is declared with.

    managers = Size(3, most=16)
    decided = Bool()
    votes = Int(0, managers)
    tickets = Int(0, 2 * managers + 1)         # arithmetic on sizes gives an extent, resolved at check time
    phase = Enum("init", "committed", "aborted")
    seen = Flags(managers)                     # or Flags("red", "green")
    inbox = Seq(4, Enum("ask", "answer"))      # at most 4 items
    manager = Each(managers, Enum("working", "prepared"))
    grid = Each(rows, Each(columns, Bool()))   # s.grid[r][c]
    pin = Each(("nodes", "edges"), Int(0, 3))  # s.pin["nodes"]: one element for each name

A size has a default and is given at check time; inside an action `s.managers` is a plain `int`. Every field
begins at its first value (False, the lower bound, the first name, the empty set, the empty sequence) unless
it has `start=...` or an `@initial` function sets it.
"""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import combinations
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from fencepost.model.kernel.language.access import Access, CellAccess
from fencepost.model.kernel.language.choices import Choice
from fencepost.model.kernel.language.columns import Truth
from fencepost.model.kernel.language.errors import BadSettings, ModellingMistake, names, suggestion
from fencepost.model.kernel.language.layout import BoolKind, EnumKind, FlagsKind, IntKind, Kind, Slot
from fencepost.model.kernel.language.members import Members
from fencepost.model.kernel.language.numbers import Number
from fencepost.model.kernel.language.views import Array, ArrayAccess, Sequence, SequenceAccess

if TYPE_CHECKING:
    from fencepost.model.kernel.language.machine import Machine


class Extent:
    """A whole number that is known once the sizes are known."""

    def __init__(self, resolve: Callable[[Mapping[str, int]], int]) -> None:
        self.resolve = resolve

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
    """The domain of all sets of the numbers below an extent, the smallest first."""

    def __init__(self, of: AnyExtent) -> None:
        self.of = of

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
        """Whether sets of this size belong to the domain."""
        return size <= members


class Majorities(Subsets):
    """The domain of all sets of more than half of the numbers below an extent, the smallest first."""

    def has_size(self, size: int, members: int) -> bool:
        return 2 * size > members


R = TypeVar("R")
W = TypeVar("W")
Run = tuple[str, Kind, tuple[int, ...]]
Cells = tuple[str, tuple[AnyExtent, ...], "Cell[Any, Any]"]


class Field(Generic[R, W]):
    """A named part of the state; `R` is the type of a read, `W` the type of a value to write."""

    name = ""

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
    """The number of one of `extent` things, or -1 for nobody: a name, not a quantity.

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


class _Length(Cell[Number, int]):
    """The length of a sequence: a quantity, even if the capacity is a size."""

    def __init__(self, capacity: AnyExtent) -> None:
        super().__init__(None)
        self._capacity = capacity

    def kind(self, sizes: Mapping[str, int]) -> IntKind:
        return IntKind(0, resolve(self._capacity, sizes))


class Seq(Field[Sequence[R, W], Sequence[R, W] | tuple[W, ...]]):
    """A sequence of at most `capacity` items, each of them one cell."""

    def __init__(self, capacity: AnyExtent, item: Field[R, W]) -> None:
        if not isinstance(item, Cell):
            raise ModellingMistake("the items of a Seq are Bool, Int, Enum or Flags")
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
