"""The programs on files: every missing flush, lock and order is found, and what is fixed is proven.

If a mutant is not found here, a user's missing fsync will not be found either.
"""

import importlib
from pathlib import Path
from typing import Any

import pytest

from fencepost.sim.explore import AuditOutcome, audit, replay
from fencepost.sim.world import Budget
from fencepost.testing import unwrapped

FOLDER = Path(__file__).parents[2] / "examples" / "files"
NAMES = sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))
PUBLISHED = {"git_reference", "leveldb_current", "mercurial_rollback", "rollback_journal", "zookeeper_log"}
"""Sketches of published failures."""


def programs(*kinds: str) -> list[Any]:
    return [
        pytest.param(value, id=f"{name}-{attribute}")
        for name in NAMES
        for attribute, value in vars(importlib.import_module(f"fencepost.examples.files.{name}")).items()
        if attribute.startswith(kinds) and callable(value)
    ]


def audited(program: Any, **options: Any) -> AuditOutcome:
    function, found = unwrapped(program)
    return audit(function, budget=Budget(**found.faults), minimise_seconds=0.3, **options)


@pytest.mark.parametrize("program", programs("mutant_"))
def test_a_missing_flush_lock_or_order_is_found_and_repeated_by_its_token(program: Any) -> None:
    found = audited(program).counterexamples[0]
    function, options = unwrapped(program)
    again = replay(function, found.token, budget=Budget(**options.faults))
    assert not again.misfit
    assert again.violation is not None
    assert again.violation.name == found.property


@pytest.mark.parametrize("program", programs("fixed"))
def test_what_is_fixed_is_proven_with_a_kill_and_a_power_loss(program: Any) -> None:
    result = audited(program)
    assert (result.verdict, result.findings) == ("holds", ()), str(result)
    assert "1 crash, 1 power loss" in result.bound
    assert {"crash", "power_loss"} <= set(result.coverage.faults)


def test_every_published_failure_names_its_source() -> None:
    for name in PUBLISHED:
        assert "OSDI 2014" in (FOLDER / f"{name}.py").read_text()
