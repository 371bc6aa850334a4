"""Every item of a design document has a row, with the test that shows it or why it is otherwise."""

import re
from dataclasses import dataclass

import pytest

from fencepost.commands.entry import SUMMARIES
from tests.docs.named_tests import ROOT, TEST, name_tests_that_exist

FOLDER = ROOT / "docs" / "explanations"
ITEMS = {
    "lifecycle-document.md": 145,
    "streams-document.md": 42,
    "publish-document.md": 82,
    "ingest-document.md": 80,
    "objects-document.md": 100,
}
"""The number of items of each document."""
THERE = [name for name in ITEMS if (FOLDER / name).exists()]
STATES = ("works", "better", "differs", "partly", "not there")
COMMAND = re.compile(r"`fencepost ([\w-]+)[^`]*`")
FILE = re.compile(r"`((?:bench|docs|fencepost|impl|model|properties|reports|sim|tests)/[\w./-]+)`")
REASON_WORDS_MIN = 4


@dataclass(frozen=True)
class Row:
    text: str
    number: int
    item: str
    state: str
    where: str
    shown: str


def rows_of(text: str) -> list[Row]:
    """The rows that begin with a number."""
    rows = []
    for line in text.splitlines():
        if re.match(r"\| \d+ \|", line):
            cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
            assert len(cells) == 5, line
            rows.append(Row(line, int(cells[0]), *cells[1:]))
    return rows


def fault(row: Row) -> str | None:
    """Return the fault of a row, None if there is none."""
    if row.state not in STATES:
        return f"{row.state!r} is no state"
    if not row.item or not row.where:
        return "it does not say what the item is, or where"
    if gone := [file for file in FILE.findall(row.text) if not (ROOT / file).exists()]:
        return f"there is no {gone[0]}"
    if TEST.search(row.text) and not name_tests_that_exist(row.text):
        return "it names a test that does not exist"
    if unknown := [name for name in COMMAND.findall(row.text) if name not in SUMMARIES]:
        return f"there is no fencepost {unknown[0]}"
    is_shown = TEST.search(row.shown) or COMMAND.search(row.shown)
    reason = re.sub(r"`[^`]*`|\([^)]*\)", "", row.shown)
    has_reason = len(re.findall(r"[A-Za-z]{2,}", reason)) >= REASON_WORDS_MIN
    if row.state in ("works", "better"):
        return None if is_shown or has_reason else "nothing shows it"
    return None if has_reason else "it has no reason"


@pytest.mark.parametrize("name", THERE)
def test_every_item_has_one_row(name: str) -> None:
    rows = rows_of((FOLDER / name).read_text())
    assert [row.number for row in rows] == list(range(1, ITEMS[name] + 1))


@pytest.mark.parametrize("name", THERE)
def test_every_row_is_shown_or_says_why_it_is_otherwise(name: str) -> None:
    rows = rows_of((FOLDER / name).read_text())
    assert {row.number: found for row in rows if (found := fault(row))} == {}


def test_no_page_of_this_kind_is_left_out() -> None:
    assert {path.name for path in FOLDER.glob("*-document.md")} == {*THERE}
    assert {"lifecycle-document.md", "streams-document.md"} <= {*THERE}


EXISTS = "`tests/docs/test_document_tables.py::test_a_faulty_row_is_found`"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (f"| 1 | a | works | `docs/architecture.md` | {EXISTS} |", None),
        ("| 1 | a | works | b | `fencepost check lifecycle` |", None),
        ("| 1 | a | works | b | No test sets the option. |", None),
        ("| 1 | a | not there | b | There are no volumes of this kind. |", None),
        (f"| 1 | a | missing | b | {EXISTS} |", "'missing' is no state"),
        (f"| 1 | a | works |  | {EXISTS} |", "it does not say what the item is, or where"),
        (f"| 1 | a | works | `docs/none.md` | {EXISTS} |", "there is no docs/none.md"),
        (
            f"| 1 | a | works | b | {EXISTS}, `tests/docs/test_none.py::test_a` |",
            "it names a test that does not exist",
        ),
        ("| 1 | a | works | b | `fencepost nonsense` |", "there is no fencepost nonsense"),
        ("| 1 | a | works | b | yes |", "nothing shows it"),
        (f"| 1 | a | not there | b | {EXISTS} |", "it has no reason"),
    ],
)
def test_a_faulty_row_is_found(row: str, expected: str | None) -> None:
    (found,) = rows_of(row)
    assert fault(found) == expected
