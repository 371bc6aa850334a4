"""The machine of cursors: what holds, and what each safeguard and each promise of the log is for."""

import pytest

from fencepost.model import check
from fencepost.model.cursor import Cursor
from tests.model.counterexamples import steps, verdicts


def test_everything_holds_and_every_action_fires() -> None:
    result = check(Cursor)
    assert (verdicts(result), result.never_fired, result.distinct) == ({}, (), 167_053)


NEEDED = {
    "first-unfinished": ("honest", 10),
    "strict-past": ("passed_once", 9),
    "whole-positions": ("honest", 8),
    "late-entries": ("honest", 7),
    "fixed-cutoff": ("honest", 12),
    "compare-and-swap": ("honest", 8),
    "forward": ("forward_only", 10),
    "generations": ("honest", 9),
    "rewind-to-the-earlier": ("honest", 1),
    "loss-recorded": ("honest", 11),
    "bounded-lateness": ("honest", 8),
    "shown-start": ("honest", 11),
}


def test_every_switch_has_an_expected_violation() -> None:
    assert set(NEEDED) == {*Cursor.safeguards, *Cursor.assumptions}


@pytest.mark.parametrize("switch", NEEDED)
def test_without_a_switch_its_property_is_violated(switch) -> None:
    result = check(Cursor, Cursor.shown_at.get(switch), without=[switch])
    name, length = NEEDED[switch]
    assert [found for found, verdict in verdicts(result).items() if verdict == "violated"] == [name]
    assert len(steps(result, name)) == length


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{"entries": 3}, {"entries": 3, "overlap": 2, "losses": 0}])
def test_everything_holds_with_more_entries_and_with_an_overlap(sizes) -> None:
    assert verdicts(check(Cursor, sizes)) == {}


def test_an_overlap_must_exceed_the_lateness() -> None:
    """A pass that begins one entry before its position does not see the late one before that."""
    sizes = {"entries": 3, "readers": 1, "losses": 0, "late": 1}
    assert verdicts(check(Cursor, {**sizes, "overlap": 2})) == {"overtaken": "violated"}
    assert verdicts(check(Cursor, {**sizes, "overlap": 1}))["honest"] == "violated"


def test_times_alone_lose_an_entry_at_resuming_too() -> None:
    """Without a rewind: two entries share a time, and a reader stops between them."""
    sizes = {"late": 0, "losses": 0, "troubles": 0, "rewinds": 0}
    assert verdicts(check(Cursor, sizes, without=["whole-positions"]))["always_finished"] == "violated"
