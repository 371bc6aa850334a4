"""Tests that a page of the documentation names, as `tests/FILE.py::test_name`, and whether they exist."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@cache
def names_in(file: Path) -> frozenset[str]:
    if not file.exists():
        return frozenset()
    nodes = ast.walk(ast.parse(file.read_text()))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef))


def name_tests_that_exist(text: str) -> bool:
    """Return True if the text names a test, and every test that it names exists."""
    tests = TEST.findall(text)
    return bool(tests) and all(name in names_in(ROOT / file) for file, name in tests)
