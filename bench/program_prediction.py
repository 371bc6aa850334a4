"""One program simulated and done for real: 16 clients on our object server and on SeaweedFS, in one table.

    python -m bench.program_prediction [--clients 16] [--operations 40] [--servers fencepost,seaweedfs]

The program is one of an audit, on plain boto3: clients add 1 to counters with conditional writes, and try
again when they were refused. For each server:

1. One client measures what a request takes, and how much of it is the processor's time of the client's
   thread. The rest is the server and the network.
2. So many clients do nothing but read for a while. From their throughput follows how many requests the
   server serves at once: as many as explain it, given what one takes.
3. The program runs with threads and a real clock; the same function runs in simulated time with these
   figures. The processor of all clients is one core, since they share one interpreter.

The bar: throughput, p50 and p99 within 10 % each. Waiting for a core that the server or another program takes
is in the measured run and in no figure, so the load is stated with the result.
"""

import argparse
import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import boto3  # noqa: TID251 - the client that is measured
import numpy as np
from botocore.config import Config  # noqa: TID251 - the same
from botocore.exceptions import ClientError  # noqa: TID251 - the same

from bench.loop import for_seconds, for_turns
from bench.objects import SERVERS, Missing, Sizes
from bench.report import median, write
from fencepost.sim.des.latency import Empirical, Profile
from fencepost.sim.des.program import ProgramSetup, simulate_program
from fencepost.sim.des.server import StoreModel
from fencepost.sim.world import World

BAR = 0.10
BUCKET = "bench-program"
COUNTERS = 8
SAMPLES = 150
SATURATED_S = 3.0


def add(s3: Any, number: int) -> None:
    """Add 1 to a counter."""
    key = f"counter-{number % COUNTERS}"
    while True:
        condition: dict[str, str] = {"IfNoneMatch": "*"}
        value = 0
        try:
            found = s3.get_object(Bucket=BUCKET, Key=key)
            condition, value = {"IfMatch": found["ETag"]}, int(found["Body"].read())
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchKey":
                raise
        try:
            s3.put_object(Bucket=BUCKET, Key=key, Body=b"%d" % (value + 1), **condition)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] not in (404, 409, 412):
                raise
        else:
            return


def program(world: World, clients: int) -> None:
    """The same in a world."""
    world.boto3_bucket(BUCKET)
    s3 = world.boto3_client("s3")
    for number in range(clients):
        world.spawn(add, s3, number, name=f"client-{number}")


def measured(s3: Any) -> tuple[Profile, float]:
    """Return the latency of each kind of request without its client's work; and that work, in nanoseconds."""
    took: dict[str, list[float]] = {"get": [], "put": []}
    worked: list[float] = []
    for number in range(SAMPLES):
        for kind, send in (
            ("put", lambda n=number: s3.put_object(Bucket=BUCKET, Key="probe", Body=b"%d" % n)),
            ("get", lambda: s3.get_object(Bucket=BUCKET, Key="probe")["Body"].read()),
        ):
            began, began_cpu = time.perf_counter_ns(), time.thread_time_ns()
            send()
            cpu = time.thread_time_ns() - began_cpu
            took[kind].append(max(0, time.perf_counter_ns() - began - cpu))
            worked.append(cpu)
    kinds = {
        kind: Empirical(tuple(np.percentile(times, range(101)).tolist())) for kind, times in took.items()
    }
    return Profile(default=kinds["put"], kinds=dict(kinds)), median(worked)


def places(s3: Any, clients: int, profile: Profile, cpu_ns: float) -> int:
    """The requests that the server serves at once."""
    laps = for_seconds(
        lambda *_: s3.get_object(Bucket=BUCKET, Key="probe")["Body"].read(), clients, SATURATED_S
    )
    busy = laps.per_second * profile.of("get").median_ns / 1e9
    del cpu_ns
    return max(1, min(clients, round(busy)))


def real(s3: Any, clients: int, operations: int) -> dict[str, float]:
    laps = for_turns(lambda worker, _: add(s3, worker), clients, operations)
    times = np.array(laps.took) * 1000
    return {
        "throughput": round(laps.per_second, 2),
        "p50_ms": round(float(np.percentile(times, 50)), 2),
        "p99_ms": round(float(np.percentile(times, 99)), 2),
    }


def simulated(
    profile: Profile, cpu_ns: float, at_once: int, clients: int, operations: int
) -> dict[str, float]:
    found = simulate_program(
        lambda world: program(world, clients),
        ProgramSetup(
            StoreModel(profile, in_flight=at_once),
            operations=operations,
            client_cpu_ns=round(cpu_ns),
            client_cores=1,
        ),
    )
    stats = found.operations["add"]
    return {"throughput": round(found.throughput, 2), "p50_ms": stats.p50, "p99_ms": stats.p99}


def client_of(target: Any, clients: int) -> Any:
    config = Config(
        max_pool_connections=clients,
        retries={"mode": "standard", "total_max_attempts": 3},
        s3={"addressing_style": "path"},
    )
    return boto3.client(
        "s3",
        endpoint_url=target.address,
        aws_access_key_id=target.access_key,
        aws_secret_access_key=target.secret_key,
        region_name="us-east-1",
        config=config,
    )


def compared(target: Any, clients: int, operations: int) -> dict[str, Any]:
    s3 = client_of(target, clients)
    with contextlib.suppress(ClientError):
        s3.create_bucket(Bucket=BUCKET)
    add(s3, 0)
    profile, cpu_ns = measured(s3)
    at_once = places(s3, clients, profile, cpu_ns)
    seen = real(s3, clients, operations)
    model = simulated(profile, cpu_ns, at_once, clients, operations)
    return {
        "client_cpu_ms": round(cpu_ns / 1e6, 3),
        "get_ms": round(profile.of("get").median_ns / 1e6, 3),
        "put_ms": round(profile.of("put").median_ns / 1e6, 3),
        "in_flight": at_once,
        "measured": seen,
        "predicted": model,
        "error": {name: round(model[name] / seen[name] - 1, 3) for name in seen},
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.program_prediction", description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--operations", type=int, default=40)
    parser.add_argument("--servers", default="fencepost,seaweedfs")
    options = parser.parse_args(arguments)
    rows: dict[str, Any] = {}
    sizes = Sizes(keys=0, requests=0, workers=1, stream=0, pages=0, listed={})
    for name in options.servers.split(","):
        with tempfile.TemporaryDirectory() as folder:
            try:
                with SERVERS[name](Path(folder) / name, sizes) as target:
                    rows[name] = compared(target, options.clients, options.operations)
            except Missing as missing:
                sys.stdout.write(f"{name}: not measured: {missing}\n")
                continue
        row = rows[name]
        for what in row["measured"]:
            error = row["error"][what]
            both = f"{row['predicted'][what]:10.4g} predicted {row['measured'][what]:10.4g} measured"
            verdict = "ok" if abs(error) <= BAR else "MISSED"
            sys.stdout.write(f"{verdict:7} {name:10} {what:10} {both} {error:+.1%}\n")
    figures = {"bar": BAR, "clients": options.clients, "load": os.getloadavg()[0], "servers": rows}
    sys.stdout.write(f"load {figures['load']:.1f}; written to {write('program-prediction', figures)}\n")
    return 0 if rows and all(abs(e) <= BAR for row in rows.values() for e in row["error"].values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
