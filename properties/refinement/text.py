"""Text columns as numbers: each distinct text is looked at once, however many rows hold it.

`Values` are the distinct texts of a column: lists here, which is enough for one run, and Arrow arrays for
millions of rows in `sim.trace.columns`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]
_DIGITS = 1000
"""Python refuses to read a number of more than 4,300."""
NONE = -1
"""The number of a text that is absent."""
NO_ROW = -2
"""The number of a text that no row has: it equals nothing."""


class Values:
    """Distinct texts, here in a list; None is an absent one."""

    def __init__(self, texts: Sequence[str | None]) -> None:
        self._texts = list(texts)

    def __len__(self) -> int:
        return len(self._texts)

    def take(self, places: I64) -> "Values":
        return Values([self._texts[place] for place in places.tolist()])

    def texts(self, places: I64) -> list[str | None]:
        """The texts at some places, None at `NONE`."""
        return [None if place == NONE else self._texts[place] for place in places.tolist()]

    def index(self, text: str) -> int:
        """The place of a text, or `NO_ROW`."""
        return self._texts.index(text) if text in self._texts else NO_ROW

    def is_in(self, texts: Sequence[str]) -> Mask:
        return np.array([text in texts for text in self._texts], np.bool_)

    def extract(self, pattern: str) -> tuple[Mask, dict[str, "Values"]]:
        """Which texts a pattern matches as a whole, and what its groups matched; an empty group is absent."""
        compiled = _compiled(pattern)
        found = [compiled.fullmatch(text or "") for text in self._texts]
        groups = {
            name: Values([(match[name] or None) if match else None for match in found])
            for name in compiled.groupindex
        }
        return np.array([match is not None for match in found], np.bool_), groups

    def trace_field(self, name: str) -> "Values":
        """The value of one trace field in texts of trace fields; an empty field is absent."""
        compiled = _compiled(rf"(?:^|.* ){re.escape(name)}=(?P<value>[^ ]*)(?: .*)?")
        found = [compiled.fullmatch(text or "") for text in self._texts]
        return Values([(match["value"] or None) if match else None for match in found])

    def first_words(self) -> "Values":
        """Each text up to its first space."""
        return Values([text and text.split(" ", 1)[0] for text in self._texts])

    def decimals(self) -> tuple[I64, Mask]:
        """Every text as a number modulo 2^64, so that differences stay exact, and whether it is one."""
        decimal = [bool(text) and re.fullmatch("[0-9]+", text or "") is not None for text in self._texts]
        modulo = [
            modulo64(text or "") if good else 0 for text, good in zip(self._texts, decimal, strict=True)
        ]
        return np.array(modulo, np.uint64).view(np.int64), np.array(decimal, np.bool_)

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Values":
        return cls(texts)

    @classmethod
    def merged(cls, pieces: Sequence["Values"]) -> tuple[I64, "Values"]:
        """All pieces in a row as numbers into distinct texts, `NONE` for absent ones."""
        known: dict[str, int] = {}
        codes = [
            NONE if text is None else known.setdefault(text, len(known))
            for piece in pieces
            for text in piece._texts  # noqa: SLF001 - of its own class
        ]
        return np.array(codes, np.int64), cls(list(known))

    @staticmethod
    def dense(numbers: I64) -> tuple[I64, int]:
        """Numbers by first appearance, and how many there are."""
        known: dict[int, int] = {}
        codes = [known.setdefault(number, len(known)) for number in numbers.tolist()]
        return np.array(codes, np.int64), len(known)

    @classmethod
    def numbered(cls, *columns: I64) -> tuple[I64, int]:
        """A number for each distinct row of columns of numbers, by first appearance."""
        columns = tuple(column if _small(column) else cls.dense(column)[0] for column in columns)
        mixed, width = columns[0] + 2, _width(columns[0])
        for column in columns[1:]:
            own = _width(column)
            if width * own >= 1 << 62:
                mixed, width = cls.dense(mixed)
            mixed = mixed * own + (column + 2)
            width *= own
        return cls.dense(mixed)


def modulo64(decimal: str) -> int:
    """A decimal number of any length, modulo 2^64."""
    number = 0
    for at in range(0, len(decimal), _DIGITS):
        digits = decimal[at : at + _DIGITS]
        number = (number * 10 ** len(digits) + int(digits)) % (1 << 64)
    return number


def _small(column: I64) -> bool:
    """Return True if numbers can be shifted and multiplied; those of a damaged trace may be too large."""
    return not len(column) or (int(column.min()) >= NONE - 1 and int(column.max()) < 1 << 40)


def _width(column: I64) -> int:
    return int(column.max()) + 3 if len(column) else 1


@dataclass(frozen=True)
class Text:
    """A column: for each row the number of its text, and the distinct texts."""

    codes: I64
    values: Any
    """`Values`, or a derived class; columns of one table have the same."""

    def number(self, text: str) -> int:
        return int(self.values.index(text))

    def is_in(self, texts: Sequence[str]) -> Mask:
        """Which rows have one of the texts."""
        if not len(self.values):
            return np.zeros(len(self.codes), np.bool_)
        found: Mask = self.values.is_in(texts)[self.codes]
        return found

    def take(self, rows: I64) -> "Text":
        return Text(self.codes[rows], self.values)

    def texts(self) -> list[str | None]:
        found: list[str | None] = self.values.texts(self.codes)
        return found

    def at(self, row: int) -> str:
        return str(self.values.texts(self.codes[row : row + 1])[0])

    def replaced(self, rows: Mask, text: str) -> "Text":
        """The column with one text in some rows."""
        if not rows.any():
            return self
        return recoded(np.where(rows, len(self.values), self.codes), self.values, text)

    def used(self, rows: I64) -> I64:
        """The places of the distinct texts that some rows have."""
        used = np.zeros(len(self.values), np.bool_)
        used[self.codes[rows]] = True
        return np.flatnonzero(used)


def recoded(codes: I64, values: Any, text: str) -> Text:
    """The column of these codes, where the number behind the last is one more text."""
    places, distinct = values.merged([values, values.of([text])])
    return Text(places[codes], distinct)


def firsts(codes: I64, count: int) -> I64:
    """The first row of each number."""
    found = np.zeros(count, np.int64)
    found[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return found


@lru_cache(1 << 10)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)


def python_text(texts: Sequence[str]) -> Text:
    """A column of text in Python lists."""
    return Text(*Values.merged([Values(texts)]))
