"""Runs of the ingest library against its model: nothing it does is forbidden, and what is is seen."""

from typing import Any

import pytest

from fencepost.impl.ingest.safeguards import FIELDS
from fencepost.sim.explore import AuditOutcome, audit
from fencepost.sim.systems.ingest import SYSTEM
from fencepost.sim.systems.ingest.run import STANDARD, ScenarioRun
from fencepost.sim.systems.ingest.scenarios import SCENARIOS
from fencepost.sim.world import Budget, World

SEEN = {
    "create-only-manifest": ("retry", {}),
    "compare-after-412": ("conflict", {}),
    "409-proves-nothing": ("retry", {"conflict": 1}),
    "read-back-on-unknown": ("retry", {"reply_lost": 1, "request_lost": 1}),
    "blob-before-manifest": ("retry", {"reply_lost": 1, "request_lost": 1}),
    "effects-after-create": ("retry", {}),
    "gc-age": ("orphan", {}),
    "gc-audit-before-trust": ("unaudited", {}),
    "gc-quarantine-refs": ("quarantined", {}),
    "gc-stalled-writer-generation": ("orphan", {}),
    "gc-stalled-writer-version": ("slow-versioned", {}),
    "gc-stalled-writer-duplicate": ("slow-versioned", {"crash": 1}),
}
"""Where the model alone sees that a safeguard is broken: scenario and faults."""
UNSEEN = {
    "identity-bound-to-agent": "who sends a batch is no event of the store",
    "reconcile": "that nothing happens is no event",
    "cursor-overlap": "what a reader does not read is no event",
    "new-upload-on-multipart-409": "the attempt ends in 503, which is allowed",
    **dict.fromkeys(
        ("repair-before-acknowledge", "mark-late", "mark-what-exists", "search-late-places"),
        "what is not repaired, not marked or not searched is no event; the checks see it",
    ),
    "gc-stalled-writer": "where clocks and landings are without bounds, a plain bucket promises nothing",
}


def explored(
    safeguards: Any, scenario: str, seconds: float | None = None, schedules: int | None = None, **faults: int
) -> AuditOutcome:
    """What is found by nobody but the model."""

    def program(world: World) -> None:
        SCENARIOS[scenario](ScenarioRun(world, safeguards, followed=True))

    budget = Budget(**{"crash": 0, "reply_lost": 0, "request_lost": 0, **faults})
    return audit(
        program,
        budget=budget,
        steps_max=600,
        seconds=seconds,
        schedules=schedules,
        minimise_seconds=0.2,
        others=False,
    )


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_model_allows_the_library(scenario: str) -> None:
    result = explored(STANDARD, scenario, schedules=100)
    assert not result.counterexamples, result
    assert not [finding for finding in result.findings if finding.startswith("lockstep")], result


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_model_allows_the_library_under_faults(scenario: str) -> None:
    result = explored(STANDARD, scenario, seconds=30, crash=1, reply_lost=1, request_lost=1)
    assert not result.counterexamples, result
    assert not [finding for finding in result.findings if finding.startswith("lockstep")], result


def test_every_mutant_is_found_or_has_a_reason() -> None:
    assert {*SEEN, *UNSEEN} == set(FIELDS)


LONG = ("gc-age", "gc-stalled-writer-duplicate")


@pytest.mark.parametrize(
    "safeguard", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in SEEN]
)
def test_the_model_forbids_a_mutant(safeguard: str) -> None:
    scenario, faults = SEEN[safeguard]
    result = explored(SYSTEM.without(safeguard), scenario, **faults)
    assert result.counterexamples, result
    assert {counterexample.property for counterexample in result.counterexamples} == {"lockstep"}
