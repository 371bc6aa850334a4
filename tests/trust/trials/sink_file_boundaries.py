"""A sink names each file by its first offset and fills it with the records that exist at the time.

This is Zooz/kafka-s3-connector#2 and confluentinc/kafka-connect-storage-cloud#93. `broken` must be violated:
after a crash the files begin elsewhere, and one record is in two files. `fixed` writes files of one record.
"""

import json
import time

BUCKET = "sink"


def produce(s3):
    for n in range(2):
        s3.put_object(Bucket=BUCKET, Key=f"topic/{n}", Body=str(n))


def committed(s3):
    try:
        return int(s3.get_object(Bucket=BUCKET, Key="offset")["Body"].read())
    except s3.exceptions.NoSuchKey:
        return 0


def sink(s3, flush_size):
    offset = committed(s3)
    for _ in range(3):
        listed = s3.list_objects_v2(Bucket=BUCKET, Prefix="topic/").get("Contents", [])
        numbers = [int(found["Key"].split("/")[1]) for found in listed]
        batch = [number for number in numbers if number >= offset][:flush_size]
        if batch:
            s3.put_object(Bucket=BUCKET, Key=f"files/{batch[0]}.json", Body=json.dumps(batch))
            offset = batch[-1] + 1
        time.sleep(1)
    s3.put_object(Bucket=BUCKET, Key="offset", Body=str(offset))  # consumer groups commit now and then


def no_record_twice(view):
    records = [record for body in view.contents(f"{BUCKET}/files/").values() for record in json.loads(body)]
    assert len(records) == len(set(records)), f"the files have the records {records}"


def program(world, flush_size):
    world.boto3_bucket(BUCKET)
    world.spawn(produce, world.boto3_client("s3"), name="producer", restart=False)
    world.spawn(sink, world.boto3_client("s3"), flush_size, name="sink")
    world.finally_("no record is in two files", no_record_twice)


def broken(world):
    program(world, 100)


def fixed(world):
    program(world, 1)
