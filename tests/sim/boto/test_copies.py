"""A copy is two steps: the store reads the source, and later writes the destination.

If this fails, a copy that takes a newer object back is never found, or the conditions that prevent it fail.
"""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from fencepost.sim.explore import audit, replay
from fencepost.sim.world import Budget, World

PAGE: dict[str, Any] = {"Bucket": "web", "Key": "page"}
NO_FAULTS = Budget(crash=0, reply_lost=0, request_lost=0, pause=0)
PINS = {
    "nothing": (),
    "source": ("CopySourceIfMatch",),
    "destination": ("IfMatch",),
    "both": ("CopySourceIfMatch", "IfMatch"),
}


def touch(s3: Any, pins: tuple[str, ...]) -> str:
    """Change the metadata of an object by copying it onto itself."""
    etag = s3.head_object(**PAGE)["ETag"]
    try:
        s3.copy_object(
            **PAGE,
            CopySource="web/page",
            MetadataDirective="REPLACE",
            Metadata={"touched": "yes"},
            **dict.fromkeys(pins, etag),
        )
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return "done"


def publish(s3: Any) -> str:
    s3.put_object(**PAGE, Body=b"new")
    return "published"


def touching(pins: tuple[str, ...]) -> Any:
    def program(world: World) -> None:
        world.boto3_bucket("web")
        world.boto3_client("s3").put_object(**PAGE, Body=b"old")
        world.spawn(touch, world.boto3_client("s3"), pins, name="toucher")
        world.spawn(publish, world.boto3_client("s3"), name="author")
        world.always(
            "what is published stays",
            lambda view: view.result("author") != "published" or view.get("web/page") == b"new",
        )

    return program


@pytest.mark.parametrize("pins", PINS)
def test_a_copy_onto_itself_takes_a_newer_object_back_unless_its_destination_is_pinned(pins: str) -> None:
    """A condition on the source alone is judged too early; one on the destination when it is written."""
    found = audit(touching(PINS[pins]), budget=NO_FAULTS)
    assert found.verdict == ("holds" if "IfMatch" in PINS[pins] else "violated")


def test_the_counterexample_shows_both_steps() -> None:
    (found,) = audit(touching(())).counterexamples
    replayed = replay(touching(()), found.token)
    steps = [
        (op.kind, op.subject) for *_, op, _, _ in replayed.world.trace if op.kind.startswith(("copy", "put"))
    ]
    assert steps == [("copy-source", "web/page"), ("put", "web/page"), ("copy", "web/page")]


def test_a_part_is_copied_in_two_steps() -> None:
    """The part has the content of the source at its reading, also if the source is gone when it is stored."""

    def copy(s3: Any, upload: str) -> str:
        at = {**PAGE, "UploadId": upload}
        part = s3.upload_part_copy(**at, PartNumber=1, CopySource="web/source")["CopyPartResult"]
        named = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        s3.complete_multipart_upload(**at, MultipartUpload=named)
        return "done"

    def program(world: World) -> None:
        world.boto3_bucket("web")
        s3 = world.boto3_client("s3")
        s3.put_object(Bucket="web", Key="source", Body=b"old")
        upload = s3.create_multipart_upload(**PAGE)["UploadId"]
        world.spawn(copy, s3, upload, name="copier")
        world.spawn(s3.delete_object, Bucket="web", Key="source", name="remover")

    token = "copier:copy-source:web/source:1,remover:finish::1,copier:finish::1"
    world = replay(program, token).world
    assert world.bucket.contents() == {"web/page": b"old"}


def test_an_attempt_that_the_sdk_repeats_reads_the_source_again() -> None:
    def program(world: World) -> None:
        world.boto3_bucket("web")
        s3 = world.boto3_client("s3")
        s3.put_object(Bucket="web", Key="source", Body=b"1")
        world.spawn(s3.copy_object, **PAGE, CopySource="web/source", name="copier")
        world.spawn(s3.put_object, Bucket="web", Key="source", Body=b"2", name="writer")

    token = "copier:copy:web/page:1=duplicated,writer:finish::1,copier:finish::1"
    replayed = replay(program, token, budget=Budget(duplicated=1))
    assert not replayed.misfit
    assert replayed.world.bucket.contents()["web/page"] == b"2"
    kinds = [step[5].kind for step in replayed.world.trace if step[5].kind.startswith("copy")]
    assert kinds == ["copy-source", "copy", "copy-source", "copy"]


def test_a_copy_costs_one_request() -> None:
    def program(world: World) -> None:
        world.boto3_bucket("web")
        s3 = world.boto3_client("s3")
        s3.put_object(Bucket="web", Key="source", Body=b"1")
        world.spawn(s3.copy_object, **PAGE, CopySource="web/source", name="copier")
        world.at_most("copier", requests=1)

    assert audit(program, budget=NO_FAULTS).cost()["copier"]["requests"] == 1


def test_conditions_of_source_and_destination_are_judged_at_their_steps() -> None:
    """The source is overwritten, and the destination, between and after the steps of the copy."""

    def ended(act: Any, **given: Any) -> str:
        try:
            act(Bucket="b", **given)
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return "done"

    ends: set[Any] = set()

    def program(world: World) -> None:
        world.boto3_bucket("b")
        s3 = world.boto3_client("s3")
        s3.put_object(Bucket="b", Key="a", Body=b"1")
        etag = s3.put_object(Bucket="b", Key="c", Body=b"0")["ETag"]
        world.spawn(ended, s3.copy_object, Key="c", CopySource="b/a", IfMatch=etag, name="copy")
        world.spawn(ended, s3.put_object, Key="a", Body=b"2", name="source")
        world.spawn(ended, s3.put_object, Key="c", Body=b"3", IfMatch=etag, name="target")
        world.finally_("seen", lambda _: bool(ends.add(ending(world)) or True))

    def ending(world: World) -> Any:
        return world.processes[0].result, world.processes[2].result, world.bucket.contents()["b/c"]

    audit(program, budget=NO_FAULTS)
    lost = "PreconditionFailed"
    assert ends == {("done", lost, b"1"), ("done", lost, b"2"), (lost, "done", b"3")}
