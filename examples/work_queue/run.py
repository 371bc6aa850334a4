"""The work queue for real: workers and a janitor as processes, some of them killed, all requests recorded.

    python -m fencepost.examples.work_queue.run http://127.0.0.1:9000 traces --jobs 60 --kills 6

Credentials come from the environment. `--unfenced 1` deploys one worker that completes jobs without a fence.
"""

import argparse
import multiprocessing
import random
import signal
import sys
import time
from multiprocessing.process import BaseProcess
from typing import Any

import boto3
from botocore.config import Config

import fencepost
from fencepost.examples.work_queue.work_queue import FIELDS, Queue, UnfencedQueue

LEASE_S = 0.6


def client(url: str, name: str) -> Any:
    """A client whose requests name the process, for a proxy that records."""
    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, user_agent_appid=name),
    )


def work(url: str, bucket: str, traces: str, name: str, seed: int, seconds: float, *, fenced: bool) -> None:
    """A worker: some jobs take longer than the lease."""
    chance = random.Random(seed)
    s3 = client(url, name)
    if traces:
        fencepost.record(s3, traces, process=name, fields=FIELDS)
    queue = (Queue if fenced else UnfencedQueue)(s3, bucket, name, lease_s=LEASE_S)

    def act(job: str) -> str:
        time.sleep(LEASE_S * 2 if chance.random() < 0.1 else 0.01)
        return job.upper()

    end = time.monotonic() + seconds
    while time.monotonic() < end and queue.jobs():
        if not queue.run_once(act):
            time.sleep(0.05)


def collect(url: str, bucket: str, traces: str, seconds: float) -> None:
    s3 = client(url, "janitor")
    if traces:
        fencepost.record(s3, traces, process="janitor", fields=FIELDS)
    queue = Queue(s3, bucket, "janitor")
    end = time.monotonic() + seconds
    while time.monotonic() < end and queue.jobs():
        queue.collect()
        time.sleep(0.1)
    queue.collect()


def start(options: argparse.Namespace, number: int) -> BaseProcess:
    seed, seconds = options.seed * 1000 + number, options.seconds
    arguments = (options.url, options.bucket, options.traces, f"worker-{number}", seed, seconds)
    fenced = number >= options.unfenced
    process = _SPAWN.Process(target=work, args=arguments, kwargs={"fenced": fenced})
    process.start()
    return process


_SPAWN = multiprocessing.get_context("spawn")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", help="endpoint")
    parser.add_argument("traces", nargs="?", default="", help="folder of the trace")
    parser.add_argument("--bucket", default="queue")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--unfenced", type=int, default=0, help="so many of them complete without a fence")
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--kills", type=int, default=4, help="kills of a worker, which starts again")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(words)
    s3 = client(options.url, "producer")
    s3.create_bucket(Bucket=options.bucket)
    if options.traces:
        fencepost.record(s3, options.traces, process="producer", fields=FIELDS)
    queue = Queue(s3, options.bucket, "producer")
    for number in range(options.jobs):
        queue.submit(f"{number:05}", number)
    workers = [start(options, number) for number in range(options.workers)]
    janitor = _SPAWN.Process(
        target=collect, args=(options.url, options.bucket, options.traces, options.seconds)
    )
    janitor.start()
    chance = random.Random(options.seed)
    for _ in range(options.kills):
        time.sleep(0.5 + chance.random())
        number = chance.randrange(options.workers)
        if not workers[number].is_alive():
            continue
        workers[number].kill()
        workers[number].join()
        workers[number] = start(options, number)
    for process in (*workers, janitor):
        process.join()
    print(f"{len(queue.names('done'))} done, {len(queue.names('dead'))} dead, {len(queue.jobs())} left")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.exit(main(sys.argv[1:]))
