"""n processes register k versions each.

Broken: a writer that meets its own record takes the next number."""

from botocore.exceptions import ClientError

BUCKET = "models"


def register(s3, who, k, looks):
    mine = []
    for j in range(k):
        body = f"{who}-{j}".encode()
        number = len(s3.list_objects_v2(Bucket=BUCKET, Prefix="m/").get("Contents", [])) + 1
        while True:
            try:
                s3.put_object(Bucket=BUCKET, Key=f"m/{number}", Body=body, IfNoneMatch="*")
                break
            except ClientError as error:
                if error.response["Error"]["Code"] not in (
                    "PreconditionFailed",
                    "ConditionalRequestConflict",
                ):
                    raise
            if looks and s3.get_object(Bucket=BUCKET, Key=f"m/{number}")["Body"].read() == body:
                break
            number += 1
        mine.append(number)
    return mine


def once(view):
    bodies = list(view.contents(f"{BUCKET}/m/").values())
    assert len(bodies) == len(set(bodies)), f"registered twice: {bodies}"


def program(world, n, k, looks):
    world.boto3_bucket(BUCKET)
    for i in range(n):
        world.spawn(register, world.boto3_client("s3"), f"p{i}", k, looks, name=f"p{i}", restart=False)
    world.finally_("registered once", once)


def broken(world, n=2, k=1):
    program(world, n, k, False)


def fixed(world, n=2, k=1):
    program(world, n, k, True)
