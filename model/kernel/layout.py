"""Where every field lives in the packed state.

A state is a few 64-bit words. A field is a run of equal *cells*: one cell for a plain field, the
product of its dimensions for an array. The rules that place them:

- no cell ever straddles two words, so that reading one is a shift and a mask;
- a run that fits in one word is kept in one word, wherever there is room (largest run first): an
  element chosen by another column is then a variable shift of that single word;
- only a run wider than a word spans words, as many whole cells in each as fit; the rest of its last
  word stays free for others.

States are arrays of shape (words, states), so that a word of all states lies in one piece.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from fencepost.model.kernel.errors import ModellingMistake
from fencepost.model.kernel.kinds import Kind

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]

WORD = 64
MOST_WORDS = 32
"""The protocol of a state wider than 2,048 bits is not going to be explored: it keeps mistakes small."""


@dataclass(frozen=True)
class Slot:
    """A run of cells: of which kind, in which shape, and where."""

    name: str
    kind: Kind
    shape: tuple[int, ...]
    word: int
    shift: int
    in_word: int

    @property
    def count(self) -> int:
        return prod(self.shape)

    def place(self, index: int) -> tuple[int, int]:
        """The word and the shift of the cell `index` (flattened)."""
        if self.count <= self.in_word:
            return self.word, self.shift + index * self.kind.width
        return self.word + index // self.in_word, index % self.in_word * self.kind.width

    def spans_words(self) -> bool:
        return self.count > self.in_word


@dataclass(frozen=True)
class Layout:
    """All slots of a machine at given sizes."""

    slots: dict[str, Slot]
    words: int
    bits: int


def arrange(wanted: Iterable[tuple[str, Kind, tuple[int, ...]]]) -> Layout:
    """Place all runs; the answer depends only on the names, kinds and shapes, in order."""
    runs = list(wanted)
    bits = {name: kind.width * prod(shape) for name, kind, shape in runs}
    total = sum(bits.values())
    if total > MOST_WORDS * WORD:
        widest = sorted(bits.items(), key=lambda item: -item[1])[:3]
        raise ModellingMistake(
            f"a state of {total:,} bits is too wide (at most {MOST_WORDS * WORD:,}); the widest fields are "
            + ", ".join(f"{name} ({width:,} bits)" for name, width in widest)
            + "; give smaller sizes or bounds"
        )
    slots: dict[str, Slot] = {}
    used: list[int] = []
    for name, kind, shape in sorted(runs, key=lambda run: -bits[run[0]]):
        in_word = WORD // kind.width
        count = prod(shape)
        if count > in_word:
            slots[name] = Slot(name, kind, shape, len(used), 0, in_word)
            whole, rest = divmod(count, in_word)
            used += [in_word * kind.width] * whole + ([rest * kind.width] if rest else [])
            continue
        word = next((w for w, taken in enumerate(used) if taken + bits[name] <= WORD), len(used))
        if word == len(used):
            used.append(0)
        slots[name] = Slot(name, kind, shape, word, used[word], in_word)
        used[word] += bits[name]
    in_order = {name: slots[name] for name, _, _ in runs}
    return Layout(in_order, max(1, len(used)), total)
