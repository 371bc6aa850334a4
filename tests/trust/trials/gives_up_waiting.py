"""A waiter polls ten times for a lock to go away, then breaks it although its holder lives.

Scripts with a `-lock-timeout` and DVC's lock with a bounded number of tries do so. `broken` must be violated:
both build at the same time. The count is over the number of rounds after which a loop is held back. `fixed`
gives up instead.
"""

import time

from botocore.exceptions import ClientError

BUCKET, KEY = "build", "lock"
REFUSED = ("PreconditionFailed", "ConditionalRequestConflict")


def take(s3, who):
    try:
        s3.put_object(Bucket=BUCKET, Key=KEY, Body=who.encode(), IfNoneMatch="*")
        return True
    except ClientError as error:
        if error.response["Error"]["Code"] not in REFUSED:
            raise
    try:
        return s3.get_object(Bucket=BUCKET, Key=KEY)["Body"].read() == who.encode()
    except s3.exceptions.NoSuchKey:
        return False


def build(world, s3, who, breaks):
    for _ in range(10):
        if take(s3, who):
            break
        time.sleep(1)
    else:
        if not breaks:
            return "gave up"
        s3.put_object(Bucket=BUCKET, Key=KEY, Body=who.encode())
    world.note("in", (who, "enters"))
    s3.put_object(Bucket=BUCKET, Key="output", Body=who.encode())
    world.note("in", (who, "leaves"))
    s3.delete_object(Bucket=BUCKET, Key=KEY)
    return "built"


def alone(view):
    inside = set()
    for who, what in view.notes("in"):
        if what == "enters":
            inside.add(who)
        else:
            inside.discard(who)
        assert len(inside) < 2, f"{sorted(inside)} build at the same time"


def program(world, breaks):
    world.boto3_bucket(BUCKET)
    for who in ("ann", "bob"):
        world.spawn(build, world, world.boto3_client("s3"), who, breaks, name=who, restart=False)
    world.always("one builds at a time", alone)


def broken(world):
    program(world, True)


def fixed(world):
    program(world, False)
