"""The work queue in an audit: two workers take one job, and one of them takes longer than its lease.

fencepost audit examples/work_queue/audits.py:queue
fencepost audit examples/work_queue/audits.py:queue --set unfenced=1 --like traces --like-keys '/00009$'
"""

import json
import time

from fencepost.examples.work_queue.work_queue import FIELDS, Queue, UnfencedQueue
from fencepost.impl.recording import json_fields
from fencepost.sim.world import View, World

LEASE_S = 60.0
JOB = "j0"


def worker(world: World, name: str, *, fenced: bool, slow: bool) -> None:
    queue = (Queue if fenced else UnfencedQueue)(world.boto3_client("s3"), "queue", name, lease_s=LEASE_S)

    def act(job: str) -> str:
        if slow:
            time.sleep(LEASE_S * 2)
        return job.upper()

    for _ in range(2):
        queue.run_once(act)
        time.sleep(LEASE_S)


def queue(world: World, workers: int = 2, unfenced: int = 0) -> None:
    """The record of a job is that of its claim, also when a worker is slow or killed."""
    world.boto3_bucket("queue")
    world.show_bodies(json_fields(FIELDS))
    Queue(world.boto3_client("s3"), "queue", "producer").submit(JOB, 1)
    for number in range(workers):
        how = {"fenced": number >= unfenced, "slow": number == 0}
        world.spawn(worker, world, f"worker-{number}", **how, name=f"worker-{number}", restart=False)

    def is_of_claim(view: View) -> None:
        claim, record = (view.get(f"queue/{folder}/{JOB}") for folder in ("claims", "done"))
        if claim is None or record is None:
            return
        claimed, recorded = json.loads(claim), json.loads(record)
        assert claimed["state"] == "done", f"the job is recorded, and {claimed['owner']} works on it"
        assert claimed["id"] == recorded["id"], "the record is not that of the claim"

    world.always("record of the claim", is_of_claim)
    world.sometimes("the job is done", lambda view: view.get(f"queue/done/{JOB}") is not None)
