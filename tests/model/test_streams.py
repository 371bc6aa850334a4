"""The machine of streams: what holds, what each safeguard is for, why other designs were rejected."""

import pytest

from fencepost.model import check
from fencepost.model.streams import Streams
from tests.model.counterexamples import steps, verdicts

SMALL = {"epochs": 2, "troubles": 0}
ONE_LIFE = {**SMALL, "lives": 1}
TWO_APPENDS = {"appends": 2, "epochs": 2, "lives": 1, "troubles": 0}


# It holds.


@pytest.mark.slow
def test_everything_holds_at_the_default_size() -> None:
    result = check(Streams)
    assert verdicts(result) == {}
    assert result.vacuity_warnings == ()
    assert set(result.never_fired) <= set(result.left_out)
    assert set(result.left_out) == {*Streams.fires_at, *Streams.changes_at}


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{**TWO_APPENDS, "troubles": 1}, {"reading": 1, "troubles": 0}])
def test_everything_holds_at_other_sizes(sizes) -> None:
    assert verdicts(check(Streams, sizes)) == {}


def test_everything_holds_at_a_small_size_with_a_reader() -> None:
    assert verdicts(check(Streams, {**ONE_LIFE, "reading": 1})) == {}


# Each safeguard.

NEEDED = {
    "terminal-before-data": ({"immutable_by_position", "manifest_last", "live_untouched"}, 9),
    "data-before-manifest": ({"manifest_last"}, 6),
    "verify-empty": ({"manifest_last"}, 7),
    "row-until-empty": ({"manifest_last"}, 5),
    "tombstone-short-circuit": ({"boot_never_bricks"}, 8),
    "uploader-filter": ({"no_resurrection"}, 5),
    "scan": ({"eventually_empty"}, 9),
    "recreate-lock": ({"live_untouched"}, 5),
    "fresh-epoch": ({"no_resurrection"}, 8),
    "expiry-skew-margin": ({"live_untouched"}, 3),
    "two-node-reap": ({"live_untouched"}, 7),
    "producer-fence": ({"append_once", "zombie_fenced"}, 8),
    "owner-fence": ({"zombie_fenced", "no_resurrection"}, 5),
    "segment-before-manifest": ({"manifest_last", "live_untouched"}, 4),
    "bounded-landing": ({"no_resurrection"}, 5),
}
SLOW = {"scan"}


def test_every_switch_has_an_expected_violation() -> None:
    assert set(NEEDED) == {*Streams.safeguards, *Streams.assumptions}


@pytest.mark.parametrize(
    "switch", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in NEEDED]
)
def test_without_a_switch_its_properties_are_violated(switch) -> None:
    result = check(Streams, Streams.shown_at.get(switch), without=[switch])
    broken, length = NEEDED[switch]
    assert {name for name, verdict in verdicts(result).items() if verdict == "violated"} == broken
    assert {len(steps(result, name)) for name in broken} == {length}


# The rejected designs of docs/decisions/0020-streams.md.

REJECTED = {
    "chained": ({"chained": 1, "troubles": 0}, "no_resurrection", 7),
    "swaps": ({"swaps": 0, "epochs": 1, "lives": 1}, "no_resurrection", 5),
    "orphans": ({"orphans": 0, **SMALL}, "eventually_empty", 8),
    "tail_reads": ({"tail_reads": 1, "reading": 1, **TWO_APPENDS}, "cursor_honest", 8),
    "tagged": ({"tagged": 0, "reading": 1, **SMALL}, "cursor_honest", 11),
}


@pytest.mark.parametrize("design", REJECTED)
def test_a_rejected_design_has_a_counterexample(design) -> None:
    sizes, name, length = REJECTED[design]
    result = check(Streams, sizes)
    assert {found for found, verdict in verdicts(result).items() if verdict == "violated"} == {name}
    assert len(steps(result, name)) == length
