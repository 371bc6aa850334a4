"""Batches accepted a second over HTTP, against what the store alone does for the same two puts.

    python -m bench.ingest_http [--agents 16] [--latency-ms 20] [--in-flight 64] [--seconds 2]

As `bench.ingest`, with the whole collector in between: a process of its own, whose store is memory behind a
latency and a cap on requests in flight. Agents are threads here, each with a connection that it keeps. The
halves take turns. The collector also writes the indexes, three more puts a batch, behind its answers: with a
cap that is tight these compete with the acceptances, which is what `--in-flight 8` shows.
"""

import argparse
import http.client
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bench.ingest import bare
from holdfast.impl.environment import SystemEnvironment
from holdfast.impl.ingest import Identity, Point, encode
from holdfast.impl.store.layers import Throttled
from holdfast.impl.store.memory import MemoryStore

BAR = 0.8
ENV = SystemEnvironment()


def serve(options: argparse.Namespace) -> None:
    """The collector's process: prints its port, and ends when its input does."""
    from holdfast.impl.ingest.service.assembly import Plan, collecting
    from holdfast.impl.ingest.service.server import Server, listener
    from holdfast.impl.ingest.service.tokens import Tokens

    plan = Plan(_store(options), ENV, Tokens(options.tokens), "bench")
    with collecting(plan) as collector, listener("127.0.0.1", 0) as bound:
        server = Server(collector, collector.limits)
        sys.stdout.write(f"{bound.getsockname()[1]}\n")
        sys.stdout.flush()
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        sys.stdin.read()
        server.stop()
        thread.join()


@contextmanager
def collector(options: argparse.Namespace) -> Iterator[tuple[int, list[str]]]:
    """Its port, and a token for each agent."""
    from holdfast.impl.ingest.service.tokens import Who, enrol

    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/tokens.json"
        tokens = [enrol(file, Who("agent", f"agent-{number}"), ENV) for number in range(options.agents)]
        words = [sys.executable, "-m", "bench.ingest_http", "--serve", file]
        words += ["--latency-ms", str(options.latency_ms), "--in-flight", str(options.in_flight)]
        with subprocess.Popen(  # noqa: S603 - ourselves
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            yield int(process.stdout.readline()), tokens
            process.communicate("")


def agent(port: int, token: str, number: int, points: int) -> Callable[[], None]:
    """One agent with a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    headers = {"authorization": f"Bearer {token}", "content-type": "application/octet-stream"}
    name, boot = f"agent-{number}", ENV.new_id()
    sequence = itertools.count()

    def one() -> None:
        at = next(sequence)
        body = encode(
            Identity(name, boot, at, at),
            [Point("cpu.load", {"host": "a"}, at + n, n / 7) for n in range(points)],
        )
        asked = urlencode({"agent_id": name, "boot_id": boot, "seq_start": at, "seq_end": at})
        connection.request("POST", f"/v1/batches?{asked}", body, headers)
        answer = connection.getresponse()
        said = json.loads(answer.read())
        assert (answer.status, said["duplicate"]) == (200, False), said

    return one


def loop(ones: list[Callable[[], None]], seconds: float) -> float:
    """How often a second they are done, all at once, each again and again."""
    stop, done = threading.Event(), [0] * len(ones)

    def work(number: int) -> None:
        while not stop.is_set():
            ones[number]()
            done[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(ones))]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    time.sleep(seconds)  # noqa: TID251 - a benchmark measures the real clock
    stop.set()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - began)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    rounds = []
    with collector(options) as (port, tokens):
        for _ in range(options.rounds):
            store = _store(options)
            put = bare(store, options.points)
            alone = loop([partial(put, 0)] * options.agents, options.seconds)
            store.close()
            agents = [agent(port, token, number, options.points) for number, token in enumerate(tokens)]
            rounds.append((alone, loop(agents, options.seconds)))
    ratio = statistics.median(accepted / puts for puts, accepted in rounds)
    return {
        "bench": "ingest-http",
        "parameters": {name: value for name, value in vars(options).items() if name not in ("out", "tokens")},
        "bare_per_second": [round(puts, 1) for puts, _ in rounds],
        "accepted_per_second": [round(accepted, 1) for _, accepted in rounds],
        "ratio": round(ratio, 3),
        "bar": BAR,
        "ok": ratio >= BAR,
    }


def _store(options: argparse.Namespace) -> Throttled:
    return Throttled(MemoryStore(), latency_s=options.latency_ms / 1000, in_flight_max=options.in_flight)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--serve", dest="tokens", help=argparse.SUPPRESS)
    parser.add_argument("--agents", type=int, default=16)
    parser.add_argument("--latency-ms", type=float, default=20.0)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", default="out/bench/ingest-http.json")
    options = parser.parse_args()
    if options.tokens:
        serve(options)
        return 0
    result = measure(options)
    path = Path(options.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
