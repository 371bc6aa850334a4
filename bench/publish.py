"""Plans a second with group commit and without, on a store that is far away and narrow.

    python -m bench.publish [--publishers 64] [--latency-ms 20] [--in-flight 8] [--seconds 3]

Both halves run in this process, one after the other, with real threads on the same kind of store: memory
behind a latency and a cap on requests in flight. Without: every publisher takes its turn on the one handle
and publishes its plan alone, which is the best case, since no publisher loses a race.
"""

import argparse
import sys
import threading
from collections.abc import Callable
from typing import Any

from bench.loop import for_seconds
from bench.report import tell
from fencepost.impl.publish import Catalog, Draft, GroupCommit, Published
from fencepost.impl.store.layers import Metered, Throttled
from fencepost.impl.store.memory import MemoryStore

BAR = 10


def draft(key: int) -> Draft:
    made = Draft()
    made.upsert("t", [{"id": key, "n": key}])
    return made


def run(options: argparse.Namespace, *, grouped: bool) -> dict[str, Any]:
    """Closed loop: each publisher publishes, waits for the answer, publishes again."""
    store = Metered(
        Throttled(MemoryStore(), latency_s=options.latency_ms / 1000, in_flight_max=options.in_flight)
    )
    catalog = Catalog.open(store, author="bench", create=True)
    with catalog.transaction() as txn:
        txn.create_table("t", {"id": "int64", "n": "int64"}, key="id")
    publish = GroupCommit(catalog).publish if grouped else _in_turn(catalog)
    before, depth = sum(store.total.values()), catalog.manifest.id

    def act(worker: int, _turn: int) -> None:
        assert isinstance(publish(draft(worker)), Published)

    laps = for_seconds(act, options.publishers, options.seconds)
    figures = {
        "plans": len(laps.took),
        "commits": catalog.manifest.id - depth,
        "requests": sum(store.total.values()) - before,
        "seconds": round(laps.seconds, 3),
        "plans_per_second": round(laps.per_second, 1),
        "latency_ms_p50": round(laps.p50_ms, 1),
    }
    store.close()
    return figures


def _in_turn(catalog: Catalog) -> Callable[[Draft], Any]:
    turn = threading.Lock()

    def publish(made: Draft) -> Any:
        with turn:
            return catalog.publish(made)

    return publish


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--publishers", type=int, default=64)
    parser.add_argument("--latency-ms", type=float, default=20.0)
    parser.add_argument("--in-flight", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    alone, grouped = run(options, grouped=False), run(options, grouped=True)
    ratio = grouped["plans_per_second"] / alone["plans_per_second"]
    ok = ratio >= BAR
    figures = {
        "parameters": vars(options),
        "alone": alone,
        "grouped": grouped,
        "ratio": round(ratio, 1),
        "bar": BAR,
        "ok": ok,
    }
    return tell("publish", figures, ok=ok)


if __name__ == "__main__":
    sys.exit(main())
