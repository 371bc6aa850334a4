"""Measure the computation of the object server for a request, and a flush of this disk: the settings of the
workload `objects` of `fencepost simulate`, for this machine.

    python -m bench.objects_costs [DIRECTORY]

The operations run below HTTP, on a disk that does not flush. Then objects are put by threads on a disk whose
every flush is a sleep of 50 ms: what the scenario `objects-measured` is held against.
"""

import hashlib
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import report
from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.credentials import ROOT, Caller
from fencepost.impl.objects.index import Change
from fencepost.impl.objects.surface import act
from fencepost.impl.objects.tables import Entry
from fencepost.impl.objects.temporary import Unflushed
from fencepost.impl.objects.wire import codec
from fencepost.impl.store.files import Disk
from fencepost.impl.store.files.attributes import Attributes

BUCKET = "bucket"
BODY = b"x" * 4096
MD5 = hashlib.md5(BODY, usedforsecurity=False).hexdigest()
SLEEP_S = 0.05
FLUSHES, OPERATIONS, CHANGES, PUTS = 200, 1000, 16, 15


class Sleeping(Disk):
    one_call = False

    def fsync(self, fd: int) -> None:
        del fd
        SystemEnvironment().sleep(SLEEP_S)

    fsync_folder = fsync


def opened(root: Path, disk: Disk) -> Buckets:
    buckets = Buckets(str(root), disk=disk)
    buckets.create(BUCKET)
    buckets.index.trust(1)
    return buckets


def request(buckets: Buckets, operation: str, **parameters: Any) -> Any:
    return act(operation, buckets, Caller(ROOT))({"Bucket": BUCKET, **parameters})


def put(buckets: Buckets, key: str) -> None:
    with request(buckets, "PutObject", Key=key) as receiving:
        receiving.write(BODY)
        receiving.finish(MD5, {})


def computed_us(work: Callable[[int], object], count: int) -> int:
    begun = time.process_time()
    for number in range(count):
        work(number)
    return round((time.process_time() - begun) / count * 1e6)


def flushed_ms(folder: Path) -> list[float]:
    """Of a new file with 4 KiB, in order."""
    took = []
    for number in range(FLUSHES):
        fd = os.open(folder / f"flushed-{number}", os.O_WRONLY | os.O_CREAT)
        os.write(fd, BODY)
        begun = time.perf_counter()
        os.fsync(fd)
        took.append((time.perf_counter() - begun) * 1000)
        os.close(fd)
    return sorted(took)


def costs(buckets: Buckets) -> dict[str, int]:
    entry = Entry(MD5, 4096, 0, Attributes(MD5).encode().decode())

    def look(version: str) -> Entry | None:
        return None if version else entry

    def record(number: int, changes: int) -> None:
        for one in range(changes):
            buckets.index._owed["", str(one)] = Change("other", f"{number}-{one}", look)  # noqa: SLF001  as threads that share a transaction do
        buckets.index.retry_owed()

    def get(number: int) -> None:
        with request(buckets, "GetObject", Key=f"{number:06}") as content:
            codec.write("GetObject", content.values, content.status)

    put_us = computed_us(lambda number: put(buckets, f"{number:06}"), OPERATIONS)
    one = computed_us(lambda number: record(number, 1), OPERATIONS)
    many = computed_us(lambda number: record(OPERATIONS + number, CHANGES), OPERATIONS // CHANGES)
    change = max(1, (many - one) // (CHANGES - 1))
    SystemEnvironment().sleep(1.1)  # documents that were read within a second of their change are read again
    listed = computed_us(
        lambda _: codec.write("ListObjectsV2", request(buckets, "ListObjectsV2", MaxKeys=1000)), 20
    )
    read = computed_us(get, OPERATIONS)
    deleted = computed_us(lambda number: request(buckets, "DeleteObject", Key=f"{number:06}"), OPERATIONS)
    return {
        "put_us": put_us - one, "get_us": read, "delete_us": deleted - one, "list_us": listed,
        "transaction_us": one - change, "change_us": change,
    }  # fmt: skip


def puts_a_second(buckets: Buckets, threads: int) -> float:
    put(buckets, f"first-{threads}")

    def work(thread: int) -> None:
        for number in range(PUTS):
            put(buckets, f"{threads}-{thread}-{number}")

    all_of_them = [threading.Thread(target=work, args=(one,)) for one in range(threads)]
    begun = time.perf_counter()
    for one in all_of_them:
        one.start()
    for one in all_of_them:
        one.join()
    return threads * PUTS / (time.perf_counter() - begun)


def main(arguments: list[str]) -> int:
    folder = Path(tempfile.mkdtemp(prefix="objects-costs-", dir=arguments[0] if arguments else None))
    try:
        flushes = flushed_ms(folder)
        plain, slow = opened(folder / "plain", Unflushed()), opened(folder / "slow", Sleeping())
        figures = {
            "flush_ms": {"p50": report.median(flushes), "p99": flushes[int(len(flushes) * 0.99)]},
            "parameters": costs(plain),
            "puts_per_s": {str(threads): puts_a_second(slow, threads) for threads in (1, 16)},
        }
        plain.close()
        slow.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    flush = figures["flush_ms"]
    sys.stdout.write(
        f'[store]\nlatency = {{ p50 = "{flush["p50"]:.3g} ms", p99 = "{flush["p99"]:.3g} ms" }}\n\n'
        f"[workload.parameters]\n"
        + "".join(f"{name} = {value}\n" for name, value in figures["parameters"].items())
        + "".join(
            f"# {value:.0f} puts a second by {threads} threads, with flushes of 50 ms\n"
            for threads, value in figures["puts_per_s"].items()
        )
        + f"# written to {report.write('objects-costs', figures)}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
