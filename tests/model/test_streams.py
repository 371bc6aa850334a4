"""The machine of streams: what holds, what each safeguard is for, why other designs were rejected."""

import re
from pathlib import Path

import pytest

from fencepost.commands.models import find_machine
from fencepost.model import action, check
from fencepost.model.streams import Streams
from tests.model.counterexamples import steps, verdicts

ROOT = Path(__file__).parents[2]
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
    "Chained": ({"troubles": 0}, "no_resurrection", 7),
    "DeletesBeforeCreating": ({"epochs": 1, "lives": 1}, "no_resurrection", 5),
    "ScansManifestsAlone": (SMALL, "eventually_empty", 8),
    "ServesTails": (TWO_APPENDS, "cursor_honest", 8),
    "OffsetsWithoutLineage": (SMALL, "cursor_honest", 11),
}


@pytest.mark.parametrize("design", REJECTED)
def test_a_rejected_design_has_a_counterexample(design) -> None:
    sizes, name, length = REJECTED[design]
    machine = find_machine(f"{ROOT}/docs/decisions/rejected_streams.py:{design}")
    assert issubclass(machine, Streams)
    result = check(machine, sizes)
    assert {found for found, verdict in verdicts(result).items() if verdict == "violated"} == {name}
    assert len(steps(result, name)) == length


def test_every_rejected_design_is_tried() -> None:
    """And the record quotes the command of each."""
    source = (ROOT / "docs/decisions/rejected_streams.py").read_text()
    assert set(re.findall(r"^class (\w+)", source, re.MULTILINE)) == set(REJECTED)
    record = (ROOT / "docs/decisions/0020-streams.md").read_text()
    assert all(f"rejected_streams.py:{design}" in record for design in REJECTED)


class RunsAhead(Streams):
    """A reader that takes an offset beyond what the manifest lists."""

    @action
    def read(s) -> None:
        s.require(s.reading > 0, s.is_live(), s.reads == s.manifest.life, s.position < s.appends)
        s.position += 1


def test_a_reader_that_runs_ahead_is_caught() -> None:
    assert check(RunsAhead, {**ONE_LIFE, "reading": 1})["cursor_honest"].verdict == "violated"
