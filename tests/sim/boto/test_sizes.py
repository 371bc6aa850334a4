"""Counterexamples show the sizes of objects where the audited code compares them, and nowhere else."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.impl.store import ANYTHING
from fencepost.sim.world import World
from tests.sim.boto.worlds import alone, explored


def steps(reader: Callable[[Any], object]) -> list[str]:
    """The counterexample of a reader that notes what it found, with a writer whose object has 5 bytes."""

    def read(world: World, client: Any) -> None:
        if reader(client):
            world.note("seen", "yes")

    def program(world: World) -> None:
        client = world.boto3_client("s3")
        world.boto3_bucket("b")
        client.put_object(Bucket="b", Key="a", Body=b"123")
        world.spawn(lambda: client.put_object(Bucket="b", Key="a", Body=b"12345"), name="writer")
        world.spawn(read, world, client, name="reader")
        world.always("nobody has seen it", lambda view: not view.notes("seen"))

    found = explored(program).result()
    assert found.violations, found
    return list(found.violations[0].counterexample)


def head(client: Any) -> Any:
    return client.head_object(Bucket="b", Key="a")["ContentLength"] == 5


def get(client: Any) -> Any:
    reply = client.get_object(Bucket="b", Key="a")
    return len(reply["Body"].read()) == reply["ContentLength"] == 5


def part(client: Any) -> Any:
    sizes = [2, 3]
    return sizes[0] == client.get_object(Bucket="b", Key="a", Range="bytes=3-4")["ContentLength"]


def listed(client: Any) -> Any:
    return sum(one["Size"] for one in client.list_objects_v2(Bucket="b")["Contents"]) > 4


def versions(client: Any) -> Any:
    return max(one["Size"] for one in client.list_object_versions(Bucket="b")["Versions"]) > 4


def header(client: Any) -> Any:
    reply = client.head_object(Bucket="b", Key="a")
    return int(reply["ResponseMetadata"]["HTTPHeaders"]["content-length"]) > 4


@pytest.mark.parametrize(
    ("reader", "shown"),
    [
        (head, ", size 5"),
        (get, ", size 5"),
        (part, ", size 2 of 5"),
        (listed, "['b/a'], size 5"),
        (versions, ", size 5"),
        (header, ", size 5"),
    ],
)
def test_a_size_that_is_compared_is_shown(reader: Callable[[Any], object], shown: str) -> None:
    found = [line for line in steps(reader) if ", size" in line]
    assert len(found) == 1, steps(reader)
    assert f"{shown}  " in found[0]


def ignoring(client: Any) -> Any:
    """Parse sizes, copy them and pass them on, and decide by something else."""
    kept = [one["Size"] for one in client.list_objects_v2(Bucket="b")["Contents"]]
    reply = client.head_object(Bucket="b", Key="a")
    return json.dumps([kept, reply["ContentLength"]]) and client.get_object(Bucket="b", Key="a")[
        "Body"
    ].read() == (b"12345")


def test_a_size_that_nobody_compares_is_not_shown() -> None:
    assert not [line for line in steps(ignoring) if ", size" in line]


def copying(client: Any) -> Any:
    """The SDK compares the size of the source for itself here."""
    client.copy({"Bucket": "b", "Key": "a"}, "b", "copy")
    return client.get_object(Bucket="b", Key="copy")["Body"].read() == b"12345"


def test_a_size_that_the_sdk_compares_is_not_shown() -> None:
    assert not [line for line in steps(copying) if ", size" in line]


def test_only_replies_of_the_compared_kind_show_it() -> None:
    def both(client: Any) -> Any:
        client.list_objects_v2(Bucket="b")
        return head(client)

    found = [line for line in steps(both) if ", size" in line]
    assert len(found) == 1
    assert "head" in found[0]


def test_sizes_are_numbers_as_ever() -> None:
    def work(client: Any) -> Any:
        client.put_object(Bucket="b", Key="a", Body=b"12345")
        size = client.head_object(Bucket="b", Key="a")["ContentLength"]
        again = client.head_object(Bucket="b", Key="a")["ContentLength"]
        assert isinstance(size, int)
        return [
            *(size == again == 5, {size: 1}[5], f"{size:03}", str(size), repr(size), json.dumps(size)),
            *(size + 1, 1 + size, size - 1, 9 - size, size * 2, size // 2, size % 2, -size, bool(size)),
            *(
                list(range(size)),
                b"12345678"[:size],
                size != 5,
                size < 6,
                max(4, size) == 5,
                size >= 5,
                float(size),
            ),
        ]

    expected = [
        *(True, 1, "005", "5", "5", "5"),
        *(6, 6, 4, 4, 10, 2, 1, -5, True),
        *([0, 1, 2, 3, 4], b"12345", False, True, True, True, 5.0),
    ]
    assert alone(work) == expected


def test_the_size_of_the_store_interface_is_shown_too() -> None:
    def compare(world: World) -> None:
        reply = world.store().head("k")
        if reply.info is not None and reply.info.size > 2:
            world.note("seen", "yes")

    def program(world: World) -> None:
        store = world.store()
        world.spawn(lambda: store.put("k", b"123", when=ANYTHING), name="writer")
        world.spawn(compare, world, name="reader")
        world.always("nobody has seen it", lambda view: not view.notes("seen"))

    lines = explored(program).result().violations[0].counterexample
    assert [line for line in lines if "head k" in line and ", size 3  " in line], lines
