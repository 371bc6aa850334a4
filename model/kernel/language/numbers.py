"""Numbers: columns of whole numbers, from Int fields, from the lengths of sequences, from counting.

The codes of a field begin at 0, its numbers at the lower bound of its `Int`. A constant that the field could
hold is converted to a code and compared with the packed word; everything else is computed in signed 64-bit
arithmetic, which has room for the sum of any two cells (see `layout.WIDEST_CELL`). So a sum may leave the
bounds of every field: only its assignment to a field is checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from fencepost.model.kernel.language.columns import Column, Truth, any_of, columns_of, describe, to_truth
from fencepost.model.kernel.language.errors import ModellingMistake, must_call
from fencepost.model.kernel.language.layout import IntKind

if TYPE_CHECKING:
    from fencepost.model.kernel.language.frame import Frame
    from fencepost.model.kernel.language.layout import I64, U64


@columns_of(IntKind)
class Number(Column):
    """A column of whole numbers. Sums may leave the field's bounds; assigning them back is checked."""

    __slots__ = ("_reach",)
    noun = "number"
    _reach: int

    @staticmethod
    def of(frame: Frame | None, array: np.ndarray[Any, Any], reach: int | None = None) -> Number:
        number = Number(frame, _ANY_NUMBER, array)
        if reach is not None:
            number._reach = reach
        return number

    @staticmethod
    def constant(value: int) -> Number:
        """The same number for all rows."""
        return Number.of(None, np.asarray(value, np.int64), abs(value))

    def reach(self) -> int:
        """A bound on the distance of every entry from 0."""
        try:
            return self._reach
        except AttributeError:
            kind = self.kind
            if isinstance(kind, IntKind) and not isinstance(kind, _Computed):
                self._reach = max(abs(kind.least), abs(kind.most))
            else:
                self._reach = self.farthest()
            return self._reach

    def keep_reach(self, reach: int) -> None:
        """Take over the bound of the column that this one was made of."""
        self._reach = reach

    def farthest(self) -> int:
        """The distance from 0 of the farthest entry."""
        values = self.values()
        return max(abs(int(values.min())), abs(int(values.max()))) if values.size else 0

    def values(self) -> I64:
        """The numbers of the remaining rows."""
        return self.codes()

    def _decode(self, raw: U64) -> np.ndarray[Any, Any]:
        codes = super()._decode(raw)
        least = self._least()
        return codes + least if least else codes

    def _least(self) -> int:
        return self.kind.least if isinstance(self.kind, IntKind) else 0

    def _compare(self, other: Number | int, work: np.ufunc, sign: str) -> Truth:
        if isinstance(other, Number):
            return Truth.of(self._frame_with(other), work(self.values(), other.values()))
        if isinstance(other, bool) or not isinstance(other, int):
            raise ModellingMistake(
                f"a number column is compared with {describe(other)} by {sign}: give a whole number"
            )
        raw = self.fresh_raw()
        code = other - self._least()
        if raw is None or not 0 <= code < 1 << self.kind.width:
            return Truth.of(self._frame, work(self.values(), other))
        under = raw & (((1 << self.kind.width) - 1) << self._shift)
        return Truth.of(self._frame, work(under, code << self._shift))

    def __eq__(self, other: Number | int) -> Truth:  # type: ignore[override]  # columns compare to columns
        if isinstance(other, int) and not isinstance(other, bool):
            code = other - self._least()
            if self.fresh_raw() is not None and 0 <= code < 1 << self.kind.width:
                return self._matches(code)
        if isinstance(other, Number) and other.kind == self.kind:
            return self._same(other)
        return self._compare(other, np.equal, "==")

    def __ne__(self, other: Number | int) -> Truth:  # type: ignore[override]  # columns compare to columns
        return ~(self == other)

    def __lt__(self, other: Number | int) -> Truth:
        return self._compare(other, np.less, "<")

    def __le__(self, other: Number | int) -> Truth:
        return self._compare(other, np.less_equal, "<=")

    def __gt__(self, other: Number | int) -> Truth:
        return self._compare(other, np.greater, ">")

    def __ge__(self, other: Number | int) -> Truth:
        return self._compare(other, np.greater_equal, ">=")

    def _work(
        self, other: Number | Truth | int, work: np.ufunc, sign: str, *, swapped: bool = False
    ) -> Number:
        right = to_numbers(other, sign)
        reach = self._reach_of(other, right, sign)
        left = self.values()
        frame = self._frame_with(other) if isinstance(other, Column) else self._frame
        return Number.of(frame, work(right, left) if swapped else work(left, right), reach)

    def _reach_of(self, other: object, right: object, sign: str) -> int:
        """A bound on the distance of the result from 0: beyond a word, arithmetic would wrap around."""
        reach = _reached(self.reach(), reach_of(other), sign)
        if reach > _WORD:
            numbers = other.farthest() if isinstance(other, Number) else reach_of(other)
            reach = _reached(self.farthest(), numbers, sign)
            if reach > _WORD:
                raise ModellingMistake(
                    f"{sign} may give a number of up to {reach:.1e}, which a column cannot hold: "
                    "a model wants the smallest range that still shows the behaviour"
                )
        return reach

    def __add__(self, other: Number | Truth | int) -> Number:
        return self._work(other, np.add, "+")

    def __sub__(self, other: Number | Truth | int) -> Number:
        return self._work(other, np.subtract, "-")

    def __rsub__(self, other: int) -> Number:
        return self._work(other, np.subtract, "-", swapped=True)

    def __mul__(self, other: Number | Truth | int) -> Number:
        return self._work(other, np.multiply, "*")

    __radd__, __rmul__ = __add__, __mul__

    def __floordiv__(self, other: int) -> Number:
        return self._work(_divisor(other), np.floor_divide, "//")

    def __mod__(self, other: int) -> Number:
        return self._work(_divisor(other), np.remainder, "%")

    @must_call
    def is_in(self, *numbers: int) -> Truth:
        """True where it is one of these numbers."""
        return any_of(self == number for number in numbers)


def count_of(truths: Iterable[Truth | bool]) -> Number:
    """The number of them that hold, state by state."""
    total: Number | None = None
    for truth in truths:
        column = to_truth(truth, "count_of")
        one = Number.of(column.frame, column.mask().astype(np.int64), 1)
        total = one if total is None else total + one
    return Number.of(None, np.asarray(0, np.int64)) if total is None else total


def least(numbers: Iterable[Number | int]) -> Number:
    """The smallest of them, state by state: of an array, or of what an expression gives for each element."""
    return _folded(numbers, np.minimum, "least")


def most(numbers: Iterable[Number | int]) -> Number:
    """The largest of them, state by state."""
    return _folded(numbers, np.maximum, "most")


def total(numbers: Iterable[Number | int]) -> Number:
    """Their sum, state by state; 0 if there are none."""
    found = Number.of(None, np.asarray(0, np.int64), 0)
    for each in numbers:
        found = found + each
    return found


def _folded(numbers: Iterable[Number | int], work: np.ufunc, name: str) -> Number:
    found: Number | None = None
    for each in numbers:
        if isinstance(each, bool) or not isinstance(each, Number | int):
            raise ModellingMistake(f"{name} is of numbers, and {describe(each)} is none")
        one = Number.of(None, np.asarray(each, np.int64), abs(each)) if isinstance(each, int) else each
        if found is None:
            found = one
        else:
            reach = max(found.reach(), one.reach())
            frame = one.frame if found.frame is None else found.frame
            found = Number.of(frame, work(found.values(), one.values()), reach)
    if found is None:
        raise ModellingMistake(f"{name} of nothing: there is no element")
    return found


def to_numbers(value: Number | Truth | int, sign: str) -> np.ndarray[Any, Any] | int:
    """The operand of arithmetic; a truth counts as 0 or 1. `sign` names the operation in the message."""
    if isinstance(value, Number):
        return value.values()
    if isinstance(value, Truth):
        return value.mask().astype(np.int64)
    if isinstance(value, int):
        return int(value)
    raise ModellingMistake(f"{sign} works on numbers, and {describe(value)} is none")


def reach_of(value: object) -> int:
    """A bound on the distance from 0 of a number, a column of them or a truth."""
    if isinstance(value, Number):
        return value.reach()
    return abs(value) if isinstance(value, int) else 1


def _reached(left: int, right: int, sign: str) -> int:
    if sign == "*":
        return left * right
    return left + right if sign in "+-" else left


def _divisor(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ModellingMistake(f"divide a column by a positive whole number, not by {describe(value)}")
    return value


class _Computed(IntKind):
    """The kind of computed numbers: it is no field's, so their assignment is always checked."""


_WORD = (1 << 63) - 1
_ANY_NUMBER = _Computed(0, (1 << 62) - 1)
