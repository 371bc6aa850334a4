"""Stores that were certified: what is safe to build on, and how fast each operation was."""

from fencepost.reports.page.elements import Markup, join, tag
from fencepost.reports.page.found import Findings, Result
from fencepost.reports.page.sections.pieces import amount, anchor, table, verdict


def section(found: Findings) -> Markup | None:
    """Each store."""
    parts = [_store(result) for result in found.of("probe")]
    return join(*parts) if parts else None


def _store(result: Result) -> Markup:
    rows = [(f["name"], verdict(f["verdict"]), f.get("detail", "")) for f in result.data["features"]]
    times = [
        (name, *(amount(float(row[q])) for q in ("p50", "p90", "p99")))
        for name, row in result.data.get("latency", {}).items()
    ]
    return tag(
        "article",
        tag("h3", result.title, id=anchor(result)),
        table("Features", ("feature", "verdict", "detail"), rows),
        table("Latency in milliseconds", ("operation", "p50", "p90", "p99"), times, numbers=".nnn")
        if times
        else None,
    )
