"""The cost contract: what each operation took at most, over every schedule that was run."""

from collections.abc import Iterator, Mapping
from typing import Any

from fencepost.reports.page.elements import Content, Markup, join
from fencepost.reports.page.found import Findings, Result
from fencepost.reports.page.sections.pieces import amount, table, verdict

COLUMNS = ("requests", "hops", "bytes")


def section(found: Findings) -> Markup | None:
    """A table for each audit that counted, and came to no violation: the most may else be more."""
    tables = [
        _table(result)
        for result in found.of("audit")
        if isinstance(result.data.get("cost"), Mapping) and not result.data["violations"]
    ]
    return join(*tables) if tables else None


def _table(result: Result) -> Markup:
    whole = result.data.get("complete", result.verdict == "holds")
    where = "At most, in any schedule" if whole else "At most, in the schedules that were run"
    rows = [row for verb, costs in result.data["cost"].items() for row in _rows(verb, costs)]
    head = ("operation", "in runs", "requests", "median", "serial hops", "median", "bytes")
    return table(f"{where}: {result.title}", head, rows, numbers="..nnnnn")


def _rows(verb: str, costs: Mapping[str, Any]) -> Iterator[tuple[Content, ...]]:
    """One row over all runs, or one for each number of faults."""
    levels = costs.get("faults")
    if levels is None:
        most = {column: _against(costs, column) for column in COLUMNS}
        yield (verb, "all", most["requests"], "", most["hops"], "", most["bytes"])
        return
    for level in levels:
        yield (
            verb,
            _faults(level["faults"]),
            _against(level, "requests"),
            amount(level["requests_median"]),
            _against(level, "hops"),
            amount(level["hops_median"]),
            amount(costs["bytes"]) if level is levels[-1] else "",
        )


def _faults(count: int) -> str:
    return "without faults" if not count else f"with at most {count} fault{'' if count == 1 else 's'}"


def _against(row: Mapping[str, Any], column: str) -> Content:
    """What was counted, beside what was promised, where something was."""
    most, promised = row.get(column), row.get(f"{column}_max")
    if most is None:
        return ""
    if promised is None:
        return amount(most)
    return verdict("holds" if most <= promised else "violated", f"{amount(most)} of {amount(promised)}")
