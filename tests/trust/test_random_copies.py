"""Random programs of copies, conditional copies, puts and deletes, against an enumerator of its own.

The enumerator knows a copy as two steps: the source is read, and later the destination is written. It goes
through all orders of all steps and shares no code with the world. If this fails, a race of a copy is missed,
or reported where there is none.
"""

import hashlib
import random
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from fencepost.sim.explore import Plain, ReducedSearch, Setting
from fencepost.sim.world import Budget, World
from tests.depth import examples

ONCE = Config(retries={"mode": "standard", "total_max_attempts": 1})
KEYS, BODIES = "ab", ("0", "1", "2")
NO_FAULTS = Budget(crash=0, reply_lost=0, request_lost=0, pause=0)
SEEDS = range(examples(50, 1_000))

Op = tuple[str, ...]
"""Name, key, and by name: the body; or the source, and the bodies that source and destination must have.
`-` means any, `none` no object.
"""
Codes = list[list[Op]]


def codes(draw: random.Random) -> Codes:
    """By process, its operations."""
    return [[_op(draw) for _ in range(draw.randint(1, 2))] for _ in range(2)]


def _op(draw: random.Random) -> Op:
    name = draw.choice(("put", "put", "put", "get", "delete", "copy", "copy", "copy", "assemble"))
    key = draw.choice(KEYS)
    if name == "put":
        return name, key, draw.choice(BODIES[1:])
    if name == "copy":
        wanted = draw.choice(("-", "-", "-", "0", "1"))
        over = draw.choice(("-", "-", "-", "none", "0", "1"))
        return name, key, draw.choice(KEYS), wanted, over
    return (name, key, draw.choice(KEYS)) if name == "assemble" else (name, key)


# The enumerator.

State = dict[str, str]
"""Bodies by key; a body that was assembled from parts has another ETag, and ends in a star."""


def enumerated(programs: Codes) -> set[Any]:
    """Return every ending: the objects, and what each process learnt."""
    found: set[Any] = set()
    seen: set[Any] = set()

    def go(objects: tuple[tuple[str, str], ...], places: tuple[Any, ...]) -> None:
        if (objects, places) in seen:
            return
        seen.add((objects, places))
        moved = False
        for who, (at, held, learnt) in enumerate(places):
            if at < len(programs[who]):
                moved = True
                now = dict(objects)
                next_held, result = step(now, programs[who][at], held)
                done = next_held is None
                place = (at + done, next_held, (*learnt, result) if done else learnt)
                go(tuple(sorted(now.items())), (*places[:who], place, *places[who + 1 :]))
        if not moved:
            found.add((objects, tuple(learnt for _, _, learnt in places)))

    go((("a", "0"),), tuple((0, None, ()) for _ in programs))
    return found


def step(objects: State, op: Op, held: str | None) -> tuple[str | None, str]:
    """Take one step of an operation; return what a copy holds after its first step, and the result."""
    name, key = op[:2]
    if name == "put":
        objects[key] = op[2]
        return None, "done"
    if name == "get":
        return None, objects.get(key, "none").rstrip("*")
    if name == "delete":
        objects.pop(key, None)
        return None, "done"
    if held is None:
        source = objects.get(op[2])
        if source is None:
            return None, "missing"
        if name == "copy" and op[3] not in ("-", source):
            return None, "refused"
        return source, ""
    if name == "copy" and op[4] != "-":
        standing = objects.get(key)
        if op[4] == "none" and standing is not None:
            return None, "refused"
        if op[4] != "none" and standing != op[4]:
            return None, "missing" if standing is None else "refused"
    objects[key] = held.rstrip("*") + "*" * (name == "assemble")
    return None, "done"


# The program.


def _etag(body: str) -> str:
    return f'"{hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()}"'


def perform(s3: Any, upload: dict[str, str], op: Op) -> str:
    name, key = op[:2]
    at = {"Bucket": "b", "Key": key}
    try:
        if name == "put":
            s3.put_object(**at, Body=op[2].encode())
        elif name == "get":
            return str(s3.get_object(**at)["Body"].read().decode())
        elif name == "delete":
            s3.delete_object(**at)
        elif name == "copy":
            conditions = {}
            if op[3] != "-":
                conditions["CopySourceIfMatch"] = _etag(op[3])
            if op[4] == "none":
                conditions["IfNoneMatch"] = "*"
            elif op[4] != "-":
                conditions["IfMatch"] = _etag(op[4])
            s3.copy_object(
                **at, CopySource=f"b/{op[2]}", MetadataDirective="REPLACE", Metadata={"x": "y"}, **conditions
            )
        else:
            part = s3.upload_part_copy(**at, **upload, PartNumber=1, CopySource=f"b/{op[2]}")
            named = {"Parts": [{"PartNumber": 1, "ETag": part["CopyPartResult"]["ETag"]}]}
            s3.complete_multipart_upload(**at, **upload, MultipartUpload=named)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        return {"NoSuchKey": "none" if name == "get" else "missing", "PreconditionFailed": "refused"}[code]
    return "done"


def explored(kind: Any, programs: Codes) -> set[Any]:
    found: set[Any] = set()

    def program(world: World) -> None:
        world.configure(part_bytes_min=1)
        world.boto3_bucket("b")
        s3 = world.boto3_client("s3", config=ONCE)
        s3.put_object(Bucket="b", Key="a", Body=b"0")

        def run(code: list[Op], uploads: list[dict[str, str]]) -> tuple[str, ...]:
            return tuple(perform(s3, upload, op) for op, upload in zip(code, uploads, strict=True))

        for number, code in enumerate(programs):
            begun = [s3.create_multipart_upload(Bucket="b", Key=op[1])["UploadId"] for op in code]
            world.spawn(run, code, [{"UploadId": upload} for upload in begun], name=f"p{number}")

    def ending(world: World) -> None:
        objects = tuple(
            (key[2:], body.decode() + "*" * world.bucket.etag(key).endswith("-1"))
            for key, body in sorted(world.bucket.contents().items())
        )
        found.add((objects, tuple(process.result for process in world.processes)))

    search = kind(Setting(program, NO_FAULTS), observe=ending)
    search.explore(lambda _: False)
    assert search.exhausted
    assert not search.failures
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_every_ending_of_copies_is_found_and_no_other(seed: int) -> None:
    programs = codes(random.Random(seed))
    assert explored(ReducedSearch, programs) == enumerated(programs), programs


@pytest.mark.parametrize("seed", range(3))
def test_a_plain_search_finds_the_same(seed: int) -> None:
    programs = codes(random.Random(seed))
    assert explored(Plain, programs) == enumerated(programs), programs


def test_the_generator_makes_copies_that_are_overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endings that a copy of one step cannot have: else the test above would show nothing about it."""
    programs = [codes(random.Random(seed)) for seed in range(50)]
    in_two_steps = [enumerated(one) for one in programs]
    once = step

    def in_one(objects: State, op: Op, held: str | None) -> tuple[str | None, str]:
        held, result = once(objects, op, held)
        return (None, result) if held is None else once(objects, op, held)

    monkeypatch.setitem(globals(), "step", in_one)
    overtaken = [enumerated(one) != two for one, two in zip(programs, in_two_steps, strict=True)]
    assert sum(overtaken) >= 5
