"""Notifications of accepted batches: what holds, what each safeguard is for, what a lost one costs."""

import functools
from typing import Any

import pytest

from fencepost.model import Model, check
from fencepost.model.ingest_notified import EVERY, LENGTH, IngestNotified
from tests.model.counterexamples import steps, verdicts

ALONE = {"receivers": 1}
"""What one receiver can do wrong needs no other."""


def proof(result: Any) -> Any:
    (found,) = (one for one in result.properties if one.kind == "refinement")
    return found


def test_everything_holds_with_one_receiver() -> None:
    result = check(IngestNotified, ALONE)
    assert (verdicts(result), result.distinct) == ({}, 340_221)
    assert result.never_fired == ()
    assert proof(result).proof.distinct == result.distinct


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{}, {"crashes": 2}, {"ticks": 5}, {"lost": 0}])
def test_everything_holds_where(sizes: dict[str, int]) -> None:
    result = check(IngestNotified, sizes)
    assert set(verdicts(result).values()) <= {"unreachable"}
    assert proof(result).verdict == "holds"


NEEDED = {
    "repair-before-acknowledge": ("acknowledged_repaired", 3),
    "mark-late": ("acknowledged_counted", 9),
    "mark-what-exists": ("acknowledged_counted", 10),
    "search-late-places": ("counted_in_the_end", 6),
    "cursor-overlap": ("acknowledged_counted", 8),
    "searches-go-on": ("bounded_search", 1 + EVERY + LENGTH + 1),
}


@functools.cache
def without(switch: str) -> Any:
    return check(IngestNotified, ALONE, without=[switch])


def test_every_switch_has_an_expected_violation() -> None:
    assert set(NEEDED) == {*IngestNotified.safeguards, *IngestNotified.assumptions}


@pytest.mark.parametrize("switch", NEEDED)
def test_without_a_switch_its_property_is_violated(switch: str) -> None:
    name, length = NEEDED[switch]
    assert verdicts(without(switch))[name] == "violated"
    assert len(steps(without(switch), name)) == length


def test_a_lost_notification_is_what_the_search_is_for() -> None:
    """The counterexample without it loses the notification, or the collector dies and no receiver works."""
    names = [step.partition("(")[0] for step in steps(without("search-late-places"), "counted_in_the_end")]
    assert "vanish" in names
    assert names.index("list_places") < names.index("follow_up")


def test_the_refinement_covers_acceptance_and_the_indexes() -> None:
    (link,) = (one.refines for one in Model(IngestNotified).properties if one.refines is not None)
    assert set(link.part) == {"blob_stands", "accepted", "indexed"}


class WritesBeforeAcceptance(IngestNotified):
    """A receiver that believes a notification, without looking for the manifest."""

    def may_receive(s) -> Any:
        return True


def test_an_index_of_a_batch_that_is_not_accepted_breaks_the_refinement() -> None:
    found = proof(check(WritesBeforeAcceptance, ALONE, keep_going=True))
    assert found.verdict == "violated"
    assert "indexed" in found.reason
