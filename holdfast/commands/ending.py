"""How a command ends: its exit code, its refusal, and its machine-readable result."""

import enum
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Exit(enum.IntEnum):
    """Exit codes, the same for every command."""

    HOLDS = 0
    VIOLATED = 1
    BAD_REQUEST = 2
    UNDECIDED = 3


VERDICT_EXITS = {
    "holds": Exit.HOLDS,
    "safe": Exit.HOLDS,
    "violated": Exit.VIOLATED,
    "unsafe": Exit.VIOLATED,
    "undecided": Exit.UNDECIDED,
    "unsupported": Exit.UNDECIDED,
}


class BadRequest(Exception):
    """What was asked makes no sense: one sentence that says what is wrong, where, and what to do."""


def write_json(result: Mapping[str, Any], target: str) -> None:
    """Write `result` to the file `target`, whole or not at all; `-` is standard output."""
    text = json.dumps(result, indent=2, sort_keys=False, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    path = Path(target)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as wrong:
        raise BadRequest(f"cannot write {target}: {wrong.strerror}; give --json another file") from wrong
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).chmod(0o644)  # a temporary file is its owner's alone; a result is for others too
        Path(temporary).replace(path)
    except OSError as wrong:
        Path(temporary).unlink(missing_ok=True)
        raise BadRequest(f"cannot write {target}: {wrong.strerror}; give --json another file") from wrong
