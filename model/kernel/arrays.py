"""Arrays: equal elements, numbered from 0, each of them a cell, a sequence or an array again.

An index that is a column may point elsewhere in every row, and outside in some: it is checked before use,
unless its own bounds keep it inside.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import numpy as np

from holdfast.model.kernel.access import Access, Index, PackedState
from holdfast.model.kernel.columns import ONE_TRUTH, Truth, all_of, any_of, as_truth
from holdfast.model.kernel.errors import ModellingMistake
from holdfast.model.kernel.kinds import IntKind
from holdfast.model.kernel.numbers import Number, count_of

if TYPE_CHECKING:
    from holdfast.model.kernel.frame import Frame

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


class Array(Generic[R, W]):
    """An array inside an action: elements by number, all of them by iteration."""

    __hash__ = None  # type: ignore[assignment]  # == compares state by state, so a view cannot be a key

    def __init__(self, frame: "Frame", access: ArrayAccess, flat: Index) -> None:
        self._frame = frame
        self._access = access
        self._flat = flat

    def __bool__(self) -> NoReturn:
        raise ModellingMistake(ONE_TRUTH)

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

    def __eq__(self, other: object) -> Truth:  # type: ignore[override]  # arrays compare state by state
        if not isinstance(other, tuple | list | Array) or len(other) != len(self):
            raise ModellingMistake(
                f"`{self._access.name}` is an array: compare it with {len(self)} values, or with another"
            )
        return all_of(as_truth(mine == theirs) for mine, theirs in zip(self, other, strict=True))

    def __ne__(self, other: object) -> Truth:  # type: ignore[override]  # arrays compare state by state
        return ~(self == other)

    def all(self, value: W) -> Truth:
        """Whether every element equals `value`."""
        return all_of(as_truth(element == value) for element in self)

    def any(self, value: W) -> Truth:
        """Whether some element equals `value`."""
        return any_of(as_truth(element == value) for element in self)

    def count(self, value: W) -> Number:
        """How many elements equal `value`."""
        return count_of(as_truth(element == value) for element in self)
