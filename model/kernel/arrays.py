"""Arrays: equal elements, numbered from 0, each of them a cell, a sequence or an array again.

An index that is a column may point elsewhere in every row, and outside in some: it is checked before use,
unless its own bounds keep it inside.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fencepost.model.kernel.access import Access, Index, PackedState
from fencepost.model.kernel.columns import Truth, all_of, any_of, as_truth
from fencepost.model.kernel.errors import ModellingMistake
from fencepost.model.kernel.numbers import Number, count_of
from fencepost.model.kernel.refusing import question
from fencepost.model.kernel.views import Live, check_place

if TYPE_CHECKING:
    from fencepost.model.kernel.frame import Frame

R = TypeVar("R")
W = TypeVar("W")


class ArrayAccess(Access):
    """Equal elements, numbered from 0."""

    def __init__(self, name: str, element: Access, extent: int) -> None:
        self.name = name
        self.element = element
        self.extent = extent

    def read(self, frame: "Frame", flat: Index) -> "Array[Any, Any]":
        return Array(frame, self, flat)

    def write(self, frame: "Frame", flat: Index, value: Any) -> None:
        settled = self.settle(value)
        frame.replace(self, flat)
        self.fill(frame, flat, settled)

    def settle(self, value: Any) -> list[Any]:
        """All elements, read before anything is written: they may be elements of this very array."""
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

    def element_number(self, frame: "Frame", flat: Index, index: Index) -> Index:
        """The flat number of element `index`, once it is known to exist."""
        check_place(frame, self.name, index, self.extent, "elements")
        return flat * self.extent + index


class Array(Live, Generic[R, W]):
    """An array inside an action: elements by number, all of them by iteration."""

    __slots__ = ()
    _access: ArrayAccess

    def __len__(self) -> int:
        return self._access.extent

    def __getitem__(self, index: Index) -> R:
        frame, access = self._frame, self._access
        if frame.replaced:
            self._now()
        element: R = access.element.read(frame, access.element_number(frame, self._flat, index))
        return element

    def __setitem__(self, index: Index, value: W) -> None:
        frame, access = self._now(), self._access
        access.element.write(frame, access.element_number(frame, self._flat, index), value)

    def __iter__(self) -> Iterator[R]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> Truth:  # type: ignore[override]  # arrays compare state by state
        if not isinstance(other, tuple | list | Array) or len(other) != len(self):
            raise ModellingMistake(
                f"`{self._access.name}` is an array: compare it with {len(self)} values, or with another"
            )
        return all_of(as_truth(mine == theirs) for mine, theirs in zip(self, other, strict=True))

    def __ne__(self, other: object) -> Truth:  # type: ignore[override]  # arrays compare state by state
        return ~(self == other)

    @question
    def all(self, value: W) -> Truth:
        """Whether every element equals `value`."""
        return all_of(as_truth(element == value) for element in self)

    @question
    def any(self, value: W) -> Truth:
        """Whether some element equals `value`."""
        return any_of(as_truth(element == value) for element in self)

    @question
    def count(self, value: W) -> Number:
        """How many elements equal `value`."""
        return count_of(as_truth(element == value) for element in self)
