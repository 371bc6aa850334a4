"""The metadata of an object are changed by a copy onto itself, while another process writes the object.

The copy reads in one step and writes in a later one. `broken` must be violated: it takes back the new
content, as s3fs `setxattr` and DVC touch do. `fixed` sends CopySourceIfMatch and IfMatch.
"""

from botocore.exceptions import ClientError

BUCKET, KEY = "web", "page"
REFUSED = ("PreconditionFailed", "ConditionalRequestConflict")


def touch(s3, pins):
    etag = s3.head_object(Bucket=BUCKET, Key=KEY)["ETag"]
    pin = {"CopySourceIfMatch": etag, "IfMatch": etag} if pins else {}
    try:
        s3.copy_object(
            Bucket=BUCKET,
            Key=KEY,
            CopySource={"Bucket": BUCKET, "Key": KEY},
            MetadataDirective="REPLACE",
            Metadata={"touched": "yes"},
            **pin,
        )
    except ClientError as error:
        if error.response["Error"]["Code"] not in REFUSED:
            raise


def publish(s3):
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=b"new")
    return "published"


def published_stays(view):
    if view.result("author") == "published":
        assert view.get(f"{BUCKET}/{KEY}") == b"new", "the page was published, and is the old one"


def program(world, pins):
    world.boto3_bucket(BUCKET)
    world.boto3_client("s3").put_object(Bucket=BUCKET, Key=KEY, Body=b"old")
    world.spawn(touch, world.boto3_client("s3"), pins, name="toucher")
    world.spawn(publish, world.boto3_client("s3"), name="author")
    world.always("the published page stays", published_stays)


def broken(world):
    program(world, False)


def fixed(world):
    program(world, True)
