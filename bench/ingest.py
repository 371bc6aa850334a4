"""Batches accepted a second, against what the store alone does for the same two puts.

    python -m bench.ingest [--agents 32] [--latency-ms 20] [--in-flight 8] [--points 100] [--seconds 2]

Both halves run in this process and take turns, so that what else the machine does hits both: real threads,
on the same kind of store, memory behind a latency and a cap on requests in flight. One half checks and
accepts batches as a collector does, and makes the frames, which is the agent's work. The other only sends two
create-only puts of the same sizes, one after the other. The bar: accepting reaches at least 80 % of that.
"""

import argparse
import itertools
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.impl.environment import SystemEnvironment
from holdfast.impl.ingest import Accepted, Authority, Identity, Point, check_batch, encode
from holdfast.impl.store import ABSENT
from holdfast.impl.store.layers import Throttled
from holdfast.impl.store.memory import MemoryStore

BAR = 0.8


def accepting(store: Any, points: int) -> Callable[[int], None]:
    """What a collector does with a batch, once its bytes have arrived."""
    env = SystemEnvironment()
    authority = Authority(store, env, "bench")
    frames = itertools.count()

    def one(_: int) -> None:
        number = next(frames)
        identity = Identity("agent", "boot", number, number)
        body = encode(identity, [Point("cpu.load", {"host": "a"}, number + n, n / 7) for n in range(points)])
        check_batch("agent", identity, body)
        assert isinstance(authority.accept(identity, body), Accepted)

    return one


def bare(store: Any, points: int) -> Callable[[int], None]:
    """The same two puts, by somebody who knows nothing."""
    names = itertools.count()
    identity = Identity("agent", "boot", 1, 1)
    blob = encode(identity, [Point("cpu.load", {"host": "a"}, n, n / 7) for n in range(points)])
    manifest = bytes(500)

    def one(_: int) -> None:
        name = next(names)
        assert store.put(f"raw-blobs/{name}", blob, when=ABSENT).done
        assert store.put(f"accepted/{name}", manifest, when=ABSENT).done

    return one


def run(options: argparse.Namespace, make: Callable[[Any, int], Callable[[int], None]]) -> float:
    """Batches a second, in a closed loop of so many agents."""
    store = Throttled(MemoryStore(), latency_s=options.latency_ms / 1000, in_flight_max=options.in_flight)
    one = make(store, options.points)
    stop, done = threading.Event(), [0] * options.agents

    def work(number: int) -> None:
        while not stop.is_set():
            one(number)
            done[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(options.agents)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    time.sleep(options.seconds)  # noqa: TID251 - a benchmark measures the real clock
    stop.set()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    store.close()
    return sum(done) / seconds


def measure(options: argparse.Namespace) -> dict[str, Any]:
    rounds = [(run(options, bare), run(options, accepting)) for _ in range(options.rounds)]
    ratio = statistics.median(accepted / puts for puts, accepted in rounds)
    return {
        "bench": "ingest",
        "parameters": {name: value for name, value in vars(options).items() if name != "out"},
        "bare_per_second": [round(puts, 1) for puts, _ in rounds],
        "accepted_per_second": [round(accepted, 1) for _, accepted in rounds],
        "ratio": round(ratio, 3),
        "bar": BAR,
        "ok": ratio >= BAR,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--agents", type=int, default=32)
    parser.add_argument("--latency-ms", type=float, default=20.0)
    parser.add_argument("--in-flight", type=int, default=8)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", default="out/bench/ingest.json")
    options = parser.parse_args()
    result = measure(options)
    path = Path(options.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
