"""Recorded: columns of records, several named parts in one cell.

    message = Record(type=Enum("ask", "answer"), src=Id(nodes), vote=Bool(start=False))

    s.message = dict(type="ask", src=n)         # every part, but those with a `start` may be left out
    s.message.src                               # a column of the part's kind
    s.message == dict(type="ask", src=0)        # all parts
    s.message.matches(type="ask")               # some parts
    s.message.but(src=n)                        # a copy with other parts, as TLA+'s EXCEPT

A part lies in the packed word at a known place, so comparing it costs what comparing a field costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fencepost.model.kernel.language.assigning import codes_of
from fencepost.model.kernel.language.columns import (
    Column,
    Match,
    Truth,
    all_of,
    as_truth,
    column_class,
    columns_of,
    describe,
)
from fencepost.model.kernel.language.errors import ModellingMistake, must_call, names, suggestion
from fencepost.model.kernel.language.layout import BoolKind, IntKind, Item, RecordKind

if TYPE_CHECKING:
    from fencepost.model.kernel.language.choices import Choice
    from fencepost.model.kernel.language.members import Members
    from fencepost.model.kernel.language.numbers import Number

    class Part(Truth, Number, Choice, Members):  # type: ignore[misc]  # whichever of them the part was declared as
        """A part of a record, to a type checker: parts are found by name, so it cannot know the kind."""

        def __eq__(self, other: object) -> Truth: ...  # type: ignore[override]  # columns compare to columns
        def __ne__(self, other: object) -> Truth: ...  # type: ignore[override]  # columns compare to columns
        def __and__(self, other: Any) -> Any: ...
        def __or__(self, other: Any) -> Any: ...
        def __sub__(self, other: Any) -> Any: ...


@columns_of(RecordKind)
class Recorded(Column):
    """A column of records."""

    __slots__ = ()
    noun = "record"

    def __getattr__(self, name: str) -> Part:
        if name.startswith("_"):
            raise AttributeError(name)
        kind = self._kind()
        if name not in kind.places:
            raise ModellingMistake(
                f"the record has no part '{name}'{suggestion(name, kind.places)}; "
                f"its parts are {names(kind.places)}"
            )
        at, of = kind.places[name]
        raw = self.fresh_raw()
        if raw is not None:
            if isinstance(of, BoolKind):
                bit = 1 << (self._shift + at)
                return cast("Part", Match(self._frame, raw, bit, bit))
            return cast("Part", column_class(of)(self._frame, of, raw=raw, shift=self._shift + at))
        codes = self.codes() >> at & ((1 << of.width) - 1)
        if isinstance(of, BoolKind):
            return cast("Part", Truth.of(self._frame, codes != 0))
        least = of.least if isinstance(of, IntKind) else 0
        return cast("Part", column_class(of)(self._frame, of, codes + least if least else codes))

    def __eq__(self, other: Recorded | Mapping[str, Any]) -> Truth:  # type: ignore[override]  # columns compare to columns
        if isinstance(other, Recorded):
            if other.kind != self.kind:
                raise ModellingMistake(
                    f"two kinds of records are compared: {self.kind.describe()}, and {other.kind.describe()}"
                )
            return self._same(other)
        if not isinstance(other, Mapping):
            raise ModellingMistake(
                f"a record column is compared with {describe(other)}: compare one of its parts, "
                "or write dict(...) with all of them"
            )
        return self.matches(**self._kind().completed(other))

    def __ne__(self, other: Recorded | Mapping[str, Any]) -> Truth:  # type: ignore[override]  # columns compare to columns
        return ~(self == other)

    @must_call
    def matches(self, **parts: Any) -> Truth:
        """True where these parts have these values."""
        if not parts:
            raise ModellingMistake("matches needs a part and a value, as in m.matches(type=...)")
        return all_of(as_truth(getattr(self, name) == value) for name, value in parts.items())

    @must_call
    def but(self, **parts: Any) -> Recorded:
        """A copy with these parts instead of its own."""
        frame, kind = self._frame, self._kind()
        if frame is None:
            raise ModellingMistake("this record is a constant: write dict(...) with the other parts")
        codes = self.codes()
        for name, value in parts.items():
            if name not in kind.places:
                getattr(self, name)  # the error
            at, of = kind.places[name]
            new = codes_of(frame, of, name, value)
            kept = codes & ~(((1 << of.width) - 1) << at)
            codes = kept | (new << at if isinstance(new, int) else (new << np.uint64(at)).view(np.int64))
        return Recorded(frame, kind, codes)

    def _kind(self) -> RecordKind:
        assert isinstance(self.kind, RecordKind)
        return self.kind


NOT_A_PART = frozenset(name for known in (Recorded, Item) for name in dir(known) if not name.startswith("_"))
"""Names that every column, or every plain record, has: no part can have them."""
