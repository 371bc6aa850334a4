"""Readers of one stream: many that read, and many that do not.

    python -m bench.streams_readers [--readers 10000] [--messages 10] [--silent 2000] [--appends 5]
                                    [--append-mb 4] [--directory DIR]

`--readers` follow one stream by server-sent events; each message of 100 bytes is appended when all have the
one before. Then, at a new server, `--silent` readers connect, take the first event and read nothing more,
while `--appends` appends of `--append-mb` are made and /healthz is asked every 50 ms. Prints how many
deliveries a second there are, the slowest answer of /healthz, and the memory of the server. One process is
the client of all; it raises its limit of open files. Exit code 1 if /healthz takes a second, or memory grows
with the number of readers.
"""

import argparse
import contextlib
import http.client
import resource
import select
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench import report
from bench.objects import memory
from bench.streams import BODY, Failed, Target, ours, request

MARK = b"streamNextOffset"
HEALTH_S = 1.0
"""A slower answer of /healthz is a failure."""
MEMORY_MIB = 400.0
"""More memory than this, with silent readers of appends of a few MB, is a failure."""
CONNECTING = 500
"""Connections that are opened at once."""


class Readers:
    """Connections that read one stream by server-sent events, in one thread."""

    def __init__(self, target: Target, path: str, count: int) -> None:
        host, port = target.host.split(":")
        self._poll = select.epoll()
        self._tails: dict[int, bytes] = {}
        self._sockets: dict[int, socket.socket] = {}
        self.ended = 0
        for first in range(0, count, CONNECTING):
            part = min(CONNECTING, count - first)
            for _ in range(part):
                one = socket.create_connection((host, int(port)), timeout=60)
                one.sendall(f"GET {path}?offset=-1&live=sse HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
                one.setblocking(False)
                self._sockets[one.fileno()] = one
                self._tails[one.fileno()] = b""
                self._poll.register(one.fileno(), select.EPOLLIN)
            self.take(part)

    def take(self, events: int, timeout_s: float = 120.0) -> None:
        """Read until so many events have come."""
        deadline = time.perf_counter() + timeout_s
        while events > 0:
            ready = self._poll.poll(1.0, 4096)
            for number, _ in ready:
                events -= self._read(number)
            if time.perf_counter() > deadline or self.ended:
                raise Failed(f"{events} events did not come; {self.ended} connections ended")

    def _read(self, number: int) -> int:
        try:
            piece = self._sockets[number].recv(1 << 18)
        except BlockingIOError:
            return 0
        except ConnectionError:
            piece = b""
        if not piece:
            self._poll.unregister(number)
            self.ended += 1
            return 0
        text = self._tails[number] + piece
        self._tails[number] = piece[1 - len(MARK) :]
        return text.count(MARK)

    def close(self) -> None:
        self._poll.close()
        for one in self._sockets.values():
            one.close()


def reading(target: Target, readers: int, messages: int) -> dict[str, float]:
    """Deliveries a second, from an append to the last reader."""
    writer = http.client.HTTPConnection(target.host, timeout=120)
    request(writer, "PUT", "/fan")
    writer.close()
    began = time.perf_counter()
    followers = Readers(target, "/fan", readers)
    connected_s = time.perf_counter() - began
    took, busy = [], _cpu(target.process)
    try:
        for _ in range(messages):
            began = time.perf_counter()
            append = threading.Thread(target=request, args=(writer, "POST", "/fan", BODY))
            append.start()
            followers.take(readers)
            took.append(time.perf_counter() - began)
            append.join()
            writer.close()
    finally:
        followers.close()
    return {
        "readers": readers,
        "connected_s": round(connected_s, 2),
        "deliveries_a_second": round(readers * messages / sum(took)),
        "all_have_it_p50_ms": round(1000 * report.median(took), 1),
        "server_cpu_us_a_delivery": round(1e6 * (_cpu(target.process) - busy) / (readers * messages), 1),
        "memory_mib": round(memory(target.process), 1),
    }


def _cpu(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@contextlib.contextmanager
def _sampled(act: Callable[[], None], every_s: float) -> Iterator[None]:
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(every_s):
            act()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def silent(target: Target, readers: int, appends: int, size: int) -> dict[str, Any]:
    """What readers cost that read nothing, while so many bytes are appended again and again."""
    writer = http.client.HTTPConnection(target.host, timeout=300)
    request(writer, "PUT", "/silent")
    followers = Readers(target, "/silent", readers)
    before = memory(target.process)
    health: list[float] = []
    mib: list[float] = []
    kernel: list[float] = []

    def ask() -> None:
        began = time.perf_counter()
        connection = http.client.HTTPConnection(target.host, timeout=300)
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        answer.read()
        connection.close()
        if answer.status != 200:
            raise Failed(f"/healthz answers {answer.status}")
        health.append(time.perf_counter() - began)
        mib.append(memory(target.process))
        kernel.append(_kernel_mib())

    for _ in range(10):
        ask()
    alone = statistics.median(health)
    health.clear()
    took = []
    try:
        with _sampled(ask, 0.05):
            for _ in range(appends):
                began = time.perf_counter()
                request(writer, "POST", "/silent", b"x" * size)
                took.append(time.perf_counter() - began)
                time.sleep(1.0)  # noqa: TID251  the real clock of a real server
    finally:
        followers.close()
        writer.close()
    return {
        "readers": readers,
        "appends": appends,
        "append_mb": round(size / 1e6, 1),
        "append_p50_s": round(statistics.median(took), 2),
        "healthz_before_ms": round(1000 * alone, 1),
        "healthz_p50_ms": round(1000 * statistics.median(health), 1),
        "healthz_worst_ms": round(1000 * max(health), 1),
        "memory_before_mib": round(before, 1),
        "memory_worst_mib": round(max(mib), 1),
        "tcp_worst_mib": round(max(kernel), 1),
    }


def _kernel_mib() -> float:
    """Memory of all TCP connections of this machine."""
    line = next(x for x in Path("/proc/net/sockstat").read_text().splitlines() if x.startswith("TCP:"))
    return int(line.split()[-1]) * resource.getpagesize() / 2**20


def allow_files(count: int) -> None:
    """Raise the soft limit on open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise Failed(f"the system allows {hard} open files; take fewer readers, or raise it (ulimit -Hn)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=10)
    parser.add_argument("--silent", type=int, default=2000)
    parser.add_argument("--appends", type=int, default=5)
    parser.add_argument("--append-mb", type=float, default=4.0)
    parser.add_argument("--directory")
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    allow_files(max(options.readers, options.silent))
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        for name, readers in (("reading", options.readers), ("silent", options.silent)):
            if not readers:
                continue
            with ours(Path(folder, name), "store", "--connections", str(readers + 100)) as target:
                if name == "reading":
                    figures[name] = reading(target, readers, options.messages)
                else:
                    size = round(options.append_mb * 1e6)
                    figures[name] = silent(target, readers, options.appends, size)
    quiet = figures.get("silent", {"healthz_worst_ms": 0.0, "memory_worst_mib": 0.0})
    ok = quiet["healthz_worst_ms"] < 1000 * HEALTH_S and quiet["memory_worst_mib"] < MEMORY_MIB
    return report.tell("streams-readers", figures, ok=ok)


if __name__ == "__main__":
    raise SystemExit(main())
