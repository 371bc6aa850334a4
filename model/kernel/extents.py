"""Sizes of a machine: how many managers, slots, keys. Declared with a default, given at check time.

    managers = Size(3, most=16)
    manager = Each(managers, Enum("working", "prepared"))
    votes = Int(0, managers)
    tickets = Int(0, 2 * managers + 1)

Arithmetic on sizes gives an extent that is worked out when the sizes are known. Inside an action
`s.managers` is a plain `int`, so ordinary Python (`range(s.managers)`, `if s.managers > 1`) works.
"""

import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Self, overload

from fencepost.model.kernel.errors import BadSettings, ModellingMistake, names, suggestion

if TYPE_CHECKING:
    from fencepost.model.kernel.machine import Machine


class Extent:
    """A whole number that is known once the sizes are."""

    def resolve(self, sizes: Mapping[str, int]) -> int:
        raise NotImplementedError

    def __add__(self, other: "int | Extent") -> "Extent":
        return _Sum(operator.add, self, other)

    def __radd__(self, other: int) -> "Extent":
        return _Sum(operator.add, other, self)

    def __sub__(self, other: "int | Extent") -> "Extent":
        return _Sum(operator.sub, self, other)

    def __rsub__(self, other: int) -> "Extent":
        return _Sum(operator.sub, other, self)

    def __mul__(self, other: "int | Extent") -> "Extent":
        return _Sum(operator.mul, self, other)

    def __rmul__(self, other: int) -> "Extent":
        return _Sum(operator.mul, other, self)


AnyExtent = int | str | Extent


class Size(Extent):
    """One parameter of a machine. `least` and `most` are what the machine was written for."""

    def __init__(self, default: int, *, least: int = 1, most: int = 64, doc: str = "") -> None:
        if not least <= default <= most:
            raise ModellingMistake(f"a size with default {default} must allow it: {least}..{most} does not")
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

    def resolve(self, sizes: Mapping[str, int]) -> int:
        return sizes[self.name]


class _Sum(Extent):
    """Arithmetic on extents, worked out late."""

    def __init__(self, work: Callable[[int, int], int], left: "int | Extent", right: "int | Extent") -> None:
        self._work = work
        self._left = left
        self._right = right

    def resolve(self, sizes: Mapping[str, int]) -> int:
        return self._work(resolve(self._left, sizes), resolve(self._right, sizes))


def resolve(extent: AnyExtent, sizes: Mapping[str, int]) -> int:
    """The number an extent stands for. A string is the name of a size."""
    if isinstance(extent, Extent):
        return extent.resolve(sizes)
    if isinstance(extent, str):
        if extent not in sizes:
            raise ModellingMistake(
                f"no size is called '{extent}'{suggestion(extent, sizes)}; the sizes are {names(sizes)}"
            )
        return sizes[extent]
    return extent


def settle(declared: Mapping[str, Size], given: Mapping[str, int]) -> dict[str, int]:
    """Every size's value: the given one, checked, or its default."""
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
