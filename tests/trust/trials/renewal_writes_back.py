"""A renewal thread reads the lock, its process releases the lock, and the thread writes it back.

This is supabase/storage#812. `broken` must be violated: a lock without an owner remains. The thread never
ends by itself, so its loop must not starve the process. `fixed` writes back with If-Match.
"""

import json
import threading
import time

from botocore.exceptions import ClientError

BUCKET, KEY = "tus", "upload-1.lock"
REFUSED = ("NoSuchKey", "PreconditionFailed", "ConditionalRequestConflict")


class Locker:
    def __init__(self, s3, conditional):
        self.s3, self.conditional, self.locked = s3, conditional, False

    def lock(self):
        self.s3.put_object(Bucket=BUCKET, Key=KEY, Body=json.dumps({"renewed": 0}))
        self.locked = True
        self.thread = threading.Thread(target=self.keep)
        self.thread.start()

    def keep(self):
        while self.locked:
            self.renew()
            time.sleep(10)

    def renew(self):
        try:
            found = self.s3.get_object(Bucket=BUCKET, Key=KEY)
            body = json.load(found["Body"])
            body["renewed"] += 1
            condition = {"IfMatch": found["ETag"]} if self.conditional else {}
            self.s3.put_object(Bucket=BUCKET, Key=KEY, Body=json.dumps(body), **condition)
        except ClientError as error:
            if error.response["Error"]["Code"] not in REFUSED:
                raise
            self.locked = False

    def unlock(self):
        self.locked = False
        self.s3.delete_object(Bucket=BUCKET, Key=KEY)


def upload(s3, conditional):
    locker = Locker(s3, conditional)
    locker.lock()
    s3.put_object(Bucket=BUCKET, Key="upload-1", Body=b"data")
    locker.unlock()
    return "unlocked"


def no_zombie(view):
    if view.result("server") == "unlocked":
        assert view.get(f"{BUCKET}/{KEY}") is None, "the lock was released and exists"


def program(world, conditional):
    world.boto3_bucket(BUCKET)
    world.spawn(upload, world.boto3_client("s3"), conditional, name="server", restart=False)
    world.finally_("no zombie lock", no_zombie)


def broken(world):
    program(world, False)


def fixed(world):
    program(world, True)
