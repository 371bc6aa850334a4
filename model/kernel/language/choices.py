"""Choices: columns of names of one enum; `pick` and `case`, which choose between values state by state.

A name is packed as its position in the enum, so two enums with different names cannot be compared. `pick`
between constant names has no enum yet: it makes one of these names, and an assignment converts them to the
positions in the field.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from fencepost.model.kernel.language.columns import (
    Column,
    Truth,
    any_of,
    column_class,
    columns_of,
    evaluated,
    to_truth,
)
from fencepost.model.kernel.language.errors import ModellingMistake, must_call
from fencepost.model.kernel.language.layout import EnumKind, FlagsKind, Kind, RecordKind, look_up
from fencepost.model.kernel.language.numbers import Number, reach_of, to_numbers


@columns_of(EnumKind)
class Choice(Column):
    """A column of names of one enum."""

    __slots__ = ()
    noun = "name"

    def __eq__(self, other: Choice | str) -> Truth:  # type: ignore[override]  # columns compare to columns
        if isinstance(other, Choice):
            if other.kind != self.kind:
                if isinstance(self.kind, _Chosen):
                    self, other = other, self  # == is symmetric
                if isinstance(other.kind, _Chosen) and isinstance(self.kind, EnumKind):
                    table = np.array([other.kind.encode(name) for name in self.kind.options], np.int64)
                    return Truth.of(self._frame_with(other), look_up(table, self.codes()) == other.codes())
                raise ModellingMistake(
                    f"two enums with different names are compared: {self.kind.describe()}, "
                    f"against {other.kind.describe()}"
                )
            return self._same(other)
        return self._matches(self.kind.encode(other))

    def __ne__(self, other: Choice | str) -> Truth:  # type: ignore[override]  # columns compare to columns
        return ~(self == other)

    @must_call
    def is_in(self, *options: str) -> Truth:
        """True where it is one of these names."""
        return any_of(self == option for option in options)


if TYPE_CHECKING:
    from fencepost.model.kernel.language.frame import Frame
    from fencepost.model.kernel.language.members import Members
    from fencepost.model.kernel.language.records import Recorded

S = TypeVar("S", "Members", "Recorded")
Truths = Truth | bool | Callable[[], Truth | bool]
Numbers = Number | int | Callable[[], Number | int]
Choices = Choice | str | Callable[[], Choice | str]


@overload
def pick(  # type: ignore[overload-overlap]  # a bool is an int to Python, and a truth value to us
    condition: Truth | bool, then: Truths, otherwise: Truths
) -> Truth: ...
@overload
def pick(condition: Truth | bool, then: Numbers, otherwise: Numbers) -> Number: ...
@overload
def pick(condition: Truth | bool, then: Choices, otherwise: Choices) -> Choice: ...
@overload
def pick(condition: Truth | bool, then: S | Callable[[], S], otherwise: S | Callable[[], S]) -> S: ...
def pick(condition: Truth | bool, then: Any, otherwise: Any) -> Column:
    """`then` where the condition holds, `otherwise` elsewhere: an `if` that works state by state.

    A function, `lambda: s.log[s.last]`, is evaluated only on the states that take its value.
    """
    where = to_truth(condition, "pick")
    if isinstance(then, FunctionType) or isinstance(otherwise, FunctionType):
        then, otherwise = evaluated(where, then), evaluated(~where, otherwise)
        then, otherwise = (otherwise if then is None else then), (then if otherwise is None else otherwise)
    if isinstance(then, Truth | bool) and isinstance(otherwise, Truth | bool):
        return (where & then) | (~where & otherwise)
    frame = next((c.frame for c in (where, then, otherwise) if isinstance(c, Column) and c.frame), None)
    if isinstance(then, Choice | str) and isinstance(otherwise, Choice | str):
        kind = _common_names(then, otherwise)
        codes = [_codes_of(side, kind) for side in (then, otherwise)]
        return Choice(frame, kind, np.where(where.mask(), *codes))
    of = next((c.kind for c in (then, otherwise) if isinstance(c, Column)), None)
    if isinstance(of, FlagsKind | RecordKind):
        codes = [_codes_alike(side, of) for side in (then, otherwise)]
        return column_class(of)(frame, of, np.where(where.mask(), *codes))
    numbers = np.where(where.mask(), to_numbers(then, "pick"), to_numbers(otherwise, "pick"))
    return Number.of(frame, numbers, max(reach_of(then), reach_of(otherwise)))


@overload
def case(  # type: ignore[overload-overlap]  # a bool is an int to Python, and a truth value to us
    *branches: tuple[Truth | bool, Truths], otherwise: Truths
) -> Truth: ...
@overload
def case(*branches: tuple[Truth | bool, Numbers], otherwise: Numbers) -> Number: ...
@overload
def case(*branches: tuple[Truth | bool, Choices], otherwise: Choices) -> Choice: ...
def case(*branches: tuple[Truth | bool, Any], otherwise: Any) -> Column:
    """The value of the first branch whose condition holds, else `otherwise`.

    `case((c1, v1), (c2, v2), otherwise=v3)` equals `pick(c1, v1, pick(c2, v2, v3))`, functions as in `pick`.
    """
    if not branches:
        raise ModellingMistake("case needs at least one (condition, value) before otherwise=")
    for number, branch in enumerate(branches, 1):
        if not isinstance(branch, tuple) or len(branch) != 2:  # type: ignore[redundant-expr]  # as a type checker would find
            raise ModellingMistake(f"branch {number} of case must be a pair (condition, value)")
    lazy = any(isinstance(value, FunctionType) for value in (otherwise, *(value for _, value in branches)))
    (condition, value), *others = branches
    rest = otherwise
    if others:
        rest = (lambda: case(*others, otherwise=otherwise)) if lazy else case(*others, otherwise=otherwise)
    return pick(condition, value, rest)  # type: ignore[no-any-return]  # pick returns a column


class _Picked(EnumKind):
    """The names that `pick` collected from constants: not yet those of a field."""


class _Chosen(_Picked):
    """The names that the paths of a definition gave. It may give others where no row is now."""

    def encode(self, value: object) -> int:
        code = self._codes.get(value) if isinstance(value, str) else None
        return -1 if code is None else code


def chosen(frame: Frame, names: Choice | str) -> Choice | str:
    """The names that a definition chose with `if`; those of a field, and constants, stay what they are."""
    if isinstance(names, str) or not isinstance(names.kind, _Picked):
        return names
    return Choice(frame, _Chosen(names.kind.options), names.codes())


def _common_names(*sides: Choice | str) -> EnumKind:
    """The names that `pick` chooses from: those of a field if one takes part, else all constants."""
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
    is_chosen = kinds and _Chosen in map(type, kinds)
    return (_Chosen if is_chosen else _Picked)(tuple(dict.fromkeys(names)))


def _codes_alike(side: object, kind: Kind) -> np.ndarray[Any, Any] | int:
    """The codes of a set or a record of this kind."""
    if not isinstance(side, Column):
        return kind.encode(side)
    if side.kind != kind:
        raise ModellingMistake(f"pick is between {kind.describe()}, and {side.describe()}")
    return side.codes()


def _codes_of(side: Choice | str, kind: EnumKind) -> np.ndarray[Any, Any] | int:
    if isinstance(side, str):
        return kind.encode(side)
    if side.kind == kind:
        return side.codes()
    assert isinstance(side.kind, EnumKind)
    return look_up(np.array([kind.encode(name) for name in side.kind.options], np.int64), side.codes())
