"""`fencepost objects serve --memory` as its user has it: a process, its keys, its script, and its end."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

pytestmark = pytest.mark.server
CPU_MS_MAX = 600
"""Twice the figure of an idle machine: the work of a start, whatever else runs."""


class Running(NamedTuple):
    process: subprocess.Popen[str]
    address: str
    printed: str


@contextlib.contextmanager
def serving(*options: str, **environment: str) -> Iterator[Running]:
    command = [sys.executable, "-m", "fencepost", "objects", "serve", "--memory", "--listen", "127.0.0.1:0"]
    known = {name: value for name, value in os.environ.items() if not name.startswith("FENCEPOST_")}
    with subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, text=True, env={**known, **environment}
    ) as process:
        assert process.stdout is not None
        try:
            first = process.stdout.readline()
            address = re.search(r"http://127\.0\.0\.1:\d+", first)
            assert address is not None, first
            yield Running(process, address[0], "" if environment else process.stdout.readline())
        finally:
            process.send_signal(signal.SIGTERM)


def client(address: str, access_key: str = "test", secret_key: str = "test") -> Any:
    return boto3.client(
        "s3", endpoint_url=address, region_name="us-east-1", aws_access_key_id=access_key,
        aws_secret_access_key=secret_key, config=Config(retries={"total_max_attempts": 1}),
    )  # fmt: skip


def cpu_ms(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def test_it_answers_soon_and_leaves_nothing() -> None:
    with serving("--bucket", "data") as running:
        with (
            pytest.raises(urllib.error.HTTPError) as raised,
            urllib.request.urlopen(f"{running.address}/data"),
        ):
            pass
        raised.value.close()
        used_ms = cpu_ms(running.process.pid)
        assert "AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test" in running.printed
        s3 = client(running.address)
        s3.put_object(Bucket="data", Key="k", Body=b"content", IfNoneMatch="*")
        opened = {str(link.readlink()) for link in Path(f"/proc/{running.process.pid}/fd").iterdir()}
        (folder,) = {found[0] for name in opened if (found := re.match(r".*/fencepost-objects-\w+", name))}
        assert Path(folder, "data", "data", "k").exists()
    assert running.process.returncode == 0
    assert not Path(folder).exists()
    assert used_ms < CPU_MS_MAX


def test_a_trace_is_a_script_that_fails_the_same_requests(tmp_path: Path) -> None:
    script, trace, again = (tmp_path / name for name in ("script.toml", "trace.toml", "again.toml"))
    script.write_text('seed = 4\n[[fault]]\neffect = "throttled"\noperation = "put"\nchance = 0.5\n')

    def failed(*options: str) -> list[int]:
        found = []
        with serving("--bucket", "data", *options) as running:
            s3 = client(running.address)
            for at in range(20):
                try:
                    s3.put_object(Bucket="data", Key=f"k{at % 3}")
                except ClientError:
                    found.append(at)
        return found

    first = failed("--fault-script", str(script), "--fault-trace", str(trace))
    assert 0 < len(first) < 20
    assert failed("--fault-script", str(trace), "--fault-trace", str(again)) == first
    assert again.read_text().splitlines()[1:] == trace.read_text().splitlines()[1:]


def test_it_has_the_quirks_of_a_store_and_the_keys_of_the_user() -> None:
    keys = {"FENCEPOST_OBJECTS_ACCESS_KEY": "minioadmin", "FENCEPOST_OBJECTS_SECRET_KEY": "minio-secret"}
    with serving("--bucket", "data", "--as", "b2", **keys) as running:
        s3 = client(running.address, "minioadmin", "minio-secret")
        s3.put_object(Bucket="data", Key="k")
        with pytest.raises(ClientError, match="NotImplemented"):
            s3.put_object(Bucket="data", Key="k", IfNoneMatch="*")
        with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
            client(running.address, "test", "test").list_buckets()
