"""Servers for tests: one process, any number of empty servers, each on a port and in a directory of its own.

    python -m fencepost.impl.objects.temporary DIRECTORY

It reads commands from its input, a line each, and answers each with a line:

    start            http://127.0.0.1:PORT SECRET, a new server with nothing in it, and the secret key of root
    stop ADDRESS     stopped

and ends with its input, so it never outlives its parent. Nothing is flushed to the disk: what a test
leaves behind is worth nothing after a power failure.
"""

import contextlib
import itertools
import shutil
import sys
import threading
from pathlib import Path
from typing import NamedTuple

from fencepost.impl.http.limits import Limits
from fencepost.impl.http.server import Server, listener
from fencepost.impl.objects.app import ObjectServer
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.credentials import ROOT, Credentials
from fencepost.impl.store.files import Disk

ROOT_TOKEN = "a token that everybody knows"  # noqa: S105  of servers without secrets
REQUESTS = 256


class Unflushed(Disk):
    """Leaves everything in the page cache."""

    one_call = False

    def fsync(self, fd: int) -> None:
        del fd

    def fsync_folder(self, fd: int) -> None:
        del fd


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
        """The address of a new server, and the secret key of root."""
        root = self._directory / str(next(self._numbers))
        buckets, credentials = Buckets(str(root), disk=Unflushed()), Credentials(ROOT_TOKEN)
        limits = Limits(requests=REQUESTS, client_requests=REQUESTS)
        service = ObjectServer(buckets, credentials, limits=limits)
        started = threading.Event()
        server = Server(service, on_listening=lambda _: started.set())
        bound = listener("127.0.0.1", 0)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        started.wait()
        address = f"http://127.0.0.1:{bound.getsockname()[1]}"
        self._running[address] = _Running(server, thread, service, buckets, root)
        return f"{address} {credentials.secret(ROOT)}"

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
