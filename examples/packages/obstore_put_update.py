"""`put(mode={"e_tag": ...})` writes only when the current version matches: of two loops that count, both are counted."""

import obstore
from obstore.store import S3Store

PACKAGE = "obstore"
PLACE = "docstring of PutMode"
FAULTS = "none,conflict=1"
OVER_HTTP = True


def count(endpoint):
    store = S3Store("bucket", aws_endpoint=endpoint)
    while True:
        found = obstore.get(store, "counter")
        total = int(bytes(found.bytes())) + 1
        try:
            obstore.put(store, "counter", str(total).encode(), mode={"e_tag": found.meta["e_tag"]})
        except obstore.exceptions.PreconditionError:
            continue
        return


def program(world):
    world.boto3_bucket("bucket")
    world.boto3_client("s3").put_object(Bucket="bucket", Key="counter", Body=b"0")
    for name in ("ann", "bob"):
        world.spawn(count, world.endpoint, name=name)
    world.finally_("both are counted", lambda view: view.get("bucket/counter") == b"2")
