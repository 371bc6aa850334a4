"""What the reduction leaves out must be what nobody can notice, also for requests only an SDK makes.

Every small program is run in all its schedules, plainly and reduced: the same endings.
"""

import random
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, HTTPClientError

from fencepost.impl.store import ANYTHING
from fencepost.impl.store import requests as req
from fencepost.sim.explore import Plain, ReducedSearch, Setting
from fencepost.sim.explore.runs import final_state
from fencepost.sim.world import Budget, World

ONCE = Config(retries={"mode": "standard", "total_max_attempts": 1})
KEYS = ["a", "a/x", "c"]


def upload(s3: Any, key: str) -> Any:
    """Whatever upload is there gets a part, or is listed, or completed: they meddle with each other's."""
    found = s3.list_multipart_uploads(Bucket="b").get("Uploads", ())
    if not found:
        return s3.create_multipart_upload(Bucket="b", Key=key) and "created"
    at = {"Bucket": "b", "Key": found[0]["Key"], "UploadId": found[0]["UploadId"]}
    parts = s3.list_parts(**at).get("Parts", ())
    if not parts:
        return s3.upload_part_copy(**at, PartNumber=1, CopySource="b/a")["CopyPartResult"]["ETag"]
    chosen = [{"PartNumber": part["PartNumber"], "ETag": part["ETag"]} for part in parts]
    return s3.complete_multipart_upload(**at, MultipartUpload={"Parts": chosen})["ETag"]


STEPS: dict[str, Any] = {
    "put": lambda s3, key, who: s3.put_object(Bucket="b", Key=key, Body=who)["ETag"],
    "create": lambda s3, key, who: s3.put_object(Bucket="b", Key=key, Body=who, IfNoneMatch="*")["ETag"],
    "get": lambda s3, key, who: s3.get_object(Bucket="b", Key=key)["ETag"],
    "delete": lambda s3, key, who: s3.delete_object(Bucket="b", Key=key) and "gone",
    "delete many": lambda s3, key, who: (
        s3.delete_objects(Bucket="b", Delete={"Objects": [{"Key": "a"}, {"Key": key}]}) and "gone"
    ),
    "copy": lambda s3, key, who: s3.copy_object(Bucket="b", Key=key, CopySource="b/a")["CopyObjectResult"][
        "ETag"
    ],
    "copy new": lambda s3, key, who: s3.copy_object(Bucket="b", Key=key, CopySource="b/c", IfNoneMatch="*")[
        "CopyObjectResult"
    ]["ETag"],
    "list": lambda s3, key, who: [e["Key"] for e in s3.list_objects_v2(Bucket="b").get("Contents", ())],
    "upload": lambda s3, key, who: upload(s3, key),
    "bucket": lambda s3, key, who: s3.create_bucket(Bucket="new") and "made",
    "put new": lambda s3, key, who: s3.put_object(Bucket="new", Key="k", Body=who)["ETag"],
    "drop": lambda s3, key, who: s3.delete_bucket(Bucket="new") and "dropped",
}


def interpret(s3: Any, code: list[tuple[str, str]], who: str) -> list[Any]:
    learnt = []
    for verb, key in code:
        try:
            learnt.append(STEPS[verb](s3, key, who))
        except ClientError as refused:
            learnt.append(refused.response["Error"]["Code"])
        except HTTPClientError as lost:
            learnt.append(type(lost).__name__)
    return learnt


def endings(search_kind: Any, codes: list[Any], budget: Budget) -> tuple[set[Any], int]:
    found = set()

    def program(world: World) -> None:
        world.configure(part_bytes_min=1)
        world.boto3_bucket("b")
        s3 = world.boto3_client("s3", config=ONCE)
        s3.put_object(Bucket="b", Key="a", Body=b"first")
        for who, code in zip("xyz", codes, strict=False):
            world.spawn(interpret, s3, code, who, name=who)

    search = search_kind(
        Setting(program, budget), observe=lambda world: found.add((final_state(world), *world.bucket.keeps))
    )
    search.explore(lambda search: search.schedules > 3000)
    assert search.exhausted, codes
    assert not search.failures, search.failures[0].violation
    return found, search.schedules


# A copy is decided by its source, which nobody who looks at the target reads. Taken for a mere
# reading when it failed, it hid the order in which the target was looked at before it was made.
DECIDED_ELSEWHERE = [
    [[("copy", "a/x"), ("delete", "a")], [("get", "a"), ("delete many", "a/x")]],
    [[("copy", "a/x"), ("get", "a"), ("put", "a")], [("get", "c"), ("delete many", "a/x")]],
]


@pytest.mark.parametrize(
    "codes", [DECIDED_ELSEWHERE[0], pytest.param(DECIDED_ELSEWHERE[1], marks=pytest.mark.slow)]
)
def test_what_another_object_decides(codes: Any) -> None:
    budget = Budget(crash=0, reply_lost=0, request_lost=0, pause=0)
    (plainly, _), (reduced, _) = (endings(kind, codes, budget) for kind in (Plain, ReducedSearch))
    assert reduced == plainly


def test_a_completion_that_an_abort_prevents() -> None:
    """The same on our own interface: the upload decides whether the key is written."""

    def complete(store: Any, upload: str, etag: str) -> str:
        done = store.complete_upload("k", upload, [(1, etag)], when=ANYTHING).outcome.value
        store.put("a", b"2", when=ANYTHING)
        return str(done)

    def abort_and_look(store: Any, upload: str) -> list[str]:
        store.get("a")
        return [r.outcome.value for r in store.send_all([req.AbortUpload("k", upload), req.Get("k")])]

    def program(world: World) -> None:
        store = world.store()
        store.put("a", b"1", when=ANYTHING)
        upload = store.create_upload("k").upload
        etag = store.upload_part("k", upload, 1, b"part").etag
        world.spawn(complete, store, upload, etag, name="x")
        world.spawn(abort_and_look, store, upload, name="y")

    found: list[set[Any]] = []
    for kind in (Plain, ReducedSearch):
        ends: set[Any] = set()
        setting = Setting(program, Budget(crash=0, reply_lost=0, request_lost=0, pause=0))
        kind(setting, observe=lambda world, ends=ends: ends.add(final_state(world))).explore(lambda _: False)
        found.append(ends)
    assert found[0] == found[1]


LONG = (0, 2, 3, 12, 15, 16, 17, 19, 104)


@pytest.mark.parametrize(  # 14 and 76 have too many for Plain
    "seed",
    [
        pytest.param(seed, marks=[pytest.mark.slow] * (seed in LONG))
        for seed in (*range(14), *range(15, 20), 21, 104)
    ],
)
def test_the_reduced_search_finds_every_ending(seed: int) -> None:
    draw = random.Random(seed)
    length = 2 if seed % 2 else 3
    codes = [
        [(draw.choice(list(STEPS)), draw.choice(KEYS)) for _ in range(length - (who == 1))]
        for who in range(2)
    ]
    lost = seed % 3 == 0 and length == 2
    budget = Budget(crash=0, reply_lost=int(lost), request_lost=int(lost), pause=0)
    (plainly, many), (reduced, few) = (endings(kind, codes, budget) for kind in (Plain, ReducedSearch))
    assert reduced == plainly, codes
    assert few <= many
