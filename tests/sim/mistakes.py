"""Programs with classic mistakes: which there are, and that one is found and can be seen again."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest

from fencepost.sim.explore import audit, replay

SECONDS_MAX = 300
"""Never reached on an idle machine, where each takes a few seconds; a busy one must not fail the test."""


def broken_programs(modules: Mapping[str, ModuleType]) -> list[Any]:
    """A parameter for each mutant of the modules."""
    return [
        pytest.param(getattr(module, name), id=f"{stem}-{name}")
        for stem, module in modules.items()
        for name in vars(module)
        if name.startswith(("broken", "mutant"))
    ]


def is_found(program: Any, strategy: str) -> None:
    """A default audit finds the mistake, and its token shows the same again."""
    result = audit(program, strategy=strategy, seconds=SECONDS_MAX, minimise_seconds=1)
    assert result.verdict == "violated"
    again = replay(program, result.counterexamples[0].token)
    assert again.misfit == ""
    assert again.violation is not None
    assert again.violation.name == result.counterexamples[0].property
