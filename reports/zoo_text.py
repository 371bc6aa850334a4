"""What people see of the zoo, made from its JSON rows and nothing else: one line a row, as each is done."""

from collections.abc import Mapping
from typing import Any

from rich.text import Text

COLOURS = {"holds": "green", "violated": "bold red", "undecided": "yellow"}


def row_text(row: Mapping[str, Any]) -> Text:
    """What was switched off, and what that led to."""
    name = {
        "model": row["model"],
        "fixed": f"{row['model']} fixed",
        "broken": f"{row['model']} {row['safeguard']}",
    }.get(row["kind"], f"{row['model']} without {row['safeguard']}")
    return Text.assemble(f"{name:<48} ", _said(row), f"  {row['seconds']:.2f} s")


def _said(row: Mapping[str, Any]) -> tuple[str, str]:
    expected = row["kind"] in ("safeguard", "broken")
    if row["verdict"] == "undecided":
        return "undecided: a limit was hit first, or too little was covered", COLOURS["undecided"]
    if row["found"]:
        said = f"breaks {row['property']} in {row['length']} step{'' if row['length'] == 1 else 's'}"
        return (said, COLOURS["violated"]) if row["wrong"] else (said, COLOURS["holds"] if expected else "")
    if row["kind"] == "safeguard":
        return "NOTHING BREAKS: dead weight, or a hole in the properties", COLOURS["violated"]
    if row["kind"] == "broken":
        return "NOT FOUND: every schedule holds", COLOURS["violated"]
    if row["kind"] == "assumption":
        return "nothing breaks: the protocol does not need it within these sizes", ""
    return "holds", COLOURS["holds"]


def total_text(result: Mapping[str, Any]) -> Text:
    """How many rows are as they should be."""
    rows = result["rows"]
    error = sum(1 for row in rows if row["wrong"])
    undecided = sum(1 for row in rows if row["verdict"] == "undecided")
    parts = [f"{len(rows)} rows", f"{error} of them not as {'it' if error == 1 else 'they'} should be"]
    if undecided:
        parts.append(f"{undecided} undecided")
    verdict = result["verdict"]
    return Text.assemble((verdict, COLOURS[verdict]), f": {', '.join(parts)}")
