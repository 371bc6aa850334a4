"""Writers of one catalog that all begin at the same moment, as processes of their own.

    python -m bench.catalog_writers [--writers 12 100 300] [--store URL] [--tables 3]

    limited    a handle each, which gives up after five attempts
    handles    a handle each, which begins again for `--wait` seconds: the default of `Catalog.write`
    server     one `fencepost catalog serve`, to which they send their changes

Each writer appends one row to one of a few tables. Counted: who committed, requests to the store for each,
the commits that they share. The times are this machine's, whose load stands beside them. `after_a_kill`: a
writer was killed between the head of its table and its manifest; for how long others of that table, and of
another one, have to wait.
"""

import argparse
import json
import multiprocessing
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.report import tell
from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.publish import Catalog, Published, PublishError
from fencepost.impl.store import open_store
from fencepost.impl.store.interface import Layer
from fencepost.impl.store.layers import Metered
from fencepost.impl.store.requests import Request

ENV = SystemEnvironment()
FORK = multiprocessing.get_context("fork")
LISTENING = re.compile(rb"listening on (\S+)")
SECONDS_MAX = 600
ATTEMPTS = 5
"""Of a writer that is `limited`, as `Catalog.write` was before it had a time."""


class KilledBefore(Layer):
    """Kills its process before the first request that creates a manifest."""

    def send(self, request: Request[Any]) -> Any:
        return self.send_all([request])[0]

    def send_all(self, requests: Sequence[Request[Any]]) -> Any:
        if any(one.kind == "put" and "/manifest/" in one.subject for one in requests):
            os.kill(os.getpid(), signal.SIGKILL)
        return self.inner.send_all(requests)


def _now_s() -> float:
    return ENV.monotonic_ns() / 1e9


def found_catalog(url: str, tables: int) -> None:
    with Catalog.open(url, author="founder", create=True) as catalog, catalog.transaction() as txn:
        for number in range(tables):
            txn.create_table(f"t{number}", {"id": "int64"}, key="id")


def write_one(place: str, number: int, table: str, how: dict[str, Any]) -> dict[str, Any]:
    """One writer's commit and what it took."""
    meters: list[Metered] = []

    def layer(store: Any) -> Metered:
        meters.append(Metered(store))
        return meters[-1]

    began, cpu = _now_s(), time.process_time()
    attempts = 0

    def change(txn: Any) -> None:
        nonlocal attempts
        attempts += 1
        txn.append(table, [{"id": number}])

    try:
        with Catalog.open(place, author=f"writer {number}", mode="join", layer=layer) as catalog:
            ended = type(catalog.write(change, **how)).__name__
    except PublishError as error:
        ended = type(error).__name__
    requests = sum(meter.total.total() for meter in meters)
    return {
        "ended": "Published" if ended in (Published.__name__, "Committed") else ended,
        "attempts": attempts,
        "requests": requests,
        "seconds": _now_s() - began,
        "cpu_s": time.process_time() - cpu,
    }


def together(place: str, count: int, tables: int, how: dict[str, Any]) -> list[dict[str, Any]]:
    """Fork the writers, release them at once, and collect their results."""
    start, results = FORK.Event(), FORK.Queue()

    def run(number: int) -> None:
        start.wait(SECONDS_MAX)
        results.put(write_one(place, number, f"t{number % tables}", how))

    writers = [FORK.Process(target=run, args=(number,)) for number in range(count)]
    for writer in writers:
        writer.start()
    start.set()
    found = []
    try:
        while len(found) < count:
            found.append(results.get(timeout=SECONDS_MAX))
    except queue.Empty:
        pass
    for writer in writers:
        writer.join(10)
        writer.kill()
    return found


def summary(found: Sequence[dict[str, Any]], count: int, seconds: float) -> dict[str, Any]:
    committed = [one for one in found if one["ended"] == "Published"]
    waits = sorted(one["seconds"] for one in committed) or [0.0]
    return {
        "writers": count,
        "committed": len(committed),
        "ends": dict(Counter(one["ended"] for one in found)),
        "attempts_most": max((one["attempts"] for one in found), default=0),
        "requests": sum(one["requests"] for one in found),
        "requests_per_commit": round(sum(one["requests"] for one in found) / max(1, len(committed)), 1),
        "seconds": round(seconds, 2),
        "commits_per_s": round(len(committed) / seconds, 1),
        "wait_s": {"median": round(waits[len(waits) // 2], 2), "longest": round(waits[-1], 2)},
        "writers_cpu_s": round(sum(one["cpu_s"] for one in found), 2),
        "load": round(os.getloadavg()[0], 1),
    }


@contextmanager
def place_for(base: str) -> Iterator[str]:
    """The URL of a new catalog below `base`, or in a directory of its own."""
    if base:
        head, _, options = base.partition("?")
        yield f"{head.rstrip('/')}/{ENV.new_id()}{f'?{options}' if options else ''}"
        return
    folder = tempfile.mkdtemp(prefix="catalog-writers-")
    try:
        yield f"file://{folder}/catalog"
    finally:
        shutil.rmtree(folder)


@contextmanager
def server_of(url: str, out: str) -> Iterator[str]:
    """The address of a server of the catalog; its figures are in the file `out` afterwards."""
    words = [sys.executable, "-m", "fencepost", "catalog", "serve", url, "--listen", "127.0.0.1:0"]
    with subprocess.Popen([*words, "--json", out], stdout=subprocess.PIPE) as process:  # noqa: S603 - ours
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            found = LISTENING.search(line)
            assert found is not None, line
            yield found[1].decode()
        finally:
            process.terminate()
            process.wait(SECONDS_MAX)


def run(mode: str, count: int, tables: int, base: str, wait_s: float) -> dict[str, Any]:
    with place_for(base) as url, tempfile.NamedTemporaryFile(suffix=".json") as out:
        found_catalog(url, tables)
        if mode == "server":
            with server_of(url, out.name) as place:
                began = _now_s()
                found = together(place, count, tables, {"wait_s": wait_s})
                shown = summary(found, count, _now_s() - began)
            figures = json.loads(Path(out.name).read_bytes())
            orders = max(1, figures["orders"])
            shown |= {
                "commits": figures["commits"],
                "groups": figures["groups"],
                "hops": figures["hops"],
                "requests": figures["storage"]["ops"],
                "requests_per_commit": round(figures["storage"]["ops"] / orders, 1),
            }
        else:
            how = {"attempts": ATTEMPTS} if mode == "limited" else {"wait_s": wait_s}
            began = _now_s()
            found = together(url, count, tables, how)
            shown = summary(found, count, _now_s() - began)
        with Catalog.open(url, mode="read") as reader:
            rows = [row["id"] for table in reader.snapshot().tables for row in reader.snapshot().rows(table)]
            shown["commits"] = reader.manifest.id - 2
        shown["exact"] = len(rows) == len(set(rows)) == shown["committed"]
    return shown


def killed(mode: str, base: str) -> dict[str, Any]:
    """For how long writers wait behind one that was killed, on its table and on another one."""
    with place_for(base) as url, tempfile.NamedTemporaryFile(suffix=".json") as out:
        found_catalog(url, 2)

        def die() -> None:
            store = KilledBefore(open_store(url))
            catalog = Catalog.open(store, author="killed", mode="join")
            catalog.write(lambda txn: txn.append("t0", [{"id": 1000}]))

        victim = FORK.Process(target=die)
        victim.start()
        victim.join(SECONDS_MAX)
        assert victim.exitcode == -signal.SIGKILL
        if mode == "server":
            with server_of(url, out.name) as place:
                found = together(place, 4, 2, {"wait_s": 60.0})
        else:
            found = together(url, 4, 2, {"wait_s": 60.0})
    return {
        "ends": dict(Counter(one["ended"] for one in found)),
        "seconds": sorted(round(one["seconds"], 2) for one in found),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--writers", type=int, nargs="+", default=[12, 100, 300])
    parser.add_argument("--modes", nargs="+", default=["limited", "handles", "server"])
    parser.add_argument("--tables", type=int, default=3)
    parser.add_argument("--store", default="", help="a store URL; a new catalog is made below it")
    parser.add_argument("--wait", type=float, default=60.0)
    options = parser.parse_args()
    import pyarrow.parquet  # noqa: F401 - before the forks, which then need not load it

    found: dict[str, Any] = {}
    for count in options.writers:
        for mode in options.modes:
            shown = run(mode, count, options.tables, options.store, options.wait)
            found[f"{mode}, {count} writers"] = shown
            sys.stderr.write(f"{mode} {count}: {shown}\n")
    waits = {mode: killed(mode, options.store) for mode in ("handles", "server")}
    served = [shown for name, shown in found.items() if name.startswith("server")]
    ok = all(shown["committed"] == shown["writers"] for shown in served)
    ok = ok and all(shown["exact"] for shown in found.values())
    return tell("catalog-writers", {"runs": found, "after_a_kill": waits, "ok": ok}, ok=ok)


if __name__ == "__main__":
    raise SystemExit(main())
