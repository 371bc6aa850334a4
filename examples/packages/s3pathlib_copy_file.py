"""`copy_file(overwrite=False)` replaces no object, also none that another process wrote meanwhile."""

from botocore.exceptions import ClientError
from s3pathlib.api import S3Path
from s3pathlib.exc import S3FileAlreadyExist

PACKAGE = "s3pathlib"
PLACE = "docstring of copy_file"
FAULTS = "none,reply_lost=1,conflict=1"


def copy(world, s3):
    try:
        S3Path("bucket", world.me).copy_file(S3Path("bucket", "copy"), overwrite=False, s3_client=s3)
    except (S3FileAlreadyExist, ClientError):  # errors of S3, such as a 409, are raised as they are
        return
    world.note("copied", world.me)


def program(world):
    world.boto3_bucket("bucket")
    s3 = world.boto3_client("s3")
    for name in ("ann", "bob"):
        s3.put_object(Bucket="bucket", Key=name, Body=name.encode())
        world.spawn(copy, world, s3, name=name)
    world.always(
        "a copy that succeeded stands",
        lambda view: all(view.contents()["bucket/copy"] == name.encode() for name in view.notes("copied")),
    )
