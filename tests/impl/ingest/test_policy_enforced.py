"""The policies against stores that enforce them: each role is able to do its work, and nothing else."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment, SystemEnvironment
from fencepost.impl.http.tokens import Holder, Tokens, grants_file
from fencepost.impl.ingest import (
    Accepted,
    Authority,
    Conflict,
    bucket_policy,
    collect,
    full_audit,
    keys,
    reconcile_once,
    role_policy,
    roll_up,
)
from fencepost.impl.ingest import query as ask
from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.errors import IngestError
from fencepost.impl.ingest.locking import Locking
from fencepost.impl.ingest.maintenance import Maintenance
from fencepost.impl.ingest.operator import quarantine, release
from fencepost.impl.ingest.policy import ROLES
from fencepost.impl.store import StoreError, open_store
from fencepost.impl.store.interface import Store
from fencepost.impl.store.s3.details import Details, NoAnswer
from fencepost.impl.store.s3.store import S3Store
from tests.impl.objects.serving import client, secret, served

from . import given
from .given import LONG_S, SETTINGS, sha256

BUCKET = "batches"
LOCKED = "locked"
ENV = SystemEnvironment()
SMALL = replace(SETTINGS, multipart_bytes=64, part_bytes=5 * 1024 * 1024)
FOLDERS = sorted({folder for rights in ROLES.values() for folder in rights} | {"elsewhere"})
Stores = Callable[[str], Store]
"""Opens the store in a role."""


# The work of each role.


def collects(store: Store) -> None:
    ann = Authority(store, ENV, "ann", SETTINGS)
    answer = ann.accept(*given.batch(1))
    assert isinstance(answer, Accepted)
    ann.follow_up(answer.manifest)
    assert isinstance(ann.accept(*given.batch(1, 2.0)), Conflict)
    in_parts = Authority(store, ENV, "ann", SMALL).accept(*given.batch(2, *range(50)))
    assert isinstance(in_parts, Accepted)
    quarantine(store, ENV, "agent-z", by="ada", note="")
    release(store, ENV, "agent-z")
    maintains(store, "collector")


def maintains(store: Store, name: str) -> None:
    keeper = Maintenance(store, ENV, name, SETTINGS)
    found = keeper.run_once()
    assert found is not None
    assert (found.failed, found.damaged) == ([], [])
    keeper.release()


def audits(store: Store) -> None:
    assert full_audit(store, ENV, SETTINGS, deep=True).complete
    reconcile_once(store, ENV, SETTINGS)
    roll_up(store, ENV, SETTINGS)
    maintains(store, "auditor")


def reads(store: Store) -> None:
    context = IngestContext(store, ENV, SETTINGS)
    window = ask.Window("cpu.load", 1_700_000_000_000_000_000, 1_700_000_000_000_000_001)
    assert len(ask.points_of(context, window, agent="agent-a").points) == 51
    assert sum(row.sum.count for row in ask.sums_by_hour(context, window).rows) == 51


def put_orphan(store: Store) -> str:
    """A blob that a collector stored long ago, for a batch that was never accepted."""
    past = SeededEnvironment(start_ns=ENV.now_ns() - round(3 * LONG_S * 1e9))
    body = given.batch(7)[1]
    return Authority(store, past, "ann", SETTINGS).blobs.keep(sha256(body), body).key


def collects_garbage(store: Store, orphan: str) -> None:
    assert collect(store, ENV, SETTINGS).deleted == [orphan]


def locking(store: Store, plain: Store, keep_s: float) -> Locking:
    """The work of `fencepost ingest lock` in a role."""
    assert isinstance(plain, S3Store)
    details = Details(plain, LOCKED)
    assert details.has_locks()

    def retain(key: str, version: str, until_ns: int) -> bool:
        return details.retain(f"{PREFIX}{key}", version, until_ns, "GOVERNANCE")

    return Locking(store, ENV, SETTINGS, retain=retain, keep_s=keep_s)


def locks(store: Store, url: str) -> None:
    with open_store(url, ENV) as plain:
        found = locking(store, plain, 1000.0).once()
    assert (found.batches, found.missing, found.reopened) == (1, [], [])


def locks_everything(store: Store, url: str, keep_s: float) -> None:
    with open_store(url, ENV) as plain:
        locking(store, plain, keep_s).everything()


def put_locked(s3: Any, key: str, *, seconds: float = 5000.0) -> bool:
    """Try to lock an object for longer; True if that was denied."""
    until = datetime.fromtimestamp(ENV.now_ns() // 10**9 + seconds, UTC)
    retention = {"Mode": "GOVERNANCE", "RetainUntilDate": until}
    return denied(lambda: s3.put_object_retention(Bucket=LOCKED, Key=f"{PREFIX}{key}", Retention=retention))


def work(stores: Stores) -> None:
    with stores("collector") as store:
        orphan = put_orphan(store)
        collects(store)
    with stores("auditor") as store:
        audits(store)
    with stores("reader") as store:
        reads(store)
    with stores("gc") as store:
        collects_garbage(store, orphan)


# And nothing else.


def denied(act: Callable[[], Any]) -> bool:
    from botocore.exceptions import ClientError

    try:
        act()
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in ("AccessDenied", "403"):
            return True
        assert code in ("NoSuchKey", "404", "PreconditionFailed"), code
    return False


def may(s3: Any, prefix: str, folder: str, number: int) -> dict[str, bool]:
    """Which requests of a role are answered."""
    at = {"Bucket": BUCKET, "Key": f"{prefix}{folder}/v1/probe-{number}"}
    return {
        "s3:GetObject": not denied(lambda: s3.get_object(Bucket=BUCKET, Key=f"{prefix}{folder}/there")),
        "s3:PutObject": not denied(lambda: s3.put_object(**at, Body=b"x", IfNoneMatch="*")),
        "s3:DeleteObject": not denied(lambda: s3.delete_object(**at)),
    }


def expected(role: str, prefix: str, folder: str) -> dict[str, bool]:
    below = not prefix or folder != "elsewhere"
    rights = ROLES[role].get(folder, ())
    found = {action: action in rights for action in ("s3:PutObject", "s3:DeleteObject")}
    return {"s3:GetObject": below, **found}


def test_the_rights_are_those_of_the_work() -> None:
    """What the requests below are compared with."""
    deletes = {
        (role, folder)
        for role, rights in ROLES.items()
        for folder, actions in rights.items()
        if any(action.startswith("s3:Delete") for action in actions)
    }
    assert deletes == {
        ("collector", "rollup-queue"), ("collector", "blocks"), ("auditor", "rollup-queue"),
        ("auditor", "audits"), ("gc", "raw-blobs"),
    }  # fmt: skip
    for folder in ("accepted", "raw-blobs", "quarantine", "resolutions", "blocks"):
        writers = {role for role, rights in ROLES.items() if "s3:PutObject" in rights.get(folder, ())}
        assert writers == {"collector"}
    assert "audits" not in ROLES["collector"], "no collector proves anything to garbage collection"
    assert ROLES["reader"] == {}
    lockers = {
        (role, folder)
        for role, rights in ROLES.items()
        for folder, actions in rights.items()
        if "s3:PutObjectRetention" in actions
    }
    assert lockers == {("locker", "accepted"), ("locker", "raw-blobs")}
    assert ROLES["locker"].keys() == {"accepted", "raw-blobs", "cursors"}


OTHERS: Mapping[str, Callable[[Any], Any]] = {
    "the policy": lambda s3: s3.put_bucket_policy(Bucket=BUCKET, Policy="{}"),
    "the lifecycle": lambda s3: s3.delete_bucket_lifecycle(Bucket=BUCKET),
    "versioning": lambda s3: s3.put_bucket_versioning(
        Bucket=BUCKET, VersioningConfiguration={"Status": "Suspended"}
    ),
    "the bucket": lambda s3: s3.delete_bucket(Bucket=BUCKET),
}


# Our object server, by a bucket policy that has the denials too.

PREFIX = "prod/"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """The address, and the access key of each role."""
    root = tmp_path_factory.mktemp("policy")
    file = grants_file(root / "tokens.json", "fencepost objects enrol")
    known = {
        role: file.enrol(Holder(role, (("/strangers", frozenset({"read"})),)), ENV).partition(".")[0]
        for role in (*ROLES, "nobody")
    }
    arns = {role: f"arn:aws:iam::000000000000:user/{role}" for role in ROLES}
    with served(root / "data", tokens=Tokens(file)) as address:
        owner = client(address)
        owner.create_bucket(Bucket="strangers")
        owner.create_bucket(Bucket=BUCKET)
        owner.put_object(Bucket=BUCKET, Key="elsewhere/there", Body=b"x")
        policy = bucket_policy(BUCKET, PREFIX, gc_role=arns["gc"], principals=arns)
        owner.put_bucket_policy(Bucket=BUCKET, Policy=json.dumps(policy))
        yield address, known


@pytest.fixture
def stores(server: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> Stores:
    address, known = server

    def opened(role: str) -> Store:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", known[role])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret(known[role]))
        return open_store(f"s3://{BUCKET}/{PREFIX.rstrip('/')}?endpoint={address}", ENV)

    return opened


def test_on_our_server_each_role_does_its_work(stores: Stores) -> None:
    work(stores)


@pytest.fixture(scope="module")
def locked(server: tuple[str, dict[str, str]]) -> tuple[str, dict[str, str]]:
    """The same server and keys, with a bucket whose versions can be locked."""
    address, known = server
    owner = client(address)
    owner.create_bucket(Bucket=LOCKED, ObjectLockEnabledForBucket=True)
    arns = {role: f"arn:aws:iam::000000000000:user/{role}" for role in ROLES}
    policy = bucket_policy(LOCKED, PREFIX, gc_role=arns["gc"], principals=arns)
    owner.put_bucket_policy(Bucket=LOCKED, Policy=json.dumps(policy))
    return address, known


def test_on_our_server_the_locker_locks_and_nobody_else_does(
    locked: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, known = locked
    url = f"s3://{LOCKED}/{PREFIX.rstrip('/')}?endpoint={address}"

    def as_role(role: str) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", known[role])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret(known[role]))

    as_role("collector")
    with open_store(url, ENV) as store:
        ann = Authority(store, ENV, "ann", SETTINGS)
        answer = ann.accept(*given.batch(1))
        assert isinstance(answer, Accepted)
        ann.follow_up(answer.manifest)
    manifest = answer.manifest
    keys_ = (manifest.key, manifest.raw_blob_key)
    for role in (*ROLES, "nobody"):
        refused = [put_locked(client(address, known[role]), key, seconds=10.0) for key in keys_]
        assert refused == [role != "locker"] * 2, role
    as_role("locker")
    with open_store(url, ENV) as store:
        locks(store, url)
    owner = client(address)
    for key in keys_:
        found = owner.head_object(Bucket=LOCKED, Key=f"{PREFIX}{key}")
        assert found["ObjectLockMode"] == "GOVERNANCE"
    s3 = client(address, known["locker"])
    for key, name in ((manifest.by_time_key, "derived"), ("elsewhere/x", "elsewhere")):
        assert put_locked(s3, key), name
    hold = {"Bucket": LOCKED, "Key": f"{PREFIX}{manifest.key}", "LegalHold": {"Status": "ON"}}
    assert denied(lambda: s3.put_object_legal_hold(**hold))
    assert denied(lambda: s3.put_object_lock_configuration(Bucket=LOCKED, ObjectLockConfiguration={}))
    version = found["VersionId"]
    at = {"Bucket": LOCKED, "Key": f"{PREFIX}{manifest.raw_blob_key}", "VersionId": version}
    assert denied(lambda: s3.delete_object(**at, BypassGovernanceRetention=True))


@pytest.mark.parametrize(
    "missing", ["s3:PutObjectRetention", "s3:ListBucketVersions", "s3:GetBucketObjectLockConfiguration"]
)
def test_on_our_server_the_locker_needs_each_of_its_rights(
    missing: str, locked: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy without one of them stops it: so the server looks at each."""
    address, known = locked
    owner = client(address)
    before = owner.get_bucket_policy(Bucket=LOCKED)["Policy"]
    document = json.loads(before)
    for statement in document["Statement"]:
        if statement["Effect"] == "Allow" and "locker" in json.dumps(statement["Principal"]):
            statement["Action"] = [one for one in statement["Action"] if one != missing]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", known["locker"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret(known["locker"]))
    url = f"s3://{LOCKED}/{PREFIX.rstrip('/')}?endpoint={address}"
    owner.put_bucket_policy(Bucket=LOCKED, Policy=json.dumps(document))
    try:
        with open_store(url, ENV) as store, pytest.raises((StoreError, IngestError, NoAnswer)):
            locks_everything(store, url, keep_s=10.0**6)
    finally:
        owner.put_bucket_policy(Bucket=LOCKED, Policy=before)


_numbers = itertools.count()


@pytest.mark.parametrize("role", ROLES)
def test_on_our_server_no_role_does_more(role: str, server: tuple[str, dict[str, str]]) -> None:
    address, known = server
    s3 = client(address, known[role])
    found = {folder: may(s3, PREFIX * (folder != "elsewhere"), folder, next(_numbers)) for folder in FOLDERS}
    assert found == {folder: expected(role, PREFIX, folder) for folder in FOLDERS}
    assert [name for name, act in OTHERS.items() if not denied(lambda act=act: act(s3))] == []


def test_on_our_server_others_do_nothing(server: tuple[str, dict[str, str]]) -> None:
    """An agent, for instance."""
    address, known = server
    s3 = client(address, known["nobody"])
    assert not any(any(may(s3, PREFIX, folder, next(_numbers)).values()) for folder in FOLDERS)
    assert denied(lambda: s3.list_objects_v2(Bucket=BUCKET))


def test_on_our_server_nobody_breaks_the_protocol(server: tuple[str, dict[str, str]]) -> None:
    """Neither the roles nor the owner of the bucket: what is accepted stays, and is written if absent."""
    address, known = server
    copied = {"Bucket": BUCKET, "Key": f"{PREFIX}{keys.CURSORS}search.json"}
    for name in ("collector", "gc", "root"):
        s3 = client(address, known.get(name, name))
        accepted = {"Bucket": BUCKET, "Key": f"{PREFIX}{keys.ACCEPTED}x-{name}"}
        raw = {"Bucket": BUCKET, "Key": f"{PREFIX}{keys.RAW}x-{name}"}
        assert denied(lambda s3=s3, at=accepted: s3.put_object(**at, Body=b"x"))
        assert denied(lambda s3=s3, at=raw: s3.put_object(**at, Body=b"x"))
        assert denied(lambda s3=s3, at=accepted: s3.delete_object(**at))
        assert denied(lambda s3=s3, at=raw: s3.delete_object(**at)) == (name != "gc")
        for at in (accepted, raw):
            assert denied(lambda s3=s3, at=at: s3.copy_object(**at, CopySource=copied))
    s3 = client(address, known["collector"])
    assert not denied(lambda: s3.put_object(**accepted, Body=b"x", IfNoneMatch="*"))
    assert denied(lambda: s3.put_object(**accepted, Body=b"y", IfMatch='"x"')), "accepted is create-only"
    upload = s3.create_multipart_upload(**raw)["UploadId"]
    tag = s3.upload_part(**raw, UploadId=upload, PartNumber=1, Body=b"x")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": tag}]}
    assert denied(lambda: s3.complete_multipart_upload(**raw, UploadId=upload, MultipartUpload=parts))
    assert not denied(
        lambda: s3.complete_multipart_upload(**raw, UploadId=upload, MultipartUpload=parts, IfNoneMatch="*")
    )


# IAM, as moto has it: policies of roles, without conditions. It takes setting a retention for a put, so only
# our server tells whether `lock` may do its work.


@pytest.fixture(scope="module")
def iam() -> Iterator[dict[str, dict[str, str]]]:
    """The credentials of a user in each role."""
    boto3, moto = pytest.importorskip("boto3"), pytest.importorskip("moto")
    from moto.core.responses import ActionAuthenticatorMixin

    with pytest.MonkeyPatch.context() as patch, moto.mock_aws():
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        found = {}
        users = boto3.client("iam", region_name="us-east-1")
        owner = boto3.client("s3", region_name="us-east-1")
        owner.create_bucket(Bucket=BUCKET)
        owner.put_object(Bucket=BUCKET, Key="elsewhere/there", Body=b"x")
        for role in (*ROLES, "nobody"):
            users.create_user(UserName=role)
            if role in ROLES:
                document = json.dumps(role_policy(role, BUCKET, PREFIX))
                users.put_user_policy(UserName=role, PolicyName="work", PolicyDocument=document)
            key = users.create_access_key(UserName=role)["AccessKey"]
            found[role] = {
                "aws_access_key_id": key["AccessKeyId"],
                "aws_secret_access_key": key["SecretAccessKey"],
            }
        patch.setattr("moto.settings.INITIAL_NO_AUTH_ACTION_COUNT", 0)
        patch.setattr(ActionAuthenticatorMixin, "request_count", 1)
        yield found


def test_by_iam_each_role_does_its_work(
    iam: dict[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(role: str) -> Store:
        for name, value in iam[role].items():
            monkeypatch.setenv(name.upper(), value)
        return open_store(f"s3://{BUCKET}/prod?region=us-east-1", ENV)

    work(opened)


@pytest.mark.parametrize("role", ROLES)
def test_by_iam_no_role_does_more(role: str, iam: dict[str, dict[str, str]]) -> None:
    boto3 = pytest.importorskip("boto3")
    s3 = boto3.client("s3", region_name="us-east-1", **iam[role])
    found = {folder: may(s3, PREFIX * (folder != "elsewhere"), folder, next(_numbers)) for folder in FOLDERS}
    assert found == {folder: expected(role, PREFIX, folder) for folder in FOLDERS}
    assert [name for name, act in OTHERS.items() if not denied(lambda act=act: act(s3))] == []


def test_by_iam_others_do_nothing(iam: dict[str, dict[str, str]]) -> None:
    boto3 = pytest.importorskip("boto3")
    s3 = boto3.client("s3", region_name="us-east-1", **iam["nobody"])
    assert not any(any(may(s3, PREFIX, folder, next(_numbers)).values()) for folder in FOLDERS)
    assert denied(lambda: s3.list_objects_v2(Bucket=BUCKET))
