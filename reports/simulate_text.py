"""What people see of a simulation in a terminal, made from its JSON result and nothing else."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fencepost.reports.uncut import Uncut

RUNS_MAX = 60
"""Rows of a table that a person reads; the rest is in the JSON."""
Row = Mapping[str, Any]


def simulate_text(found: Row) -> RenderableType:
    """Everything: what was asked, the runs, the checks, the objectives."""
    parts: list[RenderableType] = [Text(found["title"], "bold"), Text(found["about"]), Text("")]
    parts += [Uncut(_runs(found)), Text("")]
    if found["checks"]:
        parts += [Uncut(_checks(found["checks"])), *_residuals(found["checks"]), Text("")]
    parts += [_objective(objective) for objective in found["objectives"]]
    return Group(*parts)


def verdict_line(found: Row) -> str:
    """How it ended, in one line."""
    runs, planned = len(found["runs"]), found["planned"]
    of = (
        f"{runs} run{'s' if runs != 1 else ''}"
        if runs == planned
        else f"{runs} of {planned} runs, then stopped"
    )
    good = sum(check["ok"] for check in found["checks"])
    checks = f", {good} of {len(found['checks'])} checks within tolerance" if found["checks"] else ""
    return f"{found['verdict']}: {found['scenario']}, {of}, seed {found['seed']}{checks}"


def _runs(found: Row) -> Table:
    # What a case sets is said by its name.
    names = [name for name in _names(found["runs"]) if name not in found["case_keys"]]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(_short(name, names))
    for head in (
        "operation",
        "count",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "requests",
        "hops",
        "retries",
        "per s",
        "$/month",
        "$/million",
    ):
        table.add_column(head, justify="left" if head == "operation" else "right")
    for run in found["runs"][:RUNS_MAX]:
        first = True
        for operation, stats in run["operations"].items():
            settings = [setting(run["parameters"].get(name, "")) if first else "" for name in names]
            table.add_row(*settings, *_numbers(operation, stats, run, first=first))
            first = False
        if first:
            table.add_row(
                *[setting(run["parameters"].get(name, "")) for name in names], "none succeeded", "0"
            )
    left = len(found["runs"]) - RUNS_MAX
    if left > 0:
        table.add_row(f"... and {left} more")
    return table


def setting(value: Any) -> str:
    """A setting as people write it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {setting(inner)}" for name, inner in value.items())
    return str(value)


def _names(runs: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in run["parameters"]))


def _numbers(operation: str, stats: Row, run: Row, *, first: bool) -> list[str]:
    failed = sum(run["failed"].values()) if first else 0
    return [
        operation,
        f"{stats['count']:,}" + (f" (+{failed} failed)" if failed else ""),
        *(number(stats[name]) for name in ("p50", "p90", "p99", "requests", "serial_hops", "retries")),
        number(run["throughput"]) if first else "",
        number(run["dollars_month"]) if first else "",
        number(run["dollars_million"]) if first else "",
    ]


def _short(name: str, names: Sequence[str]) -> str:
    """`writers` for `workload.writers`, unless another parameter ends so too."""
    last = name.rpartition(".")[2]
    return name if sum(other.rpartition(".")[2] == last for other in names) > 1 else last


def number(value: float) -> str:
    """Three figures that matter, thousands apart."""
    if value == int(value):
        return f"{int(value):,}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _checks(checks: Sequence[Row]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for head in ("check", "measured", "simulated", "error", "tolerance", ""):
        table.add_column(head, justify="left" if head in ("check", "") else "right")
    for check in checks:
        table.add_row(
            escape(check["name"]),
            _with_unit(check["reference"], check["unit"]),
            _with_unit(check["simulated"], check["unit"]),
            f"{100 * check['error']:+.1f} %",
            f"{100 * check['tolerance']:g} %",
            Text("ok", "green") if check["ok"] else Text("outside", "bold red"),
        )
    return table


def _with_unit(value: float, unit: str) -> str:
    if unit == "ms" and abs(value) >= 1000:
        return f"{value / 1000:.3g} s"
    return f"{number(value)} {unit}".rstrip()


def _residuals(checks: Sequence[Row]) -> list[RenderableType]:
    """What the errors suggest, and the worst of them."""
    worst = max(checks, key=lambda check: abs(check["error"]))
    lines: list[RenderableType] = [
        Text(f"The largest error is {100 * worst['error']:+.1f} %, of {worst['name']}.")
    ]
    lines += [
        Text(f"{check['name']} ({100 * check['error']:+.1f} %): {check['says']}.")
        for check in checks
        if check["says"]
    ]
    return lines


def _objective(found: Row) -> RenderableType:
    text, broken = found["objective"], found["broken_runs"]
    if not broken:
        where = f" in all {found['runs']} runs" if found["runs"] > 1 else ""
        return Text(f"Objective {text}: holds{where}.", "green")
    first = found["first_broken"]
    shown = {name: value for name, value in first.items() if name == "case"} or first
    where = ", ".join(f"{name} = {setting(value)}" for name, value in shown.items())
    value = found["first_value"]
    said = "no operation succeeded" if value is None else f"{number(value)} there"
    of = f"{broken} of {found['runs']} runs"
    return Text(f"Objective {text}: first broken at {where or 'the one run'} ({said}); in {of}.", "yellow")
