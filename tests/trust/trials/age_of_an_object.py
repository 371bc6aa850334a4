"""A cleaner deletes what is older than an hour, by LastModified; a slow writer refers to it afterwards.

Each of `a` to `h` compares the age in another form: LastModified on the left or on the right of the clock, as
times, as differences or as numbers of seconds. All must be violated.
"""

import datetime as dt
import time

BUCKET = "b"
HOUR = dt.timedelta(hours=1)


def write(s3):
    s3.put_object(Bucket=BUCKET, Key="data", Body=b"1")
    s3.put_object(Bucket=BUCKET, Key="meta", Body=b"1")


def now():
    return dt.datetime.now(dt.UTC)


def clean_a(s3):
    listed = s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    if not listed or any(found["Key"] == "meta" for found in listed):
        return
    hour_ago = now() - HOUR
    if listed[0]["LastModified"] > hour_ago:
        return
    s3.delete_object(Bucket=BUCKET, Key="data")


def clean_b(s3):
    listed = s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    if not listed or any(found["Key"] == "meta" for found in listed):
        return
    if now() - listed[0]["LastModified"] < HOUR:
        return
    s3.delete_object(Bucket=BUCKET, Key="data")


def clean_c(s3):
    """Read the clock first, then list."""
    hour_ago = now() - HOUR
    listed = s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    if not listed or any(found["Key"] == "meta" for found in listed):
        return
    if listed[0]["LastModified"] > hour_ago:
        return
    s3.delete_object(Bucket=BUCKET, Key="data")


def clean_d(s3):
    """Compare timestamps."""
    listed = s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    if not listed or any(found["Key"] == "meta" for found in listed):
        return
    if listed[0]["LastModified"].timestamp() > time.time() - 3600:
        return
    s3.delete_object(Bucket=BUCKET, Key="data")


def cleaner(is_old):
    def clean(s3):
        listed = s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        if not listed or any(found["Key"] == "meta" for found in listed):
            return
        if is_old(listed[0]["LastModified"], now()):
            s3.delete_object(Bucket=BUCKET, Key="data")

    return clean


def program(world, clean):
    world.boto3_bucket(BUCKET)
    world.spawn(write, world.boto3_client("s3"), name="writer", restart=False)
    world.spawn(clean, world.boto3_client("s3"), name="cleaner", restart=False)
    world.always(
        "meta has its data", lambda view: view.get("b/meta") is None or view.get("b/data") is not None
    )


def a(world):
    program(world, clean_a)


def b(world):
    program(world, clean_b)


def c(world):
    program(world, clean_c)


def d(world):
    program(world, clean_d)


def e(world):
    program(world, cleaner(lambda modified, at: modified + HOUR < at))


def f(world):
    program(world, cleaner(lambda modified, at: at - HOUR > modified))


def g(world):
    program(world, cleaner(lambda modified, at: modified < at - HOUR))


def h(world):
    program(world, cleaner(lambda modified, at: (at - modified).total_seconds() > 3600))
