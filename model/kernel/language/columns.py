"""Columns: the result of reading a field inside an action or a property, one entry a state.

Columns are compared, combined and assigned as if each were a single value:

    Truth     & | ^ ~ == !=                   here: from Bool, and from every comparison
    Number    + - * // % == != < <= > >=      in `numbers`: from Int, lengths, counts
    Choice    == != is_in                     in `choices`: from Enum, by name
    Members   | & - == != has size is_empty   in `members`: from Flags
    Recorded  .part == != but matches         in `records`: from Record

Theory. A thousand packed states are arrays of a thousand words, and a field is the same few bits of one word
in each. So reading a field computes nothing: the column keeps the word (`raw`), the place of the field in it
(`shift`) and the meaning of its bits (`kind`). A comparison with a constant shifts the constant to that
place, not the field away from it: two vector operations, `word & mask == bits`. Even these are delayed
(`Match`): several such tests of one word that are joined with `&` (or, negated, with `|`) fuse into one.
Other operations, such as a sum, are computed on the codes themselves (`codes`).

A guard removes rows, and a column that was read before it still has them all. The column keeps the `epoch` in
which it was read and drops the same rows when it is used next, see `frame`.

Python's `if`, `and`, `or`, `not` and chained comparisons need one truth value where there are many: the text
is run once for each path, see `paths`. Only truths decide; other columns are compared first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

import numpy as np

from fencepost.model.kernel.language.errors import ModellingMistake, NoValue, author_place, missing_return
from fencepost.model.kernel.language.layout import BoolKind, Kind

if TYPE_CHECKING:
    from fencepost.model.kernel.language.frame import Frame
    from fencepost.model.kernel.language.layout import U64, Mask


C = TypeVar("C", bound="Column")
AS_TEXT = (
    "a column holds one value a state, so it is no text: in an action or a property compare it, and to look "
    "at it while you write the model, print(repr(...))"
)
NO_TRUTH = (
    "compare it first, as in s.count > 0 or s.queue.is_empty(), and for `in` write .is_in(...) or .has(...)"
)
_SHOWN = 20
_CLASSES: dict[type[Kind], type[Column]] = {}


def columns_of(kind: type[Kind]) -> Callable[[type[C]], type[C]]:
    """Declares the class of the columns of a kind of cell."""

    def declare(column: type[C]) -> type[C]:
        _CLASSES[kind] = column
        return column

    return declare


def column_class(kind: Kind) -> type[Column]:
    """The class of the columns of this kind."""
    return _CLASSES.get(type(kind), Column)


class Column(NoValue):
    """One value a row of `frame`, as of `epoch`; `frame` is None for a constant."""

    __slots__ = ("_array", "_epoch", "_frame", "_raw", "_shift", "kind")
    noun: ClassVar[str]
    __array_ufunc__ = None  # else NumPy compares with the object itself

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

    def __bool__(self) -> bool:
        raise ModellingMistake(f"{self.describe()} is neither true nor false: {NO_TRUTH}")

    def __contains__(self, item: object) -> NoReturn:
        raise ModellingMistake(NO_TRUTH)

    def no_value(self) -> str:
        return AS_TEXT

    def __repr__(self) -> str:
        codes = np.atleast_1d(self.codes())
        shown = [str(self.kind.decode(int(code - self._least()))) for code in codes[:_SHOWN]]
        more = f", and {len(codes) - _SHOWN} more" if len(codes) > _SHOWN else ""
        return f"<{self.describe()}: {', '.join(shown)}{more}>"

    def __and__(self, other: Any) -> Any:
        to_truth(self, "&")

    def __or__(self, other: Any) -> Any:
        to_truth(self, "|")

    def __invert__(self) -> Any:
        to_truth(self, "~")

    __rand__, __ror__ = __and__, __or__

    def _least(self) -> int:
        """The number that `codes` begin at."""
        return 0

    @property
    def frame(self) -> Frame | None:
        return self._frame

    def describe(self) -> str:
        """A noun phrase for messages."""
        return f"a {self.noun} column"

    def codes(self) -> np.ndarray[Any, Any]:
        """The codes of the remaining rows, as signed numbers (truths as booleans)."""
        if self._array is None:
            assert self._raw is not None
            self._array = self._decode(self._raw)
        frame = self._frame
        if frame is not None and self._epoch != frame.epoch:
            narrowed: np.ndarray[Any, Any] = frame.narrowed(self._array, self._epoch)
            if frame.trials:
                return narrowed  # the other rows come back
            self._array = narrowed
            self._raw = None
            self._epoch = frame.epoch
        return self._array

    def _decode(self, raw: U64) -> np.ndarray[Any, Any]:
        shifted = raw >> self._shift if self._shift else raw
        return (shifted & ((1 << self.kind.width) - 1)).view(np.int64)

    def fresh_raw(self) -> U64 | None:
        """The packed word itself, if this is a field that was read and no row was removed since."""
        if self._raw is None or (self._frame is not None and self._epoch != self._frame.epoch):
            return None
        return self._raw

    def _matches(self, code: int) -> Truth:
        """True where the cell holds `code`."""
        raw = self.fresh_raw()
        if raw is not None:
            mask = ((1 << self.kind.width) - 1) << self._shift
            return Match(self._frame, raw, mask, code << self._shift)
        return Truth.of(self._frame, self.codes() == code)

    def _same(self, other: Column) -> Truth:
        """True where two cells of one kind hold the same code."""
        raw, others = self.fresh_raw(), other.fresh_raw()
        if raw is not None and others is not None and self._shift == other._shift:
            # The same field before and after a step: equal where the words agree under its bits.
            return Match(self._frame, raw ^ others, ((1 << self.kind.width) - 1) << self._shift, 0)
        return Truth.of(self._frame_with(other), self.codes() == other.codes())

    def _frame_with(self, other: Column) -> Frame | None:
        return self._frame if self._frame is not None else other.frame


@columns_of(BoolKind)
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

    def __bool__(self) -> bool:
        """The branch of an `if`, an `and`, an `or` or a `not`; see `paths`."""
        mask = self.mask()
        frame = self._frame
        if frame is None or mask.ndim == 0:
            return bool(mask)
        return frame.branching.decide(mask)

    def mask(self) -> Mask:
        """The boolean array of the remaining rows (a scalar array for a constant)."""
        return self.codes()

    def __and__(self, other: Truth | bool) -> Truth:
        other = to_truth(other, "&")
        return Truth.of(self._frame_with(other), self.mask() & other.mask())

    def __or__(self, other: Truth | bool) -> Truth:
        other = to_truth(other, "|")
        return Truth.of(self._frame_with(other), self.mask() | other.mask())

    def __xor__(self, other: Truth | bool) -> Truth:
        other = to_truth(other, "^")
        return Truth.of(self._frame_with(other), self.mask() ^ other.mask())

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Truth:
        return Truth.of(self._frame, ~self.mask())

    def __eq__(self, other: Truth | bool) -> Truth:  # type: ignore[override]  # columns compare to columns
        return ~(self ^ to_truth(other, "=="))

    def __ne__(self, other: Truth | bool) -> Truth:  # type: ignore[override]  # columns compare to columns
        return self ^ to_truth(other, "!=")


class Match(Truth):
    """`word & mask == bits` (or `!=`), computed late so that neighbouring tests can fuse with it."""

    __slots__ = ("bits", "negated", "under")

    def __init__(self, frame: Frame | None, raw: U64, mask: int, bits: int, *, negated: bool = False) -> None:
        super().__init__(frame, BoolKind(), raw=raw)
        self.under = mask
        self.bits = bits
        self.negated = negated

    def _decode(self, raw: U64) -> np.ndarray[Any, Any]:
        mask: Mask = (np.not_equal if self.negated else np.equal)(raw & self.under, self.bits)
        return mask

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


def all_of(truths: Iterable[Truth | bool]) -> Truth:
    """True where all of them hold, state by state."""
    joined = Truth.constant(True)
    for number, truth in enumerate(truths):
        joined = to_truth(truth, "all_of") if number == 0 else joined & truth
    return joined


def any_of(truths: Iterable[Truth | bool]) -> Truth:
    """True where at least one holds, state by state."""
    return ~all_of(~to_truth(truth, "any_of") for truth in truths)


def evaluated(where: Truth, value: Any) -> Any:
    """The value; of a function, what it gives on the rows of a condition, or None if there are none."""
    if not isinstance(value, FunctionType):
        return value
    mask, frame = where.mask(), where.frame
    if frame is None or mask.ndim == 0:
        return value() if mask.any() else None
    if not frame.occurs(mask):
        return None

    def trial() -> tuple[Any, Any]:
        column = frame.branching.computed(value)
        return column, column.codes() if isinstance(column, Column) else None

    found, codes = frame.branching.where(mask, trial)
    if codes is None:
        return found
    every = frame.spread(mask, codes)
    return Truth.of(frame, every) if isinstance(found, Truth) else type(found)(frame, found.kind, every)


def implies(condition: Truth | bool, then: Truth | bool | Callable[[], Truth | bool]) -> Truth:
    """False only where `condition` holds and `then` does not; a function is evaluated only where it does."""
    given = to_truth(condition, "implies")
    conclusion = evaluated(given, then)
    follows = Truth.constant(True) if conclusion is None else to_truth(conclusion, "implies")
    watching = None if given.frame is None else given.frame.watching
    if watching is not None:
        place = author_place()
        watching[place] = watching.get(place, False) or bool(given.mask().any())
    return ~(given & ~follows)


def to_truth(value: object, sign: str) -> Truth:
    """A truth column, also from True or False; `sign` names the operation in the message."""
    if isinstance(value, Truth):
        return value
    if isinstance(value, bool):
        return Truth.constant(value)
    cure = missing_return(value) or ": compare it with something first"
    if sign == "~":
        cure += "; ~ binds tighter than ==, so write ~(a == 1)"
    elif sign in ("&", "|", "^"):
        cure += "; & and | bind tighter than ==, so write (a == 1) & (b == 2)"
    verb = "negates" if sign == "~" else "joins"
    raise ModellingMistake(f"{sign} {verb} truth values, and {describe(value)} is none{cure}")


def as_truth(value: object) -> Truth:
    """The result of a comparison, for a type checker that does not know the types of its sides."""
    assert isinstance(value, Truth)
    return value


def describe(value: object) -> str:
    """A value, or the name of a kind of column, for a message."""
    if isinstance(value, Column):
        return value.describe()
    text = repr(value)
    return f"a {type(value).__name__}" if " at 0x" in text else text
