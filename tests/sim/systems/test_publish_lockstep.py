"""Runs of the publish library against its model: nothing it does is forbidden, and what is is seen."""

from typing import Any

import pytest

from fencepost.sim.explore import Audit, audit
from fencepost.sim.systems.publishing import quick
from fencepost.sim.systems.publishing.broken import BROKEN, without
from fencepost.sim.systems.publishing.lockstep import Lockstep
from fencepost.sim.systems.publishing.scenarios import SCENARIOS
from fencepost.sim.systems.publishing.stage import STANDARD, ScenarioRun
from fencepost.sim.world import Budget, World

SEEN = {
    "create_only_manifest": ("skew", 0, 0),
    "sidecar_before_heads": ("gone", 0, 0),
    "shared_head": ("skew", 0, 0),
    "pins_re_evaluated_on_retry": ("skew", 0, 0),
    "boundary_check_after_create": ("cleaner", 0, 0),
    "epoch_check": ("takeover", 1, 0),
    "grace_window": ("rivals", 1, 0),
    "read_back_on_unknown": ("takeover", 0, 1),
    "late_head": ("heir", 0, 1),
}
"""Where the model alone sees that a safeguard is broken: scenario, crashes, lost replies."""
UNSEEN = {
    "whole_plan_in_sidecar": "a plan of edges that read no nodes is none of the model's: undecided",
    "inbound_check_on_removal": "which rows a plan removes is nowhere told",
}


def explored(safeguards: Any, scenario: str, crashes: int, lost: int, seconds: float | None = None) -> Audit:
    def program(world: World) -> None:
        quick.install(world)
        run = ScenarioRun(world, safeguards)
        SCENARIOS[scenario](run)
        world.follow("lockstep", Lockstep(len(run.changes), 4, world.findings, skew=scenario == "joiner"))

    budget = Budget(crash=crashes, reply_lost=lost, request_lost=lost)
    return audit(program, budget=budget, steps_max=600, seconds=seconds, minimise_seconds=0.2)


@pytest.mark.parametrize("scenario", sorted(set(SCENARIOS) - {"cleaner", "gone", "anything"}))
def test_what_the_library_does_the_model_allows(scenario: str) -> None:
    result = explored(STANDARD, scenario, 0, 0, seconds=20)
    assert not result.counterexamples, result
    assert not [finding for finding in result.findings if finding.startswith("lockstep")], result


@pytest.mark.slow
@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
@pytest.mark.parametrize(("crashes", "lost"), [(1, 0), (0, 1)])
def test_what_the_library_does_under_faults_the_model_allows(scenario: str, crashes: int, lost: int) -> None:
    result = explored(STANDARD, scenario, crashes, lost, seconds=60)
    assert not result.counterexamples, result


@pytest.mark.parametrize("safeguard", SEEN)
def test_a_broken_safeguard_does_what_the_model_forbids(safeguard: str) -> None:
    result = explored(without(safeguard), *SEEN[safeguard], seconds=30)
    assert [counterexample.property for counterexample in result.counterexamples] == ["lockstep"], result
    assert "the model does not allow this" in result.counterexamples[0].reason


def test_every_safeguard_is_seen_or_said_not_to_be() -> None:
    assert set(SEEN) | set(UNSEEN) == set(BROKEN)
