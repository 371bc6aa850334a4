"""The cost contract: what each verb took at most, over every schedule that was run."""

from collections.abc import Mapping
from typing import Any

from holdfast.reports.page.elements import Markup, join
from holdfast.reports.page.found import Findings, Result
from holdfast.reports.page.sections.pieces import amount, table, verdict

COLUMNS = ("requests", "hops", "bytes")


def section(found: Findings) -> Markup | None:
    """A table for each audit that counted."""
    tables = [_table(result) for result in found.of("audit") if isinstance(result.data.get("cost"), Mapping)]
    return join(*tables) if tables else None


def _table(result: Result) -> Markup:
    rows = [
        (verb, *(_against(row, column) for column in COLUMNS)) for verb, row in result.data["cost"].items()
    ]
    head = ("verb", "requests", "serial hops", "bytes")
    return table(f"At most, in any schedule: {result.title}", head, rows, numbers=".nnn")


def _against(row: Mapping[str, Any], column: str) -> object:
    """What was counted, beside what was promised, where something was."""
    most, promised = row.get(column), row.get(f"{column}_max")
    if most is None:
        return ""
    if promised is None:
        return amount(most)
    return verdict("holds" if most <= promised else "violated", f"{amount(most)} of {amount(promised)}")
