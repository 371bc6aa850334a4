"""The shipped directory store holds on the file system of the world, and not without any of its safeguards.

If a mutant is not found, the audit of the store shows nothing about that flush, lock or order.
"""

import importlib

import pytest

from fencepost.sim.explore import AuditOutcome, audit
from fencepost.sim.world import Budget
from fencepost.testing import unwrapped

PROGRAMS = importlib.import_module("fencepost.examples.audit.files")
MUTANTS = {
    "atomic_create": {"one-winner"},
    "key_lock": {"cas-exact"},
    "condition_under_lock": {"cas-exact"},
    "fsync_before_publish": {"untorn", "ack-durable"},
    "directory_flush": {"ack-durable"},
    "attributes_before_publish": {"untorn"},
    "seeds_write_order": {"one-winner"},
}
"""The properties that each violates."""


def audited(name: str, seconds: float = 0.5) -> AuditOutcome:
    function, options = unwrapped(getattr(PROGRAMS, name))
    return audit(function, budget=Budget(**options.faults), minimise_seconds=seconds)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_store_without_one_safeguard_is_refuted(name: str) -> None:
    result = audited(f"mutant_{name}")
    assert result.counterexamples[0].property in MUTANTS[name], str(result)


def test_no_mutant_is_left_out() -> None:
    assert {name for name in vars(PROGRAMS) if name.startswith("mutant_")} == {f"mutant_{n}" for n in MUTANTS}


@pytest.mark.slow
def test_the_seeds_order_needs_twelve_steps() -> None:
    found = audited("mutant_seeds_write_order", 20).counterexamples[0]
    assert len([line for line in found.lines if line.process != "setup"]) <= 12, "\n".join(found.text())


@pytest.mark.slow
def test_the_shipped_store_holds_with_a_kill_or_a_power_loss() -> None:
    result = audited("fixed")
    assert (result.verdict, result.findings) == ("holds", ()), str(result)
    assert {"crash", "power_loss"} <= set(result.coverage.faults)
