"""Expectations of a scenario, and their verdicts: objectives, measured values, the closed formula.

The formula that is compared with every run:

    wall = (serial hops + requests / effective concurrency) x RTT + compute

The effective concurrency is the narrower of the client's cap and the store's. Without a cap, requests that
are not on the critical path cost no time, and their term is zero. Compute is what the path computes whatever
the store does. Where the formula misleads: hops are requests too, so a path that consists of hops pays for
them twice; and what a client computes while it waits for other replies is added here, but overlaps there.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fencepost.sim.des.result import MEASURES
from fencepost.sim.scenarios import units
from fencepost.sim.scenarios.keys import KEYS, latency
from fencepost.sim.scenarios.result import ObjectiveResult, SimulatedRun, SimulationCheck
from fencepost.sim.scenarios.scenario import Check, Formula, Objective, Point, Scenario
from fencepost.sim.scenarios.source import BadScenario, BadValue, Source, line_of, suggestion


def measure(run: SimulatedRun, name: str) -> float | None:
    """The number of this name in a run's row; None when the run has none."""
    if name in ("throughput", "throughput_per_writer", "dollars_month", "dollars_million"):
        return float(getattr(run, name))
    if name == "failed":
        return float(sum(run.failed.values()))
    head, _, statistic = name.rpartition(".")
    if head == "client":
        found_ = run.saturation.get(f"client_{statistic}")
        return None if found_ is None else float(found_)
    if head in ("part", "counter"):
        found = (run.parts if head == "part" else run.counters).get(statistic)
        return None if found is None else float(found)
    operation = run.operations.get(head)
    return None if operation is None else float(getattr(operation, statistic))


def check_rows(
    scenario: Scenario, points: Sequence[Point], runs: Sequence[SimulatedRun]
) -> list[SimulationCheck]:
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


def _check(
    scenario: Scenario, check: Check, points: Sequence[Point], runs: Sequence[SimulatedRun]
) -> SimulationCheck:
    chosen = _chosen(scenario, check, check.at, points)
    if check.slope_over:
        simulated = _slope(scenario, check, points, runs, chosen)
    else:
        simulated = _mean(scenario, check, runs, chosen)
        if check.relative_to is not None:
            others = _chosen(scenario, check, check.relative_to, points)
            simulated /= _mean(scenario, check, runs, others)
    return row(check, simulated)


def row(check: Check, simulated: float) -> SimulationCheck:
    """Compare a measured number with the simulated one."""
    error = (simulated - check.measured) / check.measured if check.measured else 0.0
    return SimulationCheck(
        name=check.name,
        reference=round(check.measured, 6),
        simulated=round(simulated, 6),
        error=round(error, 6),
        ok=abs(error) <= check.tolerance,
        tolerance=check.tolerance,
        unit=check.unit,
        says=check.says,
        misses=check.misses,
        basis=check.basis,
        source=check.source,
    )


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


def _mean(scenario: Scenario, check: Check, runs: Sequence[SimulatedRun], chosen: Sequence[int]) -> float:
    """Of the runs that were chosen: mostly one."""
    return sum(_value(scenario, check, runs[place]) for place in chosen) / len(chosen)


def _value(scenario: Scenario, check: Check, run: SimulatedRun) -> float:
    found = measure(run, check.measure)
    if found is None:
        raise BadScenario(f"{scenario.name}: check {check.name!r}: the run has no {check.measure}")
    return found


def _slope(
    scenario: Scenario,
    check: Check,
    points: Sequence[Point],
    runs: Sequence[SimulatedRun],
    chosen: Sequence[int],
) -> float:
    """Return the slope of the measure over the swept key, by least squares."""
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
        return float(inner["p50"] if isinstance(inner, dict) else inner) / 1e6
    if value is None:
        return float("inf")
    if isinstance(value, tuple):
        return float(value[0]) if value[0] is not None else numeric("workload.think", value[1])
    return float(value) / 1e6 if timed(key) else float(value)


def timed(key: str) -> bool:
    """Return true if the values of `key` are times."""
    known = KEYS.get(key)
    return known is not None and known.parse in (units.duration, units.positive_duration, latency)


def objective_rows(scenario: Scenario, runs: Sequence[SimulatedRun]) -> list[ObjectiveResult]:
    """One row an objective: where it holds, and the first run of the sweep that breaks it."""
    rows = []
    for objective in scenario.objectives:
        bound = objective.bound
        if objective.relative:
            bound *= (measure(runs[0], objective.measure) or 0.0) if runs else 0.0
        broken = [
            run for run in runs if not _reached(objective.below, bound, measure(run, objective.measure))
        ]
        rows.append(
            ObjectiveResult(
                objective=objective.text,
                broken_runs=len(broken),
                runs=len(runs),
                first_broken=broken[0].parameters if broken else None,
                first_value=measure(broken[0], objective.measure) if broken else None,
                violated=bool(broken),
            )
        )
    return rows


def _reached(below: bool, bound: float, value: float | None) -> bool:
    if value is None:
        return False
    return value < bound if below else value > bound


OF_A_RUN = ("throughput", "throughput_per_writer", "dollars_month", "dollars_million", "failed")
OF_A_CLIENT = ("parallelism", "in_flight_max")
"""Of the requests of a client with a cap."""
CHECK = (
    "name",
    "measure",
    "at",
    "measured",
    "tolerance",
    "slope_over",
    "relative_to",
    "says",
    "misses",
    "basis",
    "source",
)


def unit_of(name: str, measures: Sequence[str]) -> str:
    """The unit of a measure, which must be one of those that the runs will have."""
    if name not in measures:
        raise BadValue(f"{name!r} is no measure of these runs; {suggestion(str(name), measures)}")
    operation, _, statistic = name.rpartition(".")
    if operation in ("", "part", "counter") or statistic not in MEASURES:
        return ""
    return MEASURES[statistic].unit


def read_objectives(
    source: Source, given: Mapping[str, Any], measures: Sequence[str]
) -> tuple[Objective, ...]:
    flat = {}
    for name, value in given.items():
        flat.update(
            {f"{name}.{inner}": v for inner, v in value.items()} if isinstance(value, dict) else {name: value}
        )
    return tuple(_objective(source, name, value, measures) for name, value in flat.items())


def _objective(source: Source, name: str, value: Any, measures: Sequence[str]) -> Objective:
    where = f"objectives.{name}"
    unit = source.parse(where, lambda known: unit_of(known, measures), name)
    found = re.fullmatch(r"([<>])\s*(.+)", value.strip()) if isinstance(value, str) else None
    if found is None:
        source.fail(
            where, f'{units.shown(value)} is no objective; write it like "< 500 ms" or "> 50 % of first"'
        )
    relative = re.fullmatch(r"(.+%) of first", found[2].strip())
    parse = units.share if relative else lambda text: _bound(text, unit, name)
    bound = source.parse(where, parse, relative[1] if relative else found[2])
    text = f"{name} {value.strip()}"
    return Objective(name, below=found[1] == "<", bound=bound, text=text, relative=relative is not None)


def _bound(text: str, unit: str, name: str) -> float:
    if unit == "ms":
        return units.duration(text) / 1e6
    if name.startswith("throughput"):
        return units.rate(text)
    text = text.removeprefix("$").strip() if name.startswith("dollars_") else text
    try:
        return float(text)
    except ValueError:
        raise BadValue(f"{units.shown(text)} is no number") from None


def read_checks(
    source: Source, given: Any, full: Callable[[str], str], measures: Sequence[str]
) -> tuple[Check, ...]:
    tables = source.tables_of("check", given)
    return tuple(_read_check(source, where, found, full, measures) for where, found in tables)


TEXTS = ("says", "misses", "basis", "source")


def _read_check(
    source: Source, where: str, found: dict[str, Any], full: Callable[[str], str], measures: Sequence[str]
) -> Check:
    source.only(where, found, CHECK)
    source.needs(where, found, ("name", "measure", "measured", "tolerance"), "a check ")
    unit = source.parse(f"{where}.measure", lambda name: unit_of(name, measures), found["measure"])
    measured = found["measured"]
    relative = found.get("relative_to")
    slope = found.get("slope_over", "")
    if isinstance(measured, str) and unit == "ms" and relative is None and not slope:
        measured = source.parse(f"{where}.measured", units.duration, measured) / 1e6
    elif isinstance(measured, str):
        source.fail(f"{where}.measured", f"{units.shown(measured)} must be a plain number here")
    elif unit == "ms" and relative is None and not slope:
        source.fail(f"{where}.measured", 'needs its unit, as in "5.9 s"')

    def at(name: str) -> dict[str, Any]:
        table = source.table(f"{where}.{name}", found.get(name, {}))
        return {
            key if key == "case" else source.parse(f"{where}.{name}.{key}", full, key): v
            for key, v in table.items()
        }

    return Check(
        name=source.parse(f"{where}.name", units.text, found["name"]),
        measure=found["measure"],
        at=at("at"),
        measured=source.parse(f"{where}.measured", units.number, measured),
        tolerance=source.parse(f"{where}.tolerance", units.share, found["tolerance"]),
        unit="" if slope or relative is not None else unit,
        slope_over=source.parse(f"{where}.slope_over", full, slope) if slope else "",
        relative_to=at("relative_to") if relative is not None else None,
        **{name: source.parse(f"{where}.{name}", units.text, found[name]) for name in TEXTS if name in found},
    )


def read_formula(source: Source, given: Any) -> Formula | None:
    if given is None:
        return None
    found = source.table("formula", given)
    source.only("formula", found, ("operation", "tolerance"))
    source.needs("formula", found, ("operation", "tolerance"))
    return Formula(
        operation=source.parse("formula.operation", units.text, found["operation"]),
        tolerance=source.parse("formula.tolerance", units.share, found["tolerance"]),
    )


def predicted_ms(
    *, hops: float, requests: float, concurrency: float | None, rtt_ms: float, compute_ms: float
) -> float:
    """The formula itself."""
    waits = 0.0 if concurrency is None else requests / concurrency
    return (hops + waits) * rtt_ms + compute_ms


def formula_rows(
    scenario: Scenario, formula: Formula, points: Sequence[Point], runs: Sequence[SimulatedRun]
) -> list[SimulationCheck]:
    """One row a run: the formula as reference, the simulation beside it."""
    rows = []
    for point, run in zip(points, runs, strict=True):
        stats = run.operations.get(formula.operation)
        if stats is None:
            continue
        caps = [point.settings.get(key) for key in ("client.in_flight", "store.in_flight")]
        given = [cap for cap in caps if cap is not None]
        rtt_ms = numeric("store.latency", point.settings.get("store.latency", KEYS["store.latency"].default))
        reference = predicted_ms(
            hops=stats.serial_hops,
            requests=stats.requests,
            concurrency=min(given) if given else None,
            rtt_ms=rtt_ms,
            compute_ms=_compute_ms(scenario, point, stats.requests),
        )
        name = "formula at " + ", ".join(
            f"{key.rpartition('.')[2]} {v}" for key, v in point.parameters.items()
        )
        rows.append(row(Check(name, "", {}, reference, formula.tolerance, "ms"), stats.p50))
    return rows


def _compute_ms(scenario: Scenario, point: Point, requests: float) -> float:
    path = scenario.path
    if path is None:
        return 0.0

    def named(table: str) -> dict[str, float]:
        head = f"workload.{table}."
        return {key.removeprefix(head): v for key, v in point.settings.items() if key.startswith(head)}

    values = path.values(point.settings.get("workload.depth", 0), named("parameters"), named("counters"))
    steps = path.steps_of(point.settings.get("workload.operation", ""))
    computed = sum(step.compute_ns for step in steps if step.repeat.value(values) >= 1)
    return (computed + requests * path.compute_per_request_ns) / 1e6
