"""The page on performance is what the benchmarks measured, and they compare like with like."""

import importlib
import json
import re
import shutil
from pathlib import Path

import pytest

from bench import kernel, report
from bench.peers import promela, tla_module
from fencepost.model import check
from fencepost.model.textbook.two_phase import TwoPhase

KEPT = json.loads((report.DOCS / "performance.json").read_text())


def test_the_page_is_what_the_generator_makes_of_the_json() -> None:
    """`python -m bench.report` writes it."""
    assert (report.DOCS / "performance.md").read_text() == report.page(KEPT)


def test_figures_come_from_the_json_and_what_is_not_measured_is_named() -> None:
    name, found = "kernel", json.loads(json.dumps(KEPT["kernel"]))
    found["contestants"]["ours, 9 managers"]["rate"] = 123_456_789
    assert "123,456,789 states/s" in report.page({name: found})
    assert "not measured: `python -m bench.million_runs`" in report.page({name: found})


def test_every_benchmark_of_the_page_makes_rows() -> None:
    for name in report.PAGE:
        assert callable(importlib.import_module(f"bench.{name.replace('-', '_')}").headline)


def test_checkers_are_compared_at_equal_sizes_and_cores_are_stated() -> None:
    one = {"rate": 10.0, "cores": 2}
    names = [
        f"{engine}, {size} managers{mine}"
        for engine in ("ours", "compiled")
        for size in (7, 9)
        for mine in ("", ", one core")
    ]
    found = kernel._ratios(dict.fromkeys(names, one) | {"TLC, 9 managers": one, "SPIN, 7 managers": one})
    assert found == []
    found = kernel._ratios(dict.fromkeys(names, one) | {"TLC, 7 managers": one})
    name = "times TLC's rate, 7 managers, 2 of our cores, 2 of theirs"
    assert [bar["name"] for bar in found] == [name] * 2 + [f"{name}, compiled"] * 2


def test_the_headlines_say_how_many_distinct_runs_were_driven() -> None:
    assert re.search(
        r"events in [\d,]+ runs: copies of \| \d+ driven runs, \d+ of them distinct", report.page(KEPT)
    )


def test_spin_judges_the_invariant_and_deadlocks() -> None:
    """An assertion after every step, and no label that would make a state without a next step valid."""
    model = promela(3)
    steps = [line for line in model.splitlines() if "d_step" in line]
    assert len(steps) == 2 + 5 * 3
    assert all(line.endswith("assert(AGREEMENT) }") for line in steps)
    assert not re.search(r"^\s*end\w*:", model, re.MULTILINE)
    assert "-E" not in kernel.pan_options(3)
    assert promela(3, "agreement") != model != promela(3, "deadlock")
    assert tla_module("agreement") != tla_module() != tla_module("deadlock")


def test_ours_judges_the_same() -> None:
    names = {found.name for found in check(TwoPhase, {"managers": 2}).properties}
    assert {"agreement", "no-deadlock"} <= names


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("spin") and shutil.which("gcc")), reason="apt install spin gcc")
def test_spin_reports_what_is_planted(tmp_path: Path) -> None:
    kernel.spin_judges(tmp_path)
