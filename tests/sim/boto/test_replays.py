"""The same choices give the same events, byte for byte; and the events say what the interface's would say."""

import dataclasses
import uuid
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, HTTPClientError

from fencepost.impl.store import ABSENT, ANYTHING, Matches
from fencepost.sim.explore import audit, replay
from fencepost.sim.world import Budget, World

TOKENS = [
    "default",
    "ann:put:b/k:1=reply_lost",
    "ann:get:b/k:1,bob:put:b/k:1,ann:put:b/k:1",
    "bob:put:b/k:1=throttled,ann:put:b/k:1=conflict",
    "ann:put:b/k:1=late,bob:put:b/k:1",
    "ann:put:b/k:1,ann:finish::1=crash",
]


def add(s3: Any, name: str) -> None:
    for _ in range(4):
        found = s3.get_object(Bucket="b", Key="k")
        try:
            s3.put_object(
                Bucket="b",
                Key="k",
                Body=found["Body"].read() + uuid.uuid4().bytes,
                IfMatch=found["ETag"],
                Metadata={"who": name},
            )
            return
        except (ClientError, HTTPClientError):
            continue


def adding(mode: str) -> Any:
    def program(world: World) -> None:
        world.boto3_bucket("b")
        s3 = world.boto3_client("s3", config=Config(retries={"mode": mode}, signature_version="s3v4"))
        s3.put_object(Bucket="b", Key="k", Body=b"")
        for name in ("ann", "bob"):
            world.spawn(add, s3, name, name=name, may_raise=(ClientError,))
        world.always("small", lambda view: len(view.get("b/k")) <= 16)

    return program


@pytest.mark.parametrize("mode", ["legacy", "standard", "adaptive"])
@pytest.mark.parametrize("token", TOKENS)
def test_a_token_leads_to_the_same_events(token: str, mode: str) -> None:
    """Signatures, identifiers, random bytes and waits between attempts included."""
    first, *others = (replay(adding(mode), token) for _ in range(4))
    assert first.misfit == "" or "crash" in token
    for other in others:
        assert other.events() == first.events()
        assert other.world.clock_ns == first.world.clock_ns
        assert other.world.bucket.contents() == first.world.bucket.contents()


def test_a_counterexample_found_repeats_from_its_token() -> None:
    result = audit(adding("standard"), budget=Budget(crash=0, reply_lost=1, request_lost=1))
    counterexample = result.counterexamples[0]
    again = replay(adding("standard"), counterexample.token)
    assert again.misfit == ""
    assert again.violation is not None
    assert tuple(again.events()) == counterexample.events


def test_events_are_those_of_the_interface() -> None:
    """A trace of code on boto3 can be read like one of code on our own interface."""

    def by_interface(world: World) -> None:
        store = world.store()
        put = store.put("b/k", b"one", when=ABSENT)
        store.put("b/k", b"two", when=ABSENT)
        store.put("b/k", b"two", when=Matches(put.etag), metadata={"a": "b"})
        store.put("b/k", b"three", when=ANYTHING)
        store.get("b/k")
        store.get("b/k", start=1, stop=3)
        store.get("b/k", unless=put.etag)
        store.head("b/none")
        store.list("b/k", limit=5)
        upload = store.create_upload("b/up").upload
        part = store.upload_part("b/up", upload, 1, b"part")
        store.complete_upload("b/up", upload, [(1, part.etag)], when=ABSENT)
        store.delete("b/k", when=Matches(put.etag))
        store.delete("b/k", when=ANYTHING)

    def by_boto3(s3: Any) -> None:
        def call(operation: str, key: str = "k", **given: Any) -> Any:
            try:
                return getattr(s3, operation)(Bucket="b", Key=key, **given)
            except ClientError:
                return None

        etag = call("put_object", Body=b"one", IfNoneMatch="*")["ETag"]
        call("put_object", Body=b"two", IfNoneMatch="*")
        call("put_object", Body=b"two", IfMatch=etag, Metadata={"a": "b"})
        call("put_object", Body=b"three")
        call("get_object")
        call("get_object", Range="bytes=1-2")
        call("get_object", IfNoneMatch=etag)
        call("head_object", "none")
        s3.list_objects_v2(Bucket="b", Prefix="k", MaxKeys=5)
        upload = call("create_multipart_upload", "up")["UploadId"]
        part = call("upload_part", "up", UploadId=upload, PartNumber=1, Body=b"part")
        parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        call("complete_multipart_upload", "up", UploadId=upload, MultipartUpload=parts, IfNoneMatch="*")
        call("delete_object", IfMatch=etag)
        call("delete_object")

    def plain(world: World) -> None:
        world.spawn(by_interface, world, name="ann")

    def boto3(world: World) -> None:
        world.boto3_bucket("b")
        world.spawn(by_boto3, world.boto3_client("s3"), name="ann")

    ours, theirs = (replay(program, "default").events() for program in (plain, boto3))
    assert [dataclasses.astuple(event) for event in ours] == [dataclasses.astuple(event) for event in theirs]
