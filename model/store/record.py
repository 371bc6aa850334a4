"""A field of several parts: the ground that keys and late requests stand on.

Each part is a field of its own to the kernel, named `lock.owner`, with cells, kinds and dimensions that
symmetry can see. What differs is the view that an action holds.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from fencepost.model.kernel.language.access import Access, Index
from fencepost.model.kernel.language.choices import Choice
from fencepost.model.kernel.language.columns import Truth
from fencepost.model.kernel.language.errors import ModellingMistake, NoValue, names, suggestion
from fencepost.model.kernel.language.fields import AnyExtent, AnyField, Cells, Field, Id
from fencepost.model.kernel.language.frame import Frame
from fencepost.model.kernel.language.layout import PackedState, Slot
from fencepost.model.kernel.language.members import Members
from fencepost.model.kernel.language.numbers import Number

R = TypeVar("R")

if TYPE_CHECKING:

    class Part(Truth, Number, Choice, Members):  # type: ignore[misc]  # whichever of them the part was declared as
        """A part of a record, to a type checker: parts are found by name, so it cannot know the kind."""

        def __eq__(self, other: object) -> Truth: ...  # type: ignore[override]  # columns compare to columns
        def __ne__(self, other: object) -> Truth: ...  # type: ignore[override]  # columns compare to columns
        def __and__(self, other: Any) -> Any: ...
        def __or__(self, other: Any) -> Any: ...
        def __sub__(self, other: Any) -> Any: ...
        def __getitem__(self, index: Index) -> "Part": ...

else:
    Part = Any


class Record(Field[R, NoReturn]):
    """Parts by name; nothing is assigned to it as a whole."""

    parts: dict[str, AnyField]

    def cells(self, name: str, dimensions: tuple[AnyExtent, ...]) -> Iterator[Cells]:
        for part, field in self.parts.items():
            yield from field.cells(f"{name}.{part}", dimensions)

    def ways(self, name: str, sizes: Mapping[str, int], slots: Mapping[str, Slot]) -> dict[str, Access]:
        """The way to each part."""
        return {part: field.access(f"{name}.{part}", sizes, slots) for part, field in self.parts.items()}

    def firsts(self, sizes: Mapping[str, int]) -> dict[str, object]:
        """The value of each part where nothing stands."""
        return {part: field.first(sizes) for part, field in self.parts.items()}


class RecordAccess(Access):
    """The way to all parts of one record."""

    instead = "use its methods"

    def __init__(self, name: str, ways: Mapping[str, Access], firsts: Mapping[str, object]) -> None:
        self.name = name
        self.ways = ways
        self.firsts = firsts

    def write(self, frame: Frame, flat: Index, value: Any) -> NoReturn:
        raise ModellingMistake(f"nothing is assigned to `{self.name}` itself: {self.instead}")

    def values(self, state: PackedState, flat: int) -> dict[str, object]:
        """The plain values of all parts."""
        return {part: way.decode(state, flat) for part, way in self.ways.items()}

    def put(self, frame: Frame, flat: Index, values: Mapping[str, Any]) -> None:
        """Write every part: those given, and the others to their first value."""
        for part, way in self.ways.items():
            way.write(frame, flat, values.get(part, self.firsts[part]))


class View(NoValue):
    """What an action holds of one record: a place in the rows at hand."""

    frame: Frame
    access: RecordAccess
    flat: Index

    def __init__(self, frame: Frame, access: RecordAccess, flat: Index) -> None:
        # Past `__setattr__`, which is the author's.
        here = self.__dict__
        here["frame"], here["access"], here["flat"] = frame, access, flat

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise ModellingMistake(f"nothing is assigned to `{self.access.name}.{name}`: {self.access.instead}")

    def part(self, name: str) -> Any:
        """One part as a column, or as an array."""
        return self.access.ways[name].read(self.frame, self.flat)

    def no_value(self) -> str:
        return f"`{self.access.name}` is no column: compare or ask one of its parts"

    def __repr__(self) -> str:
        return f"`{self.access.name}` itself"


def neutral(field: AnyField) -> AnyField:
    """The field as a part of something that may be absent: a number that names a thing names nobody then."""
    if isinstance(field, Id) and not field.nobody:
        return Id(field.extent, nobody=True)
    return field


def complete(given: Mapping[str, object], wanted: Mapping[str, object], what: str) -> None:
    """Refuse a content that has not exactly the parts that are wanted."""
    for part in given:
        if part not in wanted:
            raise ModellingMistake(
                f"{what} has no part '{part}'{suggestion(part, wanted)}; its parts are {names(wanted)}"
            )
    missing = [part for part in wanted if part not in given]
    if missing:
        raise ModellingMistake(f"{what} needs a value for {names(missing)}")
