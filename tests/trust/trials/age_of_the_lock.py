"""A lock is stale when its LastModified is older than ten minutes.

`broken` deletes it and creates its own: it must be violated, since it also deletes a lock that was taken
meanwhile. `fixed` replaces it with If-Match, and must hold: nothing in it depends on more than the clock.
"""

import datetime as dt
import itertools
import uuid

from botocore.exceptions import ClientError

BUCKET, KEY = "jobs", "lock"
REFUSED = ("PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "404")
OLD = dt.timedelta(minutes=10)


def put(s3, token, **condition):
    try:
        s3.put_object(Bucket=BUCKET, Key=KEY, Body=token, **condition)
        return True
    except ClientError as error:
        if error.response["Error"]["Code"] not in REFUSED:
            raise
    try:
        return s3.get_object(Bucket=BUCKET, Key=KEY)["Body"].read() == token
    except s3.exceptions.NoSuchKey:
        return False


def acquire(s3, replaces):
    token = uuid.uuid4().hex.encode()
    if put(s3, token, IfNoneMatch="*"):
        return token
    try:
        found = s3.head_object(Bucket=BUCKET, Key=KEY)
    except ClientError:
        return None
    if dt.datetime.now(dt.UTC) - found["LastModified"] < OLD:
        return None
    if replaces:
        return token if put(s3, token, IfMatch=found["ETag"]) else None
    s3.delete_object(Bucket=BUCKET, Key=KEY)
    return token if put(s3, token, IfNoneMatch="*") else None


def work(world, s3, replaces):
    token = acquire(s3, replaces)
    if token:
        world.note("took", (world.me, int(dt.datetime.now(dt.UTC).timestamp())))


def not_both_now(view):
    for (first, t1), (second, t2) in itertools.pairwise(view.notes("took")):
        assert first == second or t2 - t1 >= 600, f"{first} took the lock at {t1}, {second} at {t2}"


def program(world, replaces):
    world.boto3_bucket(BUCKET)
    world.boto3_client("s3").put_object(Bucket=BUCKET, Key=KEY, Body=b"of a process that is gone")
    for who in ("ann", "bob"):
        world.spawn(work, world, world.boto3_client("s3"), replaces, name=who, restart=False)
    world.always("a fresh lock is not taken", not_both_now)


def broken(world):
    program(world, False)


def fixed(world):
    program(world, True)
