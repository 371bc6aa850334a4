"""The SDK's own threads: parts are sent, lost and left behind in every order.

If this fails, an audit says "holds" of code that takes a transfer for one request.
"""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError
from s3transfer.exceptions import S3CopyFailedError, S3DownloadFailedError

from fencepost.sim.explore import Setting, audit, replay
from fencepost.sim.world import NO_FAULTS, Budget, World
from tests.sim.boto.worlds import alone, explored
from tests.sim.explore.test_reduced_against_plain import compare_settings

PARTS = TransferConfig(multipart_threshold=2, multipart_chunksize=2)
OLD, NEW = b"aab", b"ddee"
LOST = Budget(crash=0, reply_lost=1, request_lost=0, pause=0, restart=0)
QUICK: dict[str, Any] = {"minimise_seconds": 0.5, "others": False}
ONCE = Config(retries={"total_max_attempts": 1})


def upload(s3: Any, body: bytes = NEW) -> None:
    s3.upload_fileobj(io.BytesIO(body), "b", "big", Config=PARTS)


def program(*work: Callable[[Any], Any], stored: bytes = b"", **options: Any) -> Callable[[World], None]:
    def setting(world: World) -> None:
        world.configure(part_bytes_min=1, ticks=0)
        world.boto3_bucket("b")
        if stored:
            world.boto3_client("s3").put_object(Bucket="b", Key="big", Body=stored)
        for number, one in enumerate(work):
            world.spawn(
                one, world.boto3_client("s3", config=ONCE), name=f"n{number}", restart=False, **options
            )
        world.always("whole", lambda view: view.get("b/big") in (None, OLD, NEW, b"ddeef"))

    return setting


def test_parts_are_sent_in_every_order() -> None:
    """Of three parts there are six orders, and a crash may come between any two."""
    seen: set[Any] = set()

    def watched(world: World) -> None:
        program(lambda s3: upload(s3, b"ddeef"))(world)
        world.sometimes("some parts", lambda view: view.state("n0") == "down" and not view.get("b/big"))
        world.at_end(lambda: seen.add(tuple(one[5].number for one in world.trace if part(one))))

    def part(step: Any) -> bool:
        return bool(step[5].kind == "upload-part" and step[1] == "ok")

    result = explored(watched, crash=1)
    assert result.verdict == "holds", str(result)
    assert "some parts" in result.coverage.met
    assert len([one for one in seen if len(one) == 3]) == 6
    assert (2,) in seen
    assert (3, 1) in seen


def test_a_lost_reply_of_complete_looks_like_a_failure() -> None:
    """The object is there, and the SDK reports an error: code that takes it for a failure is found."""

    def report(s3: Any) -> str:
        try:
            upload(s3)
        except (ClientError, ConnectionClosedError):
            return "failed"
        return "uploaded"

    def report_well(s3: Any) -> str:
        try:
            upload(s3)
        except (ClientError, ConnectionClosedError):
            if "Contents" not in s3.list_objects_v2(Bucket="b", Prefix="big"):
                return "failed"
        return "uploaded"

    def reporting(how: Callable[[Any], str]) -> Callable[[World], None]:
        def setting(world: World) -> None:
            program(how)(world)
            world.finally_(
                "the report is true",
                lambda view: (view.result("n0") == "uploaded") == (view.get("b/big") == NEW),
            )

        return setting

    found = audit(reporting(report), budget=LOST, **QUICK)
    assert [one.property for one in found.counterexamples] == ["the report is true"]
    line = next(line for line in found.counterexamples[0].lines if "LOST" in str(line))
    assert "complete-upload" in str(line)
    assert "test_transfers.py:" in str(line)  # threads have no line of the user's: that which started them
    again = replay(reporting(report), found.counterexamples[0].token)
    assert again.violation is not None
    assert not again.misfit
    assert audit(reporting(report_well), budget=LOST).verdict == "holds"


@pytest.mark.parametrize("how", ["download", "copy"])
def test_what_is_read_in_parts_is_never_torn(how: str) -> None:
    """Another process replaces the object between two parts: the SDK names the version, and gives up."""

    def read(s3: Any) -> Any:
        taken = io.BytesIO()
        try:
            if how == "download":
                s3.download_fileobj("b", "big", taken, Config=PARTS)
            else:
                s3.copy({"Bucket": "b", "Key": "big"}, "b", "copy", Config=PARTS)
                taken.write(s3.get_object(Bucket="b", Key="copy")["Body"].read())
        except (S3DownloadFailedError, S3CopyFailedError):
            return "replaced"
        return taken.getvalue()

    results: set[Any] = set()

    def setting(world: World) -> None:
        program(read, lambda s3: s3.put_object(Bucket="b", Key="big", Body=NEW), stored=OLD)(world)
        world.finally_("noted", lambda view: results.add(view.result("n0")))

    assert explored(setting).verdict == "holds"
    assert results == {OLD, NEW, "replaced"}


def test_a_file_is_uploaded_and_downloaded(tmp_path: Path) -> None:
    def work(s3: Any) -> bytes:
        (tmp_path / "source").write_bytes(NEW)
        s3.upload_file(str(tmp_path / "source"), "b", "file")
        s3.download_file("b", "file", str(tmp_path / "target"))
        return (tmp_path / "target").read_bytes()

    assert alone(work) == NEW


def test_the_search_sees_what_plain_enumeration_sees() -> None:
    two = TransferConfig(multipart_threshold=2, multipart_chunksize=2, max_concurrency=1)
    both = program(lambda s3: s3.upload_fileobj(io.BytesIO(b"aab"), "b", "k", Config=two))
    assert compare_settings(Setting(both, NO_FAULTS))[0]


def test_native_transfers_are_refused() -> None:
    crt = TransferConfig(preferred_transfer_client="crt")
    alone(lambda s3: s3.upload_fileobj(io.BytesIO(NEW), "b", "big", Config=crt), finds="awscrt's transfers")
