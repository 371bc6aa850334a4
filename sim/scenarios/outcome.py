"""What came of a scenario, as one value that is printed, plotted and written as JSON."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.sim.des.result import Result
from fencepost.sim.scenarios.judging import check_rows, numeric, objective_rows, timed
from fencepost.sim.scenarios.scenario import Point, Scenario

MONTH_S = 30 * 86400


def outcome(
    scenario: Scenario,
    points: Sequence[Point],
    results: Mapping[int, Result],
    *,
    seed: int,
    checked: bool = True,
) -> dict[str, Any]:
    """Of the runs that were finished; nothing in it depends on when or where they ran.

    A sweep from the command line changes what the scenario's own checks are about: they are left out then.
    """
    runs = [_run(scenario, point, results[point.number]) for point in points if point.number in results]
    complete = len(runs) == len(points)
    checks = check_rows(scenario, points, runs) if complete and checked else []
    objectives = objective_rows(scenario, runs)
    return {
        "scenario": scenario.name,
        "title": scenario.title,
        "about": " ".join(scenario.about.split()),
        "verdict": _verdict(checks, objectives, complete),
        "seed": seed,
        "settings": scenario.shown,
        "planned": len(points),
        "units": {key: "ms" for key in sorted({key for run in runs for key in run["values"]}) if timed(key)},
        "case_keys": sorted({key for shown in scenario.cases_shown for key in shown}),
        "runs": runs,
        "checks": checks,
        "objectives": objectives,
    }


def _run(scenario: Scenario, point: Point, result: Result) -> dict[str, Any]:
    found = result.to_json()
    del found["throughput"]
    return {
        "run": run_name(scenario.name, point.number),
        "parameters": point.parameters,
        "values": _values(point),
        "operations": found.pop("operations"),
        "throughput": result.throughput,
        "throughput_per_writer": round(result.throughput / point.settings.get("workload.writers", 1), 6),
        "dollars_month": dollars_month(result, scenario.prices),
        "dollars_million": dollars_million(result, scenario.prices),
        **found,
    }


def run_name(scenario: str, number: int) -> str:
    """Of a run, in the result and of its trace."""
    return f"{scenario}-{number + 1:04d}"


def _values(point: Point) -> dict[str, float]:
    """What distinguishes the run, as numbers where it is one: times in milliseconds."""
    found = {}
    for key in point.parameters:
        value = point.settings.get(key)
        if isinstance(value, int | float | dict | tuple) and not isinstance(value, bool):
            found[key] = numeric(key, value)
    return {key: value for key, value in found.items() if math.isfinite(value)}


def dollars_month(result: Result, prices: Mapping[str, float]) -> float:
    """The requests of the window, kept up for thirty days. Storage and traffic are not in it."""
    a_second = sum(count * prices.get(kind, 0.0) for kind, count in result.requests.items()) / result.window_s
    return round(a_second * MONTH_S, 2)


def dollars_million(result: Result, prices: Mapping[str, float]) -> float:
    """The requests of a million operations of the workload, maintenance included."""
    operations = result.throughput * result.window_s
    dollars = sum(count * prices.get(kind, 0.0) for kind, count in result.requests.items())
    return round(1e6 * dollars / operations, 2) if operations else 0.0


def _verdict(
    checks: Sequence[Mapping[str, Any]], objectives: Sequence[Mapping[str, Any]], complete: bool
) -> str:
    """Objectives that break in a sweep are an answer; in a scenario of one run they are a violation."""
    if not all(check["ok"] for check in checks):
        return "violated"
    if any(objective["violated"] for objective in objectives):
        return "violated"
    return "holds" if complete else "undecided"
