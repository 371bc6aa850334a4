"""New owners take a log over from one that goes on writing; a size that the search must be able to decide.

`broken` must be violated: a new owner trusts its listing, and the old owner, which does not know of it,
acknowledges one more record. `fixed` creates the next slot itself, which seals the log.
"""

from botocore.exceptions import ClientError

BUCKET = "stream"
REFUSED = ("PreconditionFailed", "ConditionalRequestConflict")


def owns(s3, slot, body):
    key = f"log/{slot:04}"
    try:
        s3.put_object(Bucket=BUCKET, Key=key, Body=body, IfNoneMatch="*")
    except ClientError as error:
        if error.response["Error"]["Code"] not in REFUSED:
            raise
        return s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == body
    return True


def write(world, s3, records):
    for slot in range(records):
        if not owns(s3, slot, f"record-{slot}".encode()):
            return
        world.note("acknowledged", slot)


def take_over(world, s3, seals):
    listed = s3.list_objects_v2(Bucket=BUCKET, Prefix="log/").get("Contents", [])
    slots = [int(found["Key"].removeprefix("log/")) for found in listed]
    while seals and not owns(s3, len(slots), b"SEAL"):
        slots.append(len(slots))
    world.note("recovered", tuple(slots))


def nothing_is_lost(view):
    for slots in view.notes("recovered"):
        lost = [slot for slot in view.notes("acknowledged") if slot not in slots]
        assert not lost, f"slot {lost[0]} was acknowledged, and the new owner has {slots}"


def declare(world, processes, records, seals):
    world.boto3_bucket(BUCKET)
    world.spawn(write, world, world.boto3_client("s3"), records, name="old", restart=False)
    for number in range(processes - 1):
        name = f"new{number}"
        world.spawn(take_over, world, world.boto3_client("s3"), seals, name=name, restart=False)
    world.finally_("nothing acknowledged is lost", nothing_is_lost)


def broken(world, processes=2, records=2):
    declare(world, processes, records, False)


def fixed(world, processes=2, records=2):
    declare(world, processes, records, True)
