"""Measure the exploration of code on boto3, and the world's share beside the SDK's own work.

python -m bench.boto            # writes out/bench/boto.json
"""

import time
from collections.abc import Callable
from typing import Any

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

from bench.report import median, write
from fencepost.sim.boto.http import respond
from fencepost.sim.explore import Plain, ReducedSearch, Setting, replay
from fencepost.sim.world import NO_FAULTS, World, places, present

SECONDS = 3.0
ROUNDS = 5


def ten_requests(world: World) -> None:
    """Two processes of five requests, which fight for one key."""
    world.boto3_bucket("b")
    s3 = world.boto3_client("s3")
    for name in ("a", "b"):
        world.spawn(_five, s3, name, name=name)


def _five(s3: Any, name: str) -> None:
    s3.put_object(Bucket="b", Key=name, Body=b"1")
    s3.list_objects_v2(Bucket="b")
    s3.put_object(Bucket="b", Key="shared", Body=name)
    found = s3.get_object(Bucket="b", Key="shared")
    s3.put_object(Bucket="b", Key="shared", Body=found["Body"].read() + b"!")


JOBS = 6


def forty_requests(world: World) -> None:
    """A work queue: two workers claim six jobs, do them, and find nothing left."""
    world.boto3_bucket("b")
    s3 = world.boto3_client("s3")
    for number in range(JOBS):
        s3.put_object(Bucket="b", Key=f"jobs/{number}", Body=b"%d" % number)
    for name in ("a", "b"):
        world.spawn(_work, s3, name, name=name)


def _work(s3: Any, name: str) -> None:
    while found := s3.list_objects_v2(Bucket="b", Prefix="jobs/").get("Contents"):
        claimed = [job["Key"].removeprefix("jobs/") for job in found if _claims(s3, name, job["Key"])]
        if not claimed:
            return  # the other one does them
        for job in claimed:
            if s3.head_object(Bucket="b", Key=f"jobs/{job}")["ContentLength"]:
                body = s3.get_object(Bucket="b", Key=f"jobs/{job}")["Body"].read()
                s3.put_object(Bucket="b", Key=f"done/{job}", Body=body)
            s3.delete_object(Bucket="b", Key=f"jobs/{job}")


def _claims(s3: Any, name: str, job: str) -> bool:
    try:
        s3.put_object(Bucket="b", Key=f"claims/{job}", Body=name, IfNoneMatch="*")
    except ClientError:
        return False
    return True


def entering_us() -> float:
    """Measure a run without requests: entering the world, replacing the SDK, and leaving it."""

    def program(world: World) -> None:
        world.boto3_bucket("b")
        world.boto3_client("s3")

    def once() -> float:
        start = time.process_time()
        for _ in range(100):
            world = World()
            world.start(program)
            world.close()
        return (time.process_time() - start) / 100 * 1e6

    return median([once() for _ in range(ROUNDS)])


def schedules(kind: Callable[[Setting], Any], program: Callable[[World], None]) -> dict[str, float]:
    """Runs a second, after the clients have been made, with the replacements in place as in an audit."""
    with places.held(program):
        kind(Setting(program, NO_FAULTS)).explore(lambda search: search.schedules >= 1)
        search = kind(Setting(program, NO_FAULTS))
        start, busy = time.perf_counter(), time.process_time()
        search.explore(lambda _: time.process_time() - busy > SECONDS)
        seconds, cpu = time.perf_counter() - start, time.process_time() - busy
    runs = getattr(search, "runs", search.schedules)
    requests = runs * REQUESTS[program.__name__]
    return {
        "runs": runs,
        "runs_a_second": runs / seconds,
        "runs_a_cpu_second": runs / cpu,
        "cpu_us_a_request": cpu / requests * 1e6,
    }


REQUESTS = {"ten_requests": 10, "forty_requests": 40}


def one_call_us(world: World) -> dict[str, float]:
    """A put through the SDK: answered by the world, and by a handler that does nothing."""
    world.boto3_bucket("b")
    found = {"in_the_world": _each_us(world.boto3_client("s3"))}
    with present.outside():
        config = Config(
            signature_version=UNSIGNED, s3={"addressing_style": "path"}, user_agent="bench", **_NO_CHECKSUMS
        )
        s3 = boto3.client("s3", region_name="us-east-1", config=config)
        s3.meta.events.register("before-send", _nothing)
        return {**found, "sdk_alone": _each_us(s3)}


_NO_CHECKSUMS = {
    "request_checksum_calculation": "when_required",
    "response_checksum_validation": "when_required",
}


def _nothing(request: Any, **_: Any) -> Any:
    return respond(request.url, 200, {"ETag": '"x"', "Content-Length": "0"})


def _each_us(s3: Any) -> float:
    def once() -> float:
        start = time.process_time()
        for _ in range(100):
            s3.put_object(Bucket="b", Key="k", Body=b"1")
        return (time.process_time() - start) / 100 * 1e6

    return median([once() for _ in range(ROUNDS)])


def main() -> None:
    start = time.perf_counter()
    ReducedSearch(Setting(ten_requests, NO_FAULTS)).explore(lambda _: True)
    first = time.perf_counter() - start
    calls: dict[str, float] = {}

    def calling(world: World) -> None:
        calls.update(one_call_us(world))

    replay(calling, "default")
    write(
        "boto",
        {
            "first_run_s": first,
            "call_cpu_us": calls,
            "plain": schedules(Plain, ten_requests),
            "reduced": schedules(ReducedSearch, ten_requests),
            "queue_plain": schedules(Plain, forty_requests),
            "queue_reduced": schedules(ReducedSearch, forty_requests),
            "enter_and_leave_cpu_us": entering_us(),
        },
    )


if __name__ == "__main__":
    main()
