"""Processes add names to one manifest; a size that the search must be able to decide.

`broken` must be violated: two processes read the same manifest, and the second one that writes it drops the
name of the first. `fixed` writes with `If-Match` and reads again when it is refused.
"""

import json

from botocore.exceptions import ClientError

BUCKET, KEY = "tables", "manifest.json"
REFUSED = ("PreconditionFailed", "ConditionalRequestConflict")


def add(s3, names, condition_of):
    for name in names:
        while True:
            found = s3.get_object(Bucket=BUCKET, Key=KEY)
            listed = json.load(found["Body"])
            if name in listed:
                break
            body = json.dumps([*listed, name])
            try:
                s3.put_object(Bucket=BUCKET, Key=KEY, Body=body, **condition_of(found))
            except ClientError as error:
                if error.response["Error"]["Code"] not in REFUSED:
                    raise
                continue
            break
    return names


def none_is_lost(view):
    listed = json.loads(view.get(f"{BUCKET}/{KEY}"))
    for names in view.results().values():
        assert set(names or ()) <= set(listed), f"{names} were added, and the manifest has {listed}"


def declare(world, processes, names, condition_of):
    world.boto3_bucket(BUCKET)
    world.boto3_client("s3").put_object(Bucket=BUCKET, Key=KEY, Body="[]")
    for number in range(processes):
        mine = [f"p{number}-{place}" for place in range(names)]
        world.spawn(add, world.boto3_client("s3"), mine, condition_of, name=f"p{number}")
    world.finally_("no name is lost", none_is_lost)


def broken(world, processes=2, names=1):
    declare(world, processes, names, lambda found: {})


def fixed(world, processes=2, names=1):
    declare(world, processes, names, lambda found: {"IfMatch": found["ETag"]})
