"""Servers for tests: one process, any number of empty servers, each on a port and in a directory of its own.

    python -m fencepost.impl.objects.temporary DIRECTORY

It reads commands from its input, a line each, and answers each with a line:

    start            http://127.0.0.1:PORT SECRET TOKEN: a new server with nothing in it, and the secret key
                     and the token of root
    stop ADDRESS     stopped

and ends with its input, so it never outlives its parent. Nothing is flushed to the disk: what a test
leaves behind is worth nothing after a power failure. Faults and quirks can be set for each server (see
`unreliable`).
"""

import contextlib
import fcntl
import hmac
import itertools
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from fencepost.impl.http.limits import Limits
from fencepost.impl.http.server import Server, listener
from fencepost.impl.http.tokens import Holder
from fencepost.impl.objects.app import ObjectServer
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.credentials import ROOT, Caller, Credentials
from fencepost.impl.objects.unreliable import UnreliableServer
from fencepost.impl.store.files import Disk

ROOT_TOKEN = "a token that everybody knows"  # noqa: S105  of servers without secrets
ACCESS_KEY = SECRET_KEY = "test"  # noqa: S105  the same
REQUESTS = 256
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  a new folder in it, with a name that nobody can guess
ROOM_BYTES_MIN = 1 << 30
"""The room that shared memory must have: containers often have 64 MiB of it."""
_NAME, _LOCK = "fencepost-objects-", ".fencepost-running"


class Unflushed(Disk):
    """Leaves everything in the page cache."""

    one_call = False

    def fsync(self, fd: int) -> None:
        del fd

    def fsync_folder(self, fd: int) -> None:
        del fd


class KnownCredentials(Credentials):
    """Another pair of keys is that of root: one that a user's tests have already."""

    def __init__(self, root_token: str, access_key: str, secret_key: str) -> None:
        super().__init__(root_token)
        self._access_key = access_key
        self._secret_key = secret_key

    def _is_known(self, access_key: str) -> bool:
        return hmac.compare_digest(access_key.encode(), self._access_key.encode())

    def secret(self, access_key: str) -> str | None:
        return self._secret_key if self._is_known(access_key) else super().secret(access_key)

    def caller(
        self, access_key: str, holder: Callable[[str], Holder | None] = lambda _: None
    ) -> Caller | None:
        return Caller(ROOT) if self._is_known(access_key) else super().caller(access_key, holder)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a new folder in memory, or where there is not enough, in the folder for temporary files.

    Its content is removed at the end; what a killed process left is removed by the next one.
    """
    parent = SHARED_MEMORY if _has_room(SHARED_MEMORY) else Path(tempfile.gettempdir())
    for left in parent.glob(f"{_NAME}*"):
        _remove_left(left)
    folder = Path(tempfile.mkdtemp(prefix=_NAME, dir=parent))
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / "lock").rename(folder / _LOCK)  # others look only for one that is held
        inside = folder / "data"
        inside.mkdir()
        yield inside
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _has_room(parent: Path) -> bool:
    try:
        found = os.statvfs(parent)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize >= ROOM_BYTES_MIN and os.access(parent, os.W_OK)


def _remove_left(folder: Path) -> None:
    """Remove a folder whose process is gone; a folder without a lock is still being made."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        if os.fstat(lock).st_uid == os.getuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        pass  # it is in use
    finally:
        os.close(lock)


class _Running(NamedTuple):
    server: Server
    thread: threading.Thread
    service: ObjectServer
    buckets: Buckets
    root: Path

    def stop(self) -> None:
        self.server.stop()
        self.thread.join()
        self.service.close()
        self.buckets.close()
        shutil.rmtree(self.root, ignore_errors=True)


class TemporaryServers:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = itertools.count(1)
        self._running: dict[str, _Running] = {}

    def start(self) -> str:
        """Return the address of a new server, and the secret key and the token of root."""
        root = self._directory / str(next(self._numbers))
        buckets, credentials = Buckets(str(root), disk=Unflushed()), Credentials(ROOT_TOKEN)
        limits = Limits(requests=REQUESTS, client_requests=REQUESTS)
        service = UnreliableServer(buckets, credentials, limits=limits)
        started = threading.Event()
        server = Server(service, on_listening=lambda _: started.set())
        bound = listener("127.0.0.1", 0)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        started.wait()
        address = f"http://127.0.0.1:{bound.getsockname()[1]}"
        self._running[address] = _Running(server, thread, service, buckets, root)
        return f"{address} {credentials.secret(ROOT)} {ROOT_TOKEN}"

    def stop(self, address: str) -> str:
        self._running.pop(address).stop()
        return "stopped"

    def close(self) -> None:
        for address in [*self._running]:
            self.stop(address)


def main() -> None:
    with contextlib.closing(TemporaryServers(Path(sys.argv[1]))) as servers:
        for line in sys.stdin:
            command, *words = line.split()
            sys.stdout.write(f"{servers.start() if command == 'start' else servers.stop(words[0])}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
