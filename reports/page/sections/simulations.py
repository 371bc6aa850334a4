"""Capacity what-ifs: measured against published, and latency, throughput and dollars over what was swept."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fencepost.reports.page.chart import Line, chart
from fencepost.reports.page.elements import Markup, join, tag
from fencepost.reports.page.found import Findings, Result
from fencepost.reports.page.sections.pieces import amount, anchor, folded, scrolling, table, verdict

Run = Mapping[str, Any]
LINES_MAX = 5
"""Of one chart; with more, none can be followed."""


def section(found: Findings) -> Markup | None:
    """Each scenario."""
    parts = [_scenario(result) for result in found.of("simulate")]
    return join(*parts) if parts else None


def _scenario(result: Result) -> Markup:
    runs: Sequence[Run] = result.data["runs"]
    return tag(
        "article",
        tag("h3", result.title, id=anchor(result)),
        tag("p", str(result.data.get("about", ""))) if result.data.get("about") else None,
        _checks(result.data.get("checks", ())),
        list(_charts(result, runs)),
        folded("Every run", _runs(runs)),
    )


def _checks(checks: Sequence[Run]) -> Markup | None:
    if not checks:
        return None
    rows = [
        (
            c["name"],
            amount(c["reference"]),
            amount(c["simulated"]),
            verdict("holds" if c["ok"] else "violated", f"{c['error']:+.1%}"),
        )
        for c in checks
    ]
    return table(
        "Measured against simulated", ("what", "reference", "simulated", "error"), rows, numbers=".nnn"
    )


def swept(runs: Sequence[Run]) -> list[str]:
    """The parameters that differ between runs and are numbers in all of them."""
    names = dict.fromkeys(name for run in runs for name in run.get("parameters", {}))
    values = {name: [run.get("parameters", {}).get(name) for run in runs] for name in names}
    return [
        name
        for name, column in values.items()
        if len({str(value) for value in column}) > 1
        and all(isinstance(value, int | float) and not isinstance(value, bool) for value in column)
    ]


def _charts(result: Result, runs: Sequence[Run]) -> Iterator[Markup]:
    names = swept(runs)
    if len(names) != 1:
        return  # over two values at once a line says nothing; the table of runs has them all
    name = names[0]
    ordered = sorted(runs, key=lambda run: run["parameters"][name])
    for what, unit, lines in (
        ("latency", "milliseconds", _latencies(ordered, name)),
        ("throughput", "operations a second", _values(ordered, name, "throughput")),
        ("cost", "dollars a month", _values(ordered, name, "dollars_month")),
    ):
        if lines:
            title = f"{result.title}: {what} over {name}"
            number = f"{anchor(result)}-{what}"
            yield scrolling(chart(lines[:LINES_MAX], title=title, x=name, y=unit, number=number), title)


def _latencies(runs: Sequence[Run], name: str) -> list[Line]:
    operations = dict.fromkeys(op for run in runs for op in run.get("operations", {}))
    lines = []
    for operation in operations:
        for quantile in ("p50", "p99"):
            points = [
                (float(run["parameters"][name]), float(run["operations"][operation][quantile]))
                for run in runs
                if run.get("operations", {}).get(operation, {}).get(quantile) is not None
            ]
            if points:
                lines.append(Line(f"{operation} {quantile}", points))
    return lines


def _values(runs: Sequence[Run], name: str, key: str) -> list[Line]:
    points = [
        (float(run["parameters"][name]), float(run[key]))
        for run in runs
        if isinstance(run.get(key), int | float)
    ]
    return (
        [Line(key.replace("_", " "), points)] if len(points) > 1 and any(value for _, value in points) else []
    )


def _runs(runs: Sequence[Run]) -> Markup:
    head = (
        "run",
        "operation",
        "count",
        "p50 ms",
        "p99 ms",
        "requests",
        "serial hops",
        "a second",
        "dollars a month",
    )
    rows = [
        (
            ", ".join(f"{n}={amount(v)}" for n, v in run.get("parameters", {}).items()) or "the one",
            operation,
            *(amount(row.get(key, "")) for key in ("count", "p50", "p99", "requests", "serial_hops")),
            amount(run.get("throughput", "")),
            amount(run.get("dollars_month", "")),
        )
        for run in runs
        for operation, row in run.get("operations", {}).items()
    ]
    return table("Every run", head, rows, numbers="..nnnnnnn")
