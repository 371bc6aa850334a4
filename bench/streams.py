"""The streams server beside the reference server of npm `@durable-streams/server` (file-backed), in one run.

    python -m bench.streams [--appends 400] [--tailers 1000] [--messages 20] [--streams 10000] [--npm DIR]
                            [--servers fencepost,fencepost-local,reference] [--directory DIR]

Each server gets the same requests of the same client. First 1 writer and then 16 append 100 bytes over kept
connections, each to its own stream and all to one. Then `--tailers` readers follow one stream by server-sent
events; each message is appended when all readers have the one before. Ours runs on a
directory and flushes every append: segment and manifest under `store`, the local database under `local`. The
reference flushes a log and writes its metadata by LMDB. Last, ours creates `--streams` streams with a TTL of
2 seconds, which expire and are reaped while its memory is measured; and what the manifests of a long stream
weigh is counted, with and without indexes. Installs the reference into `--npm`.
"""

import argparse
import asyncio
import contextlib
import http.client
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import report
from bench.loop import for_turns
from bench.objects import memory
from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store.interface import Layer
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.streams import Configuration, Node, Settings

PACKAGE = "@durable-streams/server@0.3.7"
BODY = b"x" * 99 + b"\n"
TEXT = {"Content-Type": "text/plain"}
WRITERS = 16
_REFERENCE = """import { DurableStreamTestServer } from "@durable-streams/server"
const server = new DurableStreamTestServer({ port: 0, host: "127.0.0.1", dataDir: process.argv[2] })
console.log("listening on " + await server.start())
"""


@dataclass(frozen=True)
class Target:
    host: str
    process: int


class Failed(Exception):
    """Why a server cannot be measured."""


@contextlib.contextmanager
def _listening(command: list[str], directory: Path, cwd: Path | None = None) -> Iterator[Target]:
    log = directory.with_suffix(".log").open("w")
    with (
        log,
        subprocess.Popen(  # noqa: S603  the commands below
            command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=cwd
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            while line.startswith("[info]"):  # of the reference
                line = process.stdout.readline()
            if not line.startswith("listening on http://"):
                raise Failed(f"it does not listen; see {log.name}")
            yield Target(line.removeprefix("listening on http://").strip(), process.pid)
        finally:
            process.kill()


def ours(directory: Path, durability: str, *more: str) -> contextlib.AbstractContextManager[Target]:
    words = ["streams", "serve", f"file://{directory}", "--listen", "127.0.0.1:0", *more]
    words += ["--state", str(directory.with_suffix(".state")), "--durability", durability]
    return _listening([sys.executable, "-m", "fencepost", *words], directory)


def reference(directory: Path, npm: Path) -> contextlib.AbstractContextManager[Target]:
    npm.mkdir(parents=True, exist_ok=True)
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", PACKAGE]
    subprocess.run(command, cwd=npm, check=True, stderr=subprocess.DEVNULL)  # noqa: S603  as above
    (npm / "reference.mjs").write_text(_REFERENCE)
    return _listening(["node", "reference.mjs", str(directory)], directory, npm)


def request(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes = b"", **headers: str
) -> None:
    connection.request(method, path, body, {**TEXT, **headers})
    answer = connection.getresponse()
    answer.read()
    if answer.status >= 300:
        raise Failed(f"{method} {path}: {answer.status}")


def appending(target: Target, writers: int, appends: int, path: Callable[[int], str]) -> dict[str, float]:
    """Appends a second; every writer has a connection that it keeps."""
    connections = [http.client.HTTPConnection(target.host, timeout=120) for _ in range(writers)]
    for name in {path(writer) for writer in range(writers)}:
        request(connections[0], "PUT", name)

    def act(writer: int, _: int) -> None:
        request(connections[writer], "POST", path(writer), BODY)

    laps = for_turns(act, writers, appends // writers)
    for connection in connections:
        connection.close()
    return {"a_second": round(laps.per_second, 1), "p50_ms": round(laps.p50_ms, 2)}


async def fan_out(target: Target, tailers: int, messages: int) -> dict[str, float]:
    """Readers by server-sent events; the next message is appended when all have the last."""
    host, port = target.host.split(":")
    writer = http.client.HTTPConnection(target.host, timeout=120)
    request(writer, "PUT", "/fan")
    writer.close()  # and connected anew for every message: the reference closes what is idle for 5 s
    got = [0] * tailers
    left, all_have = [tailers], asyncio.Event()

    async def follow(number: int) -> None:
        reader, sending = await asyncio.open_connection(host, int(port))
        sending.write(f"GET /fan?offset=-1&live=sse HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
        try:
            while line := await reader.readline():
                if line.startswith(b"event: control" if not got[number] else b"data:xxxx"):
                    got[number] += 1
                    left[0] -= 1
                    if not left[0]:
                        all_have.set()
        finally:
            sending.close()

    tasks = [asyncio.create_task(follow(number)) for number in range(tailers)]
    took, began = [], [0.0]
    try:
        for number in range(messages + 1):  # the first is the beginning of all sessions
            async with asyncio.timeout(120):
                await all_have.wait()
            if number:
                took.append(time.perf_counter() - began[0])
            if number == messages:
                break
            left[0] = tailers
            all_have.clear()
            began[0] = time.perf_counter()
            await asyncio.to_thread(request, writer, "POST", "/fan", BODY)
            writer.close()
    except TimeoutError:
        raise Failed(f"{left[0]} of {tailers} readers did not get message {len(took) + 1}") from None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        writer.close()
    return {
        "readers": tailers,
        "deliveries_a_second": round(tailers * messages / sum(took)),
        "all_have_it_p50_ms": round(1000 * report.median(took), 1),
    }


def retention(directory: Path, streams: int) -> dict[str, Any]:
    """Memory of the server while streams come and go; a tenth of them at once."""
    options = ["--skew", "0", "--landing", "5", "--sweep-every", "0.2", "--reap-limit", "100000"]
    samples: list[float] = []
    left = 0
    part = max(1, streams // 10)
    with ours(directory, "store", *options) as target:
        connections = [http.client.HTTPConnection(target.host, timeout=120) for _ in range(WRITERS)]
        for first in range(0, streams, part):

            def act(writer: int, turn: int, first: int = first) -> None:
                path = f"/short/{first + turn * WRITERS + writer}"
                request(connections[writer], "PUT", path, b"x", **{"Stream-TTL": "2"})

            for_turns(act, WRITERS, -(-part // WRITERS))
            for connection in connections:
                connection.close()
            left = _emptied(directory)
            samples.append(round(memory(target.process), 1))
    half = samples[len(samples) // 2 :]
    grown = (half[-1] - half[0]) / half[0] if half else 0.0
    return {"streams": streams, "mib": samples, "objects_left": left, "grown_in_second_half": round(grown, 3)}


def _emptied(directory: Path, seconds_max: float = 120) -> int:
    """Wait until no object is left; how many there are."""
    deadline = time.monotonic() + seconds_max  # noqa: TID251  the real clock of a real server
    while True:
        left = sum(len(files) for _, _, files in os.walk(directory / "streams"))
        if not left or time.monotonic() > deadline:  # noqa: TID251  as above
            return left
        threading.Event().wait(0.2)


class _Weighed(Layer):
    """Weighs what is written of manifests and of the indexes that keep them short."""

    written = last = 0

    def send(self, request: Any) -> Any:
        if request.kind == "put" and request.key.endswith(("manifest.json", ".idx")):
            self.written += len(request.body)
            self.last = len(request.body) if request.key.endswith(".json") else self.last
        return self.inner.send(request)


def manifests(appends: int, **settings: Any) -> dict[str, float]:
    """Return the sizes of the manifests of one stream that grows by appends of 100 bytes."""
    env = SeededEnvironment()
    store = _Weighed(MemoryStore(env=env))
    node = Node(store, env, Settings(**settings))
    node.create("/grows", Configuration("text/plain"))
    for _ in range(appends):
        node.append("/grows", BODY, content_type="text/plain")
    return {
        "appends": appends,
        "written_mb": round(store.written / 1e6, 1),
        "last_kb": round(store.last / 1e3, 1),
    }


def measure(target: Target, options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for writers in (1, 16):
        found[f"{writers} writers, own streams"] = appending(
            target, writers, options.appends, lambda writer, all_=writers: f"/own-{all_}-{writer}"
        )
    found["16 writers, one stream"] = appending(target, 16, options.appends, lambda _: "/shared")
    found["fan-out"] = asyncio.run(fan_out(target, options.tailers, options.messages))
    found["memory_mib"] = round(memory(target.process), 1)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--appends", type=int, default=400)
    parser.add_argument("--tailers", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=20)
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--npm", type=Path, default=report.OUT / "npm")
    parser.add_argument("--directory")
    parser.add_argument("--servers", default="fencepost,fencepost-local,reference")
    options = parser.parse_args()
    figures: dict[str, Any] = {"appends": options.appends, "messages": options.messages}
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        servers = {
            "fencepost": lambda at: ours(at, "store"),
            "fencepost-local": lambda at: ours(at, "local"),
            "reference": lambda at: reference(at, options.npm.absolute()),
        }
        for name in filter(None, options.servers.split(",")):
            try:
                with servers[name](Path(folder, name)) as target:
                    figures[name] = measure(target, options)
            except (Failed, OSError, subprocess.CalledProcessError) as error:
                figures[name] = {"not measured": str(error)}
        if options.streams:
            figures["retention"] = retention(Path(folder, "retention"), options.streams)
    figures["manifests"] = [manifests(1_000), manifests(2_000), manifests(10_000)]
    figures["manifests without indexes"] = [manifests(2_000, index_width=10_000)]
    kept = figures.get("retention", {"objects_left": 0, "grown_in_second_half": 0.0})
    ok = not kept["objects_left"] and kept["grown_in_second_half"] <= 0.05
    ok = ok and all("not measured" not in one for one in figures.values() if isinstance(one, dict))
    return report.tell("streams", figures, ok=ok)


if __name__ == "__main__":
    raise SystemExit(main())
