"""The table of `bench.promises`: programs that ready promises find without a property of their own."""

import pytest

from bench.promises import MISSED, ROWS, Row, audited

QUICK = ("check_then_put broken", "plain_put_log broken", "zombie_slot broken")
SECONDS = 120.0
BROKEN = [row for row in ROWS if row.name not in MISSED]


def name_of(row: Row) -> str:
    return row.name.replace(" ", "-")


@pytest.mark.parametrize("row", [row for row in ROWS if row.name in QUICK], ids=name_of)
def test_a_promise_finds_what_the_property_of_the_program_found(row: Row) -> None:
    assert audited(row, row.broken, SECONDS)["verdict"] == "violated"
    assert audited(row, row.fixed, SECONDS)["verdict"] == "holds"


@pytest.mark.slow
@pytest.mark.parametrize("row", BROKEN, ids=name_of)
def test_a_promise_finds_the_broken_program(row: Row) -> None:
    assert audited(row, row.broken, 3 * SECONDS)["verdict"] == "violated"


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in ROWS if row.fixed], ids=name_of)
def test_a_fixed_program_is_no_false_alarm(row: Row) -> None:
    assert audited(row, row.fixed, SECONDS)["verdict"] in {"holds", "undecided"}


def test_most_programs_are_found() -> None:
    """If this fails, rows were added that no promise finds: 30 of 39 is the least."""
    assert len(ROWS) >= 39
    assert len(BROKEN) / len(ROWS) > 30 / 39
