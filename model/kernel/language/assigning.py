"""The codes that a cell stores for what an action assigns: checked, for a constant and for a column.

A constant is encoded once. A column must fit in every row, or the overflow error contains the state of the
first row where it does not. A record is assigned part by part: `{"type": "ask", "src": s.leader}` mixes
constants and columns.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from fencepost.model.kernel.language.columns import Column, column_class
from fencepost.model.kernel.language.errors import FieldOverflow, ModellingMistake, NoValue
from fencepost.model.kernel.language.layout import (
    I64,
    U64,
    BoolKind,
    EnumKind,
    IntKind,
    Kind,
    RecordKind,
    look_up,
)

if TYPE_CHECKING:
    from fencepost.model.kernel.language.frame import Frame

MOST_CHOICES = 1 << 20
Codes = int | U64
"""One code for all rows, or one a row."""


class Anything(NoValue):
    """In an @initial: any value of a field, or any of some values; each is a start of its own."""

    __slots__ = ("values",)

    def __init__(self, *values: object) -> None:
        self.values = values

    def codes(self, frame: "Frame", kind: Kind, name: str) -> U64:
        """The codes of the values in a cell."""
        if kind.count > MOST_CHOICES and not self.values:
            raise ModellingMistake(
                f"`{name}` has {kind.count:,} values: give those to begin with, as in anything(0, 1)"
            )
        given = [codes_of(frame, kind, name, value) for value in self.values] or [*kind.codes()]
        if not all(isinstance(code, int) for code in given):
            raise ModellingMistake(f"anything(...) for `{name}` takes constants, not columns")
        return np.array(given, np.uint64)

    def no_value(self) -> str:
        return "anything() is no value: assign it to a field in an @initial, then s.require(...)"

    def __repr__(self) -> str:
        return "anything()"


def anything(*values: object) -> Any:
    """In an @initial: begin with any value of the field, or with any of these.

    @initial
    def begin(s):
        s.owner = anything()
        s.at = anything("idle", "waits")        # each element of an array on its own
        s.require(s.at[0] == "idle")
    """
    return Anything(*values)


def codes_of(frame: "Frame", kind: Kind, name: str, value: object) -> Codes:
    """The codes to store; an error if the cell `name` of this kind cannot hold them."""
    if isinstance(kind, RecordKind) and isinstance(value, Mapping):
        return _codes_of_parts(frame, kind, name, value)
    if not isinstance(value, Column):
        try:
            return kind.encode(value)
        except ModellingMistake as error:
            if isinstance(kind, IntKind) and isinstance(value, int) and not isinstance(value, bool):
                overflow(frame, name, f"to {value}, outside {kind.describe()}", 0)
            raise ModellingMistake(f"{frame.doing()} assigns to `{name}`: {error}") from None
    if not isinstance(value, column_class(kind)):
        raise ModellingMistake(
            f"{frame.doing()} assigns {value.describe()} to `{name}`, which holds {kind.describe()}"
        )
    codes = value.codes()
    if isinstance(kind, BoolKind):
        return codes.astype(np.uint64)
    if isinstance(kind, IntKind):
        # A field of the same bounds cannot overflow, so a copy needs no check.
        if value.kind != kind and codes.size:
            _check_bounds(frame, kind, name, codes)
        if kind.least:
            codes = codes - kind.least
    elif isinstance(value.kind, EnumKind) and value.kind != kind:
        codes = look_up(_renamed(frame, kind, name, value.kind), codes)
    elif value.kind != kind:
        raise ModellingMistake(
            f"{frame.doing()} assigns {value.kind.describe()} to `{name}`, which holds {kind.describe()}"
        )
    return codes.view(np.uint64)


def _codes_of_parts(frame: "Frame", kind: RecordKind, name: str, value: Mapping[str, Any]) -> Codes:
    try:
        given = kind.completed(value)
    except ModellingMistake as error:
        raise ModellingMistake(f"{frame.doing()} assigns to `{name}`: {error}") from None
    constant, columns = 0, None
    for part, (at, of) in kind.places.items():
        codes = codes_of(frame, of, f"{name}.{part}", given[part])
        if isinstance(codes, int):
            constant |= codes << at
        else:
            shifted = codes << np.uint64(at)
            columns = shifted if columns is None else columns | shifted
    return constant if columns is None else columns | np.uint64(constant)


def _renamed(frame: "Frame", kind: Kind, name: str, other: EnumKind) -> I64:
    """The codes of this field for the names of another enum; an error unless it has them all."""
    try:
        return np.array([kind.encode(option) for option in other.options], np.int64)
    except ModellingMistake as error:
        raise ModellingMistake(f"{frame.doing()} assigns to `{name}`: {error}") from None


def _check_bounds(frame: "Frame", kind: IntKind, name: str, codes: I64) -> None:
    if codes.min() >= kind.least and codes.max() <= kind.most:
        return
    row = int(((codes < kind.least) | (codes > kind.most)).argmax())
    overflow(frame, name, f"to {int(codes.flat[row])}, outside {kind.describe()}", row)


def overflow(frame: "Frame", field: str, what: str, row: int) -> NoReturn:
    """Raise the error of a write that does not fit, with the action and the state before it."""
    state = frame.state_before(row)
    action = frame.doing()
    cure = (
        f"narrow its guard or widen `{field}`"
        if frame.guarded
        else "the action has no guard, so nothing ever stops it: begin it with s.require(...), "
        f"or widen `{field}`"
    )
    message = f"{action} takes `{field}` {what}, from state {state}; {cure}"
    raise FieldOverflow(message, action=action, field=field, state=state)
