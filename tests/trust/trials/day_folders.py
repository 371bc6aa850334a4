"""A job writes its data and a mark into the folder of the day, and reads the clock for each.

`broken` must be violated: a pause over midnight leaves a mark in a folder without data. `fixed` names the
folder once.
"""

import datetime as dt

BUCKET = "lake"


def folder():
    return f"day={dt.datetime.now(dt.UTC):%Y-%m-%d}"


def load(s3, names_once):
    today = folder()
    s3.put_object(Bucket=BUCKET, Key=f"{today}/part-0", Body=b"rows")
    s3.put_object(Bucket=BUCKET, Key=f"{today if names_once else folder()}/_SUCCESS", Body=b"")


def a_mark_has_data(view):
    for key in view.keys(f"{BUCKET}/"):
        assert view.get(f"{key.rpartition('/')[0]}/part-0") is not None, f"{key} has no data"


def declare(world, names_once):
    world.boto3_bucket(BUCKET)
    world.spawn(load, world.boto3_client("s3"), names_once, name="job", restart=False)
    world.finally_("a mark has data", a_mark_has_data)


def broken(world):
    declare(world, False)


def fixed(world):
    declare(world, True)
