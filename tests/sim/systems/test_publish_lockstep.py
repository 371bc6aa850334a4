"""Runs of the publish library against its model: nothing it does is forbidden, and what is is seen."""

from typing import Any

import pytest

from fencepost.properties.publish import parquet_cache
from fencepost.sim.explore import AuditOutcome, audit
from fencepost.sim.systems.publish import SYSTEM
from fencepost.sim.systems.publish.run import STANDARD, ScenarioRun
from fencepost.sim.systems.publish.scenarios import SCENARIOS, SKEWED, lockstep_of
from fencepost.sim.world import Budget, World

SEEN = {
    "create-only-manifest": ("skew", 0, 0),
    "sidecar-before-heads": ("gone", 0, 0),
    "shared-head": ("skew", 0, 0),
    "pins-re-evaluated-on-retry": ("skew", 0, 0),
    "boundary-check-after-sidecar": ("cleaner", 0, 0),
    "manifests-held-for-plans": ("housekeeper", 0, 0),
    "retired-plans-recorded": ("cleaner", 0, 0),
    "boundary-check-after-create": ("cleaner", 0, 0),
    "epoch-check": ("takeover", 1, 0),
    "grace-window": ("rivals", 1, 0),
    "read-back-on-unknown": ("takeover", 0, 1),
    "late-head": ("heir", 0, 1),
}
"""Where the model alone sees that a safeguard is broken: scenario, crashes, lost replies."""
UNSEEN = {
    "whole-plan-in-sidecar": "a plan of edges that read no nodes is none of the model's: undecided",
    "inbound-check-on-removal": "no event shows which rows a plan removes",
    "requests-recorded": "no event shows which requests a plan carries out",
    "requests-searched": "no event shows which requests a plan carries out",
    "reads-checked-within-group": "no event shows how many drafts a plan has: see model/publish_content.py",
}


def explored(
    safeguards: Any, scenario: str, crashes: int, lost: int, seconds: float | None = None
) -> AuditOutcome:
    def program(world: World) -> None:
        world.at_end(parquet_cache.install())
        run = ScenarioRun(world, safeguards)
        SCENARIOS[scenario](run)
        world.follow("lockstep", lockstep_of(run, 4, skew=scenario in SKEWED))

    budget = Budget(crash=crashes, reply_lost=lost, request_lost=lost)
    return audit(program, budget=budget, steps_max=600, seconds=seconds, minimise_seconds=0.2, others=False)


@pytest.mark.parametrize("scenario", sorted(set(SCENARIOS) - {"cleaner", "housekeeper", "gone", "anything"}))
def test_the_model_allows_the_library(scenario: str) -> None:
    result = explored(STANDARD, scenario, 0, 0, seconds=20)
    assert not result.counterexamples, result
    assert not [finding for finding in result.findings if finding.startswith("lockstep")], result


@pytest.mark.slow
@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
@pytest.mark.parametrize(("crashes", "lost"), [(1, 0), (0, 1)])
def test_the_model_allows_the_library_under_faults(scenario: str, crashes: int, lost: int) -> None:
    result = explored(STANDARD, scenario, crashes, lost, seconds=60)
    assert not result.counterexamples, result


@pytest.mark.parametrize("safeguard", SEEN)
def test_the_model_forbids_a_mutant(safeguard: str) -> None:
    result = explored(SYSTEM.without(safeguard), *SEEN[safeguard], seconds=30)
    assert [counterexample.property for counterexample in result.counterexamples] == ["lockstep"], result
    assert "the model does not allow this" in result.counterexamples[0].reason


def test_every_mutant_is_found_or_has_a_reason() -> None:
    assert set(SEEN) | set(UNSEEN) == set(SYSTEM.mutant_table)
