"""Where in the user's code a finding is: the file and line that an editor or a code host can show."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fencepost.results import Violation

WRITES = frozenset({"put", "delete", "copy", "complete-upload"})
RAISED = re.compile(r"(?P<file>.+?):(?P<line>\d+) in ")


Changed = Mapping[str, frozenset[int]]
"""By file: the lines that a change touches."""
STACK = re.compile(r"(?P<file>.+):(?P<line>\d+) in ")


def place(
    result: Any, violations: Sequence[Violation] = (), changed: Changed | None = None
) -> tuple[str, int] | None:
    """Return the file and line of a finding.

    That is, in this order: the outermost changed line through which the last such step comes; the innermost
    line of the user's code that raised; the line of the last step that wrote, or else of the last step; the
    line that defines the program or model. None for what is shipped.
    """
    for violation in violations:
        for step in reversed(violation.steps):
            for line in step.stack if changed else ():
                found = STACK.match(line)
                if found and int(found["line"]) in (changed or {}).get(found["file"], ()):
                    return found["file"], int(found["line"])
        for line in reversed(violation.raised_at):
            if match := RAISED.match(line):
                return match["file"], int(match["line"])
        writes = [step for step in violation.steps if step.kind in WRITES]
        for step in (*reversed(writes), *reversed(violation.steps)):
            if step.file and step.line:
                return step.file, step.line
    error = getattr(result, "error", None)
    if error is not None and error.file and error.line:
        return error.file, error.line
    file, colon, name = str(getattr(result, "system", "") or getattr(result, "model", "")).rpartition(":")
    return (file, _defined_at(file, name)) if colon and file.endswith(".py") else None


def _defined_at(file: str, name: str) -> int:
    """The line that defines `name`; 1 when the file cannot be read here."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return 1
    found = re.search(rf"^(?:def|class) {re.escape(name)}\b|^{re.escape(name)} *=", text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else 1
