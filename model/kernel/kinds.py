"""What one packed cell can hold: a truth, a bounded number, a name, a set of flags.

A *value* is what a modeller reads and writes (`True`, `3`, `"working"`, `{0, 2}`), a *code* is the
unsigned number that is packed. Codes start at 0, and the all-zero word is every field's first value.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from fencepost.model.kernel.errors import ModellingMistake, names, suggestion

WIDEST_CELL = 62
"""Bits of one cell: keeps every code and every sum of two codes inside a signed 64-bit column."""


class Kind:
    """One cell: how wide it is, and the way between values and codes."""

    width: int

    def encode(self, value: object) -> int:
        """The code of `value`; refuses what the cell cannot hold."""
        raise NotImplementedError

    def decode(self, code: int) -> object:
        raise NotImplementedError

    def describe(self) -> str:
        """What the cell can hold, in words."""
        raise NotImplementedError


@dataclass(frozen=True)
class BoolKind(Kind):
    width: int = 1

    def encode(self, value: object) -> int:
        if not isinstance(value, bool):
            raise ModellingMistake(f"{value!r} is neither True nor False")
        return int(value)

    def decode(self, code: int) -> bool:
        return bool(code)

    def describe(self) -> str:
        return "a truth value"


@dataclass(frozen=True)
class IntKind(Kind):
    least: int
    most: int
    width: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", max(1, (self.most - self.least).bit_length()))
        if self.most < self.least:
            raise ModellingMistake(
                f"Int({self.least}, {self.most}) has no value: the lower bound comes first"
            )
        if self.width > WIDEST_CELL:
            raise ModellingMistake(
                f"Int({self.least}, {self.most}) needs {self.width} bits, more than {WIDEST_CELL}; "
                "a model wants the smallest range that still shows the behaviour"
            )

    def encode(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ModellingMistake(f"{value!r} is not a whole number")
        if not self.least <= value <= self.most:
            raise ModellingMistake(f"{value} is outside {self.least}..{self.most}")
        return value - self.least

    def decode(self, code: int) -> int:
        return code + self.least

    def describe(self) -> str:
        return f"{self.least}..{self.most}"


@dataclass(frozen=True)
class EnumKind(Kind):
    options: tuple[str, ...]
    width: int = field(init=False, compare=False)
    _codes: dict[object, int] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", max(1, (len(self.options) - 1).bit_length()))
        object.__setattr__(self, "_codes", {option: code for code, option in enumerate(self.options)})
        if not self.options or len(set(self.options)) != len(self.options):
            raise ModellingMistake(f"Enum{self.options} needs names, each of them once")

    def encode(self, value: object) -> int:
        code = self._codes.get(value) if isinstance(value, str) else None
        if code is None:
            raise ModellingMistake(
                f"{value!r} is not one of {names(self.options)}{suggestion(value, self.options)}"
            )
        return code

    def decode(self, code: int) -> str:
        return self.options[code]

    def describe(self) -> str:
        return f"one of {names(self.options)}"


@dataclass(frozen=True)
class FlagsKind(Kind):
    members: tuple[int, ...] | tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.members) > WIDEST_CELL:
            raise ModellingMistake(
                f"a flag set over {len(self.members)} members needs more than {WIDEST_CELL} bits; "
                "declare it as Each(size, Bool()), which may span words"
            )

    @property
    def width(self) -> int:  # type: ignore[override]  # derived from the members rather than stored
        return len(self.members)

    def bit(self, member: object) -> int:
        """The number of the bit that stands for `member`."""
        for number, known in enumerate(self.members):
            if known == member and not isinstance(member, bool):
                return number
        known_names = [str(known) for known in self.members]
        raise ModellingMistake(
            f"{member!r} is not a member of {{{names(known_names)}}}{suggestion(member, known_names)}"
        )

    def encode(self, value: object) -> int:
        if isinstance(value, str) or not isinstance(value, AbstractSet | tuple | list):
            raise ModellingMistake(f"{value!r} is not a set; write {{{value!r}}}")
        return sum({1 << self.bit(member) for member in value})

    def decode(self, code: int) -> frozenset[int] | frozenset[str]:
        return frozenset(  # type: ignore[return-value]  # members are all numbers or all names
            member for number, member in enumerate(self.members) if code >> number & 1
        )

    def describe(self) -> str:
        return f"a set over {names(str(known) for known in self.members)}"
