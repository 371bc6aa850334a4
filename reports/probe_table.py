"""What people see of a probe, made from its JSON result and nothing else."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

COLOURS = {"safe": "green", "unsafe": "bold red", "unsupported": "yellow", "undecided": "yellow"}

# What a user builds with, and the features that all have to be safe for it.
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

SUMMARIES = {
    "safe": "Coordination through this store is safe, as far as was tried",
    "unsafe": "Coordination through this store loses data",
    "unsupported": "This store does not offer all that coordination needs",
    "undecided": "Not decided",
}


def probe_page(result: Mapping[str, Any]) -> RenderableType:
    """The whole page: table, histories, latencies, advice, verdict."""
    return Group(
        features_table(result["features"]),
        *histories(result["features"]),
        latency_table(result["latency"]),
        *advice(result),
        verdict_line(result),
    )


def features_table(features: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("feature", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("detail")
    for row in features:
        verdict = row["verdict"]
        table.add_row(row["name"], Text(verdict, COLOURS[verdict]), escape(row["detail"]))
    return table


def histories(features: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    """Of each unsafe feature, the history that shows it."""
    shown: list[RenderableType] = []
    for row in features:
        if row["verdict"] != "unsafe":
            continue
        shown.append(Text(f"\n{row['name']}: {row['detail']}", "bold"))
        shown.append(Padding(_steps(row["history"]), (0, 0, 0, 2)))
    return shown


def _steps(history: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    for _ in range(3):
        table.add_column()
    table.add_column(justify="right", no_wrap=True)
    for step in history:
        table.add_row(
            f"{step['number']}.",
            step["worker"],
            escape(step["request"]),
            escape(step["outcome"]),
            f"{step['started_ms']:.1f} .. {step['ended_ms']:.1f} ms",
        )
    return table


def latency_table(latency: Mapping[str, Mapping[str, float]]) -> Padding:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("one request at a time, ms")
    for name in ("p50", "p90", "p99"):
        table.add_column(name, justify="right")
    for operation, values in latency.items():
        table.add_row(operation, *(f"{values[name]:.3g}" for name in ("p50", "p90", "p99")))
    return Padding(table, (1, 0))


def advice(result: Mapping[str, Any]) -> list[Text]:
    """With which operations one can coordinate here."""
    verdicts = {row["name"]: row for row in result["features"]}
    sorted_: dict[str, list[str]] = {name: [] for name in COLOURS}
    for operation, needs in OPERATIONS.items():
        rows = [verdicts[name] for name in needs if name in verdicts]
        decisive = [row["verdict"] for row in rows if row.get("applies", True)]
        for verdict in ("unsafe", "unsupported", "undecided", "safe"):
            if verdict in decisive:
                sorted_[verdict].append(operation)
                break
    words = {"safe": "Build on", "unsafe": "Do not use", "unsupported": "Not offered", "undecided": "Open"}
    return [
        Text.assemble((f"{words[verdict]}: ", COLOURS[verdict]), ", ".join(operations))
        for verdict, operations in sorted_.items()
        if operations
    ]


def verdict_line(result: Mapping[str, Any]) -> Text:
    verdict = result["verdict"]
    return Text.assemble(
        (f"{verdict}", COLOURS[verdict]),
        f": {SUMMARIES[verdict]}: {result['url']} "
        f"({result['requests']:,} requests, {result['seconds']:.1f} s)",
    )
