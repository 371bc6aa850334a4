"""The audit of the library of streams: it holds, and it sees every broken safeguard."""

from typing import Any

import pytest

from fencepost.commands.audit import mutant_row
from fencepost.commands.systems import find_system
from fencepost.impl.streams import SAFEGUARDS
from fencepost.model import Model
from fencepost.model.streams import Streams
from fencepost.properties.streams.checks import CHECKS
from fencepost.sim.explore import AuditOutcome, audit
from fencepost.sim.systems.streams import SYSTEM
from fencepost.sim.systems.streams.scenarios import SCENARIOS
from fencepost.sim.world import Budget
from fencepost.testing import FAULTS, request_of


def explored(mutant: str | None = None, **parameters: Any) -> AuditOutcome:
    system = find_system("streams", mutant)
    faults = {name: parameters.pop(name) for name in FAULTS if name in parameters}
    request = request_of(system.function, system.options, parameters, "streams")
    return audit(request.program, budget=Budget(**faults), steps_max=600, minimise_seconds=0.2, others=False)


def test_the_names_of_safeguards_mutants_and_properties_agree() -> None:
    assert set(SAFEGUARDS) == set(Streams.safeguards) == set(SYSTEM.mutant_table)
    properties = Model(Streams).properties
    assert {one.name for one in properties if not (one.kind.is_goal or one.kind.explores)} == set(CHECKS)


def test_a_deleted_stream_that_two_nodes_reap_holds() -> None:
    assert explored(scenario="reaped").verdict == "holds"


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_holds_with_a_crash_and_a_lost_reply(scenario) -> None:
    result = explored(scenario=scenario, crash=1, reply_lost=1)
    assert (result.verdict, result.complete, result.findings) == ("holds", True, ())


QUICK = ("row-until-empty", "uploader-filter", "tombstone-short-circuit")


@pytest.mark.parametrize(
    "mutant", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SAFEGUARDS]
)
def test_a_mutant_breaks_the_code_about_as_soon_as_the_model(mutant) -> None:
    """It is found, and in at most half as many steps again as the model's shortest counterexample has."""
    row = mutant_row("streams", mutant)
    assert row.found
    assert row.model is not None
    assert row.moves <= 1.5 * row.model["length"], row
