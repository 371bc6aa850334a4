"""Sections with numbers: capacity simulations, replayed traces, probed stores."""

from collections.abc import Iterator, Mapping, Sequence

from fencepost.reports.folder import Entry
from fencepost.reports.page.chart import Line, chart
from fencepost.reports.page.elements import (
    Markup,
    amount,
    anchor,
    article,
    folded,
    scrolling,
    table,
    tag,
    verdict,
)
from fencepost.results import ProbeResult, ReplayResult, SimulatedRun, SimulateResult, SimulationCheck

LINES_MAX = 5
"""Of one chart; with more, none can be followed."""
TOTALS = ("runs", "events", "accepted", "rejected", "undecided", "events_per_second")
QUANTILES = ("p50", "p90", "p99")


def scenario(entry: Entry) -> Markup:
    """Measured against simulated, and latency, throughput and dollars over what was swept."""
    data: SimulateResult = entry.data
    return article(
        entry,
        tag("p", data.about) if data.about else None,
        _checks(data.checks) if data.checks else None,
        list(_charts(entry, data.runs)),
        folded("Every run", _runs(data.runs)),
    )


def _checks(checks: Sequence[SimulationCheck]) -> Markup:
    rows = [
        (
            check.name,
            amount(check.reference),
            amount(check.simulated),
            verdict("holds" if check.ok else "violated", f"{check.error:+.1%}"),
        )
        for check in checks
    ]
    head = ("what", "reference", "simulated", "error")
    return table("Measured against simulated", head, rows, numbers=".nnn")


def swept(runs: Sequence[SimulatedRun]) -> list[str]:
    """The parameters that differ between runs and are numbers in all of them."""
    names = dict.fromkeys(name for run in runs for name in run.parameters)
    values = {name: [run.parameters.get(name) for run in runs] for name in names}
    return [
        name
        for name, column in values.items()
        if len({str(value) for value in column}) > 1
        and all(isinstance(value, int | float) and not isinstance(value, bool) for value in column)
    ]


def _charts(entry: Entry, runs: Sequence[SimulatedRun]) -> Iterator[Markup]:
    names = swept(runs)
    if len(names) != 1:
        return  # over two values at once a line shows nothing; the table of runs has them all
    name = names[0]
    ordered = sorted(runs, key=lambda run: run.parameters[name])
    for what, unit, lines in (
        ("latency", "milliseconds", _latencies(ordered, name)),
        ("throughput", "operations a second", _values(ordered, name, "throughput")),
        ("cost", "dollars a month", _values(ordered, name, "dollars_month")),
    ):
        if lines:
            title = f"{entry.title}: {what} over {name}"
            number = f"{anchor(entry)}-{what}"
            yield scrolling(chart(lines[:LINES_MAX], title=title, x=name, y=unit, number=number), title)


def _latencies(runs: Sequence[SimulatedRun], name: str) -> list[Line]:
    operations = dict.fromkeys(operation for run in runs for operation in run.operations)
    lines = []
    for operation in operations:
        for quantile in ("p50", "p99"):
            points = [
                (float(run.parameters[name]), float(getattr(run.operations[operation], quantile)))
                for run in runs
                if operation in run.operations
            ]
            lines.append(Line(f"{operation} {quantile}", points))
    return lines


def _values(runs: Sequence[SimulatedRun], name: str, key: str) -> list[Line]:
    points = [(float(run.parameters[name]), float(getattr(run, key))) for run in runs]
    useful = len(points) > 1 and any(value for _, value in points)
    return [Line(key.replace("_", " "), points)] if useful else []


def _runs(runs: Sequence[SimulatedRun]) -> Markup:
    head = (
        *("run", "operation", "count", "p50 ms", "p99 ms", "requests", "serial hops"),
        *("a second", "dollars a month"),
    )
    rows = [
        (
            ", ".join(f"{n}={amount(v)}" for n, v in run.parameters.items()) or "the one",
            operation,
            *map(amount, (stats.count, stats.p50, stats.p99, stats.requests, stats.serial_hops)),
            amount(run.throughput),
            amount(run.dollars_month),
        )
        for run in runs
        for operation, stats in run.operations.items()
    ]
    return table("Every run", head, rows, numbers="..nnnnnnn")


def replay(entry: Entry) -> Markup:
    """Traces, and whether the model allows them."""
    data: ReplayResult = entry.data
    totals = [(name.replace("_", " "), amount(getattr(data, name))) for name in TOTALS]
    rejected = [(row.run, amount(row.seq), row.event, row.reason) for row in data.violations]
    head = ("run", "at", "event", "why")
    return article(
        entry,
        table("Totals", ("what", "number"), totals, numbers=".n"),
        table("Runs the model does not allow", head, rejected, numbers=".n") if rejected else None,
        [
            folded(name.replace("_", " "), tag("pre", _plain(value)))
            for name, value in data.statistics.items()
        ],
    )


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return "\n".join(f"{key}: {_plain(inner)}" for key, inner in list(value.items())[:100])
    if isinstance(value, list):
        return "\n".join(_plain(inner) for inner in value[:100])
    return amount(value)


def store(entry: Entry) -> Markup:
    """What is safe to build on, and how fast each operation is."""
    data: ProbeResult = entry.data
    rows = [(row.name, verdict(row.verdict), row.detail) for row in data.features]
    times = [(name, *(amount(float(row[q])) for q in QUANTILES)) for name, row in data.latency.items()]
    return article(
        entry,
        table("Features", ("feature", "verdict", "detail"), rows),
        table("Latency in milliseconds", ("operation", *QUANTILES), times, numbers=".nnn") if times else None,
    )
