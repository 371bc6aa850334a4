"""A stalled writer writes a slot of the log that was used, compacted and collected; nobody will read it.

Counterexample (slatedb#352, #1622): writers fence each other by creating the next slot of a log. The old
writer is slow; a newer one takes the slot, flushes the log into the manifest ("replay after slot 1") and
collects the slots it no longer needs. The old one goes on: the slot is free again, its write succeeds and
is acknowledged. Recovery starts behind it.

Fixed (as SlateDB's RFC 26): before it deletes, the collector moves a boundary, and after every write a
writer reads the boundary: a slot that is not beyond it does not count. Why that is enough: a slot can only
be free again after the boundary has passed it, so whoever fills it sees that.

Tempting, but incorrect: look at the manifest before the write. The takeover happens between look and write.
"""

import json
from collections.abc import Callable
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError, HTTPClientError

from fencepost.impl.store import ABSENT, ANYTHING, Matches, Store
from fencepost.sim.world import View, World

BUCKET, MANIFEST, BOUNDARY = "zoo", "manifest", "gc/wal.boundary"
FRESH = b'{"after": 0, "rows": []}'
ONCE = Config(retries={"total_max_attempts": 1})
"""Neither writer retries: it does not acknowledge what it does not know for certain."""


class Stop(Exception):
    """Fenced, or not known whether: the writer gives up, and acknowledges nothing more."""


def slot_name(slot: int) -> str:
    return f"wal/{slot:04}"


# On the store interface.


def append(store: Store, slot: int, row: str) -> None:
    if not store.put(f"{BUCKET}/{slot_name(slot)}", row.encode(), when=ABSENT).done:
        raise Stop


def append_after_a_look(store: Store, slot: int, row: str) -> None:
    manifest = store.get(f"{BUCKET}/{MANIFEST}")
    if not manifest.done or json.loads(manifest.body)["after"] >= slot:
        raise Stop
    append(store, slot, row)


def append_and_look(store: Store, slot: int, row: str) -> None:
    append(store, slot, row)
    boundary = store.get(f"{BUCKET}/{BOUNDARY}")
    if not boundary.done or int(boundary.body) >= slot:
        raise Stop


def take_over(store: Store, row: str) -> tuple[int, list[str]]:
    """Write our row into the first free slot; the rows of the log so far are replayed."""
    rows: list[str] = []
    while not store.put(f"{BUCKET}/{slot_name(len(rows) + 1)}", row.encode(), when=ABSENT).done:
        taken = store.get(f"{BUCKET}/{slot_name(len(rows) + 1)}")
        if not taken.done:
            raise Stop
        rows.append(taken.body.decode())
    return len(rows) + 1, [*rows, row]


def flush(store: Store, slot: int, rows: list[str]) -> None:
    found = store.get(f"{BUCKET}/{MANIFEST}")
    body = json.dumps({"after": slot, "rows": rows}).encode()
    if found.info is None or not store.put(f"{BUCKET}/{MANIFEST}", body, when=Matches(found.info.etag)).done:
        raise Stop


def collect(store: Store, slot: int) -> None:
    for old in range(1, slot + 1):
        store.delete(f"{BUCKET}/{slot_name(old)}", when=ANYTHING)


def collect_behind_boundary(store: Store, slot: int) -> None:
    if not store.put(f"{BUCKET}/{BOUNDARY}", b"%d" % slot, when=ANYTHING).done:
        raise Stop
    collect(store, slot)


# On boto3.


def append_s3(s3: Any, slot: int, row: str) -> None:
    try:
        s3.put_object(Bucket=BUCKET, Key=slot_name(slot), Body=row, IfNoneMatch="*")
    except (ClientError, HTTPClientError) as error:
        raise Stop from error


def append_s3_and_look(s3: Any, slot: int, row: str) -> None:
    append_s3(s3, slot, row)
    boundary = s3.get_object(Bucket=BUCKET, Key=BOUNDARY)
    if int(boundary["Body"].read()) >= slot:
        raise Stop


def take_over_s3(s3: Any, row: str) -> tuple[int, list[str]]:
    rows: list[str] = []
    while True:
        slot = len(rows) + 1
        try:
            s3.put_object(Bucket=BUCKET, Key=slot_name(slot), Body=row, IfNoneMatch="*")
            return slot, [*rows, row]
        except ClientError as error:
            if error.response["Error"]["Code"] != "PreconditionFailed":
                raise
        rows.append(s3.get_object(Bucket=BUCKET, Key=slot_name(slot))["Body"].read().decode())


def flush_s3(s3: Any, slot: int, rows: list[str]) -> None:
    found = s3.head_object(Bucket=BUCKET, Key=MANIFEST)
    body = json.dumps({"after": slot, "rows": rows})
    s3.put_object(Bucket=BUCKET, Key=MANIFEST, Body=body, IfMatch=found["ETag"])


def collect_s3(s3: Any, slot: int) -> None:
    for old in range(1, slot + 1):
        s3.delete_object(Bucket=BUCKET, Key=slot_name(old))


def collect_s3_behind_boundary(s3: Any, slot: int) -> None:
    s3.put_object(Bucket=BUCKET, Key=BOUNDARY, Body=str(slot))
    collect_s3(s3, slot)


# The writers.


def old_writer(world: World, store: Any, append: Callable[[Any, int, str], None]) -> None:
    append(store, 1, "old row")
    world.note("acknowledged", "old row")


def new_writer(
    world: World,
    store: Any,
    take_over: Callable[[Any, str], tuple[int, list[str]]],
    flush: Callable[[Any, int, list[str]], None],
    collect: Callable[[Any, int], None],
) -> None:
    slot, rows = take_over(store, "new row")
    world.note("acknowledged", "new row")
    flush(store, slot, rows)
    collect(store, slot)


# What must hold.


def nothing_lost(view: View) -> str | None:
    """Recovery is the manifest, and the slots behind the one that it names."""
    manifest = json.loads(view.get(f"{BUCKET}/{MANIFEST}") or FRESH)
    recovered = list(manifest["rows"])
    slot = manifest["after"] + 1
    while (row := view.get(f"{BUCKET}/{slot_name(slot)}")) is not None:
        recovered.append(row.decode())
        slot += 1
    lost = sorted(set(view.notes("acknowledged")) - set(recovered))
    return f"{' and '.join(lost)}: acknowledged, and recovery finds {recovered}" if lost else None


def promises(world: World) -> None:
    world.always("no acknowledged row is lost", nothing_lost)
    world.sometimes("both writers write", lambda view: len(view.notes("acknowledged")) == 2)


def _on_store(world: World, append: Any, collect: Any) -> None:
    store = world.store()
    store.put(f"{BUCKET}/{MANIFEST}", FRESH, when=ABSENT)
    store.put(f"{BUCKET}/{BOUNDARY}", b"0", when=ABSENT)
    world.spawn(old_writer, world, store, append, restart=False, may_raise=(Stop,))
    world.spawn(new_writer, world, store, take_over, flush, collect, restart=False, may_raise=(Stop,))
    promises(world)


def _on_boto3(world: World, append: Any, collect: Any) -> None:
    world.boto3_bucket(BUCKET)
    s3 = world.boto3_client("s3", config=ONCE)
    s3.put_object(Bucket=BUCKET, Key=MANIFEST, Body=FRESH)
    s3.put_object(Bucket=BUCKET, Key=BOUNDARY, Body="0")
    failures = (Stop, ClientError, HTTPClientError)
    world.spawn(old_writer, world, s3, append, restart=False, may_raise=failures)
    world.spawn(new_writer, world, s3, take_over_s3, flush_s3, collect, restart=False, may_raise=failures)
    promises(world)


def broken(world: World) -> None:
    _on_store(world, append, collect)


def fixed(world: World) -> None:
    _on_store(world, append_and_look, collect_behind_boundary)


def tempting_look_before(world: World) -> None:
    _on_store(world, append_after_a_look, collect)


def broken_boto3(world: World) -> None:
    _on_boto3(world, append_s3, collect_s3)


def fixed_boto3(world: World) -> None:
    _on_boto3(world, append_s3_and_look, collect_s3_behind_boundary)
