"""Every row of the threat model names a test that exists, and no server is missing."""

import re

from fencepost.commands.entry import SUMMARIES
from tests.docs.named_tests import ROOT, name_tests_that_exist

PAGE = ROOT / "docs" / "explanations" / "threat-model.md"
SERVERS = ("objects", "ingest", "streams", "lifecycle", "proxy")


def rows_of(text: str) -> list[str]:
    """The rows of all tables, without their heads."""
    return [
        line
        for line in text.splitlines()
        if line.startswith("|") and not line.startswith("|---") and not line.endswith("| test |")
    ]


def missing(text: str) -> list[str]:
    """The rows that name no test, or one that does not exist."""
    return [row for row in rows_of(text) if not name_tests_that_exist(row.rsplit(" | ", 1)[-1])]


def test_every_row_names_a_test_that_exists() -> None:
    text = PAGE.read_text()
    assert missing(text) == []
    assert len(rows_of(text)) > 40


def test_every_server_has_its_section() -> None:
    assert set(SERVERS) <= set(SUMMARIES)
    assert tuple(re.findall(r"^## `(\w+)`$", PAGE.read_text(), re.MULTILINE)) == SERVERS


def test_a_row_without_a_test_is_found() -> None:
    head = "| what | bound | test |\n|---|---|---|\n"
    exists = "| a | b | `tests/docs/test_threat_model.py::test_a_row_without_a_test_is_found` |"
    assert missing(f"{head}{exists}\n| a | b | |\n") == ["| a | b | |"]
    assert missing(f"{head}| a | b | `tests/docs/test_none.py::test_a` |") == [
        "| a | b | `tests/docs/test_none.py::test_a` |"
    ]
