"""`touch(exist_ok=False)` raises FileExistsError when the key already exists: one of two processes creates it."""

from s3path import PureS3Path, S3Path, register_configuration_parameter

PACKAGE = "s3path"
PLACE = "docstring of S3Path.touch"
FAULTS = "none"


def claim(resource):
    register_configuration_parameter(PureS3Path("/"), resource=resource)
    try:
        S3Path("/bucket/claim").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def program(world):
    world.boto3_bucket("bucket")
    for name in ("ann", "bob"):
        world.spawn(claim, world.boto3_resource("s3"), name=name)
    world.always("one creates the key", lambda view: sum(map(bool, view.results().values())) <= 1)
