"""One of several programs that are audited in turn, as a row: is what is broken found, what is fixed not?"""

import time
from collections.abc import Mapping
from typing import Any

from fencepost.commands.exit_codes import BadRequest
from fencepost.sim.explore import AuditRequest, Diverged
from fencepost.sim.explore.reporting import run_audit

Row = dict[str, Any]


def audited_row(mutant: str, request: AuditRequest) -> tuple[Row, Mapping[str, Any]]:
    """The row of a mutant, or of what has none of its mistakes, and the violation it tells of, if any."""
    started = time.perf_counter()
    try:
        found = run_audit(request)
    except Diverged as diverged:
        what = f"{request.name} {mutant}".strip()
        raise BadRequest(f"{what} does not repeat itself: {diverged}") from diverged
    if found.interrupted:
        raise KeyboardInterrupt
    result = found.to_json()
    worst: Mapping[str, Any] = result["violations"][0] if result["violations"] else {}
    row = {
        "safeguard": mutant,
        "kind": "broken" if mutant else "fixed",
        "verdict": result["verdict"],
        "found": bool(worst),
        "unexpected": result["verdict"] == ("holds" if mutant else "violated"),
        "property": worst.get("property", ""),
        "length": len(worst.get("counterexample", ())) - 1 if worst else 0,
        "schedules": result["schedules"],
        "seconds": time.perf_counter() - started,
        "bound": result["bound"],
        "findings": result["findings"],
        "counterexample": list(worst.get("counterexample", ())),
        "token": worst.get("token", ""),
    }
    return row, worst
