"""How many different states have been seen: exact while they fit, then estimated.

States are remembered by a mixed key, spread evenly over 64 bits. When more are kept than the limit
allows, the upper half of the keys is forgotten, and from then on never kept: what is left is a fair
sample of one state in two, then in four, and so on, whatever order the states came in and however
often each came. The estimate is the number kept times that factor, with a relative standard error of
one over the square root of the number kept: a million kept keys err by a tenth of a percent.
"""

from math import sqrt
from threading import Lock

import numpy as np

from fencepost.model.kernel.keys import distinct, fingerprints
from fencepost.model.kernel.layout import U64
from fencepost.model.kernel.visited import Visited


class Seen:
    """A set of states that only says how many. Threads may share it."""

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
        """How many different states, exactly or about."""
        return len(self._kept) << self._halvings

    @property
    def error(self) -> float:
        """The relative standard error of the count."""
        return 0.0 if self.is_exact else 1 / sqrt(max(1, len(self._kept)))

    @property
    def share(self) -> int:
        """One in how many states is kept."""
        return 1 << self._halvings

    def add(self, states: U64) -> None:
        """Count these states as well."""
        mixed = distinct(_mixed(fingerprints(states))[np.newaxis]).keys
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


def _mixed(keys: U64) -> U64:
    """Different numbers for different keys, with every bit depending on every bit."""
    mixed = keys.copy()
    for shift, multiplier in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(multiplier)
    mixed ^= mixed >> np.uint64(31)
    return mixed
