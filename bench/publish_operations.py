"""Requests, serial hops and bytes of the operations of a catalog, by its number of tables and its depth.

    python -m bench.publish_operations [--tables 5 50 500 5000] [--depths 1 500]

The table of docs/explanations/publish-document.md is its output. Requests, hops and bytes are counted below
the catalog, so they are the same on every machine. Beside them: dollars for a million such operations at the
prices of S3 (requests, and a month of storage of what they write, if cleanup deletes nothing), and the
milliseconds of processor that this machine spent on one. `opened` operations begin with a process that knows
nothing; their hops end with the acknowledgement, before the sidecar is deleted.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench.report import tell
from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import Catalog
from fencepost.impl.store.layers import Cost, Metered
from fencepost.impl.store.memory import MemoryStore
from fencepost.sim.scenarios.keys import PRICES

GIB_MONTH = 0.023
"""Dollars of S3 Standard for a month of a GiB."""
REPEATS = 5
Operation = Callable[[Metered, Catalog], None]


def catalog_of(tables: int, depth: int) -> tuple[Metered, Catalog]:
    """Return a catalog with a row in every table, and a warm handle on it."""
    metered = Metered(MemoryStore(env=SeededEnvironment(1)))
    catalog = Catalog.open(metered, author="bench", create=True)
    with catalog.transaction() as txn:
        for number in range(tables):
            txn.create_table(f"t{number}", {"id": "int64", "n": "int64"}, key="id")
            txn.append(f"t{number}", [{"id": 0, "n": 0}])
    for number in range(depth):
        catalog.write(lambda txn, n=number: txn.upsert("t0", [{"id": 1, "n": n}]))
    return metered, catalog


def warm(_: Metered, catalog: Catalog) -> None:
    catalog.write(lambda txn: txn.upsert("t0", [{"id": 2, "n": 2}]))


def opened(metered: Metered, _: Catalog) -> None:
    fresh = Catalog.open(metered, author="fresh", mode="join", tables=["t0"])
    fresh.write(lambda txn: txn.upsert("t0", [{"id": 3, "n": 3}]))


def branch_create(_: Metered, catalog: Catalog) -> None:
    catalog.create_branch(f"b{catalog.context.env.new_id()}")


@contextmanager
def with_branch(catalog: Catalog) -> Iterator[str]:
    """A branch that this process did not write to yet."""
    name = f"b{catalog.context.env.new_id()}"
    catalog.create_branch(name)
    yield name


def first_write(_: Metered, branch: Catalog) -> None:
    branch.write(lambda txn: txn.upsert("t0", [{"id": 4, "n": 4}]))


def measured(metered: Metered, catalog: Catalog, act: Operation) -> dict[str, Any]:
    with metered.operation("operation") as cost:
        began = time.process_time()
        act(metered, catalog)
        spent = time.process_time() - began
    return figures(cost, spent)


def figures(cost: Cost, seconds: float) -> dict[str, Any]:
    million = 1e6 * sum(PRICES[kind] * count for kind, count in cost.by_kind.items())
    return {
        "hops": cost.serial_hops,
        "requests": cost.requests,
        "bytes_sent": cost.bytes_sent,
        "bytes_received": cost.bytes_received,
        "cpu_ms": round(seconds * 1000, 2),
        "dollars_requests": round(million, 2),
        "dollars_storage": round(1e6 * cost.bytes_sent / 2**30 * GIB_MONTH, 2),
    }


def row(tables: int, depth: int) -> dict[str, dict[str, Any]]:
    """The figures of each operation: the cheapest of a few repetitions, which differ in processor time."""
    metered, catalog = catalog_of(tables, depth)
    runs: dict[str, list[dict[str, Any]]] = {}
    for _ in range(REPEATS):
        for act in (warm, opened, branch_create):
            runs.setdefault(act.__name__, []).append(measured(metered, catalog, act))
            catalog.refresh()
            catalog.snapshot().rows("t0")
        with with_branch(catalog) as name:
            branch = catalog.on(name)
            branch.snapshot().rows("t0")
            runs.setdefault("first_write", []).append(measured(metered, branch, first_write))
            delete = measured(metered, catalog, lambda _, c, name=name: c.delete_branch(name))
            runs.setdefault("branch_delete", []).append(delete)
    catalog.close()
    return {name: min(found, key=lambda one: one["cpu_ms"]) for name, found in runs.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, nargs="+", default=[5, 50, 500, 5000])
    parser.add_argument("--depths", type=int, nargs="+", default=[1, 500])
    options = parser.parse_args()
    points = [(tables, options.depths[0]) for tables in options.tables]
    points += [(options.tables[0], depth) for depth in options.depths[1:]]
    found = {f"{tables} tables, depth {depth}": row(tables, depth) for tables, depth in points}
    hops = {name: {point[name]["hops"] for point in found.values()} for name in next(iter(found.values()))}
    ok = all(len(flat) == 1 for flat in hops.values())
    return tell("publish-operations", {"points": found, "ok": ok}, ok=ok)


if __name__ == "__main__":
    sys.exit(main())
