"""Workers claim jobs with a lease, work, and mark them done; a size that the search must be able to decide.

`broken` must be violated: the mark is written without a look at the claim, so a worker that was paused beyond
its lease marks a job that another one has given up as dead. `fixed` decides the fate of a job in the claim.
"""

import json
import time

from botocore.exceptions import ClientError

BUCKET = "queue"
LEASE_S = 60.0
ATTEMPTS = 2
REFUSED = ("PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey")


class Queue:
    def __init__(self, s3, name):
        self.s3, self.name = s3, name

    def read(self, key):
        try:
            found = self.s3.get_object(Bucket=BUCKET, Key=key)
        except ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchKey":
                return None, None
            raise
        return json.load(found["Body"]), found["ETag"]

    def write(self, key, value, **condition):
        body = json.dumps(value, sort_keys=True)
        try:
            return self.s3.put_object(Bucket=BUCKET, Key=key, Body=body, **condition)["ETag"]
        except ClientError as error:
            if error.response["Error"]["Code"] not in REFUSED:
                raise
        found, etag = self.read(key)
        return etag if found == value else None

    def jobs(self):
        listed = self.s3.list_objects_v2(Bucket=BUCKET, Prefix="jobs/").get("Contents", [])
        return [found["Key"].removeprefix("jobs/") for found in listed]

    def claim(self, job):
        """Return the claim and its ETag, or None if the job is another's or has its fate."""
        key, now = f"claims/{job}", time.time()
        held, etag = self.read(key)
        if held is None:
            attempt, condition = 1, {"IfNoneMatch": "*"}
        elif held["state"] != "claimed" or held["expires"] > now:
            return None
        else:
            attempt, condition = held["attempt"] + 1, {"IfMatch": etag}
        state = "dead" if attempt > ATTEMPTS else "claimed"
        claim = {"state": state, "owner": self.name, "attempt": attempt, "expires": now + LEASE_S}
        etag = self.write(key, claim, **condition)
        return (claim, etag) if etag and state == "claimed" else None

    def finish(self, job, claim, etag, guards):
        done = {**claim, "state": "done"}
        condition = {"IfMatch": etag} if guards else {}
        self.write(f"claims/{job}", done, **condition)


def work(s3, name, guards):
    queue = Queue(s3, name)
    for job in queue.jobs():
        claimed = queue.claim(job)
        if claimed:
            s3.put_object(Bucket=BUCKET, Key=f"results/{job}", Body=name)
            queue.finish(job, *claimed, guards)


def keeps_its_fate(then, now):
    for key, body in then.contents(f"{BUCKET}/claims/").items():
        before, after = json.loads(body), json.loads(now.get(key))
        assert before["state"] == "claimed" or before == after, f"{key} was {before}, and is {after}"


def declare(world, workers, jobs, guards):
    world.boto3_bucket(BUCKET)
    s3 = world.boto3_client("s3")
    for number in range(jobs):
        s3.put_object(Bucket=BUCKET, Key=f"jobs/j{number}", Body=b"")
    for number in range(workers):
        world.spawn(work, world.boto3_client("s3"), f"w{number}", guards, name=f"w{number}")
    world.step_property("a fate is final", keeps_its_fate)


def broken(world, workers=2, jobs=1):
    declare(world, workers, jobs, False)


def fixed(world, workers=2, jobs=1):
    declare(world, workers, jobs, True)
