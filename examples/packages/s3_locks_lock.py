"""The body of `with S3Lock(...)` runs only while the lock is held (and until its time to live is over)."""

from s3_locks.main import MaxAttemptsReachedError, S3Lock

PACKAGE = "s3-locks"
PLACE = "README, Usage"
FAULTS = "none,reply_lost=1"  # without pauses: a lock that outlives its ttl is documented


def protect(world, s3):
    try:
        with S3Lock("bucket", "lock", ttl=60, s3_client=s3):
            world.note("enters", world.me)
            s3.put_object(Bucket="bucket", Key="protected", Body=world.me.encode())
            world.note("leaves", world.me)
    except MaxAttemptsReachedError:
        pass  # another process holds it


def program(world):
    world.configure(ticks=0)  # no clock of the lock is finer than its ttl of 60 s
    world.boto3_bucket("bucket")
    for name in ("ann", "bob"):
        world.spawn(protect, world, world.boto3_client("s3"), name=name)
    world.always("one holder", lambda view: len(view.notes("enters")) - len(view.notes("leaves")) <= 1)
    world.sometimes("one after the other", lambda view: len(view.notes("leaves")) == 2)
