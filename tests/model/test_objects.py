"""The machines of an object store on a directory: what holds, what each safeguard is for, how each fails."""

import pytest

from fencepost.model import Machine, check
from fencepost.model.handoff import Handoff
from fencepost.model.objects import Objects
from fencepost.model.uploads import Uploads
from tests.model.counterexamples import steps, verdicts

DISTINCT = {Objects: 960_783, Uploads: 637, Handoff: 348}
TWO_WRITERS = {
    "writers": 2
}  # enough for a race of two requests; `refused_in_a_race` needs a third that comes first


@pytest.mark.parametrize("machine", [pytest.param(Objects, marks=pytest.mark.slow), Uploads, Handoff])
def test_everything_holds_at_the_default_size(machine: type[Machine]) -> None:
    result = check(machine)
    assert verdicts(result) == {}
    assert result.distinct == DISTINCT[machine]
    assert result.vacuity_warnings == ()


def test_two_writers_reach_no_violation() -> None:
    result = check(Objects, TWO_WRITERS)
    assert verdicts(result) == {"refused_in_a_race": "violated"}
    assert result.distinct == 9_390


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "sizes"),
    [(Objects, {"crashes": 2}), (Uploads, {"completions": 3, "crashes": 3}), (Handoff, {"failures": 5})],
)
def test_everything_holds_with_more_faults(machine: type[Machine], sizes: dict[str, int]) -> None:
    assert verdicts(check(machine, sizes)) == {}


NEEDED = {
    Objects: {
        "atomic-create": "one_winner",
        "key-lock": "cas_exact",
        "condition-under-lock": "cas_exact",
        "fsync-before-publish": "untorn",
        "attributes-before-publish": "untorn",
        "directory-flush": "event_true",
        "index-after-publish": "list_true",
        "event-after-publish": "event_true",
        "reconcile": "list_true",
        "flush-before-reconcile": "event_true",
        "atomic-rename": "ack_durable",
    },
    Uploads: {
        "upload-lock": "published_once",
        "publish-is-record": "aborted_for_good",
        "parts-checked": "whole_object",
        "upload-age": "upload_safe",
        "age-under-lock": "upload_safe",
        "record-before-removal": "refusal_is_true",
    },
    Handoff: {
        "owner-lock": "one_owner",
        "seal-before-begin": "nothing_lost",
        "drain-before-seal": "nothing_lost",
        "resume-on-abort": "always_served",
        "supervisor-listens": "no_connection_refused",
        "restart-on-end": "always_served",
    },
}


@pytest.mark.parametrize("machine", NEEDED)
def test_every_switch_has_an_expected_violation(machine: type[Machine]) -> None:
    assert set(NEEDED[machine]) == {*machine.safeguards, *machine.assumptions}


@pytest.mark.parametrize(
    ("machine", "switch"), [(machine, switch) for machine, switches in NEEDED.items() for switch in switches]
)
def test_without_a_switch_its_property_is_violated(machine: type[Machine], switch: str) -> None:
    needs_three = machine is not Objects or switch in ("key-lock", "condition-under-lock")
    found = verdicts(check(machine, None if needs_three else TWO_WRITERS, without=[switch]))
    assert found[NEEDED[machine][switch]] == "violated"


def test_without_a_flush_of_the_directory_an_acknowledged_write_is_lost() -> None:
    """The shortest violation is another one: the event precedes the durable change."""
    result = check(Objects, TWO_WRITERS, without=["directory-flush"], keep_going=True)
    assert verdicts(result)["ack_durable"] == "violated"


def test_two_creates_that_look_first_both_succeed() -> None:
    """The race of an implementation that evaluates the condition and then renames."""
    result = check(Objects, TWO_WRITERS, without=["atomic-create"])
    found = [step.split("(")[0] for step in steps(result, "one_winner")]
    assert found == ["stage", "create", "stage", "create", "rename", "rename"]


def test_a_successor_that_ends_after_it_was_ready_is_started_again() -> None:
    found = steps(check(Handoff, without=["restart-on-end"]), "always_served")
    assert found[-2:] == ["successor_crashes()", "commit()"]
