"""Batches accepted a second over HTTP, against what the store alone does for the same two puts.

    python -m bench.ingest_http [--agents 16] [--latency-ms 20] [--in-flight 64] [--seconds 2]

As `bench.ingest`, with the whole collector in between: a process of its own, whose store is memory behind a
latency and a cap on requests in flight. Agents are threads here, each with a connection that it keeps. The
halves take turns. The collector also writes the indexes, three more puts a batch, behind its answers: with a
cap that is tight these compete with the acceptances, which is what `--in-flight 8` shows.
"""

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from bench.ingest import bare, compared, far_parser, far_store, run
from bench.loop import Act, for_seconds
from bench.report import tell
from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.ingest import Identity, Point, encode

ENV = SystemEnvironment()


def serve(options: argparse.Namespace) -> None:
    """The collector's process: prints its port, and ends when its input does."""
    from fencepost.impl.http.server import Server, listener
    from fencepost.impl.http.tokens import Tokens
    from fencepost.impl.ingest.service.app import Plan, collecting
    from fencepost.impl.ingest.service.requests import token_file

    plan = Plan(far_store(options), ENV, Tokens(token_file(options.tokens)), "bench")
    with collecting(plan) as collector, listener("127.0.0.1", 0) as bound:
        server = Server(collector)
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
    from fencepost.impl.http.tokens import Principal
    from fencepost.impl.ingest.service.requests import token_file

    with tempfile.TemporaryDirectory() as folder:
        file = token_file(f"{folder}/tokens.json")
        tokens = [file.enrol(Principal("agent", f"agent-{number}"), ENV) for number in range(options.agents)]
        words = [sys.executable, "-m", "bench.ingest_http", "--serve", str(file.path)]
        words += ["--latency-ms", str(options.latency_ms), "--in-flight", str(options.in_flight)]
        with subprocess.Popen(  # noqa: S603 - ourselves
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            yield int(process.stdout.readline()), tokens
            process.communicate("")


def sending(port: int, tokens: list[str], points: int) -> Act:
    """Each agent with a connection of its own, which it keeps."""
    connections = [http.client.HTTPConnection("127.0.0.1", port) for _ in tokens]
    boot = ENV.new_id()

    def act(worker: int, turn: int) -> None:
        name = f"agent-{worker}"
        headers = {"authorization": f"Bearer {tokens[worker]}", "content-type": "application/octet-stream"}
        body = encode(
            Identity(name, boot, turn, turn),
            [Point("cpu.load", {"host": "a"}, turn + n, n / 7) for n in range(points)],
        )
        query = urlencode({"agent_id": name, "boot_id": boot, "seq_start": turn, "seq_end": turn})
        connections[worker].request("POST", f"/v1/batches?{query}", body, headers)
        answer = connections[worker].getresponse()
        reply = json.loads(answer.read())
        assert (answer.status, reply["duplicate"]) == (200, False), reply

    return act


def measure(options: argparse.Namespace) -> dict[str, Any]:
    rounds = []
    with collector(options) as (port, tokens):
        for _ in range(options.rounds):
            alone = run(options, bare)
            accepted = for_seconds(sending(port, tokens, options.points), options.agents, options.seconds)
            rounds.append((alone, accepted.per_second))
    return compared(options, rounds)


def main() -> int:
    parser = far_parser(__doc__, agents=16, in_flight=64, points=20)
    parser.add_argument("--serve", dest="tokens", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tokens:
        serve(options)
        return 0
    figures = measure(options)
    return tell("ingest-http", figures, ok=figures["ok"])


if __name__ == "__main__":
    sys.exit(main())
