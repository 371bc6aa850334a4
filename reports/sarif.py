"""What is violated as SARIF 2.1.0, which code hosts show beside the code.

A result points at the file of the program when the program is the user's own (`file.py:function`), and at the
line that raised when one did. A violation in a shipped system points nowhere: there is no line to blame.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from fencepost.reports.page.found import Findings, Result

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
RAISED = re.compile(r"(?P<file>.+?):(?P<line>\d+) in ")


def sarif(found: Findings) -> str:
    """The JSON text."""
    versions = [result.data.get("provenance", {}).get("fencepost", "") for result in found.results]
    results = [row for result in found.results for row in _results(result)]
    rules = sorted({row["ruleId"] for row in results})
    run = {
        "tool": {
            "driver": {
                "name": "fencepost",
                "version": next(filter(None, versions), "0"),
                "rules": [{"id": rule, "shortDescription": {"text": rule}} for rule in rules],
            }
        },
        "results": results,
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _results(result: Result) -> Iterator[dict[str, Any]]:
    if result.command == "audit":
        for violation in result.data["violations"]:
            text = "\n".join([f"{result.title}: {violation.get('reason', '')}", *violation["counterexample"]])
            yield _row(violation["property"], text, place(result, violation))
    elif result.command == "check":
        for prop in result.data["properties"]:
            if prop["verdict"] == "violated":
                steps = max(0, len(prop["trace"]) - 1)
                text = f"{result.title}: {prop.get('doc', '')} Violated in {steps} steps."
                yield _row(prop["name"], text, _own_file(str(result.data["model"])))


def place(result: Result, violation: Any) -> tuple[str, int] | None:
    """The innermost line of the user's code, else the file of the program."""
    for line in reversed(violation.get("raised_at") or []):
        match = RAISED.match(line)
        if match:
            return match["file"], int(match["line"])
    return _own_file(str(result.data["system"]))


def _own_file(name: str) -> tuple[str, int] | None:
    file, colon, _ = name.rpartition(":")
    return (file, 1) if colon and file.endswith(".py") else None


def _row(rule: str, text: str, where: tuple[str, int] | None) -> dict[str, Any]:
    row: dict[str, Any] = {"ruleId": rule, "level": "error", "message": {"text": text}}
    if where is not None:
        location = {
            "artifactLocation": {"uri": where[0].replace("\\", "/")},
            "region": {"startLine": where[1]},
        }
        row["locations"] = [{"physicalLocation": location}]
    return row
