"""A work queue on S3. The claim of a job alone decides what becomes of the job.

    jobs/JOB      the payload, until the job is over
    claims/JOB    who works on it: owner, attempt, when the claim expires; and how it ended
    done/JOB      the record of a job that was completed
    dead/JOB      the record of a job whose attempts are used up

Workers take a job by creating its claim, or by replacing a claim that has expired. Every later write of the
claim names the ETag that the worker wrote last: a worker that lost the claim is refused. The records follow
from the claim, so anybody may write them.
"""

import json
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ClientError

ATTEMPTS = 3
FIELDS = {r"(?:.+/)?claims/.+": ("state", "attempt")}
"""The fields of bodies that a trace needs, for the map."""
REFUSED = ("PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "404", "412")
Document = Mapping[str, Any]


class Lost(Exception):
    """Another worker has our claim."""


class Queue:
    """The queue in a bucket, as one process of that name uses it."""

    def __init__(self, s3: Any, bucket: str, name: str, *, lease_s: float = 60.0) -> None:
        self.s3, self.bucket, self.name = s3, bucket, name
        self.lease_s = lease_s

    # The store.

    def _get(self, key: str) -> tuple[Document | None, str]:
        try:
            found = self.s3.get_object(Bucket=self.bucket, Key=key)
        except ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "404"):
                return None, ""
            raise
        return json.loads(found["Body"].read()), found["ETag"]

    def _put(self, key: str, document: Document, **condition: str) -> str:
        """Return the ETag of what was written, or nothing if it was refused.

        A refusal may be that of our own repeated request, whose first answer was lost: so we look.
        """
        body = json.dumps(document, sort_keys=True).encode()
        try:
            return str(self.s3.put_object(Bucket=self.bucket, Key=key, Body=body, **condition)["ETag"])
        except ClientError as error:
            if error.response["Error"]["Code"] not in REFUSED:
                raise
        found, etag = self._get(key)
        return etag if found == document else ""

    def _delete(self, key: str, etag: str) -> None:
        try:
            self.s3.delete_object(Bucket=self.bucket, Key=key, IfMatch=etag)
        except ClientError as error:
            if error.response["Error"]["Code"] not in REFUSED:
                raise

    def names(self, folder: str) -> list[str]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=f"{folder}/")
        return [item["Key"].removeprefix(f"{folder}/") for page in pages for item in page.get("Contents", ())]

    # Producers.

    def submit(self, job: str, payload: object) -> bool:
        return bool(self._put(f"jobs/{job}", {"payload": payload}, IfNoneMatch="*"))

    def jobs(self) -> list[str]:
        """The jobs that are not over."""
        return self.names("jobs")

    # Workers.

    def claim(self, job: str) -> tuple[Document, str] | None:
        """Return our claim and its ETag, or nothing."""
        key, now = f"claims/{job}", time.time()
        held, etag = self._get(key)
        if held is None:
            return self._claimed(job, {"IfNoneMatch": "*"}, 1)
        if held["state"] != "claimed":
            self.settle(job, held)
            return None
        if held["expires"] > now:
            return None
        if held["attempt"] < ATTEMPTS:
            return self._claimed(job, {"IfMatch": etag}, held["attempt"] + 1)
        if self._collected(job, etag):
            return None
        dead = {**held, "state": "dead"}
        if self._put(key, dead, IfMatch=etag):
            self.settle(job, dead)
        return None

    def _claimed(self, job: str, condition: Mapping[str, str], attempt: int) -> tuple[Document, str] | None:
        document = {
            "state": "claimed",
            "owner": self.name,
            "id": uuid.uuid4().hex,
            "attempt": attempt,
            "expires": time.time() + self.lease_s,
        }
        etag = self._put(f"claims/{job}", document, **condition)
        if not etag:
            return None
        return None if self._collected(job, etag) else (document, etag)

    def _collected(self, job: str, etag: str) -> bool:
        """Look whether the job was collected before its claim was made; then the claim is of nothing."""
        if self._get(f"jobs/{job}")[0] is not None:
            return False
        self._delete(f"claims/{job}", etag)
        return True

    def prolong(self, job: str, document: Document, etag: str) -> tuple[Document, str]:
        later = {**document, "expires": time.time() + self.lease_s}
        written = self._put(f"claims/{job}", later, IfMatch=etag)
        if not written:
            raise Lost(job)
        return later, written

    def complete(self, job: str, document: Document, etag: str, result: object) -> None:
        done = {**document, "state": "done", "result": result}
        if not self._put(f"claims/{job}", done, IfMatch=etag):
            raise Lost(job)
        self.settle(job, done)

    def settle(self, job: str, claim: Document) -> None:
        """Write the record that follows from a claim in its last state."""
        record = {"id": claim["id"], "attempt": claim["attempt"], "result": claim.get("result")}
        self._put(f"{claim['state']}/{job}", record, IfNoneMatch="*")

    def run_once(self, work: Callable[[str], object]) -> bool:
        """Take one job, if there is one; true when it was completed."""
        for job in self.jobs():
            claimed = self.claim(job)
            if claimed is None:
                continue
            try:
                document, etag = self.prolong(job, *claimed)
                self.complete(job, document, etag, work(job))
            except Lost:
                continue
            return True
        return False

    # The janitor.

    def collect(self) -> None:
        """Forget the jobs that are over: first the job, so that it is not claimed again, then its claim."""
        for job in self.names("claims"):
            document, etag = self._get(f"claims/{job}")
            if document is None or document["state"] == "claimed":
                continue
            self.settle(job, document)
            self.s3.delete_object(Bucket=self.bucket, Key=f"jobs/{job}")
            self._delete(f"claims/{job}", etag)


class UnfencedQueue(Queue):
    """A variant that saves a request: it completes a job even if another worker has the claim by now."""

    def complete(self, job: str, document: Document, etag: str, result: object) -> None:
        done = {**document, "state": "done", "result": result}
        self._put(f"claims/{job}", done)
        self.settle(job, done)
