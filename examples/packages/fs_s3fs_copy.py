"""`copy` without `overwrite` raises DestinationExists when the destination exists: of two copies one succeeds."""

from fs.errors import DestinationExists
from fs_s3fs import S3FS

PACKAGE = "fs-s3fs"
PLACE = "docstring of FS.copy in fs 2.4"
FAULTS = "none"


def copy(world):
    try:
        S3FS("bucket", strict=False).copy(world.me, "destination")
    except DestinationExists:
        return
    world.note("copied", world.me)


def program(world):
    world.boto3_bucket("bucket")
    s3 = world.boto3_client("s3")
    for name in ("ann", "bob"):
        s3.put_object(Bucket="bucket", Key=name, Body=name.encode())
        world.spawn(copy, world, name=name)
    world.always("one copy succeeds", lambda view: len(view.notes("copied")) <= 1)
