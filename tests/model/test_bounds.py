"""Bounds end a search with `undecided`, never with `holds`; and what it costs is counted."""

import pytest

from fencepost.model import BadSettings, check
from fencepost.model.textbook.two_phase import TwoPhase


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        ({"max_states": 100}, "the bound of 100 states"),
        ({"memory": 2_000}, "the memory limit of 2,000 bytes"),
        ({"max_depth": 4}, "the bound of 4 steps"),
    ],
)
def test_a_search_that_hits_a_bound_is_undecided(bounds, reason) -> None:
    result = check(TwoPhase, {"managers": 5}, **bounds)
    assert result.verdict == "undecided"
    assert result.stopped_by == reason
    assert result["agreement"].verdict == "undecided"
    assert result["agreement"].reason == f"stopped by {reason}"


def test_a_bound_just_large_enough_is_not_hit() -> None:
    assert check(TwoPhase, {"managers": 3}, max_states=288).verdict == "holds"
    assert check(TwoPhase, {"managers": 3}, max_states=287).verdict == "undecided"
    assert check(TwoPhase, {"managers": 3}, max_depth=10).distinct == 288


def test_a_violation_within_the_bound_is_still_one() -> None:
    result = check(TwoPhase, {"managers": 5}, without=["all-prepared"], max_depth=3)
    assert result.verdict == "violated"


@pytest.mark.parametrize("bounds", [{"max_states": 0}, {"memory": -1}, {"workers": 0}])
def test_a_bound_below_one_is_an_error(bounds) -> None:
    with pytest.raises(BadSettings, match="must be at least 1"):
        check(TwoPhase, **bounds)


def test_progress_is_reported_once_a_level() -> None:
    reports = []
    result = check(TwoPhase, {"managers": 3}, progress=reports.append)
    assert [progress.depth for progress in reports] == list(range(1, result.depth + 1))
    assert reports[-1].distinct == result.distinct
    assert sum(progress.frontier for progress in reports) == result.distinct


def test_memory_is_counted_for_levels_and_visited_keys() -> None:
    result = check(TwoPhase, {"managers": 5})
    assert result.peak_bytes >= 16 * result.distinct
    assert result.bytes_per_state < 40
    wide = check(TwoPhase, {"managers": 20}, max_depth=4)
    assert wide.words == 2
    assert wide.peak_bytes >= 24 * wide.distinct
    assert 0 < wide.collision_odds < 1e-9
