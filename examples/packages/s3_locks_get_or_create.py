"""Of several processes that call `get_or_create` for a key, only one creates the object."""

from s3_locks.main import MaxAttemptsReachedError, get_or_create

PACKAGE = "s3-locks"
PLACE = "docstring of get_or_create"
FAULTS = "none"


def caller(world, s3):
    def create():
        world.note("created by", world.me)
        return b"expensive"

    try:
        get_or_create("bucket", "thing", create, s3_client=s3)
    except MaxAttemptsReachedError:
        pass  # another process is creating it


def program(world):
    world.boto3_bucket("bucket")
    for name in ("ann", "bob"):
        world.spawn(caller, world, world.boto3_client("s3"), name=name)
    world.always("created once", lambda view: len(view.notes("created by")) <= 1)
