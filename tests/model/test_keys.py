"""Sets of packed states: what is lost or doubled here is lost or doubled in every exploration."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.model.kernel.search import keys
from fencepost.model.kernel.search.visited import Visited

KEYS = st.lists(st.integers(0, 2**64 - 1), max_size=40)
CROWDED = st.lists(st.integers(0, 7), max_size=40)  # all agree in their high bits, and most repeat


@given(st.one_of(KEYS, CROWDED))
def test_keys_are_sorted_and_their_states_follow(numbers: list[int]) -> None:
    """The row number takes the place of low bits: keys that differ only there must still come out sorted."""
    found = keys._distinct_keyed(
        np.array(numbers, np.uint64), np.array([numbers, [n // 3 for n in numbers]], np.uint64), exact=False
    )
    assert found.keys.tolist() == sorted(set(numbers))
    assert found.states[0].tolist() == found.keys.tolist()
    assert found.states[1].tolist() == [n // 3 for n in sorted(set(numbers))]


@given(st.lists(CROWDED, min_size=1, max_size=5), CROWDED)
def test_visited_keys_are_known_and_no_others(added: list[list[int]], queried: list[int]) -> None:
    visited, known = Visited(), set()
    for numbers in added:
        new = sorted(set(numbers) - known)
        visited.add(keys.of_keys(np.array(new, np.uint64)))
        known |= set(new)
    queries = np.array(sorted(set(queried)), np.uint64)
    assert visited.unseen(keys.of_keys(queries)).tolist() == [key not in known for key in queries.tolist()]
    assert len(visited) == len(known)


def test_states_that_differ_in_one_word_never_share_a_fingerprint() -> None:
    words = np.arange(50_000, dtype=np.uint64)
    same = np.full(50_000, 7, np.uint64)
    for states in (np.stack([words, same]), np.stack([same, words])):
        assert len(np.unique(keys.fingerprints(states))) == 50_000


def test_the_odds_of_a_collision_are_those_of_the_birthday_problem() -> None:
    assert keys.odds(1, 10**9) == 0.0
    assert keys.odds(2, 10**7) == pytest.approx(2.7e-6, rel=0.01)
