"""Packed states by number: each is kept once, in the order in which they were first met."""

import numpy as np

from fencepost.model.kernel.language.layout import I64, U64


class Space:
    """A growing table of states."""

    def __init__(self, words: int) -> None:
        self._known: dict[bytes, int] = {}
        self._rows: U64 = np.empty((words, 64), np.uint64)

    def __len__(self) -> int:
        return len(self._known)

    def numbers(self, rows: U64) -> list[int]:
        """The numbers of states; new ones get the next."""
        if not rows.shape[1]:
            return []
        packed = np.ascontiguousarray(rows.T).tobytes()
        width = 8 * len(rows)
        known = self._known
        found = []
        for row, start in enumerate(range(0, len(packed), width)):
            key = packed[start : start + width]
            number = known.get(key)
            if number is None:
                number = self._add(key, rows[:, row])
            found.append(number)
        return found

    def rows(self, numbers: I64) -> U64:
        """States by their numbers."""
        return self._rows.take(numbers, axis=1)

    def _add(self, key: bytes, state: U64) -> int:
        number = len(self._known)
        if number == self._rows.shape[1]:
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)], axis=1)
        self._rows[:, number] = state
        self._known[key] = number
        return number
