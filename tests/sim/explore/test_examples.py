"""The small programs of examples/audit: every mistake is found, every fixed version is proven.

If a mistake is not found here it will not be found in a user's code.
"""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fencepost.sim.explore import audit
from fencepost.sim.world import Budget
from tests.sim.mistakes import broken_programs, is_found

FOLDER = Path(__file__).parents[3] / "examples" / "audit"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"audit_example_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULES = {name: load(name) for name in ("counter", "election", "lock", "log", "queue")}
"""Those on our interface; their twins on boto3 have tests of their own."""
BROKEN = broken_programs(MODULES)
QUICK = ["election", "log", "queue"]


@pytest.mark.parametrize("strategy", ["exhaustive", pytest.param("hypothesis", marks=pytest.mark.slow)])
@pytest.mark.parametrize("program", BROKEN)
def test_a_classic_mistake_is_found_by_default(program: Any, strategy: str) -> None:
    is_found(program, strategy)


@pytest.mark.parametrize("name", QUICK)
def test_a_fixed_program_is_proven_for_three_processes(name: str) -> None:
    result = audit(MODULES[name].fixed, budget=Budget(crash=1, reply_lost=1, request_lost=1))
    assert result.verdict == "holds"
    assert result.findings == ()
    assert result.bound.startswith(
        "every schedule of 3 processes with at most 1 crash, 1 lost reply or request"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(MODULES) - set(QUICK)))
def test_a_larger_fixed_program_is_proven_too(name: str) -> None:
    result = audit(MODULES[name].fixed, budget=Budget(crash=1, reply_lost=1, request_lost=1))
    assert (result.verdict, result.findings) == ("holds", ())
