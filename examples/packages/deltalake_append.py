"""Concurrent writes to S3 are safe, with conditional writes and no locking provider: what returned is in the log, once."""

import re

import pyarrow
from deltalake import write_deltalake

PACKAGE = "deltalake"
PLACE = "documentation, Writing to S3; delta-rs discussion 4482"
FAULTS = "none,reply_lost=1"
OVER_HTTP = True


def append(number):
    rows = pyarrow.table({"number": [number]})
    write_deltalake("s3://bucket/table", rows, mode="append")
    return True


def program(world):
    def in_the_log(view):
        log = b"".join(view.get(key) for key in view.keys("bucket/table/_delta_log/"))
        added = re.findall(rb'"add":{"path":"([^"]+)', log)
        returned = sum(map(bool, view.results().values()))
        assert len(set(added)) == len(added) >= returned, f"{returned} returned, added: {added}"

    world.boto3_bucket("bucket")
    for number, name in enumerate(("ann", "bob")):
        world.spawn(append, number, name=name, restart=False, may_raise=(Exception,))
    world.finally_("what returned is in the log, once", in_the_log)
