"""Every assumption on the page "what can still be wrong" is pinned by a test that shows the miss."""

import re

from tests.docs.named_tests import ROOT, name_tests_that_exist

PAGE = ROOT / "docs" / "explanations" / "what-can-still-be-wrong.md"
COMMANDS = ["check", "audit", "probe", "replay", "simulate"]


def lines_of(text: str) -> list[str]:
    """The list items of the page, each on one line."""
    return [
        " ".join(item.split())
        for item in re.findall(r"^- (.*?)(?=^- |^#|^$|\Z)", text, re.DOTALL | re.MULTILINE)
    ]


def missing(text: str) -> list[str]:
    """The lines that name no test, or one that does not exist."""
    return [line for line in lines_of(text) if not name_tests_that_exist(line)]


def test_every_line_names_a_test_that_exists() -> None:
    assert missing(PAGE.read_text()) == []


def test_every_command_has_its_section_and_check_at_most_ten_lines() -> None:
    text = PAGE.read_text()
    assert re.findall(r"^## `(\w+)`$", text, re.MULTILINE) == COMMANDS
    for section in text.split("\n## ")[1:]:
        assert len(lines_of(section)) <= 10, section.split("\n")[0]
    assert len(lines_of(text.split("\n## ")[1])) == 10


def test_a_line_without_a_test_is_found() -> None:
    exists = "`tests/docs/test_assumptions.py::test_a_line_without_a_test_is_found`"
    assert missing(f"- fine\n  ({exists}).\n- none\n") == ["none"]
    assert missing(f"- {exists}\n- gone `tests/docs/test_none.py::test_a`\n") == [
        "gone `tests/docs/test_none.py::test_a`"
    ]
