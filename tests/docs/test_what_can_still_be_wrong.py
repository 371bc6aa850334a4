"""Every line of the page names a test that exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "explanations" / "what-can-still-be-wrong.md").read_text()
SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("section", SECTIONS, ids=[section.split("\n")[0] for section in SECTIONS])
def test_every_line_names_a_test_that_exists(section: str) -> None:
    files = set(re.findall(r"tests/trust/\w+\.py", section))
    assert files, "the section names no file of tests"
    tests = {
        name
        for file in files
        for name in re.findall(r"^def (test_\w+)", (ROOT / file).read_text(), re.MULTILINE)
    }
    lines = re.split(r"^\d+\. ", section, flags=re.MULTILINE)[1:]
    assert 0 < len(lines) <= 10
    for line in lines:
        named = set(re.findall(r"`(test_\w+)`", line))
        assert named or re.search(r"tests/trust/\w+\.py", line), line
        assert named <= tests, f"there is no {named - tests}"
