"""States of several words: different states have different fingerprints, also where their words are
correlated.

The words of a state are highly structured: few bits differ, often in the same places of several words. A mix
that does not spread every bit of a word before the next word is added lets such differences cancel each
other. Then states disappear, and "holds" is false.
"""

from itertools import combinations
from math import comb
from pathlib import Path

import numpy as np
import pytest

from fencepost.model import (
    Bool,
    Each,
    Enum,
    Int,
    Machine,
    Size,
    Truth,
    action,
    all_of,
    any_of,
    case,
    check,
    invariant,
    walk,
)
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


class Nodes(Machine):
    """64 nodes with four names each, of which some are busy at a time, and at most two hold."""

    busy = Size(2, most=64)
    node = Each(64, Enum("idle", "asks", "waits", "holds"))

    @action(n=64)
    def move(s, n: int) -> None:
        name = s.node[n]
        s.require((name != "idle") | (s.node.count("idle") > 64 - s.busy))
        s.require((name != "waits") | (s.node.count("holds") < 2))
        after = {"idle": "asks", "asks": "waits", "waits": "holds"}
        s.node[n] = case(*((name == old, new) for old, new in after.items()), otherwise="idle")


def nodes(busy: int) -> int:
    """Each busy node has one of three names; three never hold."""
    return sum(comb(64, count) * (3**count - (count == 3)) for count in range(busy + 1))


class Paxos(Machine):
    """Single-decree Paxos with three acceptors and two values, as Lamport's specification has it."""

    ballots = Size(2, most=6)
    acceptors = Size(3)
    one_a = Each(ballots, Bool())
    one_b = Each(acceptors, Each(ballots, Int(0, 1 + 2 * ballots)))  # 0: not sent, 1: nothing accepted before
    two_a = Each(ballots, Int(0, 2))  # 0: not sent, else the value
    two_b = Each(acceptors, Each(ballots, Bool()))
    promised = Each(acceptors, Int(-1, ballots - 1))
    accepted = Each(acceptors, Int(0, 1 + 2 * ballots, start=1))  # as in one_b

    @action(b=ballots)
    def phase_1a(s, b: int) -> None:
        s.require(~s.one_a[b])
        s.one_a[b] = True

    @action(a=acceptors, b=ballots)
    def phase_1b(s, a: int, b: int) -> None:
        s.require(s.one_a[b], s.promised[a] < b)
        s.promised[a] = b
        s.one_b[a][b] = s.accepted[a]

    @action(b=ballots, v=(1, 2))
    def phase_2a(s, b: int, v: int) -> None:
        s.require(s.two_a[b] == 0)
        s.require(any_of(s.may_choose(b, v, pair) for pair in ((0, 1), (0, 2), (1, 2))))
        s.two_a[b] = v

    def may_choose(s, b: int, v: int, quorum: tuple[int, int]) -> Truth:
        """All of the quorum have answered, and v was accepted in their highest ballot, if any was."""
        answers = [s.one_b[a][b] for a in quorum]
        free = all_of(answer <= 1 for answer in answers)
        bound = [
            any_of(answer == 1 + 2 * m + v for answer in answers)
            & all_of(answer <= 3 + 2 * m for answer in answers)
            for m in range(b)
        ]
        return all_of(answer > 0 for answer in answers) & any_of([free, *bound])

    @action(a=acceptors, b=ballots)
    def phase_2b(s, a: int, b: int) -> None:
        s.require(s.two_a[b] > 0, s.promised[a] <= b, ~s.two_b[a][b])
        s.promised[a] = b
        s.accepted[a] = 1 + 2 * b + s.two_a[b]
        s.two_b[a][b] = True


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
def test_64_nodes_with_four_names_each_have_exactly_their_states(exact: bool) -> None:
    assert nodes(3) == 1_101_601
    assert check(Nodes, {"busy": 3}, exact=exact).distinct == 1_101_601


def test_few_busy_nodes_have_exactly_their_states() -> None:
    assert check(Nodes).distinct == nodes(2) == 18_337


@pytest.mark.slow
def test_paxos_has_the_states_that_an_exact_set_counts() -> None:
    """TLC counts the same with four ballots."""
    result = check(Paxos, {"ballots": 4}, deadlock=False)
    assert (result.words, result.distinct) == (2, 8_220_065)


def test_small_paxos_has_the_states_that_an_exact_set_counts() -> None:
    assert check(Paxos, deadlock=False).distinct == 3_921


@pytest.mark.spark
def test_on_spark_no_state_is_lost_either(tmp_path: Path) -> None:
    from fencepost.sim.spark import SparkEngine, start

    with start("local[2]", settings={"spark.sql.shuffle.partitions": "2"}) as session:
        engine = SparkEngine(session, tmp_path)
        assert (
            check(Cancelled, keep_going=True, deadlock=False, explore=engine)["never"].verdict == "violated"
        )
        for exact in (False, True):
            assert check(Switches, explore=engine, exact=exact).distinct == 1 << 12


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
