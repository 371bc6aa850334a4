"""Code as people write it: resources, paginators, waiters, transfers, clients of its own making."""

import io
from pathlib import Path
from typing import Any

import boto3
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import WaiterError

from fencepost.sim.explore import replay
from fencepost.sim.world import World
from tests.collecting import collecting
from tests.sim.boto.worlds import alone, explored

LOADED_EARLY = boto3.client(
    "s3", aws_access_key_id="x", aws_secret_access_key="x", region_name="us-east-1"
)  # as many modules do
WITHOUT_CREDENTIALS = boto3.client("s3", region_name="eu-west-1")
SMALL = TransferConfig(multipart_threshold=8, multipart_chunksize=8, use_threads=False)
LARGE = b"x" * 8 + b"y" * 8 + b"z"
"""Three parts, where the world allows such small ones."""


def filled(s3: Any, count: int) -> None:
    for n in range(count):
        s3.put_object(Bucket="b", Key=f"k{n}", Body=b"%d" % n)


def test_paginators() -> None:
    def work(s3: Any) -> Any:
        filled(s3, 7)
        found = []
        for name in ("list_objects_v2", "list_objects"):
            pages = s3.get_paginator(name).paginate(Bucket="b", PaginationConfig={"PageSize": 3})
            found.append([[entry["Key"] for entry in page["Contents"]] for page in pages])
        return found

    pages = [["k0", "k1", "k2"], ["k3", "k4", "k5"], ["k6"]]
    assert alone(work) == [pages, pages]


def test_paginators_of_versions_and_uploads() -> None:
    def work(s3: Any) -> Any:
        s3.create_bucket(Bucket="v")
        s3.put_bucket_versioning(Bucket="v", VersioningConfiguration={"Status": "Enabled"})
        for n in range(5):
            s3.put_object(Bucket="v", Key=f"k{n % 2}", Body=b"%d" % n)
        s3.delete_object(Bucket="v", Key="k0")
        uploads = [s3.create_multipart_upload(Bucket="v", Key=key)["UploadId"] for key in "bab"]
        found = []
        small = {"PageSize": 2}
        for page in s3.get_paginator("list_object_versions").paginate(Bucket="v", PaginationConfig=small):
            entries = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            assert len(entries) <= 2
            found += [(entry["Key"], entry["IsLatest"]) for entry in entries]
        listed = []
        for page in s3.get_paginator("list_multipart_uploads").paginate(Bucket="v", PaginationConfig=small):
            listed += [(entry["Key"], uploads.index(entry["UploadId"])) for entry in page["Uploads"]]
        return found, listed

    versions, listed = alone(work)
    assert sorted(versions) == [
        ("k0", False),
        ("k0", False),
        ("k0", False),
        ("k0", True),
        ("k1", False),
        ("k1", True),
    ]
    assert listed == [("a", 1), ("b", 0), ("b", 2)]


def test_a_waiter_waits_for_another_process() -> None:
    """It polls every five seconds of the world's time, and sees the object when it is there, or gives up."""

    def program(world: World) -> None:
        world.boto3_bucket("b")
        s3 = world.boto3_client("s3")

        def wait() -> str:
            try:
                s3.get_waiter("object_exists").wait(Bucket="b", Key="k")
            except WaiterError:
                return "given up"
            return "there"

        def write() -> None:
            s3.put_object(Bucket="b", Key="k", Body=b"")

        world.spawn(wait, name="waiting")
        world.spawn(write, name="writing")
        for end in ("there", "given up"):
            world.sometimes(end, lambda view, end=end: view.result("waiting") == end)

    result = explored(program)
    assert not result.counterexamples, result
    assert result.coverage.met == {"there", "given up"}
    assert result.coverage.outcomes["head", "missing"]


def test_a_waiter_gives_up() -> None:
    def work(s3: Any) -> str:
        try:
            s3.get_waiter("object_exists").wait(Bucket="b", Key="k", WaiterConfig={"MaxAttempts": 3})
        except WaiterError as error:
            return str(error)
        return "there"

    assert "Max attempts exceeded" in alone(work)


def test_transfers(tmp_path: Path) -> None:
    """Without threads, and in parts; with threads: test_transfers.py."""

    def work(s3: Any) -> Any:
        source = tmp_path / "source"
        source.write_bytes(LARGE)
        s3.upload_file(str(source), "b", "file", Config=SMALL)
        s3.upload_fileobj(io.BytesIO(b"stream" * 3), "b", "stream", Config=SMALL)
        s3.copy({"Bucket": "b", "Key": "file"}, "b", "copy", Config=SMALL)
        s3.download_file("b", "copy", str(tmp_path / "target"), Config=SMALL)
        taken = io.BytesIO()
        s3.download_fileobj("b", "stream", taken, Config=SMALL)
        etags = [s3.head_object(Bucket="b", Key=key)["ETag"][-3:] for key in ("file", "copy", "stream")]
        return taken.getvalue(), etags

    assert alone(work) == (b"stream" * 3, ['-3"', '-3"', '-3"'])
    assert (tmp_path / "target").read_bytes() == LARGE


def test_an_upload_cut_by_a_crash_leaves_its_parts() -> None:
    """Every part is a step of its own, at which faults can happen."""

    def program(world: World) -> None:
        world.configure(part_bytes_min=1)
        world.boto3_bucket("b")
        s3 = world.boto3_client("s3")
        world.spawn(
            lambda: s3.upload_fileobj(io.BytesIO(LARGE), "b", "big", Config=SMALL),
            name="ann",
            restart=False,
        )
        world.always("nobody sees a part", lambda view: view.get("b/big") in (None, LARGE))
        world.sometimes(
            "a crash in the middle",
            lambda view: view.state("ann") == "down" and view.get("b/big") is None,
        )

    result = explored(program, crash=1)
    assert result.verdict == "holds", str(result)
    assert "a crash in the middle" in result.coverage.met
    assert result.coverage.outcomes["upload-part", "done"]


def test_resources() -> None:
    def program(world: World) -> None:
        world.boto3_bucket("b")

        def work(s3: Any) -> Any:
            bucket = s3.Bucket("b")
            bucket.put_object(Key="x", Body=b"1")
            thing = s3.Object("b", "y")
            thing.put(Body=b"2", Metadata={"a": "b"})
            assert thing.metadata == {"a": "b"}
            keys = [entry.key for entry in bucket.objects.filter(Prefix="")]
            bucket.objects.all().delete()
            return keys, list(bucket.objects.all())

        world.spawn(work, world.boto3_resource("s3"), name="ann")
        world.finally_("both", lambda view: view.result("ann") == (["x", "y"], []))

    assert not explored(program).counterexamples


def test_sessions_and_clients_made_by_the_code() -> None:
    """Whatever way it makes a client, the world answers it: also one from before there was a world."""

    def work(s3: Any) -> Any:
        clients = [
            s3,
            LOADED_EARLY,
            boto3.client("s3"),
            boto3.Session().client("s3", region_name="eu-west-1"),
            boto3.resource("s3").meta.client,
            boto3.session.Session(region_name="eu-west-1").resource("s3").meta.client,
        ]
        for n, client in enumerate(clients):
            client.put_object(Bucket="b", Key=f"k{n}", Body=b"")
        return [entry["Key"] for entry in s3.list_objects_v2(Bucket="b")["Contents"]]

    assert alone(work) == [f"k{n}" for n in range(6)]


def test_a_session_of_the_world() -> None:
    def program(world: World) -> None:
        world.boto3_bucket("b")
        session = world.boto3_session()
        world.spawn(session.client("s3").put_object, Bucket="b", Key="k", may_raise=(), name="ann")
        world.finally_("written", lambda view: view.get("b/k") == b"")
        assert session.resource("s3").Bucket("b").name == "b"

    assert not explored(program).counterexamples


def test_handlers_of_the_code_do_not_outlive_its_run() -> None:
    """Else they would pile up, run after run, on a client that is used again."""
    keep, called = collecting()

    def program(world: World) -> None:
        world.boto3_bucket("b")
        s3 = world.boto3_client("s3")
        s3.meta.events.register("before-call.s3.PutObject", lambda **_: keep(1))
        world.spawn(s3.put_object, Bucket="b", Key="k", name="ann")

    for expected in (1, 2, 3):
        replay(program, "default")
        assert len(called) == expected


def test_several_buckets() -> None:
    def program(world: World) -> None:
        s3 = world.boto3_client("s3")
        for name in ("one", "two"):
            s3.create_bucket(Bucket=name)
            s3.put_object(Bucket=name, Key="k", Body=name.encode())
        assert [entry["Name"] for entry in s3.list_buckets()["Buckets"]] == ["one", "two"]

        def move() -> None:
            s3.copy_object(Bucket="two", Key="moved", CopySource="one/k")
            s3.delete_object(Bucket="one", Key="k")

        world.spawn(move, name="ann")
        world.always("kept", lambda view: b"one" in (view.get("one/k"), view.get("two/moved")))
        world.finally_("moved", lambda view: view.keys() == ["two/k", "two/moved"])

    result = explored(program)
    assert not result.counterexamples, result


def test_a_bucket_made_while_others_look() -> None:
    """Whether a bucket exists decides the answer to every request to it."""
    seen: set[str] = set()

    def program(world: World) -> None:
        s3 = world.boto3_client("s3")

        def look() -> str:
            try:
                s3.list_objects_v2(Bucket="new")
            except s3.exceptions.NoSuchBucket:
                return "none"
            return "there"

        world.spawn(s3.create_bucket, Bucket="new", name="ann")
        world.spawn(look, name="bob")
        world.finally_("note", lambda view: seen.add(view.result("bob")))

    assert not explored(program).counterexamples
    assert seen == {"none", "there"}


@pytest.mark.parametrize(
    "config", [None, Config(signature_version="s3v4"), Config(retries={"mode": "adaptive"})]
)
def test_a_client_is_made_once(config: Config | None) -> None:
    made = set()

    def program(world: World) -> None:
        world.boto3_bucket("b")
        made.add(id(world.boto3_client("s3", config=config)))

    for _ in range(3):
        replay(program, "default")
    assert len(made) == 1


def test_a_module_that_makes_its_client_and_its_bucket_needs_nothing_of_the_world() -> None:
    """Also where there are no credentials."""

    def work() -> bytes:
        WITHOUT_CREDENTIALS.create_bucket(Bucket="own")
        WITHOUT_CREDENTIALS.put_object(Bucket="own", Key="k", Body=b"1")
        return bytes(WITHOUT_CREDENTIALS.get_object(Bucket="own", Key="k")["Body"].read())

    def program(world: World) -> None:
        world.spawn(work, name="ann")
        world.finally_("stored", lambda view: view.result("ann") == view.get("own/k") == b"1")

    result = explored(program, crash=1, throttled=1)
    assert result.verdict == "holds", str(result)
    assert result.coverage.outcomes["create-bucket", "exists"]  # of the second life
