"""Refusal of calls that the world's file system cannot answer, with the line of the call.

Functions that have no replacement (mmap, sqlite3, record locks, symbolic links) would otherwise fail far from
the cause, or act on the real disk. Those of `os` are replaced by one that refuses; calls that go past
all replacements show in Python's audit events.
"""

import errno
import os
import sys
from collections.abc import Callable
from typing import Any

from fencepost.sim.filesystem.handles import is_ours
from fencepost.sim.filesystem.lookup import REAL, target_of, text_of, world_here
from fencepost.sim.world.escapes import escape

Function = Callable[..., Any]


def copying(name: str) -> Function:
    """Copying inside the kernel: libraries fall back to reading and writing where it is refused so."""
    real = REAL[name]

    def replacement(*args: Any, **kwargs: Any) -> Any:
        if any(is_ours(one) for one in args[:2]):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(*args, **kwargs)

    return replacement


_INSTEAD = "the world's file system cannot answer it; write it with open, os.link, os.rename, fcntl.flock"


def refusing(name: str, real: Function) -> Function:
    def replacement(*args: Any, **kwargs: Any) -> Any:
        run = world_here()
        for one in (*args[:2], *kwargs.values()):
            if is_ours(one) or (
                run is not None and isinstance(one, str | bytes | os.PathLike) and target_of(run, one)
            ):
                raise escape(name, _INSTEAD, sys._getframe(1))
        return real(*args, **kwargs)

    return replacement


REFUSED = (
    "symlink chdir fchdir mkfifo mknod statvfs fstatvfs dup dup2 preadv readv splice chroot lchmod "
    "lchown fchown"
).split()

_EVENTS = {
    "open": 0,
    "os.listdir": 0,
    "os.scandir": 0,
    "os.rename": 0,
    "os.link": 0,
    "os.symlink": 1,
    "os.mkdir": 0,
    "os.remove": 0,
    "os.rmdir": 0,
    "os.truncate": 0,
    "sqlite3.connect": 0,
    "mmap.__new__": 0,
    "fcntl.fcntl": 0,
    "fcntl.flock": 0,
    "fcntl.lockf": 0,
    "fcntl.ioctl": 0,
}
"""The audit events that show that a call went past the replacements, and which argument names the file."""


def _hook(event: str, args: tuple[Any, ...]) -> None:
    place = _EVENTS.get(event)
    if place is None or place >= len(args):
        return
    run = world_here()
    if run is None or (run.running is None and run.setup is None):
        return
    given = args[place]
    if (is_ours(given) and event != "open") or (
        isinstance(given, str | bytes | os.PathLike) and target_of(run, given) is not None
    ):
        raise escape(f"{event} on {text_of(given) or 'a file of the world'}", _INSTEAD, sys._getframe(1))


sys.addaudithook(_hook)
