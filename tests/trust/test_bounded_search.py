"""A search that leaves out states gives a reason, and nothing of it holds."""

import pytest

from fencepost.model import Bool, Each, Int, Machine, PropertyResult, Truth, action, check, invariant
from fencepost.model.kernel.report.result import CheckResult


class Broad(Machine):
    """Four numbers that are set once each: most states are on the last level.

    The states are wide, so the level before the last one is expanded in several waves.
    """

    number = Each(4, Int(0, 17))
    padding = Each(1024, Bool())

    @action(i=4, to=tuple(range(1, 18)))
    def set_number(s, i: int, to: int) -> None:
        s.require(s.number[i] == 0)
        s.number[i] = to

    @invariant
    def small(s) -> Truth:
        return s.number[0] <= 17


STATES = 18**4


@pytest.mark.parametrize("megabytes", [8, 12, 16, 20, 28, 40])
def test_a_memory_limit_leaves_out_no_state_without_a_reason(megabytes: int) -> None:
    """The condition that ends a level early must not be stricter than the one that ends the search."""
    result = check(Broad, memory=megabytes << 20, workers=1, deadlock=False)
    assert (result["small"].verdict == "holds") == (result.distinct == STATES and not result.stopped_by)
    if not result.stopped_by:
        assert result.distinct == STATES


def test_an_undecided_property_without_a_reason_cannot_be_made() -> None:
    with pytest.raises(AssertionError, match="is undecided without a reason"):
        PropertyResult("p", "invariant", "undecided")


@pytest.mark.parametrize(("verdict", "stopped_by"), [("holds", "the bound of 10 states"), ("undecided", "")])
def test_a_result_that_hides_its_bound_cannot_be_made(verdict, stopped_by) -> None:
    parts = {"distinct": 1, "generated": 1, "depth": 1, "seconds": 0.0, "peak_bytes": 8}
    with pytest.raises(AssertionError):
        CheckResult(
            model="m",
            parameters={},
            without=(),
            verdict=verdict,
            **parts,
            properties=(),
            coverage={},
            words=1,
            collision_odds=0.0,
            stopped_by=stopped_by,
        )
