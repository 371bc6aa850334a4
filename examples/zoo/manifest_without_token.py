"""Parallel workers rewrite one manifest, and its cursor goes back.

Counterexample (arkflow#1192): each worker that has stored a segment reads the manifest, moves the cursor
on, and writes the manifest back without a condition. One that has read early writes late: the cursor is
where it was before the other moved it, and after a restart events are processed that had been processed
before.

Fixed: write on the condition that the manifest is what was read, and start again from what it is now. Why
that is enough: a manifest is only ever replaced by one that was computed from it, so the cursor only rises;
an attempt whose reply was lost is repeated from a fresh reading, which does nothing if it had landed.

Tempting, but incorrect: keep the manifest that was computed and only refresh the token: see
`retried_contention`.
"""

import json
from collections.abc import Callable
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError, HTTPClientError

from fencepost.impl.store import ABSENT, ANYTHING, Matches, Outcome, Store
from fencepost.sim.world import View, World

BUCKET, MANIFEST = "zoo", "stream/manifest.json"
KEY = f"{BUCKET}/{MANIFEST}"
EMPTY = b'{"cursor": 0, "segments": []}'
ONCE = Config(retries={"total_max_attempts": 1})
"""The fixed program retries by itself, where it knows what a second answer means."""


def sealed(body: bytes, segment: int) -> bytes:
    """The manifest after one more segment."""
    manifest = json.loads(body)
    manifest["cursor"] = max(manifest["cursor"], segment * 100)
    manifest["segments"] = sorted({*manifest["segments"], segment})
    return json.dumps(manifest).encode()


# On the store interface.


def seal(store: Store, segment: int) -> None:
    while True:
        found = store.get(KEY)
        if found.done and store.put(KEY, sealed(found.body, segment), when=ANYTHING).done:
            return


def seal_from_what_is(store: Store, segment: int) -> None:
    while True:
        found = store.get(KEY)
        if found.outcome is Outcome.UNKNOWN or found.info is None:
            continue
        if store.put(KEY, sealed(found.body, segment), when=Matches(found.info.etag)).done:
            return


# On boto3.


def seal_s3(s3: Any, segment: int) -> None:
    body = s3.get_object(Bucket=BUCKET, Key=MANIFEST)["Body"].read()
    s3.put_object(Bucket=BUCKET, Key=MANIFEST, Body=sealed(body, segment))


def seal_s3_from_what_is(s3: Any, segment: int) -> None:
    while True:
        try:
            found = s3.get_object(Bucket=BUCKET, Key=MANIFEST)
            body = sealed(found["Body"].read(), segment)
            s3.put_object(Bucket=BUCKET, Key=MANIFEST, Body=body, IfMatch=found["ETag"])
            return
        except HTTPClientError:
            continue
        except ClientError as error:
            if error.response["Error"]["Code"] != "PreconditionFailed":
                raise


# What must hold.


def work(world: World, store: Any, seal: Callable[[Any, int], None], segment: int) -> None:
    seal(store, segment)
    world.note("sealed", segment)


def cursor_rises(view: View) -> str | None:
    manifest = json.loads(view.get(KEY) or EMPTY)
    missing = [segment for segment in view.notes("sealed") if segment not in manifest["segments"]]
    if not missing:
        return None
    return f"segments {missing} were sealed, and the manifest is at {manifest['cursor']} without them"


def _program(world: World, store: Any, seal: Callable[[Any, int], None]) -> None:
    world.store().put(KEY, EMPTY, when=ABSENT)
    for segment in (1, 2):
        world.spawn(work, world, store, seal, segment, name=f"worker-{segment}", restart=False)
    world.always("the cursor never goes back", cursor_rises)


def broken(world: World) -> None:
    _program(world, world.store(), seal)


def fixed(world: World) -> None:
    _program(world, world.store(), seal_from_what_is)


def broken_boto3(world: World) -> None:
    world.boto3_bucket(BUCKET)
    _program(world, world.boto3_client("s3"), seal_s3)


def fixed_boto3(world: World) -> None:
    world.boto3_bucket(BUCKET)
    _program(world, world.boto3_client("s3", config=ONCE), seal_s3_from_what_is)
