"""Processes register versions under the next free number; a size that the search must be able to decide.

`broken` must be violated: a process whose reply was lost meets its own version, takes it for another's, and
registers a second time. `fixed` looks at the version that it meets.
"""

from botocore.exceptions import ClientError

BUCKET = "models"
REFUSED = ("PreconditionFailed", "ConditionalRequestConflict")


def register(s3, name, versions, looks):
    for version in range(versions):
        body = f"{name}-{version}".encode()
        listed = s3.list_objects_v2(Bucket=BUCKET, Prefix="m/").get("Contents", [])
        number = len(listed) + 1
        while not created(s3, f"m/{number}", body, looks):
            number += 1


def created(s3, key, body, looks):
    try:
        s3.put_object(Bucket=BUCKET, Key=key, Body=body, IfNoneMatch="*")
    except ClientError as error:
        if error.response["Error"]["Code"] not in REFUSED:
            raise
        return looks and s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == body
    return True


def each_once(view):
    bodies = list(view.contents(f"{BUCKET}/m/").values())
    assert len(bodies) == len(set(bodies)), f"registered twice: {bodies}"


def declare(world, processes, versions, looks):
    world.boto3_bucket(BUCKET)
    for number in range(processes):
        name = f"p{number}"
        client = world.boto3_client("s3")
        world.spawn(register, client, name, versions, looks, name=name, restart=False)
    world.finally_("each version is registered once", each_once)


def broken(world, processes=2, versions=1):
    declare(world, processes, versions, False)


def fixed(world, processes=2, versions=1):
    declare(world, processes, versions, True)
