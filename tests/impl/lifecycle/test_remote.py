"""A worker on another machine: the server has its log, and evaluates the guard of each deletion."""

import json
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
from botocore.auth import HmacV1Auth, S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.http.tokens import Tokens, grants_file
from fencepost.impl.lifecycle import wire
from fencepost.impl.lifecycle.opening import Opened, open_lifecycle
from fencepost.impl.lifecycle.policy import Mode, Timing, Version
from fencepost.impl.lifecycle.remote import RemoteLog, RemoteTarget
from fencepost.impl.lifecycle.service import Service
from fencepost.impl.lifecycle.target import Live, Result, Unavailable
from fencepost.impl.lifecycle.worker import Worker
from fencepost.impl.objects.temporary import Unflushed
from tests.impl.objects.serving import client as client_of
from tests.impl.objects.serving import secret, served
from tests.impl.objects.test_access import enrol

MS = 10**6
TIMING = Timing(day_ns=40 * MS, small_delay_ns=MS, lookback_ns=MS)
BUCKET, OTHER = "bucket-one", "bucket-two"
RULE = {"ID": "tmp", "Status": "Enabled", "Filter": {"Prefix": "tmp/"}, "Expiration": {"Days": 1}}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("served"), disk=Unflushed()) as found:
        yield found


@pytest.fixture
def aws(address: str) -> Iterator[Any]:
    found = client_of(address)
    for name in (BUCKET, OTHER):
        found.create_bucket(Bucket=name)
    yield found
    for name in (BUCKET, OTHER):
        for row in found.list_object_versions(Bucket=name).get("Versions", ()):
            found.delete_object(Bucket=name, Key=row["Key"], VersionId=row["VersionId"])
        for row in found.list_multipart_uploads(Bucket=name).get("Uploads", ()):
            found.abort_multipart_upload(Bucket=name, Key=row["Key"], UploadId=row["UploadId"])
        found.delete_bucket(Bucket=name)


@pytest.fixture
def opened(address: str, aws: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """As by a client that may use the one bucket only."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", BUCKET)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret(BUCKET))
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with open_lifecycle(f"s3://{BUCKET}?endpoint={address}", SystemEnvironment()) as found:
        found.policies.put(BUCKET, [RULE])
        yield found


def worker_of(opened: Opened) -> Worker:
    return Worker(opened.context, opened.target, opened.log, TIMING)


def keys(aws: Any) -> list[str]:
    found = [row["Key"] for row in aws.list_objects_v2(Bucket=BUCKET).get("Contents", ())]
    return [key for key in found if not key.startswith("lifecycle/")]


def until(service: Service, is_so: Any) -> None:
    for _ in range(100):
        assert service.round().failed == {}
        if is_so():
            return
        time.sleep(0.02)
    raise AssertionError("it never was so")


def test_events_drive_it_and_what_is_due_goes(opened: Opened, aws: Any) -> None:
    assert isinstance(opened.log, RemoteLog)
    worker = worker_of(opened)
    service = Service(worker)
    service.round()
    (state,) = worker.records.bucket(BUCKET).actions.values()
    assert state.mode is Mode.EVENT_DRIVEN
    for key in ("tmp/1", "tmp/2", "kept"):
        aws.put_object(Bucket=BUCKET, Key=key, Body=b"x")
    aws.put_object(Bucket=OTHER, Key="tmp/1", Body=b"x")
    until(service, lambda: keys(aws) == ["kept"])
    assert [row["Key"] for row in aws.list_objects_v2(Bucket=OTHER)["Contents"]] == ["tmp/1"]
    assert worker.records.bucket(BUCKET).walk is None


def test_its_own_state_matches_no_rule(opened: Opened, aws: Any) -> None:
    """Not of this worker and not of one beside the server, whose rules may have no prefix."""
    opened.policies.put(BUCKET, [{**RULE, "Filter": {"Prefix": ""}}])
    service = Service(worker_of(opened))
    aws.put_object(Bucket=BUCKET, Key="k", Body=b"x")
    until(service, lambda: keys(aws) == [])
    time.sleep(0.1)
    for _ in range(3):
        assert service.round().failed == {}
    found = [row["Key"] for row in aws.list_objects_v2(Bucket=BUCKET)["Contents"]]
    assert f"lifecycle/v1/buckets/{BUCKET}.json" in found
    assert [one for one in opened.target.page(BUCKET, "") if one.key.startswith("lifecycle/")] == []
    ours = f"lifecycle/v1/buckets/{BUCKET}.json"
    assert opened.target.standing(BUCKET, ours).versions == ()
    live = replace(looked_at_any(), version=replace(looked_at_any().version, key=ours))
    assert expire(opened, live, ours) == Result.NOT_FOUND.value


def looked_at_any() -> Live:
    return Live(Version("k", "null", 1, 1), "content")


def looked_at(opened: Opened, key: str) -> Live:
    return opened.target.standing(BUCKET, key).versions[0]


def expire(opened: Opened, live: Live, key: str, **changes: Any) -> str:
    assert isinstance(opened.target, RemoteTarget)
    (rule,) = opened.target.rules(BUCKET)
    fields = {
        "key": key,
        "what": "expire",
        "action": str(rule.actions()[0]),
        "looked_at": wire.live_to(live),
        "day_ns": TIMING.day_ns,
        **changes,
    }
    return str(opened.target._server.ask("expire", **fields)["result"])


def test_the_server_refuses_what_is_not_as_it_was_looked_at(opened: Opened, aws: Any) -> None:
    """Under the lock of the key: the identity, the policy and the due time, as of that moment."""
    aws.put_object(Bucket=BUCKET, Key="tmp/k", Body=b"x")
    before = looked_at(opened, "tmp/k")
    aws.put_object(Bucket=BUCKET, Key="tmp/k", Body=b"x")
    time.sleep(0.05)
    assert expire(opened, before, "tmp/k") == Result.STALE_IDENTITY.value
    live = looked_at(opened, "tmp/k")
    aws.put_object_tagging(Bucket=BUCKET, Key="tmp/k", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    assert expire(opened, live, "tmp/k") == Result.STALE_IDENTITY.value
    live = looked_at(opened, "tmp/k")
    assert expire(opened, live, "tmp/k", action=f"{'0' * 16}/expiration-days") == Result.STALE_POLICY.value
    assert expire(opened, live, "tmp/k", day_ns=86_400 * 10**9) == Result.NO_LONGER_ELIGIBLE.value
    opened.policies.put(BUCKET, [{**RULE, "Status": "Disabled"}])
    assert expire(opened, live, "tmp/k") == Result.STALE_POLICY.value
    opened.policies.put(BUCKET, [RULE])
    assert keys(aws) == ["tmp/k"]
    assert expire(opened, live, "tmp/k") == Result.DONE.value
    assert expire(opened, live, "tmp/k") == Result.NOT_FOUND.value


def test_a_deletion_is_in_the_access_log(opened: Opened, aws: Any, caplog: pytest.LogCaptureFixture) -> None:
    aws.put_object(Bucket=BUCKET, Key="tmp/a\nb", Body=b"x")
    time.sleep(0.05)
    with caplog.at_level(logging.INFO, "fencepost.objects.access"):
        assert expire(opened, looked_at(opened, "tmp/a\nb"), "tmp/a\nb") == "DONE"
        # The server writes the line of a request after its answer.
        answered, end = f"POST '/_lifecycle/v1/{BUCKET}/expire' 200", time.monotonic() + 10
        while answered not in [one.message for one in caplog.records] and time.monotonic() < end:
            time.sleep(0.01)
    (rule,) = opened.target.rules(BUCKET)
    lines = [one.message for one in caplog.records if one.name == "fencepost.objects.access"]
    (line,) = [one for one in lines if one.startswith("lifecycle:")]
    assert answered in lines
    assert line.startswith(f"lifecycle:{rule.hash.hex()}:'tmp' expire {BUCKET}/'tmp/a\\nb' ")
    assert line.endswith("DONE")


# The log.


def test_the_log_is_read_in_pages(opened: Opened, aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "EVENTS_MAX", 2)
    monkeypatch.setattr("fencepost.impl.lifecycle.served.PASSED_MAX", 3)
    start = opened.log.settled_ns("changes")
    for number in range(5):
        aws.put_object(Bucket=BUCKET, Key=f"tmp/{number}", Body=b"x")
        for _ in range(4):
            aws.put_object(Bucket=OTHER, Key="k", Body=b"x")
    settled = opened.log.settled_ns("changes")
    found = [
        one.change.key
        for one in opened.log.events("changes", f"{start:020d}-{10**15 - 1}", settled)
        if not one.change.key.startswith("lifecycle/")
    ]
    assert found == [f"tmp/{number}" for number in range(5)]


def test_a_page_waits_for_an_event(address: str, opened: Opened, aws: Any) -> None:
    assert isinstance(opened.target, RemoteTarget)
    after = opened.target._server.ask("log", after="", limit=wire.EVENTS_MAX)["next"]
    begun = time.monotonic()
    assert opened.target._server.ask("log", after=after, limit=10, wait_s=0.7)["events"] == []
    assert 0.4 < time.monotonic() - begun < 15


def test_a_server_keeps_its_log_for_a_reader_elsewhere(opened: Opened, aws: Any) -> None:
    service = Service(worker_of(opened))
    service.round()
    service.round()
    assert isinstance(opened.log, RemoteLog)
    assert opened.log._held is not None
    assert opened.log._held > 0


# Who may.


def post(address: str, place: str, body: Any, signer: str = BUCKET, key: str = "") -> tuple[int, bytes]:
    request = AWSRequest("POST", f"{address}/_lifecycle/v1/{place}", data=body)
    S3SigV4Auth(Credentials(signer, key or secret(signer)), "s3", "us-east-1").add_auth(request)
    answer = requests.post(request.url, data=body, headers=dict(request.headers), timeout=10)
    return answer.status_code, answer.content


@pytest.mark.parametrize("operation", ["log", "hold", "rules", "page", "first", "standing", "expire"])
def test_nobody_sees_another_bucket(operation: str, address: str, opened: Opened) -> None:
    body = json.dumps({"after": "", "key": "k", "reader": "x", "after_ns": 1})
    assert post(address, f"{OTHER}/{operation}", body)[0] == 403
    assert post(address, f"{BUCKET}/{operation}", body, key="0" * 64)[0] == 403
    assert (
        requests.post(f"{address}/_lifecycle/v1/{BUCKET}/{operation}", data=body, timeout=10).status_code
        == 403
    )


def test_a_signature_that_covers_no_body_is_refused(address: str, opened: Opened) -> None:
    """Version 2 signs no body: whoever sees one request could send another one, such as a deletion."""
    body = json.dumps({"reader": "x", "after_ns": 1})
    request = AWSRequest("POST", f"{address}/_lifecycle/v1/{BUCKET}/hold", data=body)
    HmacV1Auth(Credentials(BUCKET, secret(BUCKET))).add_auth(request)
    answer = requests.post(request.url, data=body, headers=dict(request.headers), timeout=10)
    assert answer.status_code == 403
    assert post(address, f"{BUCKET}/hold", body)[0] == 200


def test_a_named_key_works_on_no_lifecycle(tmp_path: Path) -> None:
    """Its rights are below prefixes, and the worker of a bucket acts on all of it."""
    file = grants_file(tmp_path / "tokens.json", "fencepost objects enrol")
    key = enrol(file, "team", team="read create append delete")
    with served(tmp_path / "data", disk=Unflushed(), tokens=Tokens(file)) as address:
        client_of(address).create_bucket(Bucket="team")
        body = json.dumps({"reader": "x", "after_ns": 1})
        assert post(address, "team/hold", body, signer=key)[0] == 403
        assert post(address, "team/hold", body, signer="team")[0] == 200


@pytest.mark.parametrize(
    ("operation", "body", "status"),
    [
        ("log", "{", 400),
        ("log", "[]", 400),
        ("log", "{}", 400),
        ("log", '{"after": "", "limit": "many"}', 400),
        ("hold", '{"reader": "", "after_ns": 1}', 400),
        ("hold", json.dumps({"reader": "x" * 101, "after_ns": 1}), 400),
        ("expire", '{"key": "k", "action": "zz/none"}', 400),
        ("page", "{}", 400),
        ("first", "{}", 400),
        ("standing", '{"key": "k", "needs": {"all": true}}', 400),
        ("nothing", "{}", 501),
        ("log", "{" * (3 << 20), 400),
    ],
)
def test_what_makes_no_sense_is_refused(
    operation: str, body: str, status: int, address: str, opened: Opened
) -> None:
    assert post(address, f"{BUCKET}/{operation}", body)[0] == status


def test_readers_of_a_bucket_are_bounded(address: str, opened: Opened) -> None:
    """Nobody keeps the log for ever under ever new names."""
    statuses = [
        post(address, f"{BUCKET}/hold", json.dumps({"reader": f"r{number}", "after_ns": 1}))[0]
        for number in range(18)
    ]
    assert statuses.count(200) <= 16
    assert statuses[-1] == 503
    for number in range(18):
        post(address, f"{BUCKET}/hold", json.dumps({"reader": f"r{number}", "after_ns": None}))


def test_a_bucket_that_is_gone_is_a_failure_and_no_empty_bucket(opened: Opened) -> None:
    assert isinstance(opened.target, RemoteTarget)
    target = RemoteTarget(opened.target._server, BUCKET)
    target._server._bucket = "gone-bucket"
    with pytest.raises(Unavailable):
        target.page("gone-bucket", "")


def test_a_server_that_is_down_is_a_failure(opened: Opened, tmp_path: Path) -> None:
    assert isinstance(opened.target, RemoteTarget)
    with served(tmp_path, disk=Unflushed()) as gone:
        pass
    store = opened.target._server._stores[0]
    store.client().meta._endpoint_url = gone
    with pytest.raises(Unavailable, match="does not answer"):
        opened.log.begins_ns("changes")
