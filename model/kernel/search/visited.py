"""The keys of all states visited so far: as an exact set, and as a bounded sample that only counts.

`Visited` is a log-structured merge tree of a few sorted runs. Adding a run appends it; a run that is no
longer much larger than all newer ones together is merged with them. Every key is therefore merged a
logarithmic number of times, and a lookup searches a handful of runs, the newest first: a state that is
generated again was mostly first generated one or two levels before.

`Seen` counts distinct states in bounded memory. It keeps mixed keys, spread evenly over 64 bits. When more
are kept than the limit, the upper half of the key space is dropped for good: what is left is a fair sample
of one state in two, then in four, and so on, in whatever order and however often the states come. The
estimate is the number kept times that factor; its relative standard error is one over the square root of
the number kept, so a million kept keys err by a tenth of a percent.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from math import sqrt
from threading import Lock

import numpy as np

from fencepost.model.kernel.language.layout import U64, Mask
from fencepost.model.kernel.search.keys import distinct, fingerprints, mix, span
from fencepost.model.kernel.search.spill import resident

_RATIO = 2
"""A run that is at least this many times larger than all newer ones together is not merged."""

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
        """Replace every run by a copy in another place."""
        self._runs = [keep(run) for run in self._runs]

    def add(self, keys: U64) -> None:
        """Add sorted keys, none of which is in the set."""
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


class Seen:
    """A set of states that only counts them. Threads may share it."""

    def __init__(self, most: int) -> None:
        self._most = max(1, most)
        self._halvings = 0
        self._kept = Visited()
        self._lock = Lock()
        self.peak_bytes = 0

    @property
    def is_exact(self) -> bool:
        return self._halvings == 0

    @property
    def count(self) -> int:
        """The number of distinct states, exact or estimated."""
        return len(self._kept) << self._halvings

    @property
    def error(self) -> float:
        """The relative standard error of the count."""
        return 0.0 if self.is_exact else 1 / sqrt(max(1, len(self._kept)))

    @property
    def share(self) -> int:
        """One in this many states is kept."""
        return 1 << self._halvings

    def add(self, states: U64) -> None:
        """Count these states too."""
        mixed = fingerprints(states)
        if len(states) == 1:
            mixed = mixed.copy()
            mix(mixed, np.empty_like(mixed))
        mixed = distinct(mixed[np.newaxis]).keys
        with self._lock:
            new = self._below(mixed)
            new = new.compress(self._kept.unseen(new))
            if len(new):
                self._kept.add(new)
            while len(self._kept) > self._most:
                self._halvings += 1
                self._kept = self._kept.within(0, 1 << (64 - self._halvings))
                self._kept.move(np.copy)
            self.peak_bytes = max(self.peak_bytes, self._kept.nbytes + self._kept.merge_bytes)

    def _below(self, mixed: U64) -> U64:
        if self.is_exact:
            return mixed
        return mixed[: int(np.searchsorted(mixed, np.uint64(1 << (64 - self._halvings))))]
