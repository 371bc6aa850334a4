"""What people see of the mutants of a system, made from the JSON rows and nothing else."""

import shlex
from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from fencepost.reports.quantities import amount

COLOURS = {"holds": "green", "violated": "bold red", "undecided": "yellow"}


def row_text(row: Mapping[str, Any]) -> RenderableType:
    """One audit: what was broken, what that led to, what it took; and below it how to see it."""
    name = f"without {row['safeguard']}" if row["safeguard"] else f"{row['system']} as it is"
    runs = row["schedules"]
    size = f"  {amount(runs)} schedule{'' if runs == 1 else 's'}, {row['seconds']:.1f} s"
    line = Text.assemble(f"{name:<40} ", _said(row), size)
    return Group(line, Text(f"    {again(row)}")) if row["found"] else line


def again(row: Mapping[str, Any]) -> str:
    """The command that shows the counterexample."""
    mutant = ["--mutant", row["safeguard"]] if row["safeguard"] else []
    words = ["fencepost", "audit", row["system"], *mutant]
    given = [word for name, value in row["parameters"].items() for word in ("--set", f"{name}={value}")]
    return shlex.join([*words, *given, "--replay", row["token"]])


def _said(row: Mapping[str, Any]) -> tuple[str, str]:
    if row["verdict"] == "undecided":
        return "UNDECIDED: a limit was hit first, or too little was covered", COLOURS["undecided"]
    if row["found"]:
        expected = "green" if row["safeguard"] else COLOURS["violated"]
        return f"breaks {row['property']} in {_long(row)}", COLOURS["undecided"] if row["long"] else expected
    if row["safeguard"]:
        return "NOT FOUND: every schedule holds", COLOURS["violated"]
    return "holds", COLOURS["holds"]


def _long(row: Mapping[str, Any]) -> str:
    """How long the counterexample is, beside the model's."""
    model = row["model"]
    lines = f"{row['length']} lines"
    if model is None:
        return lines
    note = f", {row['times']:g} times as many: LONG" if row["long"] else ""
    return f"{row['moves']} steps (model {model['length']}, {model['property']}{note}), {lines}"


def total_text(result: Mapping[str, Any]) -> Text:
    """How many mutants were found, and whether the program as it is holds."""
    rows = result["rows"]
    mutants = [row for row in rows if row["safeguard"]]
    found = sum(1 for row in mutants if row["found"])
    fixed = next((row["verdict"] for row in rows if not row["safeguard"]), "was not audited")
    parts = [f"{found} of {len(mutants)} mutants found", f"{result['system']} as it is: {fixed}"]
    long = sum(1 for row in rows if row["long"])
    if any(row["model"] for row in rows):
        parts.append(f"{long or 'no'} stor{'y' if long == 1 else 'ies'} over 1.5 times the model's")
    verdict = result["verdict"]
    return Text.assemble((verdict, COLOURS[verdict]), f": {', '.join(parts)}")
