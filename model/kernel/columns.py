"""Columns: what reading a field gives inside an action or a property, one entry a state.

They are compared, combined and assigned as if each were a single value:

    Truth     & | ^ ~ == !=  implies          (from Bool, and from every comparison)
    Number    + - * // % == != < <= > >=      (from Int, lengths, counts)
    Choice    == != is_in                     (from Enum, by name)
    Members   | & - == != has size is_empty   (from Flags)

A column keeps no copy of its states: a field that was just read is still the packed word with the
field's place in it, and comparing it with a constant is two vector operations, without a shift.
Several such tests on one word that are joined with `&` (or, negated, with `|`) fuse into one.

Python's `if`, `and`, `or`, `not` and chained comparisons ask for one truth value where there are
many; all of them end in the same explanation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, overload

import numpy as np

from holdfast.model.kernel.errors import ModellingMistake
from holdfast.model.kernel.kinds import BoolKind, EnumKind, FlagsKind, IntKind, Kind

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from holdfast.model.kernel.frame import Frame
    from holdfast.model.kernel.layout import I64, U64, Mask

_ONE_TRUTH = (
    "a column holds one value a state, so it has no single truth value: write & for `and`, | for `or`, "
    "~ for `not`, (a < b) & (b < c) for `a < b < c`, s.require(...) for `if`, "
    "and .is_in(...) or .has(...) for `in`"
)


class Column:
    """One value a row of `frame`, as of `epoch`; `frame` is None for a constant."""

    __slots__ = ("_array", "_epoch", "_frame", "_raw", "_shift", "kind")
    noun: ClassVar[str]
    __hash__ = None  # type: ignore[assignment]  # == compares whole columns, so a column cannot be a key

    def __init__(
        self,
        frame: Frame | None,
        kind: Kind,
        array: np.ndarray[Any, Any] | None = None,
        *,
        raw: U64 | None = None,
        shift: int = 0,
    ) -> None:
        self.kind = kind
        self._frame = frame
        self._epoch = 0 if frame is None else frame.epoch
        self._array = array
        self._raw = raw
        self._shift = shift

    def __bool__(self) -> NoReturn:
        raise ModellingMistake(_ONE_TRUTH)

    def __contains__(self, item: object) -> NoReturn:
        raise ModellingMistake(_ONE_TRUTH)

    @property
    def frame(self) -> Frame | None:
        return self._frame

    def describe(self) -> str:
        """What it is, for messages."""
        return f"a {self.noun} column"

    def codes(self) -> np.ndarray[Any, Any]:
        """The codes of the rows that are left now, as signed numbers (truths as booleans)."""
        if self._array is None:
            assert self._raw is not None
            self._array = self._decode(self._raw)
        frame = self._frame
        if frame is not None and self._epoch != frame.epoch:
            self._array = frame.narrowed(self._array, self._epoch)
            self._raw = None
            self._epoch = frame.epoch
        return self._array

    def _decode(self, raw: U64) -> np.ndarray[Any, Any]:
        shifted = raw >> self._shift if self._shift else raw
        return (shifted & ((1 << self.kind.width) - 1)).view(np.int64)

    def fresh_raw(self) -> U64 | None:
        """The packed word itself, when this is a field just read and no row has gone since."""
        if self._raw is None or (self._frame is not None and self._epoch != self._frame.epoch):
            return None
        return self._raw

    def _matches(self, code: int) -> Truth:
        """Whether the cell holds `code`."""
        raw = self.fresh_raw()
        if raw is not None:
            mask = ((1 << self.kind.width) - 1) << self._shift
            return Match(self._frame, raw, mask, code << self._shift)
        return Truth.of(self._frame, self.codes() == code)

    def _same(self, other: Column) -> Truth:
        """Whether two cells of one kind hold the same code."""
        raw, others = self.fresh_raw(), other.fresh_raw()
        if raw is not None and others is not None and self._shift == other._shift:
            # The same field before and after a step: equal where the words agree under its bits.
            return Match(self._frame, raw ^ others, ((1 << self.kind.width) - 1) << self._shift, 0)
        return Truth.of(self._frame_with(other), self.codes() == other.codes())

    def _frame_with(self, other: Column) -> Frame | None:
        return self._frame if self._frame is not None else other.frame


class Truth(Column):
    """A column of booleans."""

    __slots__ = ()
    noun = "truth"

    @staticmethod
    def of(frame: Frame | None, array: np.ndarray[Any, Any]) -> Truth:
        return Truth(frame, BoolKind(), array)

    @staticmethod
    def constant(value: bool) -> Truth:  # the value itself, not a switch
        return Truth(None, BoolKind(), np.asarray(value))

    def mask(self) -> Mask:
        """The boolean array for the rows that are left now (a scalar array for a constant)."""
        return self.codes()

    def __and__(self, other: Truth | bool) -> Truth:
        other = _truth(other, "&")
        return Truth.of(self._frame_with(other), self.mask() & other.mask())

    def __or__(self, other: Truth | bool) -> Truth:
        other = _truth(other, "|")
        return Truth.of(self._frame_with(other), self.mask() | other.mask())

    def __xor__(self, other: Truth | bool) -> Truth:
        other = _truth(other, "^")
        return Truth.of(self._frame_with(other), self.mask() ^ other.mask())

    def __rand__(self, other: bool) -> Truth:
        return self & other

    def __ror__(self, other: bool) -> Truth:
        return self | other

    def __rxor__(self, other: bool) -> Truth:
        return self ^ other

    def __invert__(self) -> Truth:
        return Truth.of(self._frame, ~self.mask())

    def __eq__(self, other: Truth | bool) -> Truth:  # type: ignore[override]  # columns compare to columns
        return ~(self ^ _truth(other, "=="))

    def __ne__(self, other: Truth | bool) -> Truth:  # type: ignore[override]  # columns compare to columns
        return self ^ _truth(other, "!=")

    def implies(self, then: Truth | bool) -> Truth:
        """False only where this holds and `then` does not."""
        return ~(self & ~_truth(then, "implies"))


class Match(Truth):
    """`word & mask == bits` (or `!=`), not computed yet so that its neighbours may join it."""

    __slots__ = ("bits", "negated", "under")

    def __init__(self, frame: Frame | None, raw: U64, mask: int, bits: int, *, negated: bool = False) -> None:
        super().__init__(frame, BoolKind(), raw=raw)
        self.under = mask
        self.bits = bits
        self.negated = negated

    def _decode(self, raw: U64) -> np.ndarray[Any, Any]:
        content = raw & self.under
        compare = np.not_equal if self.negated else np.equal
        answer: Mask = compare(content, self.bits)
        return answer

    def __invert__(self) -> Truth:
        raw = self.fresh_raw()
        if raw is None:
            return super().__invert__()
        return Match(self._frame, raw, self.under, self.bits, negated=not self.negated)

    def __and__(self, other: Truth | bool) -> Truth:
        fused = self._fuse(other, negated=False)
        return fused if fused is not None else super().__and__(other)

    def __or__(self, other: Truth | bool) -> Truth:
        # By De Morgan two negated tests joined by `|` are one negated test.
        fused = self._fuse(other, negated=True)
        return fused if fused is not None else super().__or__(other)

    def _fuse(self, other: Truth | bool, *, negated: bool) -> Match | None:
        raw = self.fresh_raw()
        if not isinstance(other, Match) or raw is None or raw is not other.fresh_raw():
            return None
        if self.negated is not negated or other.negated is not negated:
            return None
        both = self.under & other.under
        if self.bits & both != other.bits & both:
            return None
        return Match(self._frame, raw, self.under | other.under, self.bits | other.bits, negated=negated)


class Number(Column):
    """A column of whole numbers. Sums may leave the field's bounds; assigning them back is checked."""

    __slots__ = ()
    noun = "number"

    @staticmethod
    def of(frame: Frame | None, array: np.ndarray[Any, Any]) -> Number:
        return Number(frame, _ANY_NUMBER, array)

    def values(self) -> I64:
        """The numbers of the rows that are left now."""
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
                f"a number column is compared with {other!r} by {sign}: give a whole number"
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
        left, right = self.values(), _operand(other, sign)
        frame = self._frame_with(other) if isinstance(other, Column) else self._frame
        return Number.of(frame, work(right, left) if swapped else work(left, right))

    def __add__(self, other: Number | Truth | int) -> Number:
        return self._work(other, np.add, "+")

    def __radd__(self, other: int) -> Number:
        return self._work(other, np.add, "+", swapped=True)

    def __sub__(self, other: Number | Truth | int) -> Number:
        return self._work(other, np.subtract, "-")

    def __rsub__(self, other: int) -> Number:
        return self._work(other, np.subtract, "-", swapped=True)

    def __mul__(self, other: Number | Truth | int) -> Number:
        return self._work(other, np.multiply, "*")

    def __rmul__(self, other: int) -> Number:
        return self._work(other, np.multiply, "*", swapped=True)

    def __floordiv__(self, other: int) -> Number:
        return self._work(_divisor(other), np.floor_divide, "//")

    def __mod__(self, other: int) -> Number:
        return self._work(_divisor(other), np.remainder, "%")

    def is_in(self, *numbers: int) -> Truth:
        """Whether it is one of these numbers."""
        return any_of(self == number for number in numbers)


class Choice(Column):
    """A column of names of one enum."""

    __slots__ = ()
    noun = "name"

    def __eq__(self, other: Choice | str) -> Truth:  # type: ignore[override]  # columns compare to columns
        if isinstance(other, Choice):
            if other.kind != self.kind:
                raise ModellingMistake(
                    f"two enums with different names are compared: {self.kind.describe()}, "
                    f"against {other.kind.describe()}"
                )
            return self._same(other)
        return self._matches(self.kind.encode(other))

    def __ne__(self, other: Choice | str) -> Truth:  # type: ignore[override]  # columns compare to columns
        return ~(self == other)

    def is_in(self, *options: str) -> Truth:
        """Whether it is one of these names."""
        return any_of(self == option for option in options)


class Members(Column):
    """A column of sets over one finite domain."""

    __slots__ = ()
    noun = "set"

    def has(self, member: int | str | Number) -> Truth:
        """Whether the set contains `member`, a constant or a column of numbers."""
        if isinstance(member, Number):
            bits = self.codes() >> _member_index(member, self._kind())
            return Truth.of(self._frame_with(member), (bits & 1) != 0)
        bit = self._kind().bit(member)
        raw = self.fresh_raw()
        if raw is not None:
            place = 1 << (self._shift + bit)
            return Match(self._frame, raw, place, place)
        return Truth.of(self._frame, (self.codes() & (1 << bit)) != 0)

    def is_empty(self) -> Truth:
        return self._matches(0)

    def size(self) -> Number:
        return Number.of(self._frame, np.bitwise_count(self.codes()).astype(np.int64))

    def __or__(self, other: Members | AbstractSet[Any]) -> Members:
        return self._join(other, np.bitwise_or)

    def __and__(self, other: Members | AbstractSet[Any]) -> Members:
        return self._join(other, np.bitwise_and)

    def __sub__(self, other: Members | AbstractSet[Any]) -> Members:
        both = self._join(other, np.bitwise_and)
        return Members(both.frame, self.kind, self.codes() ^ both.codes())

    def plus(self, member: int | str | Number) -> Members:
        """The set with `member`, a constant or a column of numbers."""
        return self | self._single(member)

    def minus(self, member: int | str | Number) -> Members:
        """The set without `member`, a constant or a column of numbers."""
        return self - self._single(member)

    def __eq__(self, other: Members | AbstractSet[Any]) -> Truth:  # type: ignore[override]  # columns compare to columns
        if isinstance(other, Members):
            self._same_domain(other)
            return self._same(other)
        return self._matches(self.kind.encode(other))

    def __ne__(self, other: Members | AbstractSet[Any]) -> Truth:  # type: ignore[override]  # columns compare to columns
        return ~(self == other)

    def within(self, other: Members | AbstractSet[Any]) -> Truth:
        """Whether every member is also in `other`."""
        return (self - other).is_empty()

    def _kind(self) -> FlagsKind:
        assert isinstance(self.kind, FlagsKind)
        return self.kind

    def _single(self, member: int | str | Number) -> Members:
        if isinstance(member, Number):
            index = _member_index(member, self._kind())
            return Members(member.frame, self.kind, np.left_shift(np.int64(1), index))
        return Members(None, self.kind, np.asarray(1 << self._kind().bit(member), np.int64))

    def _join(self, other: Members | AbstractSet[Any], work: np.ufunc) -> Members:
        if isinstance(other, Members):
            self._same_domain(other)
            return Members(self._frame_with(other), self.kind, work(self.codes(), other.codes()))
        return Members(self._frame, self.kind, work(self.codes(), self.kind.encode(other)))

    def _same_domain(self, other: Members) -> None:
        if other.kind != self.kind:
            raise ModellingMistake(
                f"two sets over different domains meet: {self.kind.describe()}, and {other.kind.describe()}"
            )


def all_of(truths: Iterable[Truth | bool]) -> Truth:
    """Whether every one holds, state by state."""
    joined = Truth.constant(True)
    for number, truth in enumerate(truths):
        joined = _truth(truth, "all_of") if number == 0 else joined & truth
    return joined


def any_of(truths: Iterable[Truth | bool]) -> Truth:
    """Whether at least one holds, state by state."""
    return ~all_of(~_truth(truth, "any_of") for truth in truths)


def count_of(truths: Iterable[Truth | bool]) -> Number:
    """How many hold, state by state."""
    total: Number | None = None
    for truth in truths:
        column = _truth(truth, "count_of")
        one = Number.of(column.frame, column.mask().astype(np.int64))
        total = one if total is None else total + one
    return Number.of(None, np.asarray(0, np.int64)) if total is None else total


@overload
def pick(  # type: ignore[overload-overlap]  # a bool is an int to Python, and a truth value to us
    condition: Truth | bool, then: Truth | bool, otherwise: Truth | bool
) -> Truth: ...
@overload
def pick(condition: Truth | bool, then: Number | int, otherwise: Number | int) -> Number: ...
@overload
def pick(condition: Truth | bool, then: Choice | str, otherwise: Choice | str) -> Choice: ...
def pick(condition: Truth | bool, then: Any, otherwise: Any) -> Column:
    """`then` where the condition holds, `otherwise` elsewhere: an `if` that works state by state."""
    where = _truth(condition, "pick")
    if isinstance(then, Truth | bool) and isinstance(otherwise, Truth | bool):
        return (where & then) | (~where & otherwise)
    frame = next((c.frame for c in (where, then, otherwise) if isinstance(c, Column) and c.frame), None)
    if isinstance(then, Choice | str) and isinstance(otherwise, Choice | str):
        kind = _common_names(then, otherwise)
        codes = [_codes_of(side, kind) for side in (then, otherwise)]
        return Choice(frame, kind, np.where(where.mask(), *codes))
    return Number.of(frame, np.where(where.mask(), _operand(then, "pick"), _operand(otherwise, "pick")))


class _Picked(EnumKind):
    """The names that picks of constants gave so far: not yet those of a field."""


def _common_names(*sides: Choice | str) -> EnumKind:
    """The names that a pick is between: those of a field where one takes part, else all that are written."""
    kinds = [side.kind for side in sides if isinstance(side, Choice)]
    of_fields = [kind for kind in kinds if isinstance(kind, EnumKind) and not isinstance(kind, _Picked)]
    for kind in of_fields[1:]:
        if kind != of_fields[0]:
            raise ModellingMistake(f"pick is between {of_fields[0].describe()}, and {kind.describe()}")
    if of_fields:
        return of_fields[0]
    names = [
        name
        for side in sides
        for name in ((side,) if isinstance(side, str) else side.kind.options)  # type: ignore[attr-defined]  # a Choice's kind is an EnumKind
    ]
    return _Picked(tuple(dict.fromkeys(names)))


def _codes_of(side: Choice | str, kind: EnumKind) -> np.ndarray[Any, Any] | int:
    if isinstance(side, str):
        return kind.encode(side)
    if side.kind == kind:
        return side.codes()
    assert isinstance(side.kind, EnumKind)
    return np.array([kind.encode(name) for name in side.kind.options], np.int64).take(side.codes())


def _truth(value: object, sign: str) -> Truth:
    if isinstance(value, Truth):
        return value
    if isinstance(value, bool):
        return Truth.constant(value)
    raise ModellingMistake(
        f"{sign} joins truth values, and {describe(value)} is none: compare it with something first"
    )


def _operand(value: Number | Truth | int, sign: str) -> np.ndarray[Any, Any] | int:
    if isinstance(value, Number):
        return value.values()
    if isinstance(value, Truth):
        return value.mask().astype(np.int64)
    if isinstance(value, int):
        return int(value)
    raise ModellingMistake(f"{sign} works on numbers, and {describe(value)} is none")


def _divisor(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ModellingMistake(f"divide a column by a positive whole number, not by {describe(value)}")
    return value


def _member_index(member: Number, kind: FlagsKind) -> np.ndarray[Any, Any]:
    index = member.values()
    if kind.members and isinstance(kind.members[0], str):
        raise ModellingMistake(
            f"the members are names ({kind.describe()}): a column of numbers is none of them"
        )
    if index.size and (index.min() < 0 or index.max() >= len(kind.members)):
        raise ModellingMistake(
            f"a member number is outside 0..{len(kind.members) - 1}: require that it is inside"
        )
    return index


def describe(value: object) -> str:
    """A value, or the name of a kind of column, for a message."""
    return value.describe() if isinstance(value, Column) else repr(value)


_ANY_NUMBER = IntKind(0, (1 << 62) - 1)
