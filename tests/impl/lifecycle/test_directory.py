"""A directory of objects as a target: what stands there, and a deletion that is one step with its guard."""

import fcntl
import os
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.lifecycle.directory import DirectoryTarget
from fencepost.impl.lifecycle.policy import What
from fencepost.impl.lifecycle.target import Result, Standing
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.credentials import ROOT, Caller
from fencepost.impl.objects.reconcile import reconcile
from fencepost.impl.objects.surface import act

PLAIN, VERSIONED = "plain-bucket", "versioned-bucket"


def listed(target: DirectoryTarget, bucket: str, after: str) -> list[str]:
    return [one.key for one in target.page(bucket, after)]


class Client:
    """S3's operations on the directory, as the server answers them."""

    def __init__(self, buckets: Buckets) -> None:
        self.buckets = buckets

    def __call__(self, operation: str, **parameters: Any) -> Any:
        return act(operation, self.buckets, Caller(ROOT))(parameters)

    def put(self, bucket: str, key: str, body: bytes = b"x", **parameters: Any) -> str:
        """Returns the version."""
        with self("PutObject", Bucket=bucket, Key=key, **parameters) as receiving:
            receiving.write(body)
            return receiving.finish("0" * 32, {})["VersionId"] or "null"

    def keys(self, bucket: str) -> list[str]:
        found = self("ListObjectsV2", Bucket=bucket)["Contents"]
        return [row[found.members.index("Key")] for row in found.rows]


@pytest.fixture
def buckets(tmp_path: Path) -> Iterator[Buckets]:
    found = Buckets(str(tmp_path))
    found.create(PLAIN)
    found.create(VERSIONED, versioning="Enabled", lock={})
    reconcile(found)
    yield found
    found.close()


@pytest.fixture
def client(buckets: Buckets) -> Client:
    return Client(buckets)


@pytest.fixture
def target(buckets: Buckets) -> DirectoryTarget:
    return DirectoryTarget(buckets)


def allow(_: Standing) -> Result | None:
    return None


def ids(standing: Standing) -> list[str]:
    return [one.version.version_id for one in standing.versions]


def test_an_object_stands_with_its_tags_and_time(target: DirectoryTarget, client: Client) -> None:
    client.put(PLAIN, "k", b"123", Tagging="b=2&a=1")
    (live,) = target.standing(PLAIN, "k").versions
    assert (live.version.size, live.version.tags, live.version.is_only) == (3, (("a", "1"), ("b", "2")), True)
    assert not target.standing(PLAIN, "k").is_versioned
    before = live.identity
    client("PutObjectTagging", Bucket=PLAIN, Key="k", Tagging={"TagSet": []})
    (live,) = target.standing(PLAIN, "k").versions
    assert live.identity != before
    assert live.version.mtime_ns == before[1]


def test_versions_stand_newest_first_with_their_neighbours(target: DirectoryTarget, client: Client) -> None:
    written = [client.put(VERSIONED, "k", b"x" * at) for at in range(3)]
    client("DeleteObject", Bucket=VERSIONED, Key="k")
    standing = target.standing(VERSIONED, "k")
    assert ids(standing)[1:] == written[::-1]
    marker, *rest = [one.version for one in standing.versions]
    assert marker.is_delete_marker
    assert [one.noncurrent_since_ns for one in rest] == [marker.mtime_ns, *(one.mtime_ns for one in rest[:2])]
    assert standing.is_versioned


def test_uploads_stand_at_their_key(target: DirectoryTarget, client: Client) -> None:
    upload = client("CreateMultipartUpload", Bucket=PLAIN, Key="k")["UploadId"]
    client("CreateMultipartUpload", Bucket=PLAIN, Key="k2")
    (live,) = target.standing(PLAIN, "k").uploads
    assert (live.version.version_id, live.version.is_upload) == (upload, True)
    assert listed(target, PLAIN, "") == ["k", "k2"]
    assert target.delete(PLAIN, "k", upload, What.ABORT, allow) is Result.DONE
    assert target.delete(PLAIN, "k", upload, What.ABORT, allow) is Result.NOT_FOUND
    assert listed(target, PLAIN, "") == ["k2"]


def test_a_walk_finds_every_key_once(
    target: DirectoryTarget, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.impl.lifecycle.directory.PAGE", 2)
    for key in ("a", "b", "b", "b", "d"):
        client.put(VERSIONED, key)
    client("DeleteObject", Bucket=VERSIONED, Key="d")
    for key in ("c", "e", "a"):
        client("CreateMultipartUpload", Bucket=VERSIONED, Key=key)
    found: list[str] = []
    while page := listed(target, VERSIONED, found[-1] if found else ""):
        found += page
    assert found == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("what", [What.EXPIRE, What.DELETE_VERSION, What.DELETE_MARKER, What.ABORT])
def test_a_guard_that_refuses_keeps_everything(
    what: What, target: DirectoryTarget, client: Client, buckets: Buckets
) -> None:
    version = client.put(VERSIONED, "k")
    upload = client("CreateMultipartUpload", Bucket=VERSIONED, Key="k")["UploadId"]
    before = target.standing(VERSIONED, "k")
    named = upload if what is What.ABORT else version
    refused = target.delete(VERSIONED, "k", named, what, lambda _: Result.STALE_IDENTITY)
    assert (refused, target.standing(VERSIONED, "k")) == (Result.STALE_IDENTITY, before)


@pytest.mark.parametrize("bucket", [PLAIN, VERSIONED])
def test_nothing_changes_a_key_between_guard_and_deletion(
    bucket: str, target: DirectoryTarget, client: Client, tmp_path: Path
) -> None:
    """Another process that writes at this moment waits for the lock that the guard is called under."""
    version = client.put(bucket, "k")
    rival = Buckets(str(tmp_path))
    locked: list[bool] = []

    def guard(standing: Standing) -> Result | None:
        assert ids(standing) == [version]
        locked.append(is_locked(rival, bucket, "k"))
        return None

    assert target.delete(bucket, "k", version, What.EXPIRE, guard) is Result.DONE
    rival.close()
    assert locked == [True]


def is_locked(rival: Buckets, bucket: str, key: str) -> bool:
    """Whether somebody holds the key's lock."""
    locks = Path(rival.root, bucket, ".fencepost", "locks")
    held = False
    for path in locks.iterdir():
        fd = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held = held or path.name == f"{zlib.crc32(key.encode()) % 256:02x}"
        finally:
            os.close(fd)
    return held


def test_what_is_gone_is_not_found(target: DirectoryTarget, client: Client) -> None:
    version = client.put(VERSIONED, "k")
    assert target.delete(VERSIONED, "k", version, What.DELETE_VERSION, allow) is Result.DONE
    assert target.delete(VERSIONED, "k", version, What.DELETE_VERSION, allow) is Result.NOT_FOUND
    assert target.delete(PLAIN, "k", "null", What.EXPIRE, allow) is Result.NOT_FOUND
    assert target.delete("no-bucket", "k", "null", What.EXPIRE, allow) is Result.NOT_FOUND
    assert target.standing("no-bucket", "k") == Standing()
    assert not target.page("no-bucket", "")
    assert not target.rules("no-bucket")


@pytest.mark.parametrize("mode", ["GOVERNANCE", "COMPLIANCE", "hold"])
def test_a_locked_version_is_known_as_locked(mode: str, target: DirectoryTarget, client: Client) -> None:
    until = datetime(2999, 1, 1, tzinfo=UTC)
    lock: dict[str, Any] = {"ObjectLockMode": mode, "ObjectLockRetainUntilDate": until}
    client.put(VERSIONED, "k", **({"ObjectLockLegalHoldStatus": "ON"} if mode == "hold" else lock))
    assert target.standing(VERSIONED, "k").versions[0].is_locked
    client.put(VERSIONED, "free")
    assert not target.standing(VERSIONED, "free").versions[0].is_locked


def test_a_deletion_is_recorded_like_any_other(
    target: DirectoryTarget, client: Client, buckets: Buckets
) -> None:
    client.put(PLAIN, "k")
    assert client.keys(PLAIN) == ["k"]
    target.delete(PLAIN, "k", "null", What.EXPIRE, allow)
    assert client.keys(PLAIN) == []
    buckets.log.flush(buckets.index)
    created, deleted = buckets.log.events(buckets.index)
    assert (created.old, deleted.new) == (None, None)
