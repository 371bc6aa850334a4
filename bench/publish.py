"""Plans a second with group commit and without, on a store that is far away and narrow.

    python -m bench.publish [--publishers 64] [--latency-ms 20] [--in-flight 8] [--seconds 3]

Both halves run in this process, one after the other, with real threads on the same kind of store: memory
behind a latency and a cap on requests in flight. Without: every publisher takes its turn on the one handle
and publishes its plan alone, which is as good as it gets, since nobody ever loses a race.
"""

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.impl.publish import Catalog, Draft, GroupCommit, Published
from holdfast.impl.store.layers import Metered, Throttled
from holdfast.impl.store.memory import MemoryStore


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
    stop, plans, latencies = threading.Event(), [0] * options.publishers, []
    before, depth = sum(store.total.values()), catalog.manifest.id

    def work(number: int) -> None:
        while not stop.is_set():
            began = time.perf_counter()
            assert isinstance(publish(draft(number)), Published)
            latencies.append(time.perf_counter() - began)
            plans[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(options.publishers)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    time.sleep(options.seconds)  # noqa: TID251 - a benchmark measures the real clock
    stop.set()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    ordered = sorted(latencies)
    result = {
        "plans": sum(plans),
        "commits": catalog.manifest.id - depth,
        "requests": sum(store.total.values()) - before,
        "seconds": round(seconds, 3),
        "plans_per_second": round(sum(plans) / seconds, 1),
        "latency_ms_p50": round(1000 * ordered[len(ordered) // 2], 1),
    }
    store.close()
    return result


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
    parser.add_argument("--out", default="out/bench/publish.json")
    options = parser.parse_args()
    alone, grouped = run(options, grouped=False), run(options, grouped=True)
    ratio = grouped["plans_per_second"] / alone["plans_per_second"]
    result = {
        "bench": "publish",
        "parameters": {name: value for name, value in vars(options).items() if name != "out"},
        "alone": alone,
        "grouped": grouped,
        "ratio": round(ratio, 1),
        "bar": 10,
        "ok": ratio >= 10,
    }
    path = Path(options.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
