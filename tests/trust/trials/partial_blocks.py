"""A cleaner deletes blocks that have been partial for an hour, while a slow uploader goes on and finishes.

A block is complete when its meta.json exists, which is uploaded last, as in Thanos. `broken` must be
violated: the pause is learnt from a comparison with LastModified on its left. `broken_far` states a pause of
two hours. In `fixed` uploader and cleaner both create meta.json, and one of them is refused.
"""

import datetime as dt

from botocore.exceptions import ClientError

BUCKET = "blocks"
REFUSED = ("PreconditionFailed", "ConditionalRequestConflict")


def upload(s3, conditional):
    for chunk in ("chunk-1", "chunk-2"):
        s3.put_object(Bucket=BUCKET, Key=f"B/{chunk}", Body=b"samples")
    condition = {"IfNoneMatch": "*"} if conditional else {}
    try:
        s3.put_object(Bucket=BUCKET, Key="B/meta.json", Body=b"{}", **condition)
    except ClientError as error:
        if error.response["Error"]["Code"] not in REFUSED:
            raise
        if s3.get_object(Bucket=BUCKET, Key="B/meta.json")["Body"].read() != b"{}":
            return "too slow"
    return "uploaded"


def clean(s3, conditional):
    listed = s3.list_objects_v2(Bucket=BUCKET, Prefix="B/").get("Contents", [])
    if not listed or any(found["Key"] == "B/meta.json" for found in listed):
        return
    hour_ago = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    if any(found["LastModified"] > hour_ago for found in listed):
        return
    if conditional:
        try:
            s3.put_object(Bucket=BUCKET, Key="B/meta.json", Body=b"deleted", IfNoneMatch="*")
        except ClientError as error:
            if error.response["Error"]["Code"] not in REFUSED:
                raise
            return
    for found in listed:
        s3.delete_object(Bucket=BUCKET, Key=found["Key"])


def complete(view):
    if view.get(f"{BUCKET}/B/meta.json") == b"{}":
        for chunk in ("chunk-1", "chunk-2"):
            assert view.get(f"{BUCKET}/B/{chunk}") is not None, f"the block has its meta.json and no {chunk}"


def program(world, conditional):
    world.boto3_bucket(BUCKET)
    world.spawn(upload, world.boto3_client("s3"), conditional, name="sidecar", restart=False)
    world.spawn(clean, world.boto3_client("s3"), conditional, name="compactor", restart=False)
    world.always("a block with meta.json is complete", complete)


def broken(world):
    program(world, False)


def broken_far(world):
    world.configure(pause_s=7200)
    program(world, False)


def fixed(world):
    program(world, True)
