"""Plots of a simulation: latency, throughput, requests and cost over what was swept, as PNG and SVG.

One figure a scenario. Its bytes depend on the result alone: no date, no random identifiers.
"""

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
LINES_MAX = 6
"""Of a chart; with more, none can be followed."""
STYLE: Any = {"svg.hashsalt": "fencepost", "font.size": 9}
METADATA: Mapping[str, Mapping[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
}


def figures(found: Row) -> dict[str, bytes]:
    """File names and their bytes; none where nothing was swept."""
    axis = _axis(found["runs"])
    if axis is None:
        return {}
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    with mpl.rc_context(STYLE):
        figure, charts = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
        figure.suptitle(found["title"])
        for chart, (title, unit, lines) in zip(charts.flat, _charts(found, axis), strict=True):
            label = axis.rpartition(".")[2] + (f" ({found['units'][axis]})" if axis in found["units"] else "")
            _draw(chart, title, unit, lines, label)
        files = {f"plot.{kind}": image(figure, kind) for kind in METADATA}
        plt.close(figure)
    return files


def image(figure: Any, kind: str) -> bytes:
    """Return a figure of matplotlib in a format of `METADATA`, without anything but its content."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, metadata=METADATA[kind], dpi=110)
    return buffer.getvalue()


def _axis(runs: Sequence[Row]) -> str | None:
    """The swept number with the most values."""
    names = list(dict.fromkeys(name for run in runs for name in run["values"]))
    counts = {name: len({run["values"].get(name) for run in runs}) for name in names}
    names = [name for name in names if counts[name] > 1]
    return max(names, key=lambda name: counts[name]) if names else None


def _charts(found: Row, axis: str) -> list[tuple[str, str, dict[str, list[tuple[float, float]]]]]:
    runs = found["runs"]
    operations = list(dict.fromkeys(name for run in runs for name in run["operations"]))

    def over(pick: Any, label: str) -> dict[str, list[tuple[float, float]]]:
        lines: dict[str, list[tuple[float, float]]] = {}
        for run in runs:
            value = pick(run)
            if value is not None and axis in run["values"]:
                name = ", ".join(part for part in (label, _others(run, axis)) if part)
                lines.setdefault(name, []).append((run["values"][axis], value))
        return lines

    def stat(operation: str, name: str) -> Any:
        return lambda run: run["operations"].get(operation, {}).get(name)

    latency = {
        k: v for op in operations for q in ("p50", "p99") for k, v in over(stat(op, q), f"{op} {q}").items()
    }
    requests = {k: v for op in operations for k, v in over(stat(op, "requests"), op).items()}
    return [
        ("latency", "ms", latency),
        ("throughput", "operations a second", over(lambda run: run["throughput"], "")),
        ("requests of an operation", "", requests),
        ("cost of requests", "dollars a month", over(lambda run: run["dollars_month"], "")),
    ]


def _others(run: Row, axis: str) -> str:
    """The parameters that are not on the axis."""
    return ", ".join(
        f"{name.rpartition('.')[2]} {value}" for name, value in run["parameters"].items() if name != axis
    )


def _draw(
    chart: Any, title: str, unit: str, lines: Mapping[str, list[tuple[float, float]]], label: str
) -> None:
    shown = dict(list(lines.items())[:LINES_MAX])
    for name, points in shown.items():
        ordered = sorted(point for point in points if math.isfinite(point[0]))
        chart.plot(
            [x for x, _ in ordered], [y for _, y in ordered], marker="o", markersize=3, label=name or None
        )
    chart.set_title(title)
    chart.set_xlabel(label)
    chart.set_ylabel(unit)
    chart.set_ylim(bottom=0)
    chart.grid(visible=True, alpha=0.3)
    if any(shown):
        chart.legend(fontsize=7)
    if len(lines) > LINES_MAX:
        chart.annotate(
            f"{len(lines) - LINES_MAX} more lines left out",
            (0.02, 0.94),
            xycoords="axes fraction",
            fontsize=7,
        )
