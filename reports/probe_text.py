"""The text report of `fencepost probe`."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fencepost.reports.text import COLOURS, table, verdict_line, wrapped
from fencepost.results import Finding, HistoryStep, ProbeResult

QUANTILES = ("p50", "p90", "p99")
OPERATIONS: Mapping[str, Sequence[str]] = {
    "create-only put": ("create-only-put", "racing-creates-threads", "racing-creates-processes"),
    "if-match put": ("if-match-put", "etags", "counter-threads", "counter-processes"),
    "if-match delete": ("if-match-delete", "puts-against-deletes"),
    "create-only upload in parts": (
        "multipart",
        "create-only-complete",
        "racing-completes",
        "puts-against-completes",
    ),
    "if-match upload in parts": ("multipart", "if-match-complete", "racing-completes-if-match"),
    "reads": ("read-after-write", "whole-objects", "conditional-get", "ranges"),
    "listings": ("list-after-write", "list-after-delete", "paging", "paging-under-writes"),
}
"""Building blocks of protocols, each with the features that it requires to be safe."""
SUMMARIES = {
    "safe": "Coordination through this store is safe, as far as was tried",
    "unsafe": "Coordination through this store loses data",
    "unsupported": "This store does not offer all that coordination needs",
    "undecided": "Not decided",
}
ADVICE = {"safe": "Build on", "unsafe": "Do not use", "unsupported": "Not offered", "undecided": "Open"}


def probe_text(result: ProbeResult, *, verbose: bool = False) -> RenderableType:
    """Verdict, advice, and the histories of unsafe features; with `verbose` all features and latencies."""
    about = (
        f"{SUMMARIES[result.verdict]}: {result.url} ({result.requests:,} requests, {result.seconds:.1f} s)"
    )
    return Group(
        verdict_line(result.verdict, about),
        *advice(result),
        *([_features(result.features), _latencies(result.latency)] if verbose else _briefly(result)),
        *histories(result.features),
    )


def _briefly(result: ProbeResult) -> Iterator[Text]:
    for row in result.features:
        if row.verdict == "undecided":
            yield Text(f"  {row.name}: {row.detail}", COLOURS["undecided"])
    times = (f"{name} {row['p50']:.3g}/{row['p99']:.3g}" for name, row in result.latency.items())
    yield from map(Text, wrapped("ms p50/p99", times))


def _features(features: Sequence[Finding]) -> Table:
    made = table(("feature", "verdict"))
    made.add_column("detail")
    for row in features:
        made.add_row(row.name, Text(row.verdict, COLOURS[row.verdict]), row.detail)
    return made


def histories(features: Sequence[Finding]) -> list[RenderableType]:
    """The history that shows each unsafe feature."""
    shown: list[RenderableType] = []
    for row in features:
        if row.verdict == "unsafe":
            shown.append(Text(f"\n{row.name}: {row.detail}", "bold"))
            shown.append(Padding(_steps(row.history), (0, 0, 0, 2)))
    return shown


def _steps(history: Sequence[HistoryStep]) -> Table:
    made = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    made.add_column(justify="right", no_wrap=True)
    for _ in range(3):
        made.add_column()
    made.add_column(justify="right", no_wrap=True)
    for step in history:
        times = f"{step.started_ms:.1f} .. {step.ended_ms:.1f} ms"
        made.add_row(f"{step.number}.", step.worker, step.request, step.outcome, times)
    return made


def _latencies(latency: Mapping[str, Mapping[str, float]]) -> Padding:
    made = table(("one request at a time, ms", *QUANTILES), numbers=True)
    for operation, values in latency.items():
        made.add_row(operation, *(f"{values[name]:.3g}" for name in QUANTILES))
    return Padding(made, (1, 0))


def advice(result: ProbeResult) -> Iterator[Text]:
    """The operations that are safe to coordinate with on this store, and those that are not."""
    features = {row.name: row for row in result.features}
    operations: dict[str, list[str]] = {verdict: [] for verdict in ADVICE}
    for operation, needs in OPERATIONS.items():
        rows = [features[name] for name in needs if name in features]
        decisive = [row.verdict for row in rows if row.applies]
        for verdict in ("unsafe", "unsupported", "undecided", "safe"):
            if verdict in decisive:
                operations[verdict].append(operation)
                break
    for verdict, names in operations.items():
        if names:
            yield Text.assemble((f"{ADVICE[verdict]}: ", COLOURS[verdict]), ", ".join(names))
