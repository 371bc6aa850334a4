"""The hook in aiobotocore: tasks of one loop, each with its own requests. `nox -s sdks` runs this."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import fencepost
from tests.commands.running import exit_of
from tests.impl.objects.serving import secret, served
from tests.impl.recording.test_http import events

pytest.importorskip("aiobotocore")


async def work(address: str, folder: Path) -> None:
    from aiobotocore.config import AioConfig
    from aiobotocore.session import get_session

    config = AioConfig(s3={"addressing_style": "path"})
    keys: dict[str, Any] = {"aws_access_key_id": "root", "aws_secret_access_key": secret("root")}
    async with get_session().create_client(
        "s3", region_name="us-east-1", endpoint_url=address, config=config, **keys
    ) as s3:
        recorder = fencepost.record(s3, folder, process="tasks")
        await s3.create_bucket(Bucket="bucket")

        async def one(number: int) -> None:
            await s3.put_object(Bucket="bucket", Key=f"k{number % 3}", Body=b"%d" % number)
            found = await s3.get_object(Bucket="bucket", Key=f"k{number % 3}")
            await found["Body"].read()

        await asyncio.gather(*(one(number) for number in range(12)))
        recorder.close()


def test_tasks_are_recorded_and_their_objects_are_continuous(tmp_path: Path) -> None:
    with served(tmp_path / "data") as address:
        asyncio.run(work(address, tmp_path / "traces"))
    found = events(tmp_path / "traces")
    assert len(found) == 48
    assert {one.outcome for one in found if one.phase == "response"} == {"done"}
    assert exit_of("replay", str(tmp_path / "traces"), "--all-writers", "--starts-empty") == 0
