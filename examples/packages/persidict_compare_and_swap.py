"""Conditional operations avoid lost updates: of two compare-and-swap loops that count, both are counted."""

from persidict import ANY_ETAG, ETAG_IS_THE_SAME, ITEM_NOT_AVAILABLE
from persidict.basic_s3_dict import BasicS3Dict

PACKAGE = "persidict"
PLACE = "README, Conditional Operations"
FAULTS = "none,conflict=1"  # the loop of the README makes no claim on lost replies


def count(world):
    counts = BasicS3Dict(bucket_name="bucket", serialization_format="json")
    while True:
        found = counts.get_item_if("n", condition=ANY_ETAG, expected_etag=ITEM_NOT_AVAILABLE)
        value = 1 if found.new_value is ITEM_NOT_AVAILABLE else found.new_value + 1
        if counts.set_item_if(
            "n", value=value, condition=ETAG_IS_THE_SAME, expected_etag=found.actual_etag
        ).condition_was_satisfied:
            world.note("counted", world.me)
            return


def program(world):
    world.boto3_bucket("bucket")
    for name in ("ann", "bob"):
        world.spawn(count, world, name=name)
    world.finally_("both are counted", lambda view: b"2" in view.contents("bucket/").popitem()[1])
