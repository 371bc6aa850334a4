"""A catalog keeps the ETag of its last read in an attribute, and two threads of a pool use the catalog.

`broken` must be violated without faults: one thread swaps with the ETag that the other one read, and a table
is lost. No request is between the assignment and the use of the attribute, so threads must change places
between lines. `broken_upload` has a request between the two. `fixed` keeps the ETag in a variable.
"""

import json
from concurrent.futures import ThreadPoolExecutor

import boto3
from botocore.exceptions import ClientError

BUCKET, KEY = "tables", "catalog.json"
REFUSED = ("PreconditionFailed", "ConditionalRequestConflict")
s3 = boto3.client("s3", region_name="eu-west-1")


class Catalog:
    def __init__(self):
        self.etag = None

    def load(self):
        found = s3.get_object(Bucket=BUCKET, Key=KEY)
        self.etag = found["ETag"]
        return json.load(found["Body"])

    def add(self, name):
        while True:
            tables = self.load()
            if name in tables:
                return
            try:
                reply = s3.put_object(
                    Bucket=BUCKET, Key=KEY, Body=json.dumps([*tables, name]), IfMatch=self.etag
                )
            except ClientError as error:
                if error.response["Error"]["Code"] not in REFUSED:
                    raise
                continue
            self.etag = reply["ETag"]
            return


class UploadingCatalog(Catalog):
    def add(self, name):
        while True:
            tables = self.load()
            if name in tables:
                return
            s3.put_object(Bucket=BUCKET, Key=f"data/{name}", Body=b"")
            try:
                reply = s3.put_object(
                    Bucket=BUCKET, Key=KEY, Body=json.dumps([*tables, name]), IfMatch=self.etag
                )
            except ClientError as error:
                if error.response["Error"]["Code"] not in REFUSED:
                    raise
                continue
            self.etag = reply["ETag"]
            return


class CarefulCatalog(Catalog):
    def add(self, name):
        while True:
            found = s3.get_object(Bucket=BUCKET, Key=KEY)
            tables = json.load(found["Body"])
            if name in tables:
                return
            try:
                s3.put_object(Bucket=BUCKET, Key=KEY, Body=json.dumps([*tables, name]), IfMatch=found["ETag"])
            except ClientError as error:
                if error.response["Error"]["Code"] not in REFUSED:
                    raise
                continue
            return


def register(kind):
    catalog = kind()
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(catalog.add, name) for name in ("t1", "t2")]:
            done.result()
    return "registered"


def both(view):
    if view.result("app") == "registered":
        tables = json.loads(view.get(f"{BUCKET}/{KEY}"))
        assert sorted(tables) == ["t1", "t2"], f"the catalog has {tables}"


def program(world, kind):
    world.boto3_bucket(BUCKET)
    world.boto3_client("s3").put_object(Bucket=BUCKET, Key=KEY, Body="[]")
    world.spawn(register, kind, name="app")
    world.finally_("the catalog has both tables", both)


def broken(world):
    program(world, Catalog)


def broken_upload(world):
    program(world, UploadingCatalog)


def fixed(world):
    program(world, CarefulCatalog)
