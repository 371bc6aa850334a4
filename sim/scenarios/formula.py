"""The closed formula, held against every run of a scenario:

    wall = (serial hops + requests / effective concurrency) x RTT + compute

The effective concurrency is the narrower of the client's cap and the store's; without a cap the requests that
are not on the critical path cost no time, and their term is nothing. Compute is what the path computes
whatever the store does.

Where it misleads: hops are requests too, so a path that is all hops pays for them twice; and what a client
computes while it waits for other answers is added here, but overlaps there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.sim.scenarios.keys import KEYS
from fencepost.sim.scenarios.scenario import Formula, Point, Scenario


def predicted_ms(
    *, hops: float, requests: float, concurrency: float | None, rtt_ms: float, compute_ms: float
) -> float:
    """The formula itself."""
    waits = 0.0 if concurrency is None else requests / concurrency
    return (hops + waits) * rtt_ms + compute_ms


def formula_rows(
    scenario: Scenario, formula: Formula, points: Sequence[Point], runs: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """One row a run: the formula as reference, the simulation beside it."""
    from fencepost.sim.scenarios.judging import numeric, row

    rows = []
    for point, run in zip(points, runs, strict=True):
        stats = run["operations"].get(formula.operation)
        if stats is None:
            continue
        caps = [point.settings.get(key) for key in ("client.in_flight", "store.in_flight")]
        given = [cap for cap in caps if cap is not None]
        rtt_ms = numeric("store.latency", point.settings.get("store.latency", KEYS["store.latency"].default))
        reference = predicted_ms(
            hops=stats["serial_hops"],
            requests=stats["requests"],
            concurrency=min(given) if given else None,
            rtt_ms=rtt_ms,
            compute_ms=_compute_ms(scenario, stats["requests"]),
        )
        name = "formula at " + ", ".join(
            f"{key.rpartition('.')[2]} {v}" for key, v in point.parameters.items()
        )
        rows.append(row(name, reference, stats["p50"], formula.tolerance, "ms", ""))
    return rows


def _compute_ms(scenario: Scenario, requests: float) -> float:
    path = scenario.path
    if path is None:
        return 0.0
    return (sum(step.compute_ns for step in path.steps) + requests * path.compute_per_request_ns) / 1e6
