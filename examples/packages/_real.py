"""Races the packages on a real server, with two operating-system processes: `python -m examples.packages._real`.

The server, its bucket `bucket` and the credentials come from AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY. In every round both processes begin together on a fresh name. Nothing is slowed down.
"""

import multiprocessing
import uuid
from datetime import UTC, datetime

BUCKET = "bucket"
ROUNDS = 50


def touch(name: str) -> bool:
    """Return True if `touch(exist_ok=False)` created the key."""
    from s3path import S3Path

    try:
        S3Path(f"/{BUCKET}/{name}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def commit(name: str) -> bool:
    """Return True if the commit for position 1 was accepted."""
    from aett.domain import ConflictDetector, ConflictingCommitException, NonConflictingCommitException
    from aett.eventstore import Commit, TopicMap
    from aett.s3 import CommitStore, S3Config

    place = {"tenant_id": "t", "stream_id": name, "stream_revision": 1, "commit_sequence": 1}
    stamp = {"commit_id": uuid.uuid4(), "commit_stamp": datetime.now(UTC), "checkpoint_token": 0}
    try:
        CommitStore(S3Config(BUCKET, profile_name=""), TopicMap(), ConflictDetector()).commit(
            Commit(**place, **stamp, headers={}, events=[])
        )
    except (ConflictingCommitException, NonConflictingCommitException):
        return False
    return True


def get_or_create(name: str) -> bool:
    """Return True if this process created the object."""
    from s3_locks.main import MaxAttemptsReachedError, get_or_create

    created = []
    try:
        get_or_create(BUCKET, name, lambda: created.append(1) or b"body")
    except MaxAttemptsReachedError:
        pass
    return bool(created)


def cloud_touch(name: str) -> bool:
    """Return True if `touch(exist_ok=False)` of cloudpathlib created the key."""
    from cloudpathlib import CloudPath

    try:
        CloudPath(f"s3://{BUCKET}/{name}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def copy(name: str) -> bool:
    """Return True if `copy` of fs-s3fs, without `overwrite`, succeeded."""
    import os

    from fs.errors import DestinationExists
    from fs_s3fs import S3FS

    files = S3FS(BUCKET, strict=False, endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    files.writebytes(f"{name}-{os.getpid()}", b"body")
    try:
        files.copy(f"{name}-{os.getpid()}", name)
    except DestinationExists:
        return False
    return True


def snapshot(name: str) -> bool:
    """Return True if a path that was listed before a write of the same bytes shows the metadata of that write.

    Nothing is raced: it is always so where the write falls between the listing and the look.
    """
    import os

    import boto3
    from s3pathlib.api import S3Path

    s3, name = boto3.client("s3"), f"{name}-{os.getpid()}"
    s3.put_object(Bucket=BUCKET, Key=f"{name}/key", Body=b"same", Metadata={"by": "ann"})
    path = next(iter(S3Path(BUCKET, f"{name}/").iter_objects(s3_client=s3)))
    s3.put_object(Bucket=BUCKET, Key=f"{name}/key", Body=b"same", Metadata={"by": "bob"})
    return path.metadata["by"] == "bob"


def work(race, names, start, results) -> None:
    for name in names:
        start.wait()
        results.put((name, race(name)))


def double(race) -> int:
    """In how many of the rounds both processes succeeded, which the package rules out."""
    names = [uuid.uuid4().hex for _ in range(ROUNDS)]
    spawned = multiprocessing.get_context("spawn")
    start, results = spawned.Barrier(2), spawned.Queue()
    both = [spawned.Process(target=work, args=(race, names, start, results)) for _ in range(2)]
    for process in both:
        process.start()
    won = [results.get(timeout=120) for _ in range(2 * ROUNDS)]
    for process in both:
        process.join()
    return sum(won.count((name, True)) == 2 for name in names)


if __name__ == "__main__":
    for race in (touch, commit, get_or_create, cloud_touch, copy, snapshot):
        print(f"{race.__name__}: both succeeded in {double(race)} of {ROUNDS} rounds", flush=True)
