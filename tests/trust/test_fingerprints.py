"""States of several words: different states have different fingerprints, also where their words are
correlated.

The words of a state are highly structured: few bits differ, often in the same places of several words. A mix
that does not spread every bit of a word before the next word is added lets such differences cancel each
other. Then states disappear, and "holds" is false.
"""

from itertools import combinations

import numpy as np
import pytest

from fencepost.model import Bool, Each, Machine, Truth, action, check, invariant, walk
from fencepost.model.kernel.search.keys import fingerprints


class Cancelled(Machine):
    """Bit 63 of the first word, or bits 34 and 63 of the second: 4 states, of which the last violates."""

    on = Each(128, Bool())

    @action
    def first(s) -> None:
        s.require(~s.on[63], ~s.on[98], ~s.on[127])
        s.on[63] = True

    @action
    def second(s) -> None:
        s.require(~s.on[63], ~s.on[98], ~s.on[127])
        s.on[98] = True

    @action
    def third(s) -> None:
        s.require(s.on[98], ~s.on[127])
        s.on[127] = True

    @invariant
    def never(s) -> Truth:
        return ~s.on[127]


LEFT, RIGHT = (60, 61, 62, 63), (31, 32, 33, 34, 60, 61, 62, 63)


class Switches(Machine):
    """Twelve independent switches in two words: 4,096 states."""

    left = Each(64, Bool())
    right = Each(64, Bool())

    @action(i=LEFT)
    def switch_left(s, i: int) -> None:
        s.left[i] = ~s.left[i]

    @action(i=RIGHT)
    def switch_right(s, i: int) -> None:
        s.right[i] = ~s.right[i]


def test_a_violating_state_does_not_share_its_fingerprint_with_an_earlier_one() -> None:
    result = check(Cancelled, keep_going=True, deadlock=False)
    assert (result.distinct, result["never"].verdict) == (4, "violated")


def test_independent_switches_in_two_words_have_all_their_states() -> None:
    assert check(Switches).distinct == 1 << 12
    assert walk(Switches, walks=2_000, steps=200).distinct == 1 << 12


@pytest.mark.parametrize("words", [2, 3, 5])
def test_states_that_differ_in_few_bits_of_two_words_have_different_fingerprints(words: int) -> None:
    """All sets of at most two flipped bits in each pair of words, around several states."""
    draw = np.random.default_rng(words)
    bases = [np.zeros(words, np.uint64), *draw.integers(0, 1 << 64, (3, words), np.uint64)]
    bits = np.uint64(1) << np.arange(64, dtype=np.uint64)
    one = np.concatenate([np.zeros(1, np.uint64), bits])
    two = np.unique(np.concatenate([one, *(one ^ bit for bit in bits)]))
    for base in bases:
        for first, second in combinations(range(words), 2):
            flips = np.zeros((words, len(two) * len(one)), np.uint64)
            flips[first], flips[second] = np.repeat(one, len(two)), np.tile(two, len(one))
            assert len(np.unique(fingerprints(flips ^ base[:, None]))) == flips.shape[1]


@pytest.mark.parametrize("words", [2, 3, 5])
def test_every_bit_of_a_state_changes_every_bit_of_the_fingerprint_half_of_the_time(words: int) -> None:
    """Avalanche, for words with random content and for words with few bits set."""
    draw = np.random.default_rng(words)
    random = draw.integers(0, 1 << 64, (words, 4_096), np.uint64)
    sparse = np.uint64(1) << draw.integers(0, 64, (words, 4_096), np.uint64)
    places = np.arange(64, dtype=np.uint64)
    for states in (random, sparse):
        before = fingerprints(states)
        for word in range(words):
            for bit in places:
                flipped = states.copy()
                flipped[word] ^= np.uint64(1) << bit
                changed = ((before ^ fingerprints(flipped)) >> places[:, None]) & np.uint64(1)
                assert np.abs(changed.mean(axis=1) - 0.5).max() < 0.06
