"""A listed path shows one version of the object, and raises S3ObjectChangedError when it changed since."""

from s3pathlib.api import S3Path
from s3pathlib.exc import S3ObjectChangedError

PACKAGE = "s3pathlib"
PLACE = "docstring of s3pathlib.core.metadata"
FAULTS = "none"


def read(world, s3):
    path = next(iter(S3Path("bucket/").iter_objects(s3_client=s3)))
    world.note("log", "listed")
    try:
        world.note("log", path.metadata["by"])
    except S3ObjectChangedError:
        pass


def write(world, s3):
    world.note("log", "writes")
    s3.put_object(Bucket="bucket", Key="key", Body=b"same", Metadata={"by": "bob"})


def program(world):
    world.boto3_bucket("bucket")
    world.boto3_client("s3").put_object(Bucket="bucket", Key="key", Body=b"same", Metadata={"by": "ann"})
    for process in (read, write):
        world.spawn(process, world, world.boto3_client("s3"), name=process.__name__)
    world.always("one version", lambda view: view.notes("log") != ["listed", "writes", "bob"])
