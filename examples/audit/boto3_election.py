"""Elect a leader on plain boto3: the creator of the key leads.

Broken, check then create: look whether the key is there, and write it when it is not. Two processes look
before either writes, and both lead.
Broken, own write taken as a rival's: with the SDK's settings as they come, a lost reply makes it retry;
the second attempt is refused because of the first, and the winner believes that somebody else won.
Fixed: one attempt a request, and whatever becomes of it, the key says who leads.
"""

from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError, HTTPClientError

from fencepost.sim.world import View, World

ONCE = Config(retries={"mode": "standard", "total_max_attempts": 1})
LOST = (EndpointConnectionError, HTTPClientError)


def claim_by_looking_first(s3: Any, name: str) -> bool:
    try:
        s3.head_object(Bucket="cluster", Key="leader")
    except ClientError:
        s3.put_object(Bucket="cluster", Key="leader", Body=name)
        return True
    return False


def claim_and_believe(s3: Any, name: str) -> bool:
    try:
        s3.put_object(Bucket="cluster", Key="leader", Body=name, IfNoneMatch="*")
    except ClientError as refused:
        if refused.response["Error"]["Code"] != "PreconditionFailed":
            raise
        return False
    return True


def claim(s3: Any, name: str) -> bool:
    while True:
        try:
            s3.put_object(Bucket="cluster", Key="leader", Body=name, IfNoneMatch="*")
        except ClientError as refused:
            if refused.response["Error"]["Code"] not in ("PreconditionFailed", "ConditionalRequestConflict"):
                raise
        except LOST:
            pass
        leader = leading(s3)
        if leader is not None:
            return leader == name


def leading(s3: Any) -> str | None:
    """The leader, when it is known."""
    try:
        leader: bytes = s3.get_object(Bucket="cluster", Key="leader")["Body"].read()
    except (s3.exceptions.NoSuchKey, *LOST):
        return None
    return leader.decode()


def at_most_one(view: View) -> str | None:
    leaders = [name for name, leads in view.results().items() if leads]
    return None if len(leaders) <= 1 else f"{' and '.join(leaders)} both lead"


def somebody(view: View) -> str | None:
    return None if any(view.results().values()) else "nobody leads, and the key is taken"


def electing(world: World, how: Any, *names: str, **client: Any) -> None:
    world.boto3_bucket("cluster")
    for name in names:
        world.spawn(how, world.boto3_client("s3", **client), name, name=name)
    world.always("at most one leads", at_most_one)


def mutant_check_then_create(world: World) -> None:
    electing(world, claim_by_looking_first, "ann", "bob")


def mutant_own_write_taken_as_a_loss(world: World) -> None:
    electing(world, claim_and_believe, "ann", "bob")
    world.finally_("somebody leads", somebody)


def fixed(world: World) -> None:
    electing(world, claim, "ann", "bob", config=ONCE)
    world.finally_("somebody leads", somebody)


def fixed_for_three(world: World) -> None:
    electing(world, claim, "ann", "bob", "cid", config=ONCE)
    world.finally_("somebody leads", somebody)
