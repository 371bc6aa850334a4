"""The audit of the worker of lifecycles: it holds, and it sees every broken safeguard."""

from pathlib import Path
from typing import Any

import pytest

from fencepost.commands.audit import mutant_row
from fencepost.commands.systems import find_system
from fencepost.impl.lifecycle.safeguards import SAFEGUARDS
from fencepost.model import Machine, Model
from fencepost.model.cursor import Cursor
from fencepost.model.lifecycle import Lifecycle
from fencepost.model.lifecycle_blockers import LifecycleBlockers
from fencepost.model.lifecycle_merged import LifecycleMerged
from fencepost.model.lifecycle_notified import LifecycleNotified
from fencepost.model.lifecycle_seeding import LifecycleSeeding
from fencepost.properties.lifecycle.checks import CHECKS, STEPS
from fencepost.sim.explore import AuditOutcome, audit
from fencepost.sim.systems.lifecycle import SYSTEM
from fencepost.sim.systems.lifecycle.scenarios import SCENARIOS
from fencepost.sim.world import Budget
from fencepost.testing import FAULTS, request_of

MACHINES: tuple[type[Machine], ...] = (Lifecycle, LifecycleMerged, LifecycleSeeding, LifecycleBlockers)
OF_THE_CURSOR = {"strict-past", "whole-positions"}
"""The safeguards of `Cursor` that a log has a part in; `impl/cursor` has the others, and its own tests."""

OF_NOTIFICATIONS = {
    "append-before-acknowledge": "test_nothing_is_acknowledged_before_it_is_in_the_journal",
    "append-once": "test_of_two_receivers_of_one_moment_both_have_their_entries",
    "arrival-order": "test_positions_are_the_order_of_arrival",
    "wait-in-list": "test_an_object_whose_clock_is_ahead_waits_in_the_list",
    "live-evaluation": "test_whatever_the_order_everything_expires_and_nothing_early",
    "walks-go-on": "test_what_nobody_notified_is_found_by_a_walk",
}
"""The safeguards of `LifecycleNotified`, each with the test that fails without it."""
WITHOUT_A_MODEL = {"lag-degrades"}
"""It needs a clock of the log: docs/decisions/0022."""


def explored(mutant: str | None = None, **parameters: Any) -> AuditOutcome:
    system = find_system("lifecycle", mutant)
    faults = {name: parameters.pop(name) for name in FAULTS if name in parameters}
    request = request_of(system.function, system.options, parameters, "lifecycle")
    return audit(request.program, budget=Budget(**faults), steps_max=600, minimise_seconds=0.2, others=False)


def properties(machine: type[Machine]) -> set[str]:
    kinds = ("invariant", "step", "always_recoverable")
    return {one.name for one in Model(machine).properties if one.kind.name in kinds}


def test_the_names_of_safeguards_mutants_and_properties_agree() -> None:
    assert set(Cursor.safeguards) > OF_THE_CURSOR
    models = {name for machine in MACHINES for name in machine.safeguards} | OF_THE_CURSOR | WITHOUT_A_MODEL
    assert set(SAFEGUARDS) == models == set(SYSTEM.mutant_table)
    known = {name for machine in MACHINES for name in properties(machine)} | {"passed_once"}
    assert "passed_once" in properties(Cursor)
    assert known == {*CHECKS, *STEPS}


def test_an_object_that_is_written_twice_holds() -> None:
    assert explored(scenario="overwritten", crash=0, reply_lost=0).verdict == "holds"


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_holds_with_a_crash_and_a_lost_reply(scenario: str) -> None:
    result = explored(scenario=scenario, crash=1, reply_lost=1)
    assert (result.verdict, result.complete, result.findings) == ("holds", True, ())


def test_a_verdict_names_the_properties_that_it_covers() -> None:
    stated, others = SYSTEM.judged_properties()
    assert stated == ["seed_before_activate", "blocker_stands", "blocked_for_cause"]
    machines = (*MACHINES, LifecycleNotified)
    assert set(stated) | set(others) == {name for machine in machines for name in properties(machine)}


def test_each_safeguard_of_notifications_has_its_test() -> None:
    """Receivers are no part of the audited worker."""
    assert set(OF_NOTIFICATIONS) == set(LifecycleNotified.safeguards)
    source = (Path(__file__).parents[2] / "impl/lifecycle/test_journal.py").read_text()
    assert [name for name in OF_NOTIFICATIONS.values() if f"def {name}(" not in source] == []


QUICK = ("identity", "delay-back", "blocker-guards")


@pytest.mark.parametrize(
    "mutant", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SAFEGUARDS]
)
def test_a_mutant_breaks_the_code_about_as_soon_as_the_model(mutant: str) -> None:
    """It is found, in a few moves more than the model's shortest counterexample: a sweep begins with reads of
    its blocker, its cursor, the policy, the record and the log."""
    row = mutant_row("lifecycle", mutant)
    assert row.found
    assert row.model is None or row.moves <= row.model["length"] + 8, row


def test_the_share_of_driven_transitions_is_counted_at_a_bound_that_can_be_explored() -> None:
    found = explored(scenario="overwritten", crash=0, reply_lost=0, coverage="on")
    (report,) = found.coverage.reports
    share = report()["model"]
    assert 0 < share.driven <= share.transitions < 500_000
