"""The audit of the publish library: it holds, it sees every broken safeguard, and its own eyes are tested."""

from typing import Any

import pytest

from holdfast.commands.systems import find_system, read_shipped, shipped
from holdfast.impl.publish import SAFEGUARDS
from holdfast.sim.explore import Audit, audit
from holdfast.sim.systems.publishing.broken import BROKEN
from holdfast.sim.systems.publishing.scenes import SCENES, SMALL
from holdfast.sim.world import Budget
from holdfast.testing import want
from tests.impl.publish.scripted import MUTANTS

STORIES = {
    "create-only-manifest": "no-lost-write",
    "sidecar-before-heads": "no-wedge",
    "whole-plan-in-sidecar": "referential-integrity",
    "epoch-check": "live-writer",
    "grace-window": "live-writer",
    "shared-head": "referential-integrity",
    "pins-re-evaluated-on-retry": "referential-integrity",
    "inbound-check-on-removal": "referential-integrity",
    "boundary-check-after-create": "no-lost-write",
    "read-back-on-unknown": "no-phantom",
    "late-head": "no-wedge at rest",
}
"""What breaks first without each safeguard."""
QUICK = ("sidecar-before-heads", "shared-head", "pins-re-evaluated-on-retry", "inbound-check-on-removal")


def explored(mutant: str | None = None, seconds: float | None = None, **parameters: Any) -> Audit:
    system = find_system("publish", mutant)
    faults = {name: parameters.pop(name) for name in ("crashes", "lost") if name in parameters}
    wanted = want(system.function, system.options, parameters, "publish")
    budget = Budget(**{**(system.options.faults or {}), **faults})
    # Short stories are for people; here they would only take time.
    return audit(wanted.program, budget=budget, steps_max=600, seconds=seconds, minimise_seconds=0.2)


@pytest.mark.parametrize("scene", ["skew", "rivals", "two-tables", "joiner", "takeover"])
def test_every_order_without_faults_is_well(scene: str) -> None:
    result = explored(scene=scene, crashes=0, lost=0)
    assert result.verdict == "holds", result


def test_a_crash_at_every_step_of_a_write_skew_is_well() -> None:
    result = explored(scene="skew", lost=0)
    assert result.verdict == "holds", result
    assert result.coverage.faults["crash"] > 50
    assert {("put", "done"), ("put", "exists"), ("list", "done")} <= result.coverage.outcomes.keys()


@pytest.mark.parametrize("epochs", ["same", "separate"])
def test_a_crowd_does_as_its_parameters_say(epochs: str) -> None:
    result = explored(scene="crowd", writers=3, plans=1, epochs=epochs, crashes=0, lost=0, seconds=2)
    assert not result.stories, result
    assert set(result.coverage.steps) == {"writer-1", "writer-2", "writer-3"}


def test_every_safeguard_has_its_mutant_and_its_story() -> None:
    mutants = read_shipped("publish", shipped()["publish"])["publish"].mutants
    assert set(mutants) == set(SAFEGUARDS) == set(STORIES) == {n.replace("_", "-") for n in BROKEN}
    assert set(MUTANTS) == set(SAFEGUARDS)
    assert set(SMALL) <= set(SCENES)


@pytest.mark.parametrize("mutant", QUICK)
def test_a_broken_safeguard_is_seen(mutant: str) -> None:
    result = explored(mutant, seconds=30)
    assert [story.property for story in result.stories] == [STORIES[mutant]], result


@pytest.mark.slow
@pytest.mark.parametrize("mutant", sorted(set(STORIES) - set(QUICK)))
def test_every_broken_safeguard_is_seen(mutant: str) -> None:
    result = explored(mutant, seconds=60)
    assert [story.property for story in result.stories] == [STORIES[mutant]], result


@pytest.mark.slow
def test_two_writers_with_a_crash_and_a_lost_response_are_well_to_the_end() -> None:
    result = explored()
    assert result.verdict == "holds", result
