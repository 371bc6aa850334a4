"""How a command ends: its exit code, its refusal, and its machine-readable result."""

import enum
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fencepost.sim.whole_files import write_whole


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
    write_file(Path(target), text.encode(), "--json")


def write_file(path: Path, body: bytes, option: str) -> None:
    """Write what `option` asked for, whole or not at all."""
    try:
        write_whole(path, body)
    except OSError as error:
        raise BadRequest(f"cannot write {path}: {error.strerror}; give {option} another file") from error
