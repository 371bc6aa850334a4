"""`touch(exist_ok=False)` raises FileExistsError when the key exists, as in pathlib: one of two processes creates it."""

from cloudpathlib import S3Client

PACKAGE = "cloudpathlib"
PLACE = "README: classes that mimic pathlib.Path's interface"
FAULTS = "none"


def create(world):
    try:
        S3Client().CloudPath("s3://bucket/key").touch(exist_ok=False)
    except FileExistsError:
        return
    world.note("created", world.me)


def program(world):
    world.boto3_bucket("bucket")
    for name in ("ann", "bob"):
        world.spawn(create, world, name=name)
    world.always("one creates the key", lambda view: len(view.notes("created")) <= 1)
