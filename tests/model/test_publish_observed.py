"""The publish protocol as the store shows it: its properties, and the proof that the model refines it.

If these fail, replay and lockstep judge runs by a machine that is not the protocol.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from fencepost.model import Machine, Model, action, check
from fencepost.model.kernel.report.result import PropertyResult
from fencepost.model.kernel.search.explore import Explorer
from fencepost.model.kernel.search.refinement import prove
from fencepost.model.publish import Publish
from fencepost.model.publish_observed import TABLES, PublishObserved
from tests.model.counterexamples import verdicts

ONE_WRITER = {"writers": 1}
"""A writer with a crash or a lost reply, a claim, a cleanup, an opener."""
ALONE = {"writers": 1, "troubles": 0}
TWO_CLAIMS = {"writers": 1, "claims": 2}
RIVALS = {"claims": 0, "troubles": 0}


def proof(
    sizes: Mapping[str, int], *, without: tuple[str, ...] = (), observed: type[Machine] = PublishObserved
) -> PropertyResult:
    """The verdict on the refinement at these sizes; `observed` may be a mutant of the observed machine."""
    model = Model(Publish, dict(sizes), without=without)
    (declared,) = [each for each in model.properties if each.refines is not None]
    wanted = replace(declared, refines=replace(declared.refines, machine=observed, at={}))
    result, *_ = prove(wanted, model, lambda product: Explorer(product, deadlocks=False).run())
    return result


def pairs(result: PropertyResult) -> int:
    assert result.proof is not None
    return result.proof.distinct


# The properties hold, although this machine allows more than the model.


def test_everything_holds_with_one_plan_and_one_claim() -> None:
    result = check(PublishObserved)
    assert verdicts(result) == {}
    assert (result.distinct, result.generated) == (33_546, 199_265)


@pytest.mark.slow
def test_everything_holds_with_two_plans() -> None:
    result = check(PublishObserved, {"writers": 2, "claims": 0}, keep_going=True)
    assert set(verdicts(result)) == {"late_head_stepped_over", "false_success"}, "these need a claim"


def test_clocks_that_differ_disturb_a_slow_writer_and_break_nothing_else() -> None:
    result = check(PublishObserved, without=["bounded-skew"], keep_going=True)
    assert set(verdicts(result)) == {"left_alone"}


# The model refines it.


@pytest.mark.parametrize(
    ("sizes", "without", "explored"),
    [
        (ONE_WRITER, (), 6_354),
        ({"writers": 1, "openers": 2}, (), 47_604),
        ({"claims": 0}, (), 26_786),
        (ONE_WRITER, ("bounded-skew",), 37_480),
        (ONE_WRITER, ("bounded-skew", "bounded-landing"), 37_480),
        pytest.param({"troubles": 0}, (), 241_835, marks=pytest.mark.slow),
        pytest.param({"troubles": 0, "openers": 2}, (), 1_813_124, marks=pytest.mark.slow),
        pytest.param({}, (), 4_864_763, marks=pytest.mark.slow),
    ],
)
def test_every_step_of_the_model_is_one_of_the_observed_machine(sizes, without, explored) -> None:
    result = proof(sizes, without=without)
    assert (result.verdict, result.reason) == ("holds", "")
    assert pairs(result) == explored


# A safeguard that is off shows in the store.

SHOWN_BY = {
    "create-only-manifest": (ONE_WRITER, "create_manifest"),
    "sidecar-before-heads": (ONE_WRITER, "stage"),
    "whole-plan-in-sidecar": (ONE_WRITER, "roll_forward"),
    "epoch-check": (ONE_WRITER, "create_manifest"),
    "grace-window": (ONE_WRITER, "read_sidecar"),
    "shared-head": (ONE_WRITER, "create_manifest"),
    "pins-re-evaluated-on-retry": (RIVALS, "create_manifest"),
    "boundary-check-after-sidecar": (TWO_CLAIMS, "create_manifest"),
    "manifests-held-for-plans": (TWO_CLAIMS, "create_manifest"),
    "retired-plans-recorded": (TWO_CLAIMS, "create_manifest"),
    "boundary-check-after-create": (TWO_CLAIMS, "check_boundary"),
    "read-back-on-unknown": (ONE_WRITER, "undo_own_head"),
    "late-head": (ONE_WRITER, "leave_to_rival"),
    "linearizable-create": (ONE_WRITER, "create_manifest"),
}
"""For each switch the sizes, and the step that the observed machine does not allow."""
NOT_SHOWN = {"inbound-check-on-removal": "it concerns rows, and the store shows pins"}


def test_every_safeguard_shows_in_the_store_or_is_excused() -> None:
    assert set(Publish.safeguards) <= {*SHOWN_BY, *NOT_SHOWN}


@pytest.mark.parametrize("switch", SHOWN_BY)
def test_without_a_safeguard_the_model_leaves_the_observed_machine(switch) -> None:
    sizes, step = SHOWN_BY[switch]
    result = proof(sizes, without=(switch,))
    assert result.verdict == "violated"
    assert result.counterexample is not None
    assert result.counterexample.lines()[-1].split(". ", 1)[1].startswith(step), result.reason


@pytest.mark.parametrize("switch", NOT_SHOWN)
def test_a_safeguard_of_rows_does_not_show(switch) -> None:
    assert proof(RIVALS, without=(switch,)).verdict == "holds"


# A mutant of the observed machine does not admit the model.


class ForgetsReaders(PublishObserved):
    """A sidecar that was read does not count once it is gone."""

    @action(w=PublishObserved.writers)
    def recovery_retires(s, w: int) -> None:
        s.require(s.recovery[w].owed, s.plan[w].sidecar)
        s.plan[w].sidecar = False
        for epoch in range(s.claims + 1):
            s.recovery[w].read[epoch] = False


class RetiresOnlySettled(PublishObserved):
    """A sidecar is retired only once its plan is settled."""

    @action(w=PublishObserved.writers)
    def recovery_retires(s, w: int) -> None:
        s.require(s.recovery[w].owed, s.plan[w].sidecar, s.is_settled(w))
        s.plan[w].sidecar = False


class CountsHeads(PublishObserved):
    """A writer commits after its first head."""

    @action(w=PublishObserved.writers, table=TABLES)
    def move_head(s, w: int, table: str) -> None:
        s.require(s.writer[w].at == "heads", s.touches(w, table))
        s.require(s.place(table, w, s.plan[w].began) == "free")
        s.create_head(table, w, s.plan[w].began)
        s.writer[w].at = "commit"


class ShowsLatePins(PublishObserved):
    """The manifest of a plan pins its tables one commit too late."""

    def publish(s, w: int, new: object = True) -> None:
        s.add_manifest(new)
        s.plan[w].manifest = s.last


@pytest.mark.parametrize(
    ("mutant", "sizes"),
    [
        (ForgetsReaders, {"writers": 1, "openers": 2}),
        (RetiresOnlySettled, ALONE),
        (CountsHeads, ALONE),
        (ShowsLatePins, ALONE),
    ],
)
def test_a_mutant_that_refuses_a_step_or_shows_another_state_is_caught(mutant, sizes) -> None:
    result = proof(sizes, observed=mutant)
    assert result.verdict == "violated", mutant.__doc__
    assert result.reason


# A machine that allows more may still be refined, so a mutant that allows too much must break a property.


class CommitsFenced(PublishObserved):
    """A writer of an earlier epoch commits."""

    def may_commit(s, w: int):
        return s.expectations_hold(w)


class RetiresAny(PublishObserved):
    """Recovery retires every sidecar that it has read."""

    @action(w=PublishObserved.writers)
    def recovery_settles(s, w: int) -> None:
        s.require(s.plan[w].sidecar)
        s.recovery[w].owed = True


class DeletesAny(PublishObserved):
    """Cleanup deletes whatever version exists."""

    @action(table=TABLES, number=PublishObserved.numbers)
    def delete_version(s, table: str, number: int) -> None:
        s.require(s.version[table][number].is_there)
        s.version[table][number].delete()


@pytest.mark.parametrize(
    ("mutant", "name"),
    [(CommitsFenced, "fenced"), (RetiresAny, "no_head_ahead"), (DeletesAny, "cleanup_safe")],
)
def test_a_mutant_that_allows_too_much_breaks_a_property(mutant, name) -> None:
    assert check(mutant)[name].verdict == "violated"


# What it allows beyond the former machine of replay.


def test_a_create_is_sent_again_after_its_id_was_deleted() -> None:
    """The reply was lost, others committed, and cleanup deleted the id: the writer finds no object."""
    model = Model(PublishObserved)
    labels = {str(label): label for label in model.labels}
    state = model.initial()
    for step in (
        "stage(w=0, kind=add, parent=0)",
        "move_head(w=0, table=nodes)",
        "create_manifest(w=0)",
        "claim()",
        "move_boundary(to=2)",
        "delete_manifests()",
        "create_manifest(w=0)",
    ):
        state = model.successors(state, labels[step]).states
        assert state.shape[1], step
    assert model.unpack(tuple(int(word) for word in state[:, 0]))["last"] == 3, "no reader finds it"


def test_one_plan_leaves_out_the_manifests_and_versions_of_further_plans() -> None:
    """If this fails, the machine has another part that its default size never tests."""
    assert check(PublishObserved).vacuity_warnings == (
        "move_boundary never happens with to=0, 4",
        "delete_version never happens with number=1",
        "stage never happens with parent=2, 3, 4",
    )
