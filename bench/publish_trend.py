"""Wall times of publish at 50 and 150 ms a request, compared with those of earlier runs on this machine.

    python -m bench.publish_trend [--latency-ms 50 150] [--in-flight 8] [--repeats 5] [--history FILE]

One insert, and creating, first writing and deleting a branch, in this process, on memory behind latency and
a cap. Appends its medians to out/bench/publish-trend.jsonl. Exit code 1 if one of them is more than a fifth
above the median of the last ten runs: a trend to look at, and no gate, since the machine is in it. The gate
counts requests and hops: tests/sim/scenarios/test_publish_gate.py.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.report import OUT, machine, median
from fencepost.impl.publish import Catalog
from fencepost.impl.store.layers import Metered, Throttled
from fencepost.impl.store.memory import MemoryStore

RUNS = 10
ABOVE_MAX = 1.2
"""Of the median of the last `RUNS` runs; what a loaded machine adds to sleeping 50 ms is less."""

Row = Mapping[str, Any]


def measure(latency_ms: float, in_flight: int, repeats: int) -> Iterator[Row]:
    """One row for each verb: the median of its seconds, its requests and its serial hops."""
    inner = MemoryStore()
    with Catalog.open(inner, author="bench", create=True) as catalog, catalog.transaction() as txn:
        txn.create_table("t", {"id": "int64"}, key="id")
    store = Metered(Throttled(inner, latency_s=latency_ms / 1000, in_flight_max=in_flight))
    with Catalog.open(store, author="bench", mode="join") as catalog:
        catalog.write(lambda txn: txn.append("t", [{"id": -1}]))  # opens the table
        seconds: dict[str, list[float]] = {}
        costs: dict[str, tuple[int, int]] = {}

        def timed(verb: str, act: Callable[[], object]) -> None:
            began = time.perf_counter()
            with store.operation(verb) as cost:
                act()
            seconds.setdefault(verb, []).append(time.perf_counter() - began)
            costs[verb] = (cost.requests, cost.serial_hops)

        for number in range(repeats):
            name = f"b{number}"
            timed("insert", lambda n=number: catalog.write(lambda txn: txn.append("t", [{"id": n}])))
            timed("branch create", lambda b=name: catalog.create_branch(b))
            with catalog.on(name, "join") as branch:
                timed("branch write", lambda b=branch: b.write(lambda txn: txn.append("t", [{"id": 1_000}])))
            timed("branch delete", lambda b=name: catalog.delete_branch(b))
    for verb, took in seconds.items():
        requests, hops = costs[verb]
        yield {
            "verb": verb,
            "latency_ms": latency_ms,
            "in_flight": in_flight,
            "seconds": round(median(took), 4),
            "requests": requests,
            "serial_hops": hops,
        }


def alerts(history: Sequence[Row], rows: Iterable[Row]) -> list[str]:
    """Name the rows that are slower than the last runs, or that have more hops than the last one had."""
    found = []
    for row in rows:
        same = [old for old in history if all(old[k] == row[k] for k in ("verb", "latency_ms", "in_flight"))]
        if not same:
            continue
        usual = median([old["seconds"] for old in same[-RUNS:]])
        where = f"{row['verb']} at {row['latency_ms']:g} ms"
        if row["seconds"] > ABOVE_MAX * usual:
            found.append(f"{where} took {row['seconds']} s; the median of earlier runs is {usual:.4g} s")
        if row["serial_hops"] > same[-1]["serial_hops"]:
            found.append(f"{where} has {row['serial_hops']} serial hops; it had {same[-1]['serial_hops']}")
    return found


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--latency-ms", type=float, nargs="+", default=[50.0, 150.0])
    parser.add_argument("--in-flight", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--history", type=Path, default=OUT / "publish-trend.jsonl")
    options = parser.parse_args(words)
    file: Path = options.history
    history = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    rows = [row for ms in options.latency_ms for row in measure(ms, options.in_flight, options.repeats)]
    found = alerts(history, rows)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as out:
        out.writelines(json.dumps({**row, "load": machine()["load"]}) + "\n" for row in rows)
    for row in rows:
        sys.stdout.write(
            f"{row['verb']:14} {row['latency_ms']:5g} ms  {row['seconds']:7.3f} s  "
            f"{row['requests']:3} requests  {row['serial_hops']:2} serial hops\n"
        )
    sys.stdout.writelines(f"slower: {text}\n" for text in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
