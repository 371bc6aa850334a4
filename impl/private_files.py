"""Folders and files whose content is for the user of this process alone: what waits on a disk for a store."""

import os
from pathlib import Path


def make_private(folder: Path, *inside: str) -> None:
    """Make a folder, and folders inside it, where they are missing: 0700. A folder of somebody else stays as
    it is."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in inside:
        (folder / name).mkdir(mode=0o700, exist_ok=True)


def make_file_private(file: Path) -> None:
    """Make an empty file if it is missing, and give it the mode 0600 in any case."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(handle, 0o600)
    finally:
        os.close(handle)
