"""Checks against measurements, and objectives: what a scenario asks, answered from its runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.sim.scenarios import units
from fencepost.sim.scenarios.errors import BadScenario
from fencepost.sim.scenarios.formula import formula_rows
from fencepost.sim.scenarios.keys import KEYS, latency
from fencepost.sim.scenarios.places import line_of
from fencepost.sim.scenarios.scenario import Check, Point, Scenario

Run = Mapping[str, Any]


def measure(run: Run, name: str) -> float | None:
    """The number of this name in a run's row; None when the run has none."""
    if name in ("throughput", "throughput_per_writer", "dollars_month", "dollars_million"):
        return float(run[name])
    if name == "failed":
        return float(sum(run["failed"].values()))
    head, _, statistic = name.rpartition(".")
    if head in ("part", "counter"):
        found = run[f"{head}s"].get(statistic)
        return None if found is None else float(found)
    operation = run["operations"].get(head)
    return None if operation is None else float(operation[statistic])


def check_rows(scenario: Scenario, points: Sequence[Point], runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One row a check: the measured number, the simulated one, and how far they are apart."""
    rows = [_check(scenario, check, points, runs) for check in scenario.checks]
    if scenario.formula is not None:
        rows += formula_rows(scenario, scenario.formula, points, runs)
    return rows


def check_places(scenario: Scenario, points: Sequence[Point]) -> None:
    """Refuse a check that looks at a run there is not, before anything runs."""
    for check in scenario.checks:
        for at in (check.at, check.relative_to):
            if at is not None:
                _chosen(scenario, check, at, points)


def _check(scenario: Scenario, check: Check, points: Sequence[Point], runs: Sequence[Run]) -> dict[str, Any]:
    chosen = _chosen(scenario, check, check.at, points)
    if check.slope_over:
        simulated = _slope(scenario, check, points, runs, chosen)
    else:
        simulated = _mean(scenario, check, runs, chosen)
        if check.relative_to is not None:
            others = _chosen(scenario, check, check.relative_to, points)
            simulated /= _mean(scenario, check, runs, others)
    return row(check.name, check.measured, simulated, check.tolerance, check.unit, check.says)


def row(
    name: str, reference: float, simulated: float, tolerance: float, unit: str, says: str
) -> dict[str, Any]:
    error = (simulated - reference) / reference if reference else 0.0
    return {
        "name": name,
        "reference": round(reference, 6),
        "simulated": round(simulated, 6),
        "error": round(error, 6),
        "tolerance": tolerance,
        "unit": unit,
        "ok": abs(error) <= tolerance,
        "says": says,
    }


def _chosen(scenario: Scenario, check: Check, at: Mapping[str, Any], points: Sequence[Point]) -> list[int]:
    """The places of the runs whose parameters are these."""
    found = [
        place
        for place, point in enumerate(points)
        if all(point.parameters.get(key, scenario.shown.get(key)) == value for key, value in at.items())
    ]
    if not found:
        where = ", ".join(f"{key} = {value}" for key, value in at.items())
        line = line_of(scenario.lines, f"check.{scenario.checks.index(check)}")
        raise BadScenario(f"{scenario.file}:{line}: check {check.name!r} looks at {where}, but no run is so")
    return found


def _mean(scenario: Scenario, check: Check, runs: Sequence[Run], chosen: Sequence[int]) -> float:
    """Of the runs that were chosen: mostly one."""
    return sum(_value(scenario, check, runs[place]) for place in chosen) / len(chosen)


def _value(scenario: Scenario, check: Check, run: Run) -> float:
    found = measure(run, check.measure)
    if found is None:
        raise BadScenario(f"{scenario.name}: check {check.name!r}: the run has no {check.measure}")
    return found


def _slope(
    scenario: Scenario, check: Check, points: Sequence[Point], runs: Sequence[Run], chosen: Sequence[int]
) -> float:
    """How much the measure grows with the swept key: least squares, as one reads it off a plot."""
    pairs = [
        (
            numeric(check.slope_over, points[place].settings[check.slope_over]),
            _value(scenario, check, runs[place]),
        )
        for place in chosen
    ]
    mean_x = sum(x for x, _ in pairs) / len(pairs)
    mean_y = sum(y for _, y in pairs) / len(pairs)
    spread = sum((x - mean_x) ** 2 for x, _ in pairs)
    if not spread:
        raise BadScenario(
            f"{scenario.name}: check {check.name!r}: {check.slope_over} is the same in all runs"
        )
    return sum((x - mean_x) * (y - mean_y) for x, y in pairs) / spread


def numeric(key: str, value: Any) -> float:
    """A setting as a number to plot and to fit against: times in milliseconds, no limit as infinity."""
    if isinstance(value, dict):
        inner = value.get("default", 0)
        return (inner["p50"] if isinstance(inner, dict) else inner) / 1e6
    if value is None:
        return float("inf")
    if isinstance(value, tuple):
        return float(value[0]) if value[0] is not None else numeric("workload.think", value[1])
    return float(value) / 1e6 if timed(key) else float(value)


def timed(key: str) -> bool:
    """Whether the values of `key` are times."""
    known = KEYS.get(key)
    return known is not None and known.parse in (units.duration, units.positive_duration, latency)


def objective_rows(scenario: Scenario, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One row an objective: where it holds, and the first run of the sweep that breaks it."""
    rows = []
    for objective in scenario.objectives:
        bound = objective.bound
        if objective.relative:
            bound *= (measure(runs[0], objective.measure) or 0.0) if runs else 0.0
        broken = [
            run for run in runs if not _reached(objective.below, bound, measure(run, objective.measure))
        ]
        swept = len(runs) > 1
        rows.append(
            {
                "objective": objective.text,
                "broken_runs": len(broken),
                "runs": len(runs),
                "first_broken": broken[0]["parameters"] if broken else None,
                "first_value": measure(broken[0], objective.measure) if broken else None,
                # In a sweep, breaking somewhere is the answer that was looked for.
                "violated": bool(broken) and (not swept or len(broken) == len(runs)),
            }
        )
    return rows


def _reached(below: bool, bound: float, value: float | None) -> bool:
    if value is None:
        return False
    return value < bound if below else value > bound
