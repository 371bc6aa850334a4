"""The small programs on plain boto3: every mistake is found, every fixed version is proven."""

import importlib
from typing import Any

import pytest

from fencepost.sim.explore import AuditOutcome, audit
from fencepost.sim.world import Budget
from tests.sim.mistakes import broken_programs, is_found

MODULES = {
    name: importlib.import_module(f"fencepost.examples.audit.boto3_{name}")
    for name in ("counter", "election", "lock", "log", "queue")
}
BROKEN = broken_programs(MODULES)
FOR_THREE = [stem for stem, module in MODULES.items() if hasattr(module, "fixed_for_three")]


@pytest.mark.parametrize("strategy", ["exhaustive", pytest.param("hypothesis", marks=pytest.mark.slow)])
@pytest.mark.parametrize("program", BROKEN)
def test_a_classic_mistake_is_found_by_default(program: Any, strategy: str) -> None:
    is_found(program, strategy)


def proven(name: str, program: str) -> AuditOutcome:
    result = audit(getattr(MODULES[name], program), budget=Budget(crash=1, reply_lost=1, request_lost=1))
    assert (result.verdict, result.findings) == ("holds", ()), str(result)
    return result


LONG = ("lock",)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in MODULES]
)
def test_fixed_for_two(name: str) -> None:
    assert proven(name, "fixed").bound.startswith(
        "every schedule of 2 processes with at most 1 crash, 1 lost"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", FOR_THREE)
def test_fixed_for_three(name: str) -> None:
    result = proven(name, "fixed_for_three")
    assert result.bound.startswith("every schedule of 3 processes with at most 1 crash, 1 lost")
