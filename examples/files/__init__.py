"""Programs that keep data in files: each fixed, and with its known mistakes as mutants.

Some are the usual shapes: replacing a file, a lock file, a write-ahead log, a create that is never
overwritten. The others sketch the update protocols in which ALICE (Pillai et al., OSDI 2014) found that a
power loss destroys data. A mutant leaves out one flush, one lock or one order. They are audited with at most
one power loss and one kill.
"""

import os
from pathlib import Path

from fencepost.testing import audit

faulty = audit(crash=1, power_loss=1, restart=0, reply_lost=0, request_lost=0, pause=0)
"""The faults of the audits: a kill, and a power loss."""


def write(path: Path, body: bytes, *, flush: bool = True, mode: str = "wb") -> None:
    """Write a file, and make its content durable."""
    with path.open(mode) as file:
        file.write(body)
        if flush:
            file.flush()
            os.fsync(file.fileno())


def flush_folder(path: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read(path: Path) -> bytes | None:
    """The content of a file; None when there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
