"""Workers share a queue of jobs on plain boto3; a cursor object says which job is next.

Broken: take the job by moving the cursor, then do the work. A crash in between, and the job is never done.
Fixed: do the work first, in a way that can be done twice (create-only result), then move the cursor from
what it was to the next. Several workers may do the same job; its result exists once.
"""

from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError, HTTPClientError

from fencepost.sim.world import View, World

ONCE = Config(retries={"mode": "standard", "total_max_attempts": 1})
LOST = (EndpointConnectionError, HTTPClientError)
NOT_NOW = ("PreconditionFailed", "ConditionalRequestConflict")
JOBS = 1
"""Enough to show it. With two the proof for three workers takes long: they meet at every job."""


def next_job(s3: Any) -> tuple[int, str]:
    """The job at the cursor, and the cursor's ETag."""
    while True:
        try:
            cursor = s3.get_object(Bucket="jobs", Key="cursor")
        except LOST:
            continue
        return int(cursor["Body"].read()), cursor["ETag"]


def move(s3: Any, job: int, unmoved: str) -> bool:
    """Return True if it was certainly us who moved the cursor behind `job`."""
    try:
        s3.put_object(Bucket="jobs", Key="cursor", Body=str(job + 1), IfMatch=unmoved)
    except ClientError as refused:
        if refused.response["Error"]["Code"] not in NOT_NOW:
            raise
        return False
    except LOST:
        return False
    return True


def work(s3: Any, job: int) -> None:
    """Leave the result of a job; come back when it is there."""
    while True:
        try:
            s3.put_object(Bucket="jobs", Key=f"result/{job}", Body="done", IfNoneMatch="*")
        except ClientError as refused:
            code = refused.response["Error"]["Code"]
            if code == "PreconditionFailed":
                return
            if code not in NOT_NOW:
                raise
        except LOST:
            continue
        else:
            return


def take_then_work(s3: Any) -> None:
    while True:
        job, unmoved = next_job(s3)
        if job == JOBS:
            return
        if move(s3, job, unmoved):
            work(s3, job)


def work_then_move(s3: Any) -> None:
    while True:
        job, unmoved = next_job(s3)
        if job == JOBS:
            return
        work(s3, job)
        move(s3, job, unmoved)


def all_done(view: View) -> str | None:
    missing = [job for job in range(JOBS) if view.get(f"jobs/result/{job}") is None]
    where = view.get("jobs/cursor")
    return f"the cursor is at {where!r} and jobs {missing} were never done" if missing else None


def working(world: World, how: Any, *names: str) -> None:
    s3 = world.boto3_client("s3", config=ONCE)
    s3.create_bucket(Bucket="jobs")
    s3.put_object(Bucket="jobs", Key="cursor", Body="0")
    for name in names:
        world.spawn(how, s3, name=name)
    world.finally_("every job is done", all_done)


def mutant_cursor_before_work(world: World) -> None:
    working(world, take_then_work, "ann", "bob")


def fixed(world: World) -> None:
    working(world, work_then_move, "ann", "bob")


def fixed_for_three(world: World) -> None:
    working(world, work_then_move, "ann", "bob", "cid")
