"""The audit of the publish library: it holds, it sees every broken safeguard, and its own eyes are tested."""

from typing import Any

import pytest

from fencepost.commands.systems import find_system
from fencepost.impl.publish import SAFEGUARDS
from fencepost.impl.publish.context import Notice
from fencepost.sim.explore import AuditOutcome, audit
from fencepost.sim.explore.reporting import bind
from fencepost.sim.explore.runs import Setting
from fencepost.sim.explore.tokens import follow, read
from fencepost.sim.systems.publish import SYSTEM
from fencepost.sim.systems.publish.run import promises
from fencepost.sim.systems.publish.scenarios import SCENARIOS, SMALL
from fencepost.sim.world import Budget
from fencepost.testing import FAULTS, request_of
from tests.depth import examples
from tests.impl.publish.scripted import MUTANTS

COUNTEREXAMPLES = {
    "create-only-manifest": "no-lost-write",
    "sidecar-before-heads": "no-wedge at rest",
    "whole-plan-in-sidecar": "referential-integrity",
    "epoch-check": "fenced",
    "grace-window": "live-writer",
    "shared-head": "referential-integrity",
    "pins-re-evaluated-on-retry": "referential-integrity",
    "reads-checked-within-group": "atomic-visibility",
    "requests-recorded": "no-phantom",
    "requests-searched": "no-phantom",
    "inbound-check-on-removal": "referential-integrity",
    "boundary-check-after-sidecar": "no-lost-write",
    "manifests-held-for-plans": "no-lost-write",
    "retired-plans-recorded": "no-lost-write",
    "boundary-check-after-create": "no-lost-write",
    "read-back-on-unknown": "no-phantom",
    "late-head": "no-wedge at rest",
}
"""What breaks first without each safeguard."""
QUICK = (
    "sidecar-before-heads",
    "epoch-check",
    "shared-head",
    "pins-re-evaluated-on-retry",
    "reads-checked-within-group",
    "requests-recorded",
    "requests-searched",
    "inbound-check-on-removal",
)


def explored(
    mutant: str | None = None, seconds: float | None = None, schedules: int | None = None, **parameters: Any
) -> AuditOutcome:
    system = find_system("publish", mutant)
    faults = {name: parameters.pop(name) for name in FAULTS if name in parameters}
    request = request_of(system.function, system.options, parameters, "publish")
    budget = Budget(**{**(system.options.faults or {}), **faults})
    # Short counterexamples are for people; here they would only take time.
    limits = {"seconds": seconds, "schedules": schedules, "minimise_seconds": 0.2}
    return audit(request.program, budget=budget, steps_max=600, others=False, **limits)


def replay(function: Any, token: str, parameters: dict[str, Any]) -> list[tuple[str, Any]]:
    """The notes of the one run that the token stands for."""
    again = follow(
        Setting(bind(function, "publish", parameters), Budget(crash=1, reply_lost=1, request_lost=1)),
        read(token),
    )
    assert not again.misfit
    assert again.violation is None
    return [(topic, value) for topic, notes in again.world.noted.items() for _, value in notes]


@pytest.mark.parametrize(
    "scenario", ["skew", "rivals", "two-tables", "joiner", "takeover", "impatient", "served"]
)
def test_every_order_without_faults_holds(scenario: str) -> None:
    result = explored(scenario=scenario, crash=0, reply_lost=0, request_lost=0)
    assert result.verdict == "holds", result


@pytest.mark.slow
def test_a_write_skew_with_a_crash_at_every_step_holds() -> None:
    result = explored(scenario="skew", reply_lost=0, request_lost=0)
    assert result.verdict == "holds", result
    assert result.coverage.faults["crash"] > 50
    assert {("put", "done"), ("put", "exists"), ("list", "done")} <= result.coverage.outcomes.keys()


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["crash", "reply_lost", "request_lost"])
def test_two_servers_publish_a_request_once_whatever_fails(fault: str) -> None:
    result = explored(scenario="served", **{"crash": 0, "reply_lost": 0, "request_lost": 0, fault: 1})
    assert result.verdict == "holds", result
    assert result.coverage.faults[fault] > 10


RESTAGED = (
    "ann:put:recovery/*:1=reply_lost,ann:get:branch/main/manifest/00000000000000000004.json:1,bob:finish::1=crash,"
    "ann:get:branch/main/manifest/00000000000000000004.json:3,bob:list:recovery/:2"
).replace("*", "01HF7YAT01KFQ47S8RB47PP291.json")


def test_a_fenced_plan_that_had_not_moved_is_retired_and_may_still_come() -> None:
    """Its writer lost the reply to the sidecar, writes it once more, and is rolled forward by the
    next opener. `live-writer` took the first opener's retiring for a promise, which only undoing is.
    """
    again = replay(find_system("publish").function, RESTAGED, {"scenario": "takeover"})
    outcomes = [value for topic, value in again if topic == "outcome ann renames"]
    assert [outcome for outcome, *_ in outcomes] == ["acked"]
    assert not [value for topic, value in again if topic == "undone"]


@pytest.mark.parametrize(
    ("classified", "done", "epoch", "promised"),
    [
        ("no movement", "retired", 1, False),
        ("no movement", "retired", 2, True),
        ("unexpected", "retired", 2, True),
        ("partial", "rolled-back", 1, True),
        ("settled", "retired", 2, False),
        ("complete", "rolled-forward", 1, False),
        ("live", "left", 2, False),
    ],
)
def test_recovery_promises_only_what_it_undid(classified: str, done: str, epoch: int, promised: bool) -> None:
    """An opener of epoch 2: of plans that it fenced it promises less."""
    assert promises(Notice("plan", "main", classified, done, "", epoch), 2) is promised


@pytest.mark.parametrize("epochs", ["same", "separate"])
def test_a_crowd_does_as_its_parameters_say(epochs: str) -> None:
    result = explored(
        schedules=examples(30, 300),
        scenario="crowd",
        writers=3,
        plans=1,
        epochs=epochs,
        crash=0,
        reply_lost=0,
        request_lost=0,
    )
    assert not result.counterexamples, result
    assert set(result.coverage.steps) == {"writer-1", "writer-2", "writer-3"}


def test_every_safeguard_has_its_mutant_and_its_counterexample() -> None:
    assert set(SYSTEM.mutant_table) == set(SAFEGUARDS) == set(COUNTEREXAMPLES)
    assert set(MUTANTS) == set(SAFEGUARDS)
    assert set(SMALL) <= set(SCENARIOS)


@pytest.mark.parametrize("mutant", QUICK)
def test_a_mutant_is_found(mutant: str) -> None:
    result = explored(mutant, seconds=30)
    assert [counterexample.property for counterexample in result.counterexamples] == [
        COUNTEREXAMPLES[mutant]
    ], result


@pytest.mark.slow
@pytest.mark.parametrize("mutant", sorted(set(COUNTEREXAMPLES) - set(QUICK)))
def test_every_mutant_is_found(mutant: str) -> None:
    result = explored(mutant, seconds=60)
    assert [counterexample.property for counterexample in result.counterexamples] == [
        COUNTEREXAMPLES[mutant]
    ], result


@pytest.mark.slow
def test_two_writers_with_a_crash_and_a_lost_reply_hold_to_the_end() -> None:
    result = explored()
    assert result.verdict == "holds", result
