"""Reap expired streams: requests, time of the processor, and time on a store with a latency.

    python -m bench.streams_reaping [--streams 10000] [--latency-ms 20]

All streams expire at once. The sweeper has the defaults of `fencepost streams serve`: 20 streams a tick, 4 at
once, a minute between a tombstone and its reap. It runs on a store in memory, whose clock only the sweeper
moves. The seconds on a store are the requests of the reaps in a row, by 4, and the minute; deletions of one
stream's segments are one request, as they are sent together.
"""

import argparse
import sys
import time
from collections import Counter
from typing import Any

from bench import report
from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store.interface import Layer
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.streams import Configuration, Node, Reaper, Settings

TTL_S = 3600
CONCURRENCY = 4
"""That of the command."""
BODY = b"x" * 99 + b"\n"


class Counted(Layer):
    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.sent: Counter[str] = Counter()

    def send(self, request: Any) -> Any:
        self.sent[request.kind] += 1
        return self.inner.send(request)


def measure(streams: int, latency_ms: float) -> dict[str, Any]:
    env = SeededEnvironment()
    store = Counted(MemoryStore(env=env))
    settings = Settings(scan_s=0.0, reap_concurrency=CONCURRENCY)
    node = Node(store, env, settings)
    for number in range(streams):
        node.create(f"/{number}", Configuration("text/plain", ttl_s=TTL_S), BODY)
    env.sleep(2 * TTL_S)
    store.sent.clear()
    reaper = Reaper(node)
    ticks, failures, began, began_ns = 0, 0, time.process_time(), env.monotonic_ns()
    while reaper.counters.streams_reaped < streams:
        failures += sum(1 for _ in reaper.sweep())
        ticks += 1
        if not reaper.is_behind:
            env.sleep(settings.sweep_s)
    took = time.process_time() - began
    total = sum(store.sent.values())
    waited_s = (env.monotonic_ns() - began_ns) / 1e9
    on_store_s = total * latency_ms / 1000 / CONCURRENCY + waited_s
    return {
        "streams": streams,
        "left": len(store.inner.contents()),
        "failures": failures,
        "ticks": ticks,
        "requests": {kind: store.sent[kind] for kind in sorted(store.sent)},
        "requests_a_stream": round(total / streams, 2),
        "processor_s": round(took, 1),
        "seconds_on_a_store": round(on_store_s),
        "streams_a_day": round(streams / on_store_s * 86_400),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.streams_reaping", description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--latency-ms", type=float, default=20.0)
    options = parser.parse_args(arguments)
    figures = measure(options.streams, options.latency_ms)
    return report.tell("streams-reaping", figures, ok=not figures["left"] and not figures["failures"])


if __name__ == "__main__":
    sys.exit(main())
