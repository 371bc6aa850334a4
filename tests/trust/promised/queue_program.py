"""Workers, and perhaps a claim that a dead worker left, on one of three versions of a work queue."""

import importlib
import json


def worker(kind, s3, name, work):
    kind(s3, "queue", name).run_once(work)


def program(world, version, attempt=0, workers=2):
    kind = importlib.import_module(version).Queue
    world.boto3_bucket("queue")
    s3 = world.boto3_client("s3")
    kind(s3, "queue", "setup").submit("j0", 1)
    if attempt:
        old = {"state": "claimed", "id": "gone", "owner": "gone", "attempt": attempt, "expires": 1.0}
        s3.put_object(Bucket="queue", Key="claims/j0", Body=json.dumps(old, sort_keys=True).encode())
    for number in range(workers):
        name = f"w{number}"
        world.spawn(worker, kind, world.boto3_client("s3"), name, lambda job: job.upper(), name=name)


def naive(world):
    program(world, "naive_queue")


def given_up(world):
    program(world, "half_queue", attempt=3)


def careful(world):
    program(world, "careful_queue", attempt=3)
