"""Random machines with states of several words, in every mode of exploration, against a naive explorer.

If these fail, a mode loses states or invents them, and "holds" is worth nothing in it.
"""

from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fencepost.model import ModellingMistake, check, walk
from fencepost.model.kernel.search import explore, keys
from tests.trust.wide_machines import MOST, Alike, Naive, Wide, alike_machines, wide_machines

some = settings(deadline=None, suppress_health_check=list(HealthCheck))
many = settings(some, max_examples=max(20, settings.default.max_examples // 5))

SMALL_WORK = explore.Work(chunk=5, pending=7, wave=2, waiting=11, parts=3, nbytes=0)
"""So little at a time that spaces of a hundred states need many chunks, waves and merges."""


def few_keys(states: np.ndarray) -> np.ndarray:
    """Fingerprints of which there are only a few: most states share theirs with others."""
    return (states[0] ^ (states[-1] >> np.uint64(62))) % np.uint64(5)


def agree(wide: Wide, naive: Naive, **options) -> None:
    result = check(wide.machine(), keep_going=True, workers=1, **options)
    assert result.words == 5
    assert result.distinct == len(naive.depth_of)
    assert result.generated == 1 + len(naive.edges)
    assert result.depth == 1 + max(naive.depth_of.values())
    for name, (verdict, length) in wide.expected(naive).items():
        found = result[name]
        steps = None if found.counterexample is None else len(found.counterexample)
        assert (found.verdict, steps) == (verdict, length), name


@some
@given(wide_machines())
def test_every_state_is_found_and_every_verdict_is_that_of_a_naive_explorer(wide: Wide) -> None:
    agree(wide, wide.naive())


@many
@given(wide_machines())
def test_an_exact_search_needs_no_fingerprints(wide: Wide) -> None:
    naive = wide.naive()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "fingerprints", few_keys)
        agree(wide, naive, exact=True)
        patch.setattr(explore.Work, "within", lambda *_: SMALL_WORK)
        agree(wide, naive, exact=True)


def test_without_exact_the_same_fingerprints_lose_states() -> None:
    """What the test above compares with must be able to fail."""
    lost = Counter()

    @many
    @given(wide_machines())
    def search(wide: Wide) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(keys, "fingerprints", few_keys)
            lost[check(wide.machine(), deadlock=False).distinct < len(wide.naive().depth_of)] += 1

    search()
    assert lost[True] > lost[False] / 10


@many
@given(wide_machines(), st.booleans())
def test_what_is_on_disk_is_found_again(tmp_path_factory, wide: Wide, exact: bool) -> None:
    naive = wide.naive()
    folder = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explore, "LEAST_MEMORY", 1)
        patch.setattr(explore.Work, "within", lambda *_: SMALL_WORK)
        result = check(wide.machine(), keep_going=True, memory=8_000, spill=folder, exact=exact)
        assert result.distinct == len(naive.depth_of)
        for name, (verdict, _) in wide.expected(naive).items():
            assert result[name].verdict in (verdict, "undecided"), name
            assert result[name].verdict == verdict or result[name].kind == "always_recoverable"


@many
@given(wide_machines(), st.integers(100, 4_000))
def test_a_limit_without_a_disk_never_holds_for_what_it_left_out(wide: Wide, memory: int) -> None:
    naive = wide.naive()
    result = check(wide.machine(), keep_going=True, memory=memory)
    for name, (verdict, _) in wide.expected(naive).items():
        assert result[name].verdict in (verdict, "undecided"), name
    if result.distinct < len(naive.depth_of):
        assert result.stopped_by


@many
@given(wide_machines())
def test_walks_see_only_what_is_there(wide: Wide) -> None:
    naive = wide.naive()
    result = walk(wide.machine(), walks=300, steps=30, keep_going=True, workers=1)
    assert result.distinct <= len(naive.depth_of)
    for name, (verdict, length) in wide.expected(naive).items():
        found = result[name]
        assert found.verdict in (verdict, "undecided"), name
        if found.counterexample is not None:
            assert length is not None
            assert len(found.counterexample) == length, "of so few states the shortest is found"


@pytest.mark.slow
@settings(some, max_examples=max(20, settings.default.max_examples // 20))
@given(wide_machines(most=7), st.booleans())
def test_larger_spaces_agree_as_well(tmp_path_factory, wide: Wide, exact: bool) -> None:
    naive = wide.naive()
    agree(wide, naive, exact=exact)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explore, "LEAST_MEMORY", 1)
        options = {"memory": 100_000, "spill": tmp_path_factory.getbasetemp(), "keep_going": True}
        result = check(wide.machine(), deadlock=False, exact=exact, **options)
        assert result["never"].verdict == wide.expected(naive)["never"][0]
    assert walk(wide.machine(), walks=3_000, steps=60, deadlock=False).distinct <= len(naive.depth_of)


def verdicts(alike: Alike, naive: Naive) -> str:
    return "violated" if any(map(alike.is_bad, naive.depth_of)) else "holds"


@many
@given(alike_machines(), st.booleans())
def test_symmetry_keeps_the_verdict_of_a_naive_explorer(alike: Alike, exact: bool) -> None:
    naive = alike.naive()
    assume(len(naive.depth_of) <= MOST)
    plain = check(alike.machine(), keep_going=True, workers=1)
    reduced = check(alike.machine(), keep_going=True, workers=1, symmetry=True, exact=exact)
    orbits = {tuple(sorted(zip(*[iter(state)] * 3, strict=True))) for state in naive.depth_of}
    assert (plain.words, plain.distinct, reduced.distinct) == (6, len(naive.depth_of), len(orbits))
    assert plain["never"].verdict == reduced["never"].verdict == verdicts(alike, naive)
    if reduced["never"].counterexample is not None:
        bad = [depth for state, depth in naive.depth_of.items() if alike.is_bad(state)]
        assert len(reduced["never"].counterexample) == min(bad)


def test_a_false_claim_of_symmetry_is_an_error_or_changes_nothing() -> None:
    seen = Counter()

    @some
    @given(alike_machines(favour=True))
    def claim(alike: Alike) -> None:
        naive = alike.naive()
        assume(len(naive.depth_of) <= MOST)
        try:
            result = check(alike.machine(), keep_going=True, workers=1, symmetry=True)
        except ModellingMistake as error:
            seen["is not symmetric in members" in str(error)] += 1
        else:
            assert result["never"].verdict == verdicts(alike, naive)
            seen["kept"] += 1

    claim()
    assert seen[True] > 5
    assert seen["kept"] > 5
    assert not seen[False]
