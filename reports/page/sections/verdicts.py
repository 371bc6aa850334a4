"""What was decided, first: a line for each result, the worst on top."""

from collections.abc import Mapping
from typing import Any

from fencepost.reports.page.elements import Markup, join, tag
from fencepost.reports.page.found import Findings, Result
from fencepost.reports.page.sections.pieces import amount, anchor, table, verdict

ORDER = {"violated": 0, "unsafe": 0, "undecided": 1, "unsupported": 1}


def section(found: Findings) -> Markup | None:
    """The table of verdicts, and what could not be read."""
    results = sorted(found.results, key=lambda result: ORDER.get(result.verdict, 2))
    rows = [
        (
            tag("a", result.title, href=f"#{anchor(result)}"),
            verdict(result.verdict),
            within(result),
            seconds(result),
        )
        for result in results
    ]
    unread = [tag("li", tag("code", name), f": {why}") for name, why in found.unread.items()]
    return join(
        tag("p", summary(found), class_="lead"),
        table(
            "Every result, the worst first", ("what", "verdict", "within", "seconds"), rows, numbers="...n"
        ),
        tag("div", tag("h3", "Could not be read"), tag("ul", unread), class_="warning") if unread else None,
    )


def summary(found: Findings) -> str:
    """One sentence."""
    counts = {
        word: sum(1 for r in found.results if ORDER.get(r.verdict, 2) == n)
        for n, word in enumerate(("bad", "open", "good"))
    }
    parts = [f"{len(found.results)} results: {counts['good']} hold"]
    if counts["bad"]:
        parts.append(f"{counts['bad']} violated")
    if counts["open"]:
        parts.append(f"{counts['open']} not decided")
    return ", ".join(parts) + "."


def within(result: Result) -> str:
    """The bound of a verdict: it says nothing of what lies beyond."""
    return WITHIN[result.command](result.data)


def _check(data: Mapping[str, Any]) -> str:
    sizes = ", ".join(f"{name}={value}" for name, value in data.get("parameters", {}).items())
    stopped = f"; stopped by {data['stopped_by']}" if data.get("stopped_by") else ""
    return (
        f"{amount(data['distinct'])} states, depth {data.get('depth', '?')} ({sizes or 'no sizes'}){stopped}"
    )


def _audit(data: Mapping[str, Any]) -> str:
    return f"{data.get('bound', '')} ({amount(data['schedules'])} schedules)"


def _zoo(data: Mapping[str, Any]) -> str:
    rows = data["rows"]
    return f"{len(rows)} rows, {sum(1 for row in rows if row.get('error'))} not as they should be"


def _probe(data: Mapping[str, Any]) -> str:
    return f"{len(data['features'])} features of {data['url']}"


def _simulate(data: Mapping[str, Any]) -> str:
    return f"{len(data['runs'])} runs, {len(data.get('checks', ()))} checks"


def _replay(data: Mapping[str, Any]) -> str:
    events, runs = amount(data.get("events", 0)), data.get("runs", 0)
    of = "1 run" if runs == 1 else f"{amount(runs)} runs"
    return f"{events} events of {of}, engine {data['engine']}"


def _compare(data: Mapping[str, Any]) -> str:
    counts = {word: sum(1 for c in data["changes"] if c["judged"] == word) for word in ("worse", "better")}
    return f"against {str(data['base'])[:12]}: {counts['worse']} worse, {counts['better']} better"


WITHIN = {
    "compare": _compare,
    "check": _check,
    "audit": _audit,
    "zoo": _zoo,
    "mutants": _zoo,
    "probe": _probe,
    "simulate": _simulate,
    "replay": _replay,
}


def seconds(result: Result) -> str:
    """How long it took, where the result says it."""
    value = result.data.get("seconds")
    return f"{value:.2f}" if isinstance(value, int | float) else ""
