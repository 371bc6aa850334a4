"""`put(..., if_absent=True)` answers True when it wrote, and False when another caller wrote first."""

from airprompter_datastore_s3 import s3_kv_store

PACKAGE = "airprompter-datastore-s3"
PLACE = "KvStore.put in airprompter-agent-sync, README"
FAULTS = "none,reply_lost=1"


def claim(s3, name):
    return s3_kv_store(client=s3, bucket="bucket").put("owner", name, if_absent=True)


def owner_knows(view):
    owner = (view.get("bucket/owner") or b"").decode()
    winners = [name for name, won in view.results().items() if won]
    assert winners == [owner], f"{owner} is written, and True was answered to {winners}"


def program(world):
    world.boto3_bucket("bucket")
    for name in ("ann", "bob"):
        world.spawn(claim, world.boto3_client("s3"), name, name=name)
    world.finally_("the owner was answered True", owner_knows)
