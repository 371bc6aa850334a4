"""State graphs and charts: everything is drawn once, in the right place, and described in words as well."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.reports.page.chart import Line, chart, short
from fencepost.reports.page.graph import SPREAD, error_path, levels_of, picture
from fencepost.results import GraphState, StateGraph, TraceStep

DIAMOND = [(0, 1, "left"), (0, 2, "right"), (1, 3, "join"), (2, 3, "join"), (3, 0, "again"), (3, 3, "stay")]


def test_levels_are_distances_from_the_start() -> None:
    assert levels_of(5, [0], DIAMOND) == [[0], [1, 2], [3]]


def test_every_reached_state_and_step_is_drawn() -> None:
    """State 4 cannot be reached."""
    drawn = ET.fromstring(picture(["a", "b", "c", "d", "e"], [0], DIAMOND, title="t", number="n"))
    assert [node.get("class") for node in drawn.iter("circle")] == ["state initial"] + ["state"] * 3
    assert len(list(drawn.iter("path"))) == len(DIAMOND)
    assert {"left", "right", "join", "again", "stay"} <= {text.text for text in drawn.iter("text")}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.just("x")), max_size=40))
def test_no_two_states_share_a_place(steps: list[tuple[int, int, str]]) -> None:
    drawn = ET.fromstring(picture([str(n) for n in range(10)], [0, 5], steps, title="t", number="n"))
    places = [(node.get("cx"), node.get("cy")) for node in drawn.iter("circle")]
    assert len(set(places)) == len(places) == sum(map(len, levels_of(10, [0, 5], steps)))


PLAIN = """graph 1 3 4
node 0 1.5 3.5 0.4 0.4 0 solid circle black lightgrey
node 1 0.5 2.5 0.4 0.4 1 solid circle black lightgrey
node 2 2.5 2.5 0.4 0.4 2 solid circle black lightgrey
node 3 1.5 1.5 0.4 0.4 3 solid circle black lightgrey
stop"""


@pytest.mark.parametrize("output", [PLAIN, PLAIN.replace("node 3", "edge 3"), "error"])
def test_graphviz_places_the_states_where_it_is_installed(
    output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what it cannot place is placed without it: no state is ever missing from a picture."""
    dot = tmp_path / "dot"
    dot.write_text(f"#!/bin/sh\ncat > '{tmp_path}/graph'\ncat <<'END'\n{output}\nEND\n")
    dot.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    drawn = ET.fromstring(picture(["a", "b", "c", "d"], [0], DIAMOND, title="t", number="n"))
    found = [(float(node.get("cx", "")), float(node.get("cy", ""))) for node in drawn.iter("circle")]
    assert "0 -> 1; 0 -> 2; 1 -> 3; 2 -> 3; 3 -> 0; 3 -> 3" in (tmp_path / "graph").read_text()
    assert len(found) == 4
    placed = [(138, 66), (66, 138), (210, 138), (138, 210)]
    spread = [pytest.approx((x * SPREAD, y * 1.3)) for x, y in placed]  # room for the names of the steps
    assert (found == spread) is (output == PLAIN)


def test_the_way_to_a_violation_is_marked() -> None:
    """Two steps have the label `go(n=1)`; only one of them leads on to `fail`."""
    states = tuple(GraphState(text, text == "a") for text in "abcd")
    labelled = ((0, 1, "go(n=1)"), (0, 2, "go(n=1)"), (2, 3, "fail()"))
    trace = [TraceStep(0, None, state={}), TraceStep(1, "go", {"n": 1}), TraceStep(2, "fail")]
    path = error_path(StateGraph(states, labelled), trace)
    assert path == [(0, 2, "go(n=1)"), (2, 3, "fail()")]
    markup = picture(list("abcd"), [0], labelled, title="t", number="n", path=path)
    drawn = ET.fromstring(markup)
    assert [node.get("class") for node in drawn.iter("circle")].count("state violated") == 1
    assert [one.get("class") for one in drawn.iter("path")].count("step error") == 2
    assert error_path(StateGraph(states, labelled), [*trace, TraceStep(3, "elsewhere")]) == []


def test_values_over_decades_have_a_logarithmic_axis_upwards_too() -> None:
    (_, y1), (_, y2), (_, y3) = places(
        chart([Line("l", [(1, 1), (2, 10), (3, 100)])], title="t", x="x", y="y", number="n")
    )
    assert y1 - y2 == pytest.approx(y2 - y3, abs=0.1)


def places(markup: str, index: int = 0) -> list[tuple[float, float]]:
    line = list(ET.fromstring(markup).iter("polyline"))[index]
    return [tuple(map(float, pair.split(","))) for pair in line.get("points", "").split()]  # type: ignore[misc]  # pairs


def test_a_larger_value_is_higher_and_further_right() -> None:
    drawn = places(chart([Line("p99", [(1, 10), (2, 30), (3, 20)])], title="t", x="cap", y="ms", number="n"))
    (x1, y1), (x2, y2), (x3, y3) = drawn
    assert x1 < x2 < x3
    assert y2 < y3 < y1


def test_values_over_decades_are_spread_evenly() -> None:
    (x1, _), (x2, _), (x3, _) = places(
        chart([Line("l", [(1, 1), (10, 1), (100, 1)])], title="t", x="x", y="y", number="n")
    )
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.1)


def test_one_value_and_zeroes_are_drawn() -> None:
    assert places(chart([Line("l", [(5, 0)])], title="t", x="x", y="y", number="n"))


def test_a_chart_says_its_ends_in_words() -> None:
    """For whoever cannot see it."""
    markup = chart([Line("p50", [(1, 12.5), (8, 1234.0)])], title="t", x="cap", y="ms", number="n")
    assert "p50 from 12.5 to 1,234" in markup


@pytest.mark.parametrize(
    ("value", "output"), [(0.01234, "0.01234"), (12.345, "12.35"), (12345.6, "12,346"), (0, "0")]
)
def test_numbers_are_short(value: float, output: str) -> None:
    assert short(value) == output
