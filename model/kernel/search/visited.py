"""The keys of all states visited so far: as an exact set, and as a bounded sample that only counts.

`Visited` is a log-structured merge tree of a few sorted runs. Adding a run appends it; a run that is no
longer much larger than all newer ones together is merged with them. Every key is therefore merged a
logarithmic number of times, and a lookup searches a handful of runs, the newest first: a state that is
generated again was mostly first generated one or two levels before.

`Seen` counts distinct states in bounded memory. It keeps mixed keys, spread evenly over 64 bits. When more
are kept than the limit, the upper half of the key space is dropped for good. The rest is a fair sample of one
state in two, then in four, and so on, independent of the order and frequency of the states. The
estimate is the number kept times that factor; its relative standard error is one over the square root of
the number kept, so a million kept keys err by a tenth of a percent.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from math import sqrt
from threading import Lock

import numpy as np

from fencepost.model.kernel.language.layout import U64, Mask
from fencepost.model.kernel.search.keys import (
    Batch,
    concatenated,
    distinct,
    fingerprints,
    match,
    mix,
    of_keys,
    order_of,
)
from fencepost.model.kernel.search.spill import resident

_RATIO = 2
"""A run that is at least this many times larger than all newer ones together is not merged."""

_LEAST = 1 << 10
"""Smaller runs are merged whatever their sizes: a look into one more costs more than to sort so few."""

_PARALLEL = 1 << 20
"""Merges smaller than this are made at once; larger ones in ranges of keys, each by a thread."""


class Visited:
    """A growing set of states, by their keys. An `exact` one keeps the states too, and compares them."""

    def __init__(
        self,
        pool: Executor | None = None,
        parts: int = 1,
        allocate: Callable[[int], U64] = lambda size: np.empty(size, np.uint64),
        *,
        exact: bool = False,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self._runs: list[Batch] = []
        self._allocate = allocate
        self._release = release
        self._pool = pool
        self._parts = parts
        self._exact = exact
        self.merge_bytes = 0
        self._nbytes: int | None = 0

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    @property
    def nbytes(self) -> int:
        """Memory held; runs on disk hold none."""
        if self._nbytes is None:
            self._nbytes = sum(map(self._resident, self._runs))
        return self._nbytes

    def _resident(self, run: Batch) -> int:
        return resident(run.keys) + (resident(run.states) if self._exact else 0)

    def move(self, keep: Callable[[U64], U64]) -> None:
        """Replace every run by a copy in another place."""
        self._runs = [run.moved(keep) for run in self._runs]
        self._nbytes = None

    @property
    def runs(self) -> list[U64]:
        """The keys, in several sorted arrays."""
        return [run.keys for run in self._runs]

    def add(self, batch: Batch) -> None:
        """Add states, none of which is in the set."""
        self.merge_bytes = 0
        if not len(batch):
            return
        merged = [batch if self._exact else of_keys(batch.keys)]
        size = len(batch)
        while self._runs and len(self._runs[-1]) < max(_RATIO * size, _LEAST):
            size += len(self._runs[-1])
            merged.append(self._runs.pop())
        self._runs.append(self._merge(merged, size))
        self._nbytes = None
        self.merge_bytes = self._resident(self._runs[-1]) if len(merged) > 1 else 0

    def within(self, low: int, high: int) -> "Visited":
        """The part of the set with low <= key < high, sharing the memory."""
        if low <= 0 and high >= 1 << 64:
            return self
        part = Visited(exact=self._exact)
        part._runs = [inside for run in self._runs if len(inside := run.between(low, high))]
        return part

    def unseen(self, batch: Batch) -> Mask:
        """Which of some states are not in the set."""
        new = np.ones(len(batch), np.bool_)
        rows = None
        left = batch.keys
        for run in reversed(self._runs):
            at = np.searchsorted(run.keys, left)
            np.minimum(at, len(run) - 1, out=at)
            missing = run.keys.take(at) != left
            if self._exact:
                there = np.flatnonzero(~missing)
                states = batch.states.take(there if rows is None else rows.take(there), axis=1)
                missing[there] = ~match(run, at.take(there), states)
            rows = missing.nonzero()[0] if rows is None else rows.compress(missing)
            left = left.compress(missing)
            if not len(left):
                break
        if rows is not None:
            new[:] = False
            new[rows] = True
        return new

    def _merge(self, runs: list[Batch], size: int) -> Batch:
        if len(runs) == 1:
            return runs[0]
        keys = self._allocate(size)
        words = len(runs[0].states)
        merged = (
            Batch(keys, self._allocate(words * size).reshape(words, size)) if self._exact else of_keys(keys)
        )
        if size < _PARALLEL:
            _fill(merged, runs)
            return merged
        parts = max(self._parts, size // _PARALLEL)
        longest = max(runs, key=len).keys
        cuts = [int(longest[len(longest) * i // parts]) for i in range(1, parts)]
        bounds = [0, *cuts, 1 << 64]
        pieces = [[run.between(bounds[i], bounds[i + 1]) for run in runs] for i in range(parts)]
        ends = np.cumsum([sum(map(len, piece)) for piece in pieces]).tolist()

        def fill(part: int) -> None:
            _fill(merged.rows(ends[part - 1] if part else 0, ends[part]), pieces[part])
            self._release()

        list((self._pool.map if self._pool is not None else map)(fill, range(parts)))
        return merged


def _fill(target: Batch, runs: list[Batch]) -> None:
    """Write the states of some runs into `target`, sorted by their keys."""
    if len(target.states) == 1:
        np.concatenate([run.keys for run in runs], out=target.keys)
        target.keys.sort()
        return
    keys = np.concatenate([run.keys for run in runs])
    order = order_of(keys)
    target.keys[:] = keys.take(order)
    target.states[:] = concatenated([run.states for run in runs]).take(order, axis=1)


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
            new = of_keys(self._below(mixed))
            new = new.select(self._kept.unseen(new))
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
