"""Measure a round of a lifecycle in which nothing is to be done: 500 buckets with 5 rules each.

    python -m bench.lifecycle_idle [--buckets 500] [--rounds 3]

On a directory of `objects`, with leases, after the rounds in which all actions begin. The figure is the time
of the processor of one round; there is one a minute.
"""

import argparse
import contextlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import report
from bench.lifecycle import DAY_S, names, put_policy
from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.lifecycle.leases import Leases
from fencepost.impl.lifecycle.opening import open_lifecycle
from fencepost.impl.lifecycle.service import AT_ONCE, Service
from fencepost.impl.lifecycle.worker import Worker
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.reconcile import reconcile
from fencepost.impl.objects.temporary import Unflushed

EVERY_S = 60.0


def measure(root: Path, count: int, rounds: int) -> dict[str, Any]:
    clock = SeededEnvironment(0, 1_700_000_000 * 10**9)
    with contextlib.closing(Buckets(str(root), clock, disk=Unflushed())) as buckets:
        for name in names(count):
            buckets.create(name)
            put_policy(buckets, name)
        reconcile(buckets)
    clock.sleep(DAY_S)
    with open_lifecycle(str(root), clock) as opened:
        worker = Worker(opened.context, opened.target, opened.log)
        worker.leases = Leases(opened.context, "one")
        service = Service(worker)
        began = time.process_time()
        done = service.round()
        while any(how in AT_ONCE for how in done.handled.values()):
            done = service.round()
        first = time.process_time() - began
        took, failed = [], dict(done.failed)
        for _ in range(rounds):
            clock.sleep(EVERY_S)
            began = time.process_time()
            failed |= service.round().failed
            took.append(time.process_time() - began)
    return {
        "buckets": count,
        "actions": len(worker.snapshot().actions),
        "first_rounds_s": round(first, 2),
        "idle_round_s": round(report.median(took), 2),
        "failed": failed,
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.lifecycle_idle", description=__doc__.partition("\n")[0])
    parser.add_argument("--buckets", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), options.buckets, options.rounds)
    return report.tell("lifecycle-idle", figures, ok=not figures["failed"])


if __name__ == "__main__":
    sys.exit(main())
