"""Paths and descriptors of the world that runs in this thread, and the files that they name there.

A path belongs to the world when it begins with the mount, or when it is relative to a descriptor of the
world; a descriptor belongs to it by its number. Everything else is the system's, whose functions are in
`REAL` as they were before any replacement.
"""

import builtins
import errno
import fcntl
import os
from typing import Any

from fencepost.sim.filesystem.handles import handle, is_ours
from fencepost.sim.filesystem.inodes import ROOT, Target
from fencepost.sim.world.present import here
from fencepost.sim.world.run import RunState

_OF_THIS_PROCESS = ("/proc/self/fd/", "/dev/fd/")
REAL = {
    **{name: getattr(os, name) for name in dir(os) if callable(getattr(os, name))},
    "builtins.open": builtins.open,
    "flock": fcntl.flock,
}


def world_here() -> RunState | None:
    """Return the run of the world in this thread, if it has a file system."""
    run = here()
    return run if run is not None and run.files is not None else None


def text_of(path: Any) -> str | None:
    """Return a path as text; None for what is no path."""
    try:
        found = os.fspath(path)
    except TypeError:
        return None
    return os.fsdecode(found)


def target_of(run: RunState, path: Any, dir_fd: Any = None) -> tuple[Target, str] | None:
    """Return the file of a path or a descriptor in the world, with its text; None for the system's."""
    if isinstance(path, int):
        if not is_ours(path):
            return None
        found = handle(run, path)
        return found.inode, found.path
    text = text_of(path)
    if text is None:
        return None
    for prefix in _OF_THIS_PROCESS:
        if text.startswith(prefix) and is_ours(_number(text.removeprefix(prefix))):
            found = handle(run, int(text.removeprefix(prefix)))
            return found.inode, found.path
    mount = run.mounted.mount
    if text.startswith("/"):
        if ".." in text:
            text = os.path.normpath(text)
        if text != mount and not text.startswith(mount + "/"):
            return None
        rest = text[len(mount) :].strip("/")
        return (ROOT, rest), rest or "."
    if dir_fd is None or not is_ours(dir_fd):
        return None
    base = handle(run, dir_fd)
    if not base.folder:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), text)
    joined = os.path.normpath(os.path.join(base.path, text)) if text else base.path  # noqa: PTH118 - a path of the world
    return (base.inode, text), joined.removeprefix("./")


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else -1
