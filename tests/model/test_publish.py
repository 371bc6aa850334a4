"""The publish protocol's machine: what holds, what each safeguard is for, and that each property can fail."""

import functools
from pathlib import Path

import pytest

from fencepost.commands.models import find_machine
from fencepost.model import action, check
from fencepost.model.publish import Publish
from tests.model.counterexamples import steps, verdicts

# It holds.


@pytest.mark.slow
def test_everything_holds_at_the_default_size_and_every_action_of_one_opener_fires() -> None:
    result = check(Publish)
    assert verdicts(result) == {}
    assert result.distinct == 1_736_403
    assert result.never_fired == ("finish_undo",)  # takes a second opener
    assert result.vacuity_warnings == (
        "delete_version never happens with number=3",  # the newest that a run makes is never passed
        # The proof here is without faults. `test_publish_observed` has one with them.
        "observed: no action performs move_boundary, delete_manifests, delete_version, stage_again, "
        "head_lands, manifest_lands, recovery_leaves_to_rival, finish_undo of publish-observed at the sizes "
        "of the proof",
    )


@pytest.mark.slow
def test_everything_holds_without_bounded_landing() -> None:
    result = check(Publish, without=["bounded-landing"])
    assert verdicts(result) == {}


@pytest.mark.slow
def test_two_openers_at_once_change_nothing() -> None:
    result = check(Publish, {"openers": 2, "troubles": 0}, keep_going=True)
    assert set(verdicts(result)) <= {"rolled_forward", "rolled_back", "false_success"}


@pytest.mark.parametrize(
    ("sizes", "distinct", "out_of_reach"),
    [
        pytest.param(
            {"troubles": 0},
            100_041,
            {"rolled_forward", "rolled_back", "false_success"},
            marks=pytest.mark.slow,
        ),
        ({"writers": 1}, 3_518, {"retry_succeeds", "conflict", "false_success"}),
        (
            {"writers": 1, "claims": 0},
            259,
            {"retry_succeeds", "conflict", "unknown_outcome", "late_head_stepped_over", "false_success"},
        ),
        ({"writers": 1, "openers": 2}, 25_934, {"retry_succeeds", "conflict", "false_success"}),
    ],
)
def test_smaller_sizes_reach_no_violation_and_not_every_goal(sizes, distinct, out_of_reach) -> None:
    """The good situations that a size is too small for show that these properties can fail."""
    result = check(Publish, sizes, keep_going=True)
    assert set(verdicts(result)) == out_of_reach
    assert result.distinct == distinct


# Each safeguard.

NEEDED = {
    "create-only-manifest": "no_lost_write",
    "sidecar-before-heads": "no_head_ahead",
    "whole-plan-in-sidecar": "atomic_visibility",
    "epoch-check": "fenced",
    "grace-window": "live_writer",
    "shared-head": "referential_integrity",
    "pins-re-evaluated-on-retry": "referential_integrity",
    "inbound-check-on-removal": "referential_integrity",
    "boundary-check-after-sidecar": "no_lost_write",
    "manifests-held-for-plans": "no_lost_write",
    "retired-plans-recorded": "no_lost_write",
    "boundary-check-after-create": "no_lost_write",
    "read-back-on-unknown": "no_phantom",
    "late-head": "no_head_ahead",
    "linearizable-create": "no_lost_write",
    "bounded-skew": "left_alone",
}


@functools.cache
def without(switch: str):
    return check(Publish, Publish.shown_at.get(switch), without=[switch])


def test_every_switch_has_an_expected_violation() -> None:
    assert set(NEEDED) | {"bounded-landing"} == {*Publish.safeguards, *Publish.assumptions}
    assert set(Publish.shown_at) <= set(NEEDED)


@pytest.mark.parametrize("switch", NEEDED)
def test_without_a_switch_its_property_is_violated(switch) -> None:
    result = without(switch)
    assert [name for name, verdict in verdicts(result).items() if verdict == "violated"] == [NEEDED[switch]]


@pytest.mark.slow
@pytest.mark.parametrize("safeguard", [name for name in NEEDED if name in Publish.safeguards])
def test_without_a_safeguard_the_default_size_is_violated(safeguard) -> None:
    assert check(Publish, without=[safeguard]).verdict == "violated"


COUNTEREXAMPLES = {
    "sidecar-before-heads": [
        "begin(w=0, kind=both)",
        "stage(w=0)",
        "move_head(w=0, table=nodes)",
        "crash(w=0)",
    ],
    "whole-plan-in-sidecar": [
        "begin(w=0, kind=both)",
        "stage(w=0)",
        "crash(w=0)",
        "read_sidecar(o=0, w=0)",
        "head_lands(w=0, table=nodes)",
        "roll_forward(o=0, w=0)",
    ],
    "epoch-check": [
        "begin(w=0, kind=drop)",
        "stage(w=0)",
        "move_head(w=0, table=nodes)",
        "claim()",
        "create_manifest(w=0, answer=exists)",
        "create_manifest(w=0, answer=done)",
    ],
    "grace-window": [
        "begin(w=0, kind=add)",
        "stage(w=0)",
        "read_sidecar(o=0, w=0)",
        "classify(o=0, w=0)",
        "move_head(w=0, table=nodes)",
        "create_manifest(w=0, answer=done)",
    ],
    "shared-head": [
        "begin(w=0, kind=link)",
        "stage(w=0)",
        "move_head(w=0, table=edges)",
        "begin(w=1, kind=drop)",
        "create_manifest(w=0, answer=done)",
        "stage(w=1)",
        "move_head(w=1, table=nodes)",
        "create_manifest(w=1, answer=exists)",
        "create_manifest(w=1, answer=done)",
    ],
    "inbound-check-on-removal": [
        "begin(w=0, kind=link)",
        "stage(w=0)",
        "move_head(w=0, table=edges)",
        "create_manifest(w=0, answer=done)",
        "begin(w=1, kind=drop)",
        "stage(w=1)",
        "move_head(w=1, table=nodes)",
        "create_manifest(w=1, answer=done)",
    ],
    "boundary-check-after-sidecar": [
        "begin(w=0, kind=add)",
        "claim()",
        "claim()",
        "move_boundary()",
        "delete_manifests()",
        "stage(w=0)",
        "move_head(w=0, table=nodes)",
        "create_manifest(w=0, answer=done)",
    ],
    "manifests-held-for-plans": [
        "begin(w=0, kind=add)",
        "stage(w=0)",
        "move_head(w=0, table=nodes)",
        "claim()",
        "claim()",
        "move_boundary()",
        "delete_manifests()",
        "create_manifest(w=0, answer=done)",
    ],
    "retired-plans-recorded": [
        "begin(w=0, kind=link)",
        "stage(w=0)",
        "claim()",
        "read_sidecar(o=0, w=0)",
        "classify(o=0, w=0)",
        "retire_settled(o=0, w=0)",
        "move_head(w=0, table=edges)",
        "claim()",
        "move_boundary()",
        "delete_manifests()",
        "create_manifest(w=0, answer=done)",
    ],
    "boundary-check-after-create": [
        "begin(w=0, kind=add)",
        "claim()",
        "claim()",
        "move_boundary()",
        "delete_manifests()",
        "stage(w=0)",
        "move_head(w=0, table=nodes)",
        "create_manifest(w=0, answer=done)",
        "check_boundary(w=0)",
    ],
    "read-back-on-unknown": [
        "begin(w=0, kind=add)",
        "stage(w=0)",
        "move_head(w=0, table=nodes)",
        "create_manifest(w=0, answer=reply_lost)",
        "undo_own_ends(w=0)",
    ],
    "late-head": [
        "begin(w=0, kind=link)",
        "stage(w=0)",
        "claim()",
        "read_sidecar(o=0, w=0)",
        "classify(o=0, w=0)",
        "retire_settled(o=0, w=0)",
        "move_head(w=0, table=edges)",
        "crash(w=0)",
    ],
}


@pytest.mark.parametrize("safeguard", COUNTEREXAMPLES)
def test_the_shortest_counterexample_is_the_failure_that_the_safeguard_prevents(safeguard) -> None:
    assert steps(without(safeguard), NEEDED[safeguard]) == COUNTEREXAMPLES[safeguard]


def test_two_writers_that_create_the_same_id_lose_a_write() -> None:
    for switch in ("create-only-manifest", "linearizable-create"):
        trace = steps(without(switch), "no_lost_write")
        assert [step for step in trace if step.startswith("create_manifest")] == [
            "create_manifest(w=1, answer=done)",
            "create_manifest(w=0, answer=done)",
        ]


def test_without_the_epoch_check_the_head_of_a_fenced_writer_wedges_the_others() -> None:
    result = check(Publish, {"writers": 1}, without=["epoch-check"], keep_going=True)
    assert {"fenced", "no_head_ahead", "no_wedge"} <= set(verdicts(result))


def test_without_bounded_skew_a_slow_writer_is_disturbed_and_nothing_else_breaks() -> None:
    result = check(Publish, {"writers": 1}, without=["bounded-skew"], keep_going=True)
    assert set(verdicts(result)) == {"left_alone", "retry_succeeds", "conflict", "false_success"}


@pytest.mark.slow
def test_without_bounded_skew_two_slow_writers_are_disturbed_and_nothing_else_breaks() -> None:
    result = check(Publish, {"troubles": 0}, without=["bounded-skew"], keep_going=True)
    assert set(verdicts(result)) == {"left_alone", "rolled_forward", "rolled_back", "false_success"}


# The other properties can fail as well.


class Unfinished(Publish):
    """Nobody commits an undo that was left behind."""

    finish_undo = None


def test_an_unfinished_undo_wedges_the_writers_of_its_epoch() -> None:
    """Two openers of one epoch: the sidecar is retired while the other one undoes, and that one dies."""
    result = check(Unfinished, {"writers": 1, "openers": 2}, keep_going=True)
    assert steps(result, "no_wedge") == [
        "begin(w=0, kind=both)",
        "stage(w=0)",
        "claim()",
        "read_sidecar(o=0, w=0)",
        "classify(o=0, w=0)",
        "read_sidecar(o=1, w=0)",
        "move_head(w=0, table=nodes)",
        "classify(o=1, w=0)",
        "undo_head(o=1, w=0, table=nodes)",
        "give_up(o=1)",
        "retire_settled(o=0, w=0)",
    ]


class Careless(Publish):
    """Cleanup takes whatever version stands."""

    @action(table=("nodes", "edges"), number=2)
    def delete_version(s, table: str, number: int) -> None:
        versions = s.version[table]
        s.require(versions[number].is_there)
        versions[number].delete()


class Forgetful(Publish):
    """A writer that does not know its own head."""

    @action(w=Publish.writers)
    def again(s, w: int) -> None:
        s.require(s.version["nodes"][0].holds(plan=w, undo=False) & ~s.version["nodes"][1].is_there)
        s.version["nodes"][1].create("done", plan=w, undo=False, epoch=s.plan[w].began)


@pytest.mark.parametrize(("machine", "name"), [(Careless, "cleanup_safe"), (Forgetful, "same_plan")])
def test_a_broken_machine_is_violated(machine, name) -> None:
    result = check(machine, {"writers": 1}, keep_going=True)
    assert result[name].verdict == "violated"


# Rejected rules for deleting the records of retired plans (decision 0059).

REJECTED = Path(__file__).parents[2] / "docs/decisions/rejected_publish.py"


@pytest.mark.parametrize(
    ("rule", "violates"),
    [("ForgetsFenced", True), ("ForgetsSettled", True), ("ForgetsEnded", False)],
)
def test_a_record_goes_only_when_its_writer_has_ended(rule: str, violates: bool) -> None:
    """The counterexamples need one writer: it creates a manifest on an id that cleanup has deleted."""
    machine = find_machine(f"{REJECTED}:{rule}")
    assert issubclass(machine, Publish)
    result = check(machine, {"writers": 1})
    assert ("no_lost_write" in verdicts(result)) == violates
    if violates:
        assert "forget_record" in " ".join(steps(result, "no_lost_write"))
    else:
        assert verdicts(result) == verdicts(check(Publish, {"writers": 1}))
