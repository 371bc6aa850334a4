"""A counter that several writers increment, each exactly once, on plain boto3.

Broken: read, add one, write back. Two writers read the same value, and one increment is lost.
Fixed: write only if no other write came since, and keep in the body who has been counted. The SDK may
cause a refusal itself (it retries when a reply is lost), so after every refusal the body decides.
"""

import json
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError, HTTPClientError

from fencepost.sim.world import View, World

# One attempt a request: a program that repeats a conditional write must know that it does.
ONCE = Config(retries={"mode": "standard", "total_max_attempts": 1})
LOST = (EndpointConnectionError, HTTPClientError)


def add_one_blindly(s3: Any, name: str) -> None:
    try:
        counted = json.load(s3.get_object(Bucket="shop", Key="counter")["Body"])
    except s3.exceptions.NoSuchKey:
        counted = []
    s3.put_object(Bucket="shop", Key="counter", Body=json.dumps([*counted, name]))


def add_one(s3: Any, name: str) -> None:
    while True:
        try:
            counter = s3.get_object(Bucket="shop", Key="counter")
            counted, unchanged = json.load(counter["Body"]), {"IfMatch": counter["ETag"]}
        except s3.exceptions.NoSuchKey:
            counted, unchanged = [], {"IfNoneMatch": "*"}
        except LOST:
            continue
        if name in counted:
            return
        try:
            s3.put_object(Bucket="shop", Key="counter", Body=json.dumps([*counted, name]), **unchanged)
        except ClientError as refused:
            if refused.response["Error"]["Code"] not in ("PreconditionFailed", "ConditionalRequestConflict"):
                raise
        except LOST:
            continue
        else:
            return


def everybody_counted_once(view: View) -> str | None:
    counted = json.loads(view.get("shop/counter") or b"[]")
    names = sorted(view.states())
    return None if sorted(counted) == names else f"counted {counted}, expected each of {names} once"


def counting(world: World, how: Any, *names: str, **client: Any) -> None:
    world.boto3_bucket("shop")
    for name in names:
        world.spawn(how, world.boto3_client("s3", **client), name, name=name)
    world.finally_("everybody is counted once", everybody_counted_once)


def mutant_read_modify_write(world: World) -> None:
    counting(world, add_one_blindly, "ann", "bob")


def fixed(world: World) -> None:
    counting(world, add_one, "ann", "bob", config=ONCE)


def fixed_for_three(world: World) -> None:
    counting(world, add_one, "ann", "bob", "cid", config=ONCE)
