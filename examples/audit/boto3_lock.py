"""A lock with a lease on plain boto3, which protects an account book.

Broken: trust the lease. The holder is paused just before it writes, its lease runs out, another takes the
lock and writes, and then the first one wakes up and writes over it.
Fixed: a fencing token. Every new lease has a higher number; the book remembers the highest number that
wrote it, and is written only if it is still what the writer has read and no higher number was there.

A process tries for the lock once, so that the example stays small; it may leave empty-handed.
"""

import json
import time
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError, HTTPClientError

from fencepost.sim.world import View, World

ONCE = Config(retries={"mode": "standard", "total_max_attempts": 1})
LOST = (EndpointConnectionError, HTTPClientError)
LEASE_SECONDS = 10


def read(s3: Any, key: str, empty: Any) -> tuple[Any, dict[str, str]]:
    """Return the content of `key`, and the condition that it is still the same."""
    try:
        found = s3.get_object(Bucket="bank", Key=key)
    except s3.exceptions.NoSuchKey:
        return empty, {"IfNoneMatch": "*"}
    return json.load(found["Body"]), {"IfMatch": found["ETag"]}


def acquire(s3: Any, name: str) -> int:
    """The number of our lease; 0 when somebody else holds the lock."""
    lease, unchanged = read(s3, "lock", {"number": 0, "until": 0})
    now = time.time()
    if lease["until"] > now:
        return 0
    mine = {"number": lease["number"] + 1, "until": now + LEASE_SECONDS, "holder": name}
    s3.put_object(Bucket="bank", Key="lock", Body=json.dumps(mine), **unchanged)
    return int(mine["number"])


def enter(s3: Any, name: str, fenced: bool) -> bool:
    """Return True if our entry is in the book. A lost reply counts as no: the example makes no second try."""
    try:
        number = acquire(s3, name)
        if not number:
            return False
        book, unchanged = read(s3, "book", {"number": 0, "entries": []})
        if fenced and book["number"] > number:
            return False
        mine = {"number": number, "entries": [*book["entries"], name]}
        s3.put_object(Bucket="bank", Key="book", Body=json.dumps(mine), **(unchanged if fenced else {}))
    except LOST:
        return False
    except ClientError as refused:
        if refused.response["Error"]["Code"] not in ("PreconditionFailed", "ConditionalRequestConflict"):
            raise
        return False
    return True


def nothing_lost(view: View) -> str | None:
    entered = {name for name, done in view.results().items() if done}
    lost = sorted(entered - set(json.loads(view.get("bank/book") or b'{"entries": []}')["entries"]))
    return f"the entry of {' and '.join(lost)} was acknowledged and is gone" if lost else None


def entering(world: World, fenced: bool, *names: str) -> None:
    world.boto3_bucket("bank")
    for name in names:
        world.spawn(enter, world.boto3_client("s3", config=ONCE), name, fenced, name=name)
    # Not `always`: an entry that is lost does not come back, and looking once costs far fewer schedules.
    world.finally_("no entry is lost", nothing_lost)


def mutant_lease_without_fence(world: World) -> None:
    entering(world, False, "ann", "bob")


def fixed(world: World) -> None:
    entering(world, True, "ann", "bob")


def fixed_for_three(world: World) -> None:
    entering(world, True, "ann", "bob", "cid")
