"""The access log of the object server: what clients did, in the schema of events."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from botocore.config import Config

from fencepost.impl.objects.credentials import Credentials
from fencepost.impl.recording import Recorder
from fencepost.impl.recording.http import HttpRecording
from fencepost.impl.store.events import Event, short_hash
from tests.commands.running import exit_of
from tests.impl.objects.serving import ROOT_TOKEN, served
from tests.impl.recording.test_http import events


@contextlib.contextmanager
def recorded(folder: Path) -> Iterator[str]:
    recording = HttpRecording(Recorder(folder / "traces", "objects"))
    with served(folder / "data", Credentials(ROOT_TOKEN), recording=recording) as address:
        yield address
    recording.close()


def test_what_clients_do_is_recorded_with_conditions_etags_and_hashes(tmp_path: Path) -> None:
    with recorded(tmp_path) as address:
        s3 = boto3.client(
            "s3",
            endpoint_url=address,
            region_name="us-east-1",
            aws_access_key_id="root",
            aws_secret_access_key=Credentials(ROOT_TOKEN).secret("root"),
            config=Config(s3={"addressing_style": "path"}, user_agent_appid="ann"),
        )
        s3.create_bucket(Bucket="bucket")
        etag = s3.put_object(Bucket="bucket", Key="k", Body=b"one", IfNoneMatch="*")["ETag"]
        with pytest.raises(s3.exceptions.ClientError):
            s3.put_object(Bucket="bucket", Key="k", Body=b"two", IfNoneMatch="*")
        assert s3.get_object(Bucket="bucket", Key="k")["Body"].read() == b"one"
        s3.put_object(Bucket="bucket", Key="k", Body=b"three", IfMatch=etag)
        s3.upload_part(
            Bucket="bucket",
            Key="big",
            PartNumber=1,
            UploadId=s3.create_multipart_upload(Bucket="bucket", Key="big")["UploadId"],
            Body=b"x" * 100_000,
        )
        s3.delete_object(Bucket="bucket", Key="k")
        s3.close()
    found = events(tmp_path / "traces")
    assert {one.process for one in found} == {"ann"}
    responses = [(one.kind, one.outcome) for one in found if one.phase == "response"]
    assert responses == [
        ("put", "done"),
        ("put", "exists"),
        ("get", "done"),
        ("put", "done"),
        ("create-upload", "done"),
        ("upload-part", "done"),
        ("delete", "done"),
    ]
    read: Event = next(one for one in found if one.kind == "get" and one.phase == "response")
    assert (read.hash, read.etag) == (short_hash(b"one"), etag.strip('"'))
    assert exit_of("replay", str(tmp_path / "traces"), "--all-writers", "--starts-empty") == 0
