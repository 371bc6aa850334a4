"""The shape of examples/packages: short drivers, pinned versions, complete rows. Nothing is installed."""

import re

import pytest

from examples.packages.__main__ import HERE, described, drivers, verdicts

PINNED = dict(re.findall(r"^(\S+)==(\S+)$", (HERE / "requirements.txt").read_text(), re.MULTILINE))
TABLE = {
    cells[0]: cells
    for cells in (
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in (HERE / "README.md").read_text().splitlines()
        if line.startswith("| [")
    )
}


def test_every_driver_has_a_row_and_every_row_a_driver() -> None:
    assert set(TABLE) == {f"[{driver.stem}]({driver.name})" for driver in drivers()}
    assert len({cells[1] for cells in TABLE.values()}) >= 10  # packages


def test_the_verdicts_of_the_table_are_read() -> None:
    """`nox -s packages` compares them with what it finds."""
    found = verdicts((HERE / "README.md").read_text())
    assert found == {driver.stem: TABLE[f"[{driver.stem}]({driver.name})"][4] for driver in drivers()}
    assert set(found.values()) == {"holds", "violated", "undecided"}


@pytest.mark.parametrize("driver", drivers(), ids=lambda driver: driver.stem)
def test_a_driver_is_short_and_its_row_complete(driver) -> None:
    text, constants = driver.read_text(), described(driver)
    assert len(text.splitlines()) <= 30
    assert "def program(world)" in text
    _, package, version, promise, verdict, steps, reason = TABLE[f"[{driver.stem}]({driver.name})"]
    assert (package, version) == (constants["PACKAGE"], PINNED[constants["PACKAGE"]])
    assert promise == f"{constants['promise']} ({constants['PLACE']})"
    assert verdict in ("violated", "undecided" if constants.get("OVER_HTTP") else "holds")
    assert reason
    assert steps.isdigit() == (verdict == "violated")
