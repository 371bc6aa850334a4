"""A worker of a directory of objects, as `fencepost lifecycle run` has it, with leases of a second.

    python -m tests.servers.lifecycle_agent DIRECTORY     # a line when it begins; until it is killed

With FENCEPOST_RECORD, the name of a folder, it records what it does.

A day has 10 seconds. There is no walk but the one with which an action begins, so what the events miss stays.
"""

import functools
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from fencepost.commands.recording import recorded_store
from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.lifecycle.leases import Leases
from fencepost.impl.lifecycle.opening import open_lifecycle
from fencepost.impl.lifecycle.policy import Timing
from fencepost.impl.lifecycle.service import Service
from fencepost.impl.lifecycle.worker import Worker

S = 10**9
TIMING = Timing(day_ns=10 * S, small_delay_ns=S // 2, lookback_ns=2 * S, scan_every_ns=10**6 * S)


def main(directory: str) -> None:
    env = SystemEnvironment()
    record = os.environ.get("FENCEPOST_RECORD")
    layer = functools.partial(recorded_store, name=directory, system="lifecycle", folder=record)
    with open_lifecycle(directory, env, layer=layer) as opened:
        worker = Worker(opened.context, opened.target, opened.log, TIMING)
        worker.leases = Leases(opened.context, f"agent {os.getpid()} {env.new_id()}", lasts_s=1.0)
        worker.pool = ThreadPoolExecutor(4)
        sys.stdout.write("working\n")
        sys.stdout.flush()
        Service(worker, every_s=0.1, share_s=0.3).run(lambda: False)


if __name__ == "__main__":
    main(sys.argv[1])
