"""Sorted sets of packed states, by a 64-bit key a state.

A state of one word is its own key, and everything below is exact. A wider state gets a 64-bit fingerprint:
two different states may then share a key. `odds` computes the probability, assuming that the fingerprint
behaves like a random function, and every result contains it (for 10 million states, about 1 in 370,000). Each
word is mixed with full avalanche before the next one is added: words of a state are correlated, and the
differences of two of them cancel each other under a weaker mix (tests/trust/test_fingerprints.py). The steps
are invertible, so two states that differ in a single word never collide.

An `exact` set compares the states themselves wherever two keys are equal. It may then hold several states of
one key, and no assumption about fingerprints is left.

Nothing here sorts indices, which is several times slower than sorting keys. If the states must follow their
keys, the row number replaces the low bits of the key, one plain sort orders both, and the few keys that agree
in all their high bits are corrected afterwards.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fencepost.model.kernel.language.layout import I64, U64, Mask

_MULTIPLIERS = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)


@dataclass(frozen=True)
class Batch:
    """A set of states: keys in rising order, each once, and the states in the same order.

    For states of one word the keys are the states, and the two share their memory.
    """

    keys: U64
    states: U64

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        return self.states.nbytes + (self.keys.nbytes if len(self.states) > 1 else 0)

    def select(self, mask: Mask) -> "Batch":
        if len(self.states) == 1:
            return of_keys(self.keys.compress(mask))
        return Batch(self.keys.compress(mask), self.states.compress(mask, axis=1))

    def rows(self, first: int, last: int) -> "Batch":
        """The part between two rows."""
        if len(self.states) == 1:
            return of_keys(self.keys[first:last])
        return Batch(self.keys[first:last], self.states[:, first:last])

    def moved(self, keep: Callable[[U64], U64]) -> "Batch":
        """A copy in another place."""
        return (
            of_keys(keep(self.keys)) if len(self.states) == 1 else Batch(keep(self.keys), keep(self.states))
        )

    def between(self, low: int, high: int) -> "Batch":
        """The part with low <= key < high."""
        if low <= 0 and high >= 1 << 64:
            return self
        return self.rows(*span(self.keys, low, high))


def of_keys(keys: U64) -> Batch:
    """The batch of one-word states that are already sorted and distinct."""
    return Batch(keys, keys[np.newaxis, :])


def empty(words: int) -> Batch:
    return Batch(np.empty(0, np.uint64), np.empty((words, 0), np.uint64))


def span(keys: U64, low: int, high: int) -> tuple[int, int]:
    """The range of low <= key < high in sorted keys."""
    first = int(np.searchsorted(keys, np.uint64(low))) if low > 0 else 0
    last = int(np.searchsorted(keys, np.uint64(high))) if high < 1 << 64 else len(keys)
    return first, last


def fingerprints(states: U64) -> U64:
    """The key of each state."""
    if len(states) == 1:
        only: U64 = states[0]
        return only
    mixed: U64 = states[0].copy()
    scratch = np.empty_like(mixed)
    mix(mixed, scratch)
    for word in states[1:]:
        mixed += word
        mix(mixed, scratch)
    return mixed


def mix(numbers: U64, scratch: U64) -> None:
    """Mix in place, invertibly, with full avalanche: the finalizer of MurmurHash3."""
    for multiplier in _MULTIPLIERS:
        np.right_shift(numbers, 33, out=scratch)
        numbers ^= scratch
        numbers *= np.uint64(multiplier)
    np.right_shift(numbers, 33, out=scratch)
    numbers ^= scratch


def distinct(states: U64, *, exact: bool = False) -> Batch:
    """The set of these states, in any order. May sort `states` of one word in place."""
    if len(states) == 1:
        states[0].sort()
        return of_keys(states[0].compress(_firsts(states[0])))
    return _distinct_keyed(fingerprints(states), states, exact)


def merge(batches: list[Batch], *, exact: bool = False) -> Batch:
    """The union of a few sets."""
    if len(batches) == 1:
        return batches[0]
    keys = np.concatenate([batch.keys for batch in batches])
    if len(batches[0].states) == 1:
        keys.sort()
        return of_keys(keys.compress(_firsts(keys)))
    return _distinct_keyed(keys, concatenated([batch.states for batch in batches]), exact)


def match(known: Batch, at: I64, states: U64) -> Mask:
    """Which states are in an exact set. `at` has the first row with the key of each, and then its own."""
    found = np.zeros(len(at), np.bool_)
    rows = np.arange(len(at))
    while len(rows):
        places = at.take(rows)
        same = (known.states.take(places, axis=1) == states.take(rows, axis=1)).all(axis=0)
        found[rows.compress(same)] = True
        # Other states with this key, if there are any, follow.
        after = np.minimum(places + 1, len(known) - 1)
        rows = rows.compress(~same & (after > places) & (known.keys.take(after) == known.keys.take(places)))
        at[rows] += 1
    return found


def concatenated(parts: list[U64]) -> U64:
    """Batches of states one after the other, always a new array."""
    if len(parts[0]) == 1:
        return np.concatenate([part[0] for part in parts])[np.newaxis, :]
    return np.concatenate(parts, axis=1)


def odds(words: int, states: int) -> float:
    """The probability that some two of `states` distinct states shared a key (0 for one word)."""
    return 0.0 if words == 1 else -float(np.expm1(-states * (states - 1) / 2 / 2.0**64))


def _firsts(keys: U64) -> Mask:
    """Which of sorted keys differ from the one before."""
    first = np.empty(len(keys), np.bool_)
    first[:1] = True
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return first


def _distinct_keyed(keys: U64, states: U64, exact: bool) -> Batch:
    if not len(keys):
        return Batch(keys, states)
    order = order_of(keys)
    sorted_keys = keys.take(order)
    first = _firsts(sorted_keys)
    if exact and not _repeated(states, order, first).all():
        order = np.lexsort((*states, keys))
        sorted_keys = keys.take(order)
        first = _firsts(sorted_keys)
        at = np.flatnonzero(~first)
        first[at] = ~_repeated(states, order, first)
    return Batch(sorted_keys.compress(first), states.take(order.compress(first), axis=1))


def _repeated(states: U64, order: I64, first: Mask) -> Mask:
    """Of the rows whose key is that of the row before: which have the same state too."""
    at = np.flatnonzero(~first)
    same: Mask = (states.take(order.take(at), axis=1) == states.take(order.take(at - 1), axis=1)).all(axis=0)
    return same


def order_of(keys: U64) -> I64:
    """The permutation that sorts keys."""
    bits = max(1, (len(keys) - 1).bit_length())
    low = (1 << bits) - 1
    tagged = keys & ((1 << 64) - 1 - low)
    tagged |= np.arange(len(keys), dtype=np.uint64)
    tagged.sort()
    tagged &= low
    order: I64 = tagged.view(np.int64)
    sorted_keys = keys.take(order)
    if (sorted_keys[1:] < sorted_keys[:-1]).any():
        # Keys that agree in all high bits are in row order: nearly sorted, so this is quick.
        order = order.take(np.argsort(sorted_keys, kind="stable"))
    return order
