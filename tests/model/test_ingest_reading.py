"""Who sees an accepted batch, and when: what holds, and which order of a query's requests it needs."""

from typing import Any

import pytest

from fencepost.model import check
from fencepost.model.ingest_reading import IngestReading
from tests.model.counterexamples import steps, verdicts

ALONE = {"readers": 1}
"""Queries share nothing."""


def proof(result: Any) -> Any:
    (found,) = (one for one in result.properties if one.kind == "refinement")
    return found


def test_everything_holds_with_one_reader() -> None:
    result = check(IngestReading, ALONE)
    assert (verdicts(result), result.distinct, result.never_fired) == ({}, 42_644, ())
    # It marks a violation.
    assert result.vacuity_warnings == ("the same in every reachable state, for nothing changes it: missed",)
    assert (proof(result).verdict, proof(result).proof.distinct) == ("holds", 42_644)


@pytest.mark.slow
def test_everything_holds_with_two_readers() -> None:
    result = check(IngestReading)
    assert (verdicts(result), result.distinct) == ({}, 1_255_210)


NEEDED = {
    "agent-from-manifests": ({"seen_by_agent"}, 3),
    "uncounted-before-chunks": ({"counted_once"}, 14),
    "cursor-before-marks": ({"counted_once"}, 13),
    "mark-before-pass": ({"counted_once"}, 12),
    "named-chunks": ({"counted_once", "never_twice"}, 12),
    "members-excluded": ({"counted_once", "never_twice"}, 13),
}


def test_every_switch_has_an_expected_violation() -> None:
    assert set(NEEDED) == {*IngestReading.safeguards, *IngestReading.assumptions}


@pytest.mark.parametrize("switch", NEEDED)
def test_without_a_switch_its_properties_are_violated(switch: str) -> None:
    result = check(IngestReading, ALONE, without=[switch])
    broken, length = NEEDED[switch]
    assert {name for name, verdict in verdicts(result).items() if verdict == "violated"} == broken
    assert {len(steps(result, name)) for name in broken} == {length}
