"""The small programs of examples/audit: every mistake is found, every mended version is proven.

If a mistake is not found here it will not be found in a user's code.
"""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast.sim.explore import audit, replay
from holdfast.sim.world import Budget

FOLDER = Path(__file__).parents[3] / "examples" / "audit"
SECONDS_MAX = 300
"""Never reached on an idle machine, where each takes a few seconds; a busy one must not fail the test."""


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"audit_example_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULES = {name: load(name) for name in ("counter", "election", "lock", "log", "queue")}
"""Those on our interface; their twins on boto3 have tests of their own."""
BROKEN = [
    pytest.param(getattr(module, name), id=f"{stem}-{name}")
    for stem, module in MODULES.items()
    for name in vars(module)
    if name.startswith("broken")
]
QUICK = ["counter", "election", "log", "queue"]


@pytest.mark.parametrize("strategy", ["exhaustive", "hypothesis"])
@pytest.mark.parametrize("program", BROKEN)
def test_a_classic_mistake_is_found_by_default(program: Any, strategy: str) -> None:
    result = audit(program, strategy=strategy, seconds=SECONDS_MAX, minimise_seconds=1)
    assert result.verdict == "violated"
    again = replay(program, result.stories[0].token)
    assert again.misfit == ""
    assert again.violation is not None
    assert again.violation.name == result.stories[0].property


@pytest.mark.parametrize("name", QUICK)
def test_a_mended_program_is_proven_for_three_processes(name: str) -> None:
    result = audit(MODULES[name].mended, budget=Budget(crashes=1, lost=1))
    assert result.verdict == "holds"
    assert result.findings == []
    assert result.bound.startswith("every schedule of 3 processes with at most 1 crash, 1 lost response")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(MODULES) - set(QUICK)))
def test_a_larger_mended_program_is_proven_too(name: str) -> None:
    result = audit(MODULES[name].mended, budget=Budget(crashes=1, lost=1))
    assert (result.verdict, result.findings) == ("holds", [])
