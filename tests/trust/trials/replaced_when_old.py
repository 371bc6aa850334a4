"""A lock older than ten minutes is replaced with If-Match.

With one pause it must hold: no lock is taken twice within ten minutes. `a` and `b` read the age in two ways,
and in `c` the pause is 700 seconds. With two pauses `c` must be violated: the lock grows old twice.
"""

import datetime as dt

from botocore.exceptions import ClientError

TEN_MINUTES = dt.timedelta(minutes=10)


def is_young(modified):
    return dt.datetime.now(dt.UTC) - modified < TEN_MINUTES


def is_young_with_timestamp(modified):
    modified.timestamp()
    return dt.datetime.now(dt.UTC) - modified < TEN_MINUTES


def take(world, s3, young):
    found = s3.head_object(Bucket="b", Key="lock")
    if young(found["LastModified"]):
        return
    try:
        s3.put_object(Bucket="b", Key="lock", Body=world.me.encode(), IfMatch=found["ETag"])
    except ClientError:
        return
    world.note("took", world.me)


def program(world, young, pause_s=None):
    if pause_s:
        world.configure(pause_s=pause_s)
    world.boto3_bucket("b")
    world.boto3_client("s3").put_object(Bucket="b", Key="lock", Body=b"old")
    for who in ("ann", "bob"):
        world.spawn(take, world, world.boto3_client("s3"), young, name=who, restart=False)
    world.always("the lock is taken once", lambda view: len(view.notes("took")) < 2)


def a(world):
    program(world, is_young)


def b(world):
    program(world, is_young_with_timestamp)


def c(world):
    program(world, is_young, 700)
