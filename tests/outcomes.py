"""Counts of a run, appended as one line of JSON to the file that FENCEPOST_OUTCOMES names.

`tests/sessions.py` sets the variable and adds the lines of one session up.
"""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

VARIABLE = "FENCEPOST_OUTCOMES"


@dataclass
class Outcomes:
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    """Names of tests that failed or could not be set up."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Tests that were skipped or are expected to fail, by reason."""

    @property
    def total(self) -> int:
        return self.passed + len(self.failed) + self.skipped.total()


def record(
    passed: int,
    failed: Sequence[str] = (),
    skipped: Mapping[str, int] | None = None,
    file: str | None = None,
) -> None:
    """Append the counts of one run to `file`, or to the file that the environment names, if any."""
    file = file or os.environ.get(VARIABLE)
    if not file:
        return
    line = {"passed": passed, "failed": list(failed), "skipped": dict(skipped or {})}
    with Path(file).open("a") as at:
        at.write(json.dumps(line) + "\n")


def read(file: Path) -> Outcomes | None:
    """Return the sum of all lines, or None if no run was recorded."""
    if not file.exists():
        return None
    found = Outcomes()
    for line in file.read_text().splitlines():
        one = json.loads(line)
        found.passed += one["passed"]
        found.failed += one["failed"]
        found.skipped.update(one["skipped"])
    return found
