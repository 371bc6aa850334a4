"""The tests and safeguards that docs/explanations/lifecycle-tests.md names are there."""

import ast
import re
from pathlib import Path

import pytest

from fencepost.impl.lifecycle.safeguards import SAFEGUARDS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/explanations/lifecycle-tests.md").read_text()
NAMED = sorted({(file, name) for file, name in re.findall(r"`([\w/]+\.py)::(\w+)`", TEXT)})


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED}))
def test_every_test_that_it_names_exists(file: str) -> None:
    folder = ROOT / ("tests" if "/" in file else "tests/impl/lifecycle")
    known = {
        one.name
        for one in ast.walk(ast.parse((folder / file).read_text()))
        if isinstance(one, ast.FunctionDef)
    }
    assert {name for other, name in NAMED if other == file} <= known


def test_every_safeguard_that_it_names_exists() -> None:
    named = set(re.findall(r"`([\w*-]+)` in `fencepost audit", TEXT))
    assert len(named) > 5
    assert all(any(re.fullmatch(one.replace("*", ".*"), name) for name in SAFEGUARDS) for one in named)
