"""A lost race is retried like a passing fault, and the winner's entry disappears.

Counterexample (chroma#4888): the storage layer repeats what fails, and a failed precondition is a failure
like any other. But the manifest to be written was computed before the race was lost. Here the repetition
takes care to use the ETag of the moment, so that the condition holds at last: what the winner had added is
not in it.

Fixed: a failed precondition leaves the storage layer, and goes back to where the manifest is computed. Why
that is enough: every manifest that is written then contains all of the one that it replaces, and an entry
that is there already is not added again, so a lost reply does no harm.

Tempting, but incorrect: let the loser go on at once when the manifest holds its entry, and else write what
it has. It looks only for its own entry, not for the other's.
"""

import json
from collections.abc import Callable
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError, HTTPClientError

from fencepost.impl.store import ABSENT, Matches, Store
from fencepost.sim.world import View, World

BUCKET, MANIFEST = "zoo", "log/manifest/MANIFEST"
KEY = f"{BUCKET}/{MANIFEST}"
ONCE = Config(retries={"total_max_attempts": 1})
"""The fixed program retries by itself, where it knows what a second answer means."""


def with_entry(body: bytes, entry: str) -> bytes:
    entries: list[str] = json.loads(body)
    return json.dumps(entries if entry in entries else [*entries, entry]).encode()


# On the store interface.


def read(store: Store) -> tuple[bytes, str]:
    while True:
        found = store.get(KEY)
        if found.info is not None:
            return found.body, found.info.etag


def put_with_retries(store: Store, body: bytes, etag: str) -> None:
    """Write the manifest, whatever gets in the way."""
    while not store.put(KEY, body, when=Matches(etag)).done:
        _, etag = read(store)


def append(store: Store, entry: str) -> None:
    body, etag = read(store)
    put_with_retries(store, with_entry(body, entry), etag)


def append_looking_for_own(store: Store, entry: str) -> None:
    body, etag = read(store)
    new = with_entry(body, entry)
    while not store.put(KEY, new, when=Matches(etag)).done:
        body, etag = read(store)
        if entry in json.loads(body):
            return


def append_from_what_is(store: Store, entry: str) -> None:
    while True:
        body, etag = read(store)
        if store.put(KEY, with_entry(body, entry), when=Matches(etag)).done:
            return


# On boto3.


def put_s3_with_retries(s3: Any, body: bytes, etag: str) -> None:
    for _ in range(3):
        try:
            s3.put_object(Bucket=BUCKET, Key=MANIFEST, Body=body, IfMatch=etag)
        except ClientError:
            etag = s3.head_object(Bucket=BUCKET, Key=MANIFEST)["ETag"]
        else:
            return
    raise TimeoutError("the manifest could not be written")


def append_s3(s3: Any, entry: str) -> None:
    found = s3.get_object(Bucket=BUCKET, Key=MANIFEST)
    put_s3_with_retries(s3, with_entry(found["Body"].read(), entry), found["ETag"])


def append_s3_from_what_is(s3: Any, entry: str) -> None:
    while True:
        try:
            found = s3.get_object(Bucket=BUCKET, Key=MANIFEST)
            body = with_entry(found["Body"].read(), entry)
            s3.put_object(Bucket=BUCKET, Key=MANIFEST, Body=body, IfMatch=found["ETag"])
            return
        except HTTPClientError:
            continue
        except ClientError as error:
            if error.response["Error"]["Code"] != "PreconditionFailed":
                raise


# What must hold.


def write(world: World, store: Any, append: Callable[[Any, str], None]) -> None:
    append(store, world.me)
    world.note("appended", world.me)


def nothing_lost(view: View) -> str | None:
    entries = json.loads(view.get(KEY) or b"[]")
    lost = [entry for entry in view.notes("appended") if entry not in entries]
    return f"the entry of {' and '.join(lost)} was appended, and the manifest is {entries}" if lost else None


def each_once(view: View) -> bool:
    entries = json.loads(view.get(KEY) or b"[]")
    return len(entries) == len(set(entries))


def _program(world: World, store: Any, append: Callable[[Any, str], None]) -> None:
    world.store().put(KEY, b"[]", when=ABSENT)
    for name in ("ann", "bob"):
        world.spawn(write, world, store, append, name=name, restart=False)
    world.always("no appended entry is lost", nothing_lost)
    world.always("no entry is there twice", each_once)


def broken(world: World) -> None:
    _program(world, world.store(), append)


def fixed(world: World) -> None:
    _program(world, world.store(), append_from_what_is)


def tempting_look_for_own(world: World) -> None:
    _program(world, world.store(), append_looking_for_own)


def broken_boto3(world: World) -> None:
    world.boto3_bucket(BUCKET)
    _program(world, world.boto3_client("s3"), append_s3)


def fixed_boto3(world: World) -> None:
    world.boto3_bucket(BUCKET)
    _program(world, world.boto3_client("s3", config=ONCE), append_s3_from_what_is)
