"""`fencepost ingest lock`: what was accepted cannot be destroyed, and what was reopened is reported."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.ingest import Accepted, Authority, Manifest
from fencepost.impl.store import open_store
from tests.commands.running import Run
from tests.impl.ingest.given import SETTINGS, batch
from tests.impl.objects.serving import client, secret, served

ENV = SystemEnvironment()
DAYS = 400
PREFIX = "prod/"


class Bucket:
    def __init__(self, address: str) -> None:
        self.url = f"s3://batches/prod?endpoint={address}"
        self.s3 = client(address)

    def accept(self, number: int) -> Manifest:
        with open_store(self.url, ENV) as store:
            ann = Authority(store, ENV, "ann", SETTINGS)
            answer = ann.accept(*batch(number))
            assert isinstance(answer, Accepted)
            ann.follow_up(answer.manifest)
            return answer.manifest

    def versions(self, key: str) -> list[str]:
        found = self.s3.list_object_versions(Bucket="batches", Prefix=PREFIX + key)
        return [one["VersionId"] for one in found.get("Versions", ())]

    def destroy(self, key: str) -> str:
        """Delete each version; returns the code of the refusal."""
        try:
            for version in self.versions(key):
                self.s3.delete_object(Bucket="batches", Key=PREFIX + key, VersionId=version)
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return ""


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "root")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret("root"))
    with served(tmp_path / "objects") as address:
        found = Bucket(address)
        found.s3.create_bucket(Bucket="batches", ObjectLockEnabledForBucket=True)
        found.s3.create_bucket(Bucket="unlocked")
        yield found


def lock(ran: Run, url: str, *words: str) -> tuple[int, str, str]:
    return ran("ingest", "lock", "--store", url, "--days", str(DAYS), *words)


def until_s(bucket: Bucket, key: str) -> float:
    found: Any = bucket.s3.head_object(Bucket="batches", Key=PREFIX + key)
    return float(found["ObjectLockRetainUntilDate"].timestamp())


def test_what_is_locked_cannot_be_destroyed(ran: Run, bucket: Bucket) -> None:
    first = bucket.accept(1)
    assert lock(ran, bucket.url)[:2] == (0, "1 batches are locked\n")
    for key in (first.key, first.raw_blob_key):
        assert bucket.destroy(key) == "AccessDenied"
        assert len(bucket.versions(key)) == 1
        wanted = first.accepted_at_unix_ns / 1e9 + DAYS * 86400
        assert wanted <= until_s(bucket, key) <= wanted + 1
    assert bucket.destroy(first.by_time_key) == "", "what is derived is not locked"


def test_a_later_run_locks_what_is_new(ran: Run, bucket: Bucket) -> None:
    bucket.accept(1)
    assert lock(ran, bucket.url)[0] == 0
    second = bucket.accept(2)
    code, out, _ = lock(ran, bucket.url)
    assert (code, out) == (0, "2 batches are locked\n"), "and those of the overlap again"
    assert bucket.destroy(second.key) == "AccessDenied"
    before = until_s(bucket, second.key)
    assert ran("ingest", "lock", "--store", bucket.url, "--days", "1", "--all")[0] == 0
    assert until_s(bucket, second.key) == before, "a longer retention stays"


def test_a_manifest_that_was_hidden_or_accepted_again_is_reported(ran: Run, bucket: Bucket) -> None:
    """A lock does not prevent it, which the bucket policy does; the locked version is there."""
    first = bucket.accept(1)
    assert lock(ran, bucket.url)[0] == 0
    bucket.s3.delete_object(Bucket="batches", Key=PREFIX + first.key)
    time.sleep(0.01)
    again = bucket.accept(1)
    assert again.attempt != first.attempt, "the name was free"
    code, out, _ = lock(ran, bucket.url, "--all")
    assert (code, f"deleted, or accepted again: {first.key}" in out) == (1, True)
    assert len(bucket.versions(first.key)) == 2


def test_a_bucket_without_locks_is_refused(ran: Run, bucket: Bucket, tmp_path: Path) -> None:
    code, _, error = lock(ran, bucket.url.replace("batches/prod", "unlocked"))
    assert (code, error.count("\n"), "has no Object Lock" in error) == (2, 1, True)
    code, _, error = lock(ran, f"file://{tmp_path}")
    assert (code, error.count("\n"), "has no Object Lock" in error) == (2, 1, True)
