"""The outcome of a scenario as one value, and what `--out DIR` writes of it.

DIR receives results.json, the same as a table in results.parquet, a trace of each run in traces/, and plots.
Each file appears whole or not at all.
"""

import importlib.util
import io
import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fencepost.sim.des.result import Result
from fencepost.sim.scenarios.judging import check_rows, numeric, objective_rows, timed
from fencepost.sim.scenarios.result import (
    ObjectiveResult,
    SimulatedRun,
    SimulateResult,
    SimulationCheck,
    Verdict,
)
from fencepost.sim.scenarios.scenario import Point, Scenario
from fencepost.sim.scenarios.source import BadScenario
from fencepost.sim.whole_files import write_whole

MONTH_S = 30 * 86400


def outcome(
    scenario: Scenario,
    points: Sequence[Point],
    results: Mapping[int, Result],
    *,
    seed: int,
    checked: bool = True,
) -> SimulateResult:
    """Of the runs that were finished; nothing in it depends on when or where they ran.

    A sweep from the command line changes what the scenario's own checks are about: they are left out then.
    """
    runs = [_run(scenario, point, results[point.number]) for point in points if point.number in results]
    complete = len(runs) == len(points)
    checks = check_rows(scenario, points, runs) if complete and checked else []
    objectives = objective_rows(scenario, runs)
    timed_keys = sorted({key for run in runs for key in run.values if timed(key)})
    return SimulateResult(
        scenario=scenario.name,
        runs=tuple(runs),
        checks=tuple(checks),
        verdict=_verdict(checks, objectives, complete),
        title=scenario.title,
        about=" ".join(scenario.about.split()),
        seed=seed,
        settings=scenario.shown,
        planned=len(points),
        units=dict.fromkeys(timed_keys, "ms"),
        case_keys=tuple(sorted({key for case in scenario.cases for key in case.shown})),
        objectives=tuple(objectives),
        notes=tuple(_notes(scenario, points)),
    )


def _notes(scenario: Scenario, points: Sequence[Point]) -> Iterator[str]:
    """Say so where a sweep puts a constant in the place of a distribution."""
    own = scenario.settings.get("store.latency")
    if _varies(own) and any(not _varies(point.settings.get("store.latency")) for point in points):
        given = scenario.shown.get("store.latency")
        yield (
            f"The sweep of store.latency replaces the distribution {given} by constants: what p99 shows is "
            'queueing alone. To keep its shape, sweep it as { p50 = "...", p99 = "..." } in the file.'
        )


def _varies(latency: Any) -> bool:
    """Return True if a latency, as the loader parsed it, is no constant for all kinds."""
    return isinstance(latency, Mapping) and not all(isinstance(one, int) for one in latency.values())


def _run(scenario: Scenario, point: Point, result: Result) -> SimulatedRun:
    return SimulatedRun(
        parameters=point.parameters,
        operations=result.operations,
        throughput=result.throughput,
        dollars_month=dollars_month(result, scenario.prices),
        run=run_name(scenario.name, point.number),
        values=_values(point),
        throughput_per_writer=round(result.throughput / point.settings.get("workload.writers", 1), 6),
        dollars_million=dollars_million(result, scenario.prices),
        failed=result.failed,
        window_s=result.window_s,
        requests=result.requests,
        outcomes=result.outcomes,
        faults=result.faults,
        saturation=result.saturation,
        counters=result.counters,
        parts=result.parts,
    )


def run_name(scenario: str, number: int) -> str:
    """Of a run, in the result and of its trace."""
    return f"{scenario}-{number + 1:04d}"


def _values(point: Point) -> dict[str, float]:
    """Return the parameters that are numbers; times are in milliseconds."""
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
    checks: Sequence[SimulationCheck], objectives: Sequence[ObjectiveResult], complete: bool
) -> Verdict:
    """Violated by one failed check or one run that broke an objective; undecided while runs are missing."""
    if not all(check.expected for check in checks):
        return "violated"
    if any(objective.violated for objective in objectives):
        return "violated"
    return "holds" if complete else "undecided"


RESULTS = "results.json"
TABLE = "results.parquet"


def prepare(folder: Path, *, traces: bool, plots: bool) -> Path:
    """Make the folder, and refuse now what could not be written after the runs."""
    if traces and importlib.util.find_spec("pyarrow") is None:
        raise BadScenario("traces need pyarrow: pip install 'fencepost[catalog]', or give --no-traces")
    if plots and importlib.util.find_spec("matplotlib") is None:
        raise BadScenario("plots need matplotlib: pip install 'fencepost[plots]', or give --no-plots")
    try:
        (folder / "traces" if traces else folder).mkdir(parents=True, exist_ok=True)
        handle, probe = tempfile.mkstemp(dir=folder)
    except OSError as error:
        raise BadScenario(f"cannot write to {folder}: {error.strerror}; give --out another folder") from None
    os.close(handle)
    Path(probe).unlink()
    return folder


def write_out(folder: Path, result: Mapping[str, Any], plots: Mapping[str, bytes]) -> list[str]:
    """The result and its plots; answers what was written, traces included."""
    text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    replace_file(folder / RESULTS, text.encode())
    written = [str(folder / RESULTS)]
    if importlib.util.find_spec("pyarrow") is not None:
        replace_file(folder / TABLE, _table(result))
        written.append(str(folder / TABLE))
    names = {f"{run['run']}.parquet" for run in result["runs"]}
    traces = sorted((folder / "traces").glob(f"{result['scenario']}-[0-9][0-9][0-9][0-9]*.parquet"))
    for stale in [trace for trace in traces if trace.name not in names]:
        stale.unlink()  # of an earlier sweep with more runs: it would pass for one of this
    if traces:
        written.append(f"{len(names & {trace.name for trace in traces})} traces in {folder / 'traces'}")
    for name, body in plots.items():
        replace_file(folder / name, body)
        written.append(str(folder / name))
    return written


def _table(result: Mapping[str, Any]) -> bytes:
    """Return the runs as a table to query: a row for every operation of every run."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    keys = list(dict.fromkeys(key for run in result["runs"] for key in run["parameters"]))
    rows = [
        {
            "run": number,
            **{key: None if key not in run["parameters"] else str(run["parameters"][key]) for key in keys},
            "operation": operation,
            **stats,
            "throughput": run["throughput"],
            "dollars_month": run["dollars_month"],
        }
        for number, run in enumerate(result["runs"], 1)
        for operation, stats in run["operations"].items()
    ]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


def replace_file(path: Path, body: bytes) -> None:
    try:
        write_whole(path, body)
    except OSError as error:
        raise BadScenario(f"cannot write {path}: {error.strerror}; give --out another folder") from None
