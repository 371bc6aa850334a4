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

LINES_MAX = 8
"""Of one chart; with more, none can be followed."""
ROWS_OPEN = 12
"""The table beside the charts is open for at most this many runs."""
TOTALS = ("runs", "events", "accepted", "rejected", "undecided", "events_per_second")
QUANTILES = ("p50", "p90", "p99")


def scenario(entry: Entry) -> Markup:
    """Measured against simulated, and latency, throughput and dollars over what was swept."""
    data: SimulateResult = entry.data
    return article(
        entry,
        tag("p", data.about) if data.about else None,
        _checks(data.checks) if data.checks else None,
        tag("div", list(_charts(entry, data)), class_="charts") if len(data.runs) > 1 else None,
        folded("Every run", _runs(data.runs), open_=len(data.runs) <= ROWS_OPEN),
    )


def _checks(checks: Sequence[SimulationCheck]) -> Markup:
    rows = [
        (
            check.name,
            amount(check.reference),
            amount(check.simulated),
            verdict("holds" if check.expected else "violated", f"{check.error:+.1%}"),
        )
        for check in checks
    ]
    head = ("what", "reference", "simulated", "error")
    return table("Measured against simulated", head, rows, numbers=".nnn")


def swept(runs: Sequence[SimulatedRun]) -> list[str]:
    """The parameters that differ between runs and are numbers in all of them, most values first."""
    names = dict.fromkeys(name for run in runs for name in run.parameters)
    values = {name: [_number(run, name) for run in runs] for name in names}
    found = [name for name, column in values.items() if None not in column and len(set(column)) > 1]
    return sorted(found, key=lambda name: -len(set(values[name])))


def _number(run: SimulatedRun, name: str) -> float | None:
    """The value of a parameter as a number: times, which are texts in the scenario, in milliseconds."""
    for given in (run.parameters.get(name), run.values.get(name)):
        if isinstance(given, int | float) and not isinstance(given, bool):
            return float(given)
    return None


def _charts(entry: Entry, data: SimulateResult) -> Iterator[Markup]:
    """Over the parameter with the most values; a line for each case of the others."""
    names = swept(data.runs)
    if not names:
        return  # nothing to draw over: the table of runs has them all
    name = names[0]
    unit = data.units.get(name)
    cases = _cases(data.runs, name)
    for what, of, lines in (
        ("latency", "milliseconds", _latencies(cases, name)),
        ("throughput", "operations a second", _values(cases, name, "throughput")),
        ("cost", "dollars a month", _values(cases, name, "dollars_month")),
    ):
        if lines:
            title = f"{entry.title}: {what} over {name}"
            number = f"{anchor(entry)}-{what}"
            drawn = chart(
                lines[:LINES_MAX], title=title, x=f"{name} ({unit})" if unit else name, y=of, number=number
            )
            more = len(lines) - LINES_MAX
            note = tag("p", f"{more} more lines are in the table.") if more > 0 else None
            yield tag("div", scrolling(drawn, title), note)


def _cases(runs: Sequence[SimulatedRun], name: str) -> dict[str, list[SimulatedRun]]:
    """Runs by the values of the other parameters that differ; a parameter that a case sets is part of it."""
    others = dict.fromkeys(other for run in runs for other in run.parameters if other != name)
    differing = [other for other in others if len({str(run.parameters.get(other)) for run in runs}) > 1]
    shown = ["case"] if "case" in differing else differing
    cases: dict[str, list[SimulatedRun]] = {}
    for run in sorted(runs, key=lambda run: _number(run, name) or 0.0):
        case = ", ".join(
            str(run.parameters.get(other)) if other == "case" else f"{other} {run.parameters.get(other)}"
            for other in shown
        )
        cases.setdefault(case, []).append(run)
    return cases


def _latencies(cases: Mapping[str, Sequence[SimulatedRun]], name: str) -> list[Line]:
    """Median and tail of one case; only the tail of several, so that each is one line."""
    lines = []
    quantiles = ("p50", "p99") if len(cases) == 1 else ("p99",)
    for case, runs in cases.items():
        for operation in dict.fromkeys(operation for run in runs for operation in run.operations):
            for quantile in quantiles:
                points = [
                    (_number(run, name) or 0.0, float(getattr(run.operations[operation], quantile)))
                    for run in runs
                    if operation in run.operations
                ]
                lines.append(Line(f"{case} {operation} {quantile}".strip(), points))
    return lines


def _values(cases: Mapping[str, Sequence[SimulatedRun]], name: str, key: str) -> list[Line]:
    lines = [
        Line(
            case or key.replace("_", " "),
            [(_number(run, name) or 0.0, float(getattr(run, key))) for run in runs],
        )
        for case, runs in cases.items()
    ]
    useful = any(len(line.points) > 1 for line in lines) and any(y for line in lines for _, y in line.points)
    return lines if useful else []


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
    if data.damaged_lines:
        totals.append(("damaged lines", amount(data.damaged_lines)))
    rejected = [
        (
            row.run,
            amount(row.seq),
            row.event,
            row.reason,
            f"{row.file}:{row.line}" if row.file else "",
            row.time,
        )
        for row in data.violations
    ]
    head = ("run", "at", "event", "why", "where", "when")
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
    """Show the verdict on each feature of a store, and the latency of each operation."""
    data: ProbeResult = entry.data
    rows = [(row.name, verdict(row.verdict), row.detail) for row in data.features]
    times = [(name, *(amount(float(row[q])) for q in QUANTILES)) for name, row in data.latency.items()]
    return article(
        entry,
        table("Features", ("feature", "verdict", "detail"), rows),
        table("Latency in milliseconds", ("operation", *QUANTILES), times, numbers=".nnn") if times else None,
    )
