"""Exploration on Spark beside the local engine: the same counts, and what they cost.

    python -m bench.spark [--managers 9] [--engines local,spark,cluster]

Two-phase commit in this process, on an embedded Spark, and on a standalone cluster (one master, two
workers, processes on 127.0.0.1 that this starts and stops). Memory is what all processes of an engine
together had resident at most, looked at twice a second; the local engine's includes Python itself. Writes
out/bench/spark.json; ends with 1 when the counts differ.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from bench import report

SAME = ("verdict", "distinct", "generated", "depth")


def checked(managers: int, *words: str) -> dict[str, Any]:
    """`fencepost check two-phase`, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "result.json")
        command = ["check", "two-phase", "--set", f"managers={managers}", *words, "--json", str(target)]
        begun = perf_counter()
        process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-m", "fencepost", *command], stdout=subprocess.DEVNULL
        )
        with _watched(process.pid) as peak:
            process.wait()
        seconds = perf_counter() - begun
        found = json.loads(target.read_text())
    shared = {name: found[name] for name in (*SAME, "seconds", "peak_bytes")}
    return {**shared, "with_start_seconds": round(seconds, 1), "peak_resident_bytes": peak[0]}


@contextlib.contextmanager
def _watched(root: int) -> Iterator[list[int]]:
    """The most that a process and all its descendants had resident."""
    peak, done = [0], threading.Event()

    def look() -> None:
        while not done.wait(0.5):
            peak[0] = max(peak[0], sum(_resident(pid) for pid in _family(root)))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()


def _family(root: int) -> set[int]:
    parents: dict[int, int] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
    family = {root}
    while True:
        more = {pid for pid, parent in parents.items() if parent in family} - family
        if not more:
            return family
        family |= more


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--managers", type=int, default=9)
    parser.add_argument("--engines", default="local,spark,cluster")
    options = parser.parse_args()
    engines = options.engines.split(",")
    found: dict[str, Any] = {}
    if "local" in engines:
        found["local"] = checked(options.managers)
    if "spark" in engines:
        found["spark local[2]"] = checked(options.managers, "--engine", "spark", "--master", "local[2]")
    if "cluster" in engines:
        from tests.spark.cluster import cluster

        with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as url:
            found["spark cluster, driver"] = checked(options.managers, "--engine", "spark", "--master", url)
    counts = {tuple(one[name] for name in SAME) for one in found.values()}
    result = {"managers": options.managers, "engines": found, "same_counts": len(counts) == 1}
    return report.tell("spark", result, ok=len(counts) == 1)


if __name__ == "__main__":
    sys.exit(main())
