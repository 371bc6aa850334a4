from botocore.exceptions import ClientError


def sell(s3):
    """Add one to a number in an object. If-Match protects the writes of others."""
    while True:
        found = s3.get_object(Bucket="shop", Key="sold")
        total = int(found["Body"].read()) + 1
        try:
            s3.put_object(Bucket="shop", Key="sold", Body=str(total).encode(), IfMatch=found["ETag"])
            return
        except ClientError as error:
            if error.response["Error"]["Code"] != "PreconditionFailed":
                raise


def two_sales(world):
    world.boto3_bucket("shop")
    world.boto3_client("s3").put_object(Bucket="shop", Key="sold", Body=b"0")
    for name in ("ann", "bob"):
        world.spawn(sell, world.boto3_client("s3"), name=name, restart=False)
    world.always("two buyers, two sold", lambda view: int(view.get("shop/sold")) <= 2)
