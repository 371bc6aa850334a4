"""Members: columns of sets over one finite domain, a bit for each member."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from fencepost.model.kernel.language.columns import Column, Match, Truth, columns_of, describe
from fencepost.model.kernel.language.errors import ModellingMistake, must_call
from fencepost.model.kernel.language.layout import FlagsKind
from fencepost.model.kernel.language.numbers import Number


@columns_of(FlagsKind)
class Members(Column):
    """A column of sets over one finite domain."""

    __slots__ = ()
    noun = "set"

    @must_call
    def has(self, member: int | str | Number) -> Truth:
        """True where the set contains `member`, a constant or a column of numbers."""
        if isinstance(member, Number):
            bits = self.codes() >> _member_index(member, self._kind())
            return Truth.of(self._frame_with(member), (bits & 1) != 0)
        bit = self._kind().bit(member)
        raw = self.fresh_raw()
        if raw is not None:
            place = 1 << (self._shift + bit)
            return Match(self._frame, raw, place, place)
        return Truth.of(self._frame, (self.codes() & (1 << bit)) != 0)

    @must_call
    def is_empty(self) -> Truth:
        return self._matches(0)

    @must_call
    def size(self) -> Number:
        return Number.of(self._frame, np.bitwise_count(self.codes()).astype(np.int64), self.kind.width)

    def __or__(self, other: Members | AbstractSet[Any]) -> Members:
        return self._join(other, np.bitwise_or)

    def __and__(self, other: Members | AbstractSet[Any]) -> Members:
        return self._join(other, np.bitwise_and)

    def __sub__(self, other: Members | AbstractSet[Any]) -> Members:
        both = self._join(other, np.bitwise_and)
        return Members(both.frame, self.kind, self.codes() ^ both.codes())

    @must_call
    def plus(self, member: int | str | Number) -> Members:
        """The set with `member`, a constant or a column of numbers."""
        return self | self._single(member)

    @must_call
    def minus(self, member: int | str | Number) -> Members:
        """The set without `member`, a constant or a column of numbers."""
        return self - self._single(member)

    def __eq__(self, other: Members | AbstractSet[Any]) -> Truth:  # type: ignore[override]  # columns compare to columns
        if isinstance(other, Members):
            self._same_domain(other)
            return self._same(other)
        return self._matches(self._encoded(other))

    def __ne__(self, other: Members | AbstractSet[Any]) -> Truth:  # type: ignore[override]  # columns compare to columns
        return ~(self == other)

    @must_call
    def within(self, other: Members | AbstractSet[Any]) -> Truth:
        """True where every member is also in `other`."""
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
        return Members(self._frame, self.kind, work(self.codes(), self._encoded(other)))

    def _encoded(self, other: object) -> int:
        if not isinstance(other, AbstractSet):
            raise ModellingMistake(
                f"a set column is joined with {describe(other)}, which is no set: write {{...}}"
            )
        return self.kind.encode(other)

    def _same_domain(self, other: Members) -> None:
        if other.kind != self.kind:
            raise ModellingMistake(
                f"two sets have different domains: {self.kind.describe()}, and {other.kind.describe()}"
            )


def _member_index(member: Number, kind: FlagsKind) -> np.ndarray[Any, Any]:
    index = member.values()
    if kind.members and isinstance(kind.members[0], str):
        raise ModellingMistake(
            f"the members are names ({kind.describe()}), but the argument is a column of numbers"
        )
    if index.size and (index.min() < 0 or index.max() >= len(kind.members)):
        raise ModellingMistake(
            f"a member number is outside 0..{len(kind.members) - 1}: require that it is inside"
        )
    return index
