"""docs/architecture.md: every station of a walk exists and is called, in the order of the page."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.walks import ROOT, WALKS, Call, recorded

PAGE = (ROOT / "docs/architecture.md").read_text()
STATION = re.compile(r"^\| `([\w/.]+)`: `([\w.<>]+)` \| (.+) \|$", re.MULTILINE)
STATIONS_MAX = 10


def sections() -> dict[str, list[Call]]:
    """The stations of each walk, by its heading."""
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)[1:]
    return {
        heading: [(file, function) for file, function, _ in STATION.findall(text)]
        for heading, text in zip(parts[::2], parts[1::2], strict=True)
    }


def missed(stations: list[Call], calls: list[Call]) -> Call | None:
    """The first station that is not called after the one before it."""
    following = iter(calls)
    return next((station for station in stations if station not in following), None)


def test_a_station_that_is_not_called_in_its_place_is_missed() -> None:
    calls = [("a.py", "f"), ("b.py", "g"), ("a.py", "h")]
    assert missed([("a.py", "f"), ("a.py", "h")], calls) is None
    assert missed([("a.py", "h"), ("a.py", "f")], calls) == ("a.py", "f")
    assert missed([("b.py", "f")], calls) == ("b.py", "f")


def test_every_walk_is_on_the_page_and_short() -> None:
    """If this fails, a walk reads badly: shorten the path in the code, not the page."""
    found = sections()
    assert found.keys() == WALKS.keys()
    assert all(2 < len(stations) <= STATIONS_MAX for stations in found.values())
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(rows) == sum(map(len, found.values())), "a row that is no station"


@pytest.mark.parametrize("heading", WALKS)
def test_a_walk_is_taken_as_the_page_describes_it(heading: str, tmp_path: Path) -> None:
    walk: Callable[[Path], Callable[[], object]] = WALKS[heading]
    calls = recorded(walk(tmp_path))
    assert missed(sections()[heading], calls) is None
