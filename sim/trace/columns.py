"""Text columns of events in Arrow arrays: one call into C a pattern, none a row.

`properties.refinement.rules` reads events by columns; for millions of rows it does so on these.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.properties.refinement.rules import Events
from fencepost.properties.refinement.text import I64, NO_ROW, NONE, Mask, Text, Values, firsts, modulo64

COLUMNS = (
    "run",
    "seq",
    "process",
    "incarnation",
    "op",
    "phase",
    "kind",
    "key",
    "condition",
    "outcome",
    "trace_fields",
)
"""The columns of a trace that verdicts need."""
_ALL = "fencepost_all"
_DIGITS_MAX = 18


class ArrowValues(Values):
    """Distinct texts in an Arrow array of strings."""

    def __init__(self, array: pa.Array) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def take(self, places: I64) -> "ArrowValues":
        return ArrowValues(self.array.take(pa.array(places)))

    def texts(self, places: I64) -> list[str | None]:
        found: list[str | None] = self.array.take(pa.array(places, mask=places == NONE)).to_pylist()
        return found

    def index(self, text: str) -> int:
        found: int = pc.index(self.array, text).as_py()
        return found if found >= 0 else NO_ROW

    def is_in(self, texts: Sequence[str]) -> Mask:
        found = pc.is_in(self.array, value_set=pa.array(list(texts), pa.string()))
        return np.asarray(found.to_numpy(zero_copy_only=False))

    def extract(self, pattern: str) -> tuple[Mask, dict[str, Values]]:
        found = pc.extract_regex(self.array, rf"\A(?P<{_ALL}>(?s:{_only_named(pattern)}))\z")
        matched = np.asarray(found.is_valid().to_numpy(zero_copy_only=False))
        names = [found.type.field(number).name for number in range(found.type.num_fields)]
        return matched, {name: ArrowValues(_group(found, name)) for name in names if name != _ALL}

    def trace_field(self, name: str) -> "ArrowValues":
        found = pc.extract_regex(self.array, rf"(?:^| ){re.escape(name)}=(?P<value>[^ ]*)")
        return ArrowValues(_group(found, "value"))

    def first_words(self) -> "ArrowValues":
        return ArrowValues(pc.extract_regex(self.array, r"\A(?P<word>[^ ]*)").field("word"))

    def decimals(self) -> tuple[I64, Mask]:
        decimal = pc.match_substring_regex(self.array, r"\A[0-9]+\z").to_numpy(zero_copy_only=False)
        bare = pc.utf8_ltrim(self.array, "0")
        short = decimal & (pc.utf8_length(bare).to_numpy() <= _DIGITS_MAX)
        plain = pc.if_else(pc.and_(pa.array(short), pc.not_equal(bare, "")), bare, "0")
        numbers = plain.cast(pa.int64()).to_numpy().copy()
        for row in np.flatnonzero(decimal & ~short).tolist():
            value = modulo64(bare[row].as_py())
            numbers[row] = value - (1 << 64) if value >> 63 else value
        return numbers, decimal

    @classmethod
    def of(cls, texts: Sequence[str]) -> "ArrowValues":
        return cls(pa.array(list(texts), pa.string()))

    @classmethod
    def merged(cls, pieces: Sequence[Values]) -> tuple[I64, "ArrowValues"]:
        arrays = [piece.array.cast(pa.string()) for piece in pieces if isinstance(piece, cls)]
        assert len(arrays) == len(pieces), "values of Arrow merge with their like"
        whole = pa.concat_arrays(arrays).dictionary_encode()
        return whole.indices.fill_null(NONE).to_numpy().astype(np.int64), cls(whole.dictionary)

    @staticmethod
    def dense(numbers: I64) -> tuple[I64, int]:
        found = pa.array(numbers).dictionary_encode()
        return found.indices.to_numpy().astype(np.int64), len(found.dictionary)


numbered = ArrowValues.numbered


def text(column: pa.ChunkedArray | pa.Array) -> Text:
    """A column of text, dictionary or plain, as numbers."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode()
    values = whole.dictionary
    if values.type != pa.string():
        values = values.cast(pa.string())
    return Text(whole.indices.to_numpy().astype(np.int64), ArrowValues(values))


def events(table: pa.Table) -> Events:
    """The columns of a table of events in order."""
    run = text(table["run"])
    # Runs are renumbered by appearance, so that their numbers rise along the table.
    code, count = numbered(run.codes)
    names = run.values.take(run.codes[firsts(code, count)])
    columns: dict[str, Any] = {name: table[name].to_numpy() for name in ("seq", "incarnation", "op")}
    columns |= {name: text(table[name]) for name in COLUMNS if name not in ("run", *columns)}
    if "etag" in table.column_names:
        columns["etag"] = text(table["etag"])
    return Events(run=code, runs=names, **columns)


def _group(found: pa.Array, name: str) -> pa.Array:
    """Return the text of a group, null where it matched nothing."""
    part = pc.if_else(found.is_valid(), found.field(name), pa.scalar(None, pa.string()))
    return pc.if_else(pc.equal(part, ""), pa.scalar(None, pa.string()), part)


def _only_named(pattern: str) -> str:
    """The pattern with its unnamed groups non-capturing, as the column engine requires."""
    pieces, at = [], 0
    for match in re.finditer(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?!\?)", pattern):
        if match[0] == "(":
            pieces += [pattern[at : match.start()], "(?:"]
            at = match.end()
    return "".join([*pieces, pattern[at:]])
