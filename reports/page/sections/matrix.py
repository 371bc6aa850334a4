"""The safeguard matrix: each protective step off, and what breaks then, in the model and in the code."""

from collections.abc import Mapping
from typing import Any

from fencepost.reports.page.elements import Markup, join, tag
from fencepost.reports.page.found import Findings, Result
from fencepost.reports.page.sections.pieces import amount, anchor, table, verdict

WHAT = {
    "model": "everything on",
    "fixed": "fixed",
    "safeguard": "safeguard",
    "assumption": "assumption",
    "broken": "mistake",
    "mutant": "safeguard",
}


def section(found: Findings) -> Markup | None:
    """A table for each run of the zoo, and for each audit of mutants."""
    tables = [*map(_table, found.of("zoo")), *map(_of_the_code, found.of("mutants"))]
    return join(*tables) if tables else None


def _of_the_code(result: Result) -> Markup:
    """The safeguards broken in the code, beside the model's shortest counterexample without the same."""
    head = ("safeguard broken in the code", "what follows", "steps", "of the model", "schedules", "seconds")
    rows = [
        (
            row["safeguard"] or "nothing",
            told(row),
            row.get("moves", ""),
            (row.get("model") or {}).get("length", ""),
            amount(row["schedules"]),
            f"{row['seconds']:.2f}",
        )
        for row in result.data["rows"]
    ]
    caption = f"The code of {result.data['system']} without each safeguard ({result.file})"
    return tag("div", table(caption, head, rows, numbers="..nnnn"), id=anchor(result))


def _table(result: Result) -> Markup:
    head = ("protocol", "switched off", "is a", "what follows", "steps", "seconds")
    rows = [
        (
            row["model"],
            row["safeguard"] or "nothing",
            WHAT.get(row["kind"], row["kind"]),
            told(row),
            row.get("length") or "",
            f"{row['seconds']:.2f}",
        )
        for row in result.data["rows"]
    ]
    return tag(
        "div",
        table(f"What breaks without each safeguard ({result.file})", head, rows, numbers="....nn"),
        id=anchor(result),
    )


def told(row: Mapping[str, Any]) -> Markup:
    """What followed, and whether it should have."""
    said = f"breaks {row['property']}" if row["found"] else "nothing breaks"
    if row.get("verdict") == "undecided":
        return verdict("undecided", "a limit was hit first")
    if row.get("wrong"):
        return verdict("violated", f"{said}: not as it should be")
    return verdict("holds", said if row["found"] or row["kind"] == "assumption" else "holds")
