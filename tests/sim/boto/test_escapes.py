"""What leads out of the world is refused, and named with its place, whatever the code does about it."""

import _thread
import asyncio
import contextlib
import inspect
import multiprocessing
import os
import re
import socket
import subprocess
import urllib.request
from typing import Any

import boto3
import pytest

from fencepost.impl.store.errors import Misuse
from fencepost.sim.world import World
from fencepost.sim.world.escapes import PROPERTY
from tests.sim.boto.worlds import alone, explored


def connect(s3: Any) -> None:
    with socket.socket() as plain:
        plain.connect(("127.0.0.1", 9))


def loop(s3: Any) -> None:
    running = asyncio.SelectorEventLoop()
    try:
        running.run_forever()
    finally:
        running.close()


ESCAPES = {
    "socket.getaddrinfo  ": lambda s3: socket.create_connection(("127.0.0.1", 9)),
    "socket.connect": connect,
    "socket.getaddrinfo": lambda s3: socket.getaddrinfo("localhost", 9),
    "GET http://127.0.0.1:9/ ": lambda s3: urllib.request.urlopen("http://127.0.0.1:9"),
    "_thread.start_new_thread": lambda s3: _thread.start_new_thread(print, ()),
    "os.fork ": lambda s3: multiprocessing.get_context("fork").Process(target=print).start(),
    "subprocess.Popen": lambda s3: subprocess.run(["true"], check=True),
    "os.system": lambda s3: os.system("true"),
    "os.fork": lambda s3: os.fork(),
    "asyncio's event loop": loop,
    "s3:PutBucketPolicy": lambda s3: s3.put_bucket_policy(Bucket="b", Policy="{}"),
    "s3:GetObjectTagging": lambda s3: s3.get_object_tagging(Bucket="b", Key="k"),
    "s3:PutBucketVersioning with a status": lambda s3: s3.put_bucket_versioning(
        Bucket="b", VersioningConfiguration={"Status": "Suspended"}
    ),
    "s3:PutObject with x-amz-write-offset-bytes": lambda s3: s3.put_object(
        Bucket="b", Key="k", WriteOffsetBytes=0
    ),
    "s3:GetObject with partNumber": lambda s3: s3.get_object(Bucket="b", Key="k", PartNumber=1),
}


@pytest.mark.parametrize("call", ESCAPES)
def test_an_escape_is_named(call: str) -> None:
    counterexample = alone(ESCAPES[call], finds=call.strip())
    assert counterexample.property == PROPERTY
    lines, first = inspect.getsourcelines(ESCAPES[call])
    assert "process 'ann'" in counterexample.reason
    place = re.search(rf"{re.escape(__file__)}:(\d+)", counterexample.reason)
    assert place is not None
    assert first <= int(place[1]) < first + len(lines)


@pytest.mark.parametrize("swallow", [Exception, BaseException])
def test_swallowing_it_does_not_hide_it(swallow: type[BaseException]) -> None:
    def work(s3: Any) -> str:
        with contextlib.suppress(swallow):
            _thread.start_new_thread(print, ())
        s3.put_object(Bucket="b", Key="k")
        return "fine"

    counterexample = alone(work, finds="_thread.start_new_thread")
    assert counterexample.property == PROPERTY


def test_another_service_is_named() -> None:
    other = boto3.client("sqs", aws_access_key_id="x", aws_secret_access_key="x", region_name="us-east-1")
    alone(lambda s3: other.list_queues(), finds="boto3 for sqs")


def test_while_setting_up_it_is_an_error() -> None:
    def program(world: World) -> None:
        world.boto3_client("s3")
        subprocess.run(["true"], check=True)

    with pytest.raises(Misuse, match=r"the program that sets up called subprocess.Popen at .*test_escapes"):
        explored(program)


def test_misuse_of_the_world_is_reported() -> None:
    def late(world: World) -> None:
        s3 = world.boto3_client("s3")
        world.configure(part_bytes_min=1)
        s3.put_object(Bucket="b", Key="k")

    def stored(world: World) -> None:
        world.store().put("k", b"", when=__import__("fencepost.impl.store", fromlist=["ABSENT"]).ABSENT)
        world.boto3_client("s3")

    def another(world: World) -> None:
        world.boto3_client("dynamodb")

    kept: list[Any] = []

    def keep(world: World) -> None:
        kept.append(world.boto3_client("s3"))

    explored(keep)
    with pytest.raises(Misuse, match="used after the run"):
        kept[0].put_object(Bucket="b", Key="k")
    with pytest.raises(Misuse, match="before anything is stored"):
        explored(stored)
    with pytest.raises(Misuse, match="not dynamodb"):
        explored(another)
    with pytest.raises(Misuse, match="configure before"):
        explored(late)
