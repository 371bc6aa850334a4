"""A log of numbered slots on plain boto3; every writer appends one record by creating the next free slot.

Broken: 412 always means that somebody else has the slot, so go on to the next. The SDK retries by itself
after a lost reply, so the slot may hold one's own record, and it is written twice.
Fixed: look who is in the slot before going on.
"""

from typing import Any

from botocore.exceptions import ClientError

from fencepost.sim.world import View, World


def created(s3: Any, slot: int, record: str) -> bool:
    while True:
        try:
            s3.put_object(Bucket="logs", Key=f"log/{slot}", Body=record.encode(), IfNoneMatch="*")
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code == "PreconditionFailed":
                return False
            if code != "ConditionalRequestConflict":
                raise
        else:
            return True


def append_blindly(s3: Any, name: str) -> None:
    slot = 0
    while not created(s3, slot, name):
        slot += 1


def append(s3: Any, name: str) -> None:
    slot = 0
    while not created(s3, slot, name):
        if s3.get_object(Bucket="logs", Key=f"log/{slot}")["Body"].read() == name.encode():
            return
        slot += 1


def each_once(view: View) -> str | None:
    records = sorted(body.decode() for body in view.contents("logs/log/").values())
    names = sorted(view.states())
    return None if records == names else f"the log holds {records}, expected {names}"


def start(world: World, append: Any) -> None:
    world.boto3_bucket("logs")
    for name in ("ann", "bob"):
        world.spawn(append, world.boto3_client("s3"), name, name=name)
    world.finally_("every record is there once", each_once)


def mutant_own_record_taken_for_anothers(world: World) -> None:
    start(world, append_blindly)


def fixed(world: World) -> None:
    start(world, append)
