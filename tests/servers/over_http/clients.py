"""Programs on clients that no world answers in process: the SDK for real, native code, another language."""

from pathlib import Path

from botocore.exceptions import ClientError

LATER = ("PreconditionFailed", "ConditionalRequestConflict")


def add(s3, safe):
    while True:
        found = s3.get_object(Bucket="jobs", Key="counter")
        total = int(found["Body"].read()) + 1
        try:
            condition = {"IfMatch": found["ETag"]} if safe else {}
            s3.put_object(Bucket="jobs", Key="counter", Body=str(total).encode(), **condition)
        except ClientError as error:
            if error.response["Error"]["Code"] not in LATER:
                raise
        else:
            return


def boto3_counter(world, safe):
    world.boto3_bucket("jobs")
    world.boto3_client("s3").put_object(Bucket="jobs", Key="counter", Body=b"0")
    for name in ("ann", "bob"):
        world.spawn(add, world.boto3_client("s3"), safe, name=name)
    world.finally_("both are counted", lambda view: view.get("jobs/counter") == b"2")


def elect(s3, name, safe):
    if not safe:
        try:
            s3.head_object(Bucket="jobs", Key="leader")
        except ClientError:
            pass
        else:
            return False
    try:
        condition = {"IfNoneMatch": "*"} if safe else {}
        s3.put_object(Bucket="jobs", Key="leader", Body=name.encode(), **condition)
    except ClientError as error:
        assert error.response["Error"]["Code"] in LATER
        return False
    return True


def _one(view):
    return sum(map(bool, view.results().values())) <= 1


def boto3_election(world, safe):
    world.boto3_bucket("jobs")
    for name in ("ann", "bob"):
        world.spawn(elect, world.boto3_client("s3"), name, safe, name=name)
    world.always("one leads", _one)


def create_with_obstore(endpoint, name, safe):
    import obstore
    from obstore.store import S3Store

    store = S3Store("jobs", aws_endpoint=endpoint, client_options={"allow_http": True})
    try:
        if not safe:
            try:
                obstore.head(store, "leader")
            except FileNotFoundError:
                pass
            else:
                return False
        obstore.put(store, "leader", name.encode(), mode="create" if safe else "overwrite")
    except obstore.exceptions.AlreadyExistsError:
        return False
    return True


def obstore_election(world, safe):
    world.boto3_bucket("jobs")
    for name in ("ann", "bob"):
        world.spawn(create_with_obstore, world.endpoint, name, safe, name=name)
    world.always("one leads", _one)


def create_with_pyarrow(endpoint, name):
    from pyarrow import fs

    s3 = fs.S3FileSystem(endpoint_override=endpoint.removeprefix("http://"), scheme="http")
    if s3.get_file_info("jobs/leader").type is not fs.FileType.NotFound:
        return False
    with s3.open_output_stream("jobs/leader") as file:
        file.write(name.encode())
    return True


def pyarrow_election(world, safe):
    """It has no conditional write, so there is no fixed form."""
    world.boto3_bucket("jobs")
    names = ("ann",) if safe else ("ann", "bob")
    for name in names:
        world.spawn(create_with_pyarrow, world.endpoint, name, name=name)
    world.always("one leads", _one)


def node_counter(world, safe):
    world.boto3_bucket("jobs")
    world.boto3_client("s3").put_object(Bucket="jobs", Key="counter", Body=b"0")
    for name in ("ann", "bob"):
        argv = ["node", str(Path(__file__).parent / "counter.mjs"), *(["safe"] if safe else [])]
        world.spawn_command(argv, name=name)
    world.finally_("both are counted", lambda view: view.get("jobs/counter") == b"2")
