"""The lock of a directory: one server at a time, however many processes it has.

The lock is on an open file that the processes of a server share by inheritance. It ends when the last of
them has ended, and not before. Only a handoff releases it earlier, for the successor: see `handoff`.
"""

import fcntl
import os
from pathlib import Path

from fencepost.impl.objects.safeguards import STANDARD, Safeguards
from fencepost.impl.store.errors import Unusable

_NAME = ".objects/owner"
HANDOFFS = ".objects/handoffs"
"""Counts of the handoffs of the supervisor that has the directory."""


class Owner:
    def __init__(self, root: str, safeguards: Safeguards = STANDARD) -> None:
        self._root = root
        self._safeguards = safeguards
        self._fd = -1

    def acquire(self) -> None:
        """Raise `Unusable` while another server has the directory."""
        if self._fd >= 0:
            return
        path = Path(self._root, _NAME)
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            self._safeguards.owner_lock(lambda: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB))
        except BlockingIOError:
            other = os.pread(fd, 20, 0).decode(errors="replace").strip()
            os.close(fd)
            raise Unusable(f"{self._root} is served by process {other or 'unknown'}; stop it first") from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        self._fd = fd

    def release(self) -> None:
        """For all processes that share it."""
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            os.close(self._fd)
            self._fd = -1
