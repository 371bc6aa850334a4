"""The keys of all states seen so far, as a few sorted runs.

Adding a run appends it; a run that is no longer much smaller than what follows it is merged with
it, as a log-structured merge tree does. Every key is therefore merged a logarithmic number of
times, and a question meets a handful of runs. The newest run is asked first: a state seen again
was most often seen a level or two ago.
"""

from collections.abc import Callable
from concurrent.futures import Executor

import numpy as np

from fencepost.model.kernel.keys import span
from fencepost.model.kernel.layout import U64, Mask
from fencepost.model.kernel.spill import resident

_RATIO = 2
"""A run at least this many times larger than all newer ones together is left alone."""

_PARALLEL = 1 << 20
"""Merges smaller than this are not worth a second thread."""


class Visited:
    """A growing set of 64-bit keys."""

    def __init__(
        self,
        pool: Executor | None = None,
        parts: int = 1,
        allocate: Callable[[int], U64] = lambda size: np.empty(size, np.uint64),
    ) -> None:
        self._runs: list[U64] = []
        self._allocate = allocate
        self._pool = pool
        self._parts = parts
        self.merge_bytes = 0

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    @property
    def nbytes(self) -> int:
        """Memory held; runs on disk hold none."""
        return sum(resident(run) for run in self._runs)

    def move(self, keep: Callable[[U64], U64]) -> None:
        """Put every run somewhere else."""
        self._runs = [keep(run) for run in self._runs]

    def add(self, keys: U64) -> None:
        """Add sorted keys, none of which is there yet."""
        self.merge_bytes = 0
        if not len(keys):
            return
        merged = [keys]
        size = len(keys)
        while self._runs and len(self._runs[-1]) < _RATIO * size:
            size += len(self._runs[-1])
            merged.append(self._runs.pop())
        self.merge_bytes = 8 * size if len(merged) > 1 else 0
        self._runs.append(self._merge(merged, size))

    def within(self, low: int, high: int) -> "Visited":
        """The part of the set with low <= key < high, sharing the memory."""
        part = Visited()
        for run in self._runs:
            first, last = span(run, low, high)
            if last > first:
                part._runs.append(run[first:last])
        return part

    def unseen(self, keys: U64) -> Mask:
        """Which of some sorted keys are not in the set."""
        new = np.ones(len(keys), np.bool_)
        rows = None
        left = keys
        for run in reversed(self._runs):
            at = np.searchsorted(run, left)
            np.minimum(at, len(run) - 1, out=at)
            missing = run.take(at) != left
            rows = missing.nonzero()[0] if rows is None else rows.compress(missing)
            left = left.compress(missing)
            if not len(left):
                break
        if rows is not None:
            new[:] = False
            new[rows] = True
        return new

    def _merge(self, runs: list[U64], size: int) -> U64:
        if len(runs) == 1:
            return runs[0]
        merged = self._allocate(size)
        if self._pool is None or size < _PARALLEL:
            np.concatenate(runs, out=merged)
            merged.sort()
            return merged
        longest = max(runs, key=len)
        cuts = [int(longest[len(longest) * i // self._parts]) for i in range(1, self._parts)]
        bounds = [0, *cuts, 1 << 64]
        places = [[span(run, bounds[i], bounds[i + 1]) for run in runs] for i in range(self._parts)]
        ends = np.cumsum([sum(last - first for first, last in place) for place in places])

        def fill(part: int) -> None:
            target = merged[int(ends[part - 1]) if part else 0 : int(ends[part])]
            np.concatenate([run[a:b] for run, (a, b) in zip(runs, places[part], strict=True)], out=target)
            target.sort()

        list(self._pool.map(fill, range(self._parts)))
        return merged
