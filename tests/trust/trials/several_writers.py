"""Writers that add names to a manifest, register versions, or take over a log: `n` of them, `k` times each.

The broken ones must be violated at any size. `swap_broken` writes back what it read without a condition,
`register_broken` takes the next number when its own reply was lost, and `log_broken` trusts a listing while
the old owner writes on (AutoMQ and WarpStream fail over like this). The fixed ones use If-Match, look at what
is there, and seal the next slot of the log.
"""

import json

from botocore.exceptions import ClientError

BUCKET = "b"
REFUSED = ("PreconditionFailed", "ConditionalRequestConflict")


def created(s3, key, body):
    """Return True if the object was written, and False if it is there or its reply was lost and repeated."""
    try:
        s3.put_object(Bucket=BUCKET, Key=key, Body=body, IfNoneMatch="*")
    except ClientError as error:
        if error.response["Error"]["Code"] not in REFUSED:
            raise
        return False
    return True


def body_of(s3, key):
    return s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()


def keys(s3, prefix):
    found = s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
    return [each["Key"] for each in found]


def add(s3, names, swaps):
    for name in names:
        while True:
            found = s3.get_object(Bucket=BUCKET, Key="manifest")
            there = json.load(found["Body"])
            if name in there:
                break
            condition = {"IfMatch": found["ETag"]} if swaps else {}
            try:
                s3.put_object(Bucket=BUCKET, Key="manifest", Body=json.dumps([*there, name]), **condition)
                break
            except ClientError as error:
                if error.response["Error"]["Code"] not in REFUSED:
                    raise
    return names


def swap(world, n, k, swaps):
    world.boto3_bucket(BUCKET)
    world.boto3_client("s3").put_object(Bucket=BUCKET, Key="manifest", Body="[]")
    for i in range(n):
        names = [f"p{i}-{j}" for j in range(k)]
        world.spawn(add, world.boto3_client("s3"), names, swaps, name=f"p{i}")

    def nothing_lost(view):
        there = json.loads(view.get(f"{BUCKET}/manifest"))
        for added in view.results().values():
            assert set(added or ()) <= set(there), f"{added} were added, and the manifest has {there}"

    world.finally_("nothing is lost", nothing_lost)


def register_all(s3, who, k, looks):
    for j in range(k):
        body = f"{who}-{j}".encode()
        number = len(keys(s3, "m/")) + 1
        while not created(s3, f"m/{number}", body):
            if looks and body_of(s3, f"m/{number}") == body:
                break
            number += 1


def register(world, n, k, looks):
    world.boto3_bucket(BUCKET)
    for i in range(n):
        world.spawn(register_all, world.boto3_client("s3"), f"p{i}", k, looks, name=f"p{i}", restart=False)

    def once(view):
        bodies = list(view.contents(f"{BUCKET}/m/").values())
        assert len(bodies) == len(set(bodies)), f"registered twice: {bodies}"

    world.finally_("registered once", once)


def is_ours(s3, slot, body):
    return created(s3, f"log/{slot:04}", body) or body_of(s3, f"log/{slot:04}") == body


def write(world, s3, k):
    for slot in range(k):
        if not is_ours(s3, slot, f"record-{slot}".encode()):
            return
        world.note("acknowledged", slot)


def take_over(world, s3, seals):
    listed = [int(key.removeprefix("log/")) for key in keys(s3, "log/")]
    if seals:
        while not is_ours(s3, len(listed), b"SEAL"):
            listed.append(len(listed))
    world.note("recovered", tuple(listed))


def log(world, n, k, seals):
    world.boto3_bucket(BUCKET)
    world.spawn(write, world, world.boto3_client("s3"), k, name="old", restart=False)
    for i in range(n - 1):
        world.spawn(take_over, world, world.boto3_client("s3"), seals, name=f"new{i}", restart=False)

    def nothing_lost(view):
        for recovered in view.notes("recovered"):
            lost = [slot for slot in view.notes("acknowledged") if slot not in recovered]
            assert not lost, f"slot {lost[0]} was acknowledged, and the new owner has {recovered}"

    world.finally_("nothing acknowledged is lost", nothing_lost)


def swap_broken(world, n=2, k=1):
    swap(world, n, k, swaps=False)


def swap_fixed(world, n=2, k=1):
    swap(world, n, k, swaps=True)


def register_broken(world, n=2, k=1):
    register(world, n, k, looks=False)


def register_fixed(world, n=2, k=1):
    register(world, n, k, looks=True)


def log_broken(world, n=2, k=2):
    log(world, n, k, seals=False)


def log_fixed(world, n=2, k=2):
    log(world, n, k, seals=True)
