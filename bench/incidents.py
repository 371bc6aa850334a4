"""Races recorded on SeaweedFS with real processes, and how many of them an audit runs again from the trace.

    python -m bench.incidents [--rounds 60] [--schedules 80]

Each race is a mistake on plain boto3, by two processes. They run it on the server until the final state shows
that it went wrong, with `fencepost.record` on; the requests of that round then steer an audit of the same
functions (`--like`) without faults, which counts the schedules until the property breaks. `plain` is the
verdict on one schedule that is not steered: there the processes run one after the other, and nothing breaks.
Bar: 9 of 10 races run again.
"""

import argparse
import itertools
import json
import os
import random  # noqa: TID251  pauses of real processes
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import boto3  # noqa: TID251  mistakes as users make them
from botocore.config import Config  # noqa: TID251  as above
from botocore.exceptions import ClientError  # noqa: TID251  as above

import fencepost
from bench.report import write
from fencepost.sim.explore.audit import AuditRequest, search
from fencepost.sim.explore.recorded import read_apart
from fencepost.sim.world import View, World
from fencepost.sim.world.budget import NO_FAULTS
from tests.servers.processes import seaweedfs_process

NAMES = ("p0", "p1")
BAR = 9
Get = Callable[[str], bytes | None]


class Bucket:
    """A bucket as a process uses it; keys of a round end with its number."""

    def __init__(self, s3: Any, number: str) -> None:
        self._s3, self.number = s3, number

    def get(self, folder: str, *more: str) -> Any:
        try:
            found = self._s3.get_object(Bucket="races", Key=self.key(folder, *more))
        except ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "404"):
                return None
            raise
        return json.loads(found["Body"].read())

    def put(self, value: Any, folder: str, *more: str) -> None:
        self._s3.put_object(Bucket="races", Key=self.key(folder, *more), Body=json.dumps(value).encode())

    def delete(self, folder: str, *more: str) -> None:
        self._s3.delete_object(Bucket="races", Key=self.key(folder, *more))

    def list(self, folder: str) -> list[str]:
        prefix = self.key(folder) + "/"
        page = self._s3.list_objects_v2(Bucket="races", Prefix=prefix)
        return sorted(item["Key"].removeprefix(prefix) for item in page.get("Contents", ()))

    def key(self, folder: str, *more: str) -> str:
        return "/".join((folder, self.number, *more))


def counter(bucket: Bucket, _: str) -> None:
    bucket.put((bucket.get("counter") or 0) + 1, "counter")


def register(bucket: Bucket, name: str) -> None:
    bucket.put([*(bucket.get("members") or []), name], "members")


def lock(bucket: Bucket, name: str) -> None:
    if bucket.get("lock") is None:
        bucket.put(name, "lock")
        bucket.put(name, "won", name)


def seat(bucket: Bucket, name: str) -> None:
    if not bucket.list("seat"):
        bucket.put(name, "seat", name)


def stock(bucket: Bucket, name: str) -> None:
    left = bucket.get("stock")
    if left > 0:
        bucket.put(left - 1, "stock")
        bucket.put(1, "sale", name)


def transfer(bucket: Bucket, _: str) -> None:
    one, other = bucket.get("account"), bucket.get("savings")
    bucket.put(one - 10, "account")
    bucket.put(other + 10, "savings")


def highest(bucket: Bucket, name: str) -> None:
    mine = 1 + NAMES.index(name)
    if (bucket.get("highest") or 0) < mine:
        bucket.put(mine, "highest")


def term(bucket: Bucket, name: str) -> None:
    number = (bucket.get("epoch") or 0) + 1
    bucket.put(number, "epoch")
    bucket.put(number, "leader", name)


def pop(bucket: Bucket, name: str) -> None:
    jobs = bucket.list("job")
    if jobs:
        bucket.put(jobs[0], "taken", name)
        bucket.delete("job", jobs[0])


def move(bucket: Bucket, name: str) -> None:
    if name == "p0":
        bucket.put(bucket.get("draft"), "final")
        bucket.delete("draft")
    elif bucket.get("draft") is not None:
        bucket.put("edited", "draft")


@dataclass(frozen=True)
class Race:
    act: Callable[[Bucket, str], None]
    start: dict[str, Any]
    is_right: Callable[[Callable[..., Any]], bool]


def _taken(get: Callable[..., Any]) -> bool:
    jobs = [job for name in NAMES if (job := get("taken", name))]
    return len(set(jobs)) == len(jobs)


RACES = (
    Race(counter, {}, lambda get: get("counter") == 2),
    Race(register, {}, lambda get: sorted(get("members")) == list(NAMES)),
    Race(lock, {}, lambda get: sum(get("won", name) is not None for name in NAMES) == 1),
    Race(seat, {}, lambda get: sum(get("seat", name) is not None for name in NAMES) == 1),
    Race(stock, {"stock": 1}, lambda get: sum(get("sale", name) is not None for name in NAMES) == 1),
    Race(transfer, {"account": 100, "savings": 0}, lambda get: get("account") + get("savings") == 100
         and get("account") == 80),
    Race(highest, {}, lambda get: get("highest") == 2),
    Race(term, {}, lambda get: get("leader", "p0") != get("leader", "p1")),
    Race(pop, {"job/j0": 1, "job/j1": 1}, _taken),
    Race(move, {"draft": "old"}, lambda get: get("draft") is None or get("final") != "old"),
)  # fmt: skip


def begin(bucket: Bucket, race: Race) -> None:
    for place, value in race.start.items():
        folder, _, more = place.partition("/")
        bucket.put(value, folder, *([more] if more else []))


def client(address: str, key: str, secret: str) -> Any:
    config = Config(s3={"addressing_style": "path"})
    names = {"aws_access_key_id": key, "aws_secret_access_key": secret}
    return boto3.client("s3", endpoint_url=address, region_name="us-east-1", config=config, **names)


def process(endpoint: tuple[str, str, str], traces: str, name: str, gates: Any, rounds: int) -> None:
    """Take part in every round of every race."""
    s3 = client(*endpoint)
    fencepost.record(s3, traces, process=name)
    chance = random.Random(name)  # noqa: S311  for pauses
    for at, race in enumerate(RACES):
        for number in range(rounds):
            gates.wait()
            time.sleep(chance.random() * 0.004)  # noqa: TID251  as above
            race.act(Bucket(s3, f"r{at}-{number}"), name)
            gates.wait()
    # What multiprocessing ends runs no exit handlers; the queue keeps what is not in a file.


def recorded(folder: Path, rounds: int) -> dict[str, str]:
    """Run all races; by the name of a race, the round that went wrong."""
    context = get_context("fork")
    broken: dict[str, str] = {}
    with seaweedfs_process(folder / "weed") as server:
        endpoint = server.address, server.access_key, server.secret_key
        gates = context.Barrier(len(NAMES) + 1)
        traces = str(folder / "traces")
        workers = [
            context.Process(target=process, args=(endpoint, traces, name, gates, rounds)) for name in NAMES
        ]
        for worker in workers:
            worker.start()
        s3 = client(*endpoint)
        s3.create_bucket(Bucket="races")
        for at, race in enumerate(RACES):
            for number in range(rounds):
                bucket = Bucket(s3, f"r{at}-{number}")
                begin(bucket, race)
                gates.wait()
                gates.wait()
                if race.act.__name__ not in broken and not race.is_right(bucket.get):
                    broken[race.act.__name__] = bucket.number
        for worker in workers:
            worker.join()
    return broken


def again(race: Race, traces: str, number: str, schedules: int) -> dict[str, Any]:
    """Audit the race along what was recorded of a round."""

    def act(world: World, name: str) -> None:
        race.act(Bucket(world.boto3_client("s3"), "r"), name)

    def program(world: World) -> None:
        world.boto3_bucket("races")
        begin(Bucket(world.boto3_client("s3"), "r"), race)
        for name in NAMES:
            world.spawn(act, world, name, name=name, restart=False)

        def right(view: View) -> None:
            def get(folder: str, *more: str) -> Any:
                body = view.get("/".join(("races", folder, "r", *more)))
                return None if body is None else json.loads(body)

            assert race.is_right(get)

        world.finally_("right", right)

    steps, _ = read_apart(traces, rf"/{number}(/|$)")
    found = search(
        AuditRequest(program, strategy="like", like=tuple(steps), schedules=schedules, budget=NO_FAULTS)
    )
    plain = search(AuditRequest(program, strategy="pct", schedules=1, budget=NO_FAULTS))
    return {
        "verdict": found.verdict,
        "schedules": found.schedules,
        "steps": len(steps),
        "plain": plain.verdict,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--schedules", type=int, default=80)
    options = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        broken = recorded(Path(folder), options.rounds)
        for race in RACES:
            name = race.act.__name__
            if name not in broken:
                rows[name] = {"verdict": f"never went wrong in {options.rounds} rounds"}
                continue
            rows[name] = again(race, f"{folder}/traces", broken[name], options.schedules)
    count = sum(row["verdict"] == "violated" for row in rows.values())
    write(
        "incidents",
        {"races": rows, "again": count, "bar": BAR, "load": os.getloadavg()[0], "met": count >= BAR},
    )
    for name, row in itertools.chain(rows.items(), [("again", {"count": count})]):
        sys.stdout.write(f"{name:10} {row}\n")


if __name__ == "__main__":
    main()
