"""Traces that were held against the model."""

from fencepost.reports.page.elements import Markup, join, tag
from fencepost.reports.page.found import Findings, Result
from fencepost.reports.page.sections.pieces import amount, anchor, folded, table

TOTALS = ("runs", "events", "accepted", "rejected", "undecided", "events_per_second")


def section(found: Findings) -> Markup | None:
    """Each replay."""
    parts = [_replay(result) for result in found.of("replay")]
    return join(*parts) if parts else None


def _replay(result: Result) -> Markup:
    data = result.data
    rows = [(name.replace("_", " "), amount(data[name])) for name in TOTALS if name in data]
    error = [
        (str(v["run"]), amount(v["seq"]), str(v["event"]), str(v["reason"]))
        for v in data.get("violations", ())
    ]
    statistics = data.get("statistics") or {}
    return tag(
        "article",
        tag("h3", result.title, id=anchor(result)),
        table("Totals", ("what", "number"), rows, numbers=".n"),
        table("Runs the model does not allow", ("run", "at", "event", "why"), error, numbers=".n")
        if error
        else None,
        [folded(name.replace("_", " "), tag("pre", _plain(value))) for name, value in statistics.items()],
    )


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{key}: {_plain(inner)}" for key, inner in list(value.items())[:100])
    if isinstance(value, list):
        return "\n".join(_plain(inner) for inner in value[:100])
    return amount(value)
