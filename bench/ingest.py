"""Batches accepted a second, against what the store alone does for the same two puts.

    python -m bench.ingest [--agents 32] [--latency-ms 20] [--in-flight 8] [--points 100] [--seconds 2]

Both halves run in this process and take turns, so that what else the machine does hits both: real threads,
on the same kind of store, memory behind a latency and a cap on requests in flight. One half checks and
accepts batches as a collector does, and makes the frames, which is the agent's work. The other only sends two
create-only puts of the same sizes, one after the other. The bar: accepting reaches at least 80 % of that.
"""

import argparse
import sys
from collections.abc import Callable
from typing import Any

from bench.loop import Act, for_seconds
from bench.report import median, tell
from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.ingest import Accepted, Authority, Identity, Point, check_batch, encode
from fencepost.impl.store import ABSENT, Store
from fencepost.impl.store.layers import Throttled
from fencepost.impl.store.memory import MemoryStore

BAR = 0.8


def accepting(store: Store, points: int) -> Act:
    """Measure the work of a collector on a batch whose bytes have arrived."""
    env = SystemEnvironment()
    authority = Authority(store, env, "bench")

    def act(worker: int, turn: int) -> None:
        identity = Identity(f"agent-{worker}", "boot", turn, turn)
        body = encode(identity, [Point("cpu.load", {"host": "a"}, turn + n, n / 7) for n in range(points)])
        check_batch(identity.agent, identity, body)
        assert isinstance(authority.accept(identity, body), Accepted)

    return act


def bare(store: Store, points: int) -> Act:
    """The same two puts, without a protocol."""
    identity = Identity("agent", "boot", 1, 1)
    blob = encode(identity, [Point("cpu.load", {"host": "a"}, n, n / 7) for n in range(points)])
    manifest = bytes(500)

    def act(worker: int, turn: int) -> None:
        assert store.put(f"raw-blobs/{worker}-{turn}", blob, when=ABSENT).done
        assert store.put(f"accepted/{worker}-{turn}", manifest, when=ABSENT).done

    return act


def run(options: argparse.Namespace, make: Callable[[Store, int], Act]) -> float:
    """Batches a second, in a closed loop of so many agents."""
    with far_store(options) as store:
        return for_seconds(make(store, options.points), options.agents, options.seconds).per_second


def far_store(options: argparse.Namespace) -> Store:
    """Memory behind a latency and a cap on requests in flight."""
    return Throttled(MemoryStore(), latency_s=options.latency_ms / 1000, in_flight_max=options.in_flight)


def compared(options: argparse.Namespace, rounds: list[tuple[float, float]]) -> dict[str, Any]:
    """The figures of rounds of both halves, bare first."""
    ratio = median(accepted / puts for puts, accepted in rounds)
    return {
        "parameters": {name: value for name, value in vars(options).items() if name != "tokens"},
        "bare_per_second": [round(puts, 1) for puts, _ in rounds],
        "accepted_per_second": [round(accepted, 1) for _, accepted in rounds],
        "ratio": round(ratio, 3),
        "bar": BAR,
        "ok": ratio >= BAR,
    }


def far_parser(doc: str, *, agents: int, in_flight: int, points: int) -> argparse.ArgumentParser:
    """The options of both benchmarks, with the defaults of one."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--agents", type=int, default=agents)
    parser.add_argument("--latency-ms", type=float, default=20.0)
    parser.add_argument("--in-flight", type=int, default=in_flight)
    parser.add_argument("--points", type=int, default=points)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    return parser


def main() -> int:
    options = far_parser(__doc__, agents=32, in_flight=8, points=100).parse_args()
    rounds = [(run(options, bare), run(options, accepting)) for _ in range(options.rounds)]
    figures = compared(options, rounds)
    return tell("ingest", figures, ok=figures["ok"])


if __name__ == "__main__":
    sys.exit(main())
