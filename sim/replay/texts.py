"""Text columns as numbers, and what patterns find in them: each distinct text is looked at once.

Arrow's engine works on whole columns in C; what Python sees here is one call a pattern, never one an event.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

I64 = NDArray[np.int64]
NONE = -1
"""The number of a text that is not there."""
_ALL = "fencepost_all"


@dataclass(frozen=True)
class Text:
    """A column: for each row the number of its text, and the distinct texts."""

    codes: I64
    values: pa.Array

    def number(self, text: str) -> int:
        """The number of a text; -2 when no row has it, so that it equals nothing."""
        found = pc.index(self.values, text).as_py()
        return found if found >= 0 else -2

    def is_in(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Which rows have one of the texts."""
        if not len(self.values):
            return np.zeros(len(self.codes), np.bool_)
        wanted = pc.is_in(self.values, value_set=pa.array(list(texts), pa.string()))
        return np.asarray(wanted.to_numpy(zero_copy_only=False))[self.codes]

    def take(self, rows: I64) -> "Text":
        return Text(self.codes[rows], self.values)


def text(column: pa.ChunkedArray | pa.Array) -> Text:
    """A column of text, dictionary or plain, as numbers."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode()
    values = whole.dictionary
    if values.type != pa.string():
        values = values.cast(pa.string())
    return Text(whole.indices.to_numpy().astype(np.int64), values)


def numbered(*columns: I64) -> tuple[I64, int]:
    """A number for each distinct row of some columns of numbers of at least -2, by first appearance."""
    mixed, width = columns[0] + 2, _width(columns[0])
    for column in columns[1:]:
        own = _width(column)
        if width * own >= 1 << 62:
            mixed, width = _dense(mixed)
        mixed = mixed * own + (column + 2)
        width *= own
    return _dense(mixed)


def _width(column: I64) -> int:
    return int(column.max()) + 3 if len(column) else 1


def _dense(mixed: I64) -> tuple[I64, int]:
    found = pa.array(mixed).dictionary_encode()
    return found.indices.to_numpy().astype(np.int64), len(found.dictionary)


def firsts(codes: I64, count: int) -> I64:
    """The first row of each number."""
    found = np.zeros(count, np.int64)
    found[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return found


def extracted(values: pa.Array, pattern: str) -> tuple[NDArray[np.bool_], dict[str, pa.Array]]:
    """Which texts a pattern matches as a whole, and what its named groups caught; nothing is null."""
    found = pc.extract_regex(values, rf"\A(?P<{_ALL}>(?s:{_only_named(pattern)}))\z")
    valid = np.asarray(found.is_valid().to_numpy(zero_copy_only=False))
    names = [found.type.field(number).name for number in range(found.type.num_fields)]
    caught = {}
    for name in names:
        if name != _ALL:
            part = pc.if_else(found.is_valid(), found.field(name), pa.scalar(None, pa.string()))
            caught[name] = pc.if_else(pc.equal(part, ""), pa.scalar(None, pa.string()), part)
    return valid, caught


def fact(values: pa.Array, name: str) -> pa.Array:
    """The value of one trace field in each text of trace fields; null where the text lacks it."""
    found = pc.extract_regex(values, rf"(?:^| ){re.escape(name)}=(?P<value>[^ ]*)")
    part = pc.if_else(found.is_valid(), found.field("value"), pa.scalar(None, pa.string()))
    return pc.if_else(pc.equal(part, ""), pa.scalar(None, pa.string()), part)


def _only_named(pattern: str) -> str:
    """The pattern with groups that have no name not capturing, which is what the column engine takes."""
    pieces, at = [], 0
    for match in re.finditer(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?!\?)", pattern):
        if match[0] == "(":
            pieces += [pattern[at : match.start()], "(?:"]
            at = match.end()
    return "".join([*pieces, pattern[at:]])
