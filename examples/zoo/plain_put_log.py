"""Two writers of one log overwrite each other's entries.

Counterexample (lance#6432): the writers of a shard are fenced by an epoch in its manifest, but the entries
of the log are written without a condition. A writer that was fenced does not notice before it next touches
the manifest; until then it and its successor count positions by themselves, and write to the same ones.
What was acknowledged is gone.

Fixed: an entry is created only if absent; "exists" stops the writer. Why that is enough: what was
acknowledged was created, and what was created is never written again.

Tempting, but incorrect: read the epoch in the manifest before every entry. The takeover happens between the
look and the write.
"""

from collections.abc import Callable
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError, HTTPClientError

from fencepost.impl.store import ABSENT, ANYTHING, Store
from fencepost.sim.world import View, World

BUCKET, EPOCH = "zoo", "shard-0/epoch"
ONCE = Config(retries={"total_max_attempts": 1})
"""No writer retries: it does not acknowledge what it does not know for certain."""


class Stop(Exception):
    """Fenced, or not known whether the entry was written."""


def position_name(position: int) -> str:
    return f"shard-0/wal/{position:04}"


# On the store interface.


def append(store: Store, _epoch: int, position: int, row: str) -> None:
    if not store.put(f"{BUCKET}/{position_name(position)}", row.encode(), when=ANYTHING).done:
        raise Stop


def append_in_epoch(store: Store, epoch: int, position: int, row: str) -> None:
    found = store.get(f"{BUCKET}/{EPOCH}")
    if not found.done or int(found.body) > epoch:
        raise Stop
    append(store, epoch, position, row)


def append_if_absent(store: Store, _epoch: int, position: int, row: str) -> None:
    if not store.put(f"{BUCKET}/{position_name(position)}", row.encode(), when=ABSENT).done:
        raise Stop


def take_over(store: Store) -> int:
    """Claim epoch 2; the next position."""
    claimed = store.put(f"{BUCKET}/{EPOCH}", b"2", when=ANYTHING)
    listed = store.list(f"{BUCKET}/shard-0/wal/")
    if not (claimed.done and listed.done):
        raise Stop
    return len(listed.objects) + 1


# On boto3.


def append_s3(s3: Any, _epoch: int, position: int, row: str) -> None:
    s3.put_object(Bucket=BUCKET, Key=position_name(position), Body=row)


def append_s3_if_absent(s3: Any, _epoch: int, position: int, row: str) -> None:
    try:
        s3.put_object(Bucket=BUCKET, Key=position_name(position), Body=row, IfNoneMatch="*")
    except (ClientError, HTTPClientError) as error:
        raise Stop from error


def take_over_s3(s3: Any) -> int:
    s3.put_object(Bucket=BUCKET, Key=EPOCH, Body="2")
    return int(s3.list_objects_v2(Bucket=BUCKET, Prefix="shard-0/wal/")["KeyCount"]) + 1


# The writers.

Append = Callable[[Any, int, int, str], None]


def old_writer(world: World, store: Any, append: Append) -> None:
    for position in (1, 2):
        append(store, 1, position, f"old {position}")
        world.note("acknowledged", f"old {position}")


def new_writer(world: World, store: Any, append: Append, take_over: Callable[[Any], int]) -> None:
    position = take_over(store)
    append(store, 2, position, "new")
    world.note("acknowledged", "new")


# What must hold.


def nothing_lost(view: View) -> str | None:
    rows = [body.decode() for body in view.contents(f"{BUCKET}/shard-0/wal/").values()]
    lost = [row for row in view.notes("acknowledged") if row not in rows]
    return f"{' and '.join(lost)}: acknowledged, and the log holds {rows}" if lost else None


def _program(world: World, store: Any, append: Append, take_over: Callable[[Any], int]) -> None:
    failures = (Stop, ClientError, HTTPClientError)
    world.spawn(old_writer, world, store, append, name="old", restart=False, may_raise=failures)
    world.spawn(new_writer, world, store, append, take_over, name="new", restart=False, may_raise=failures)
    world.always("no acknowledged row is lost", nothing_lost)
    world.sometimes("both writers write", lambda view: {"old 1", "new"} <= set(view.notes("acknowledged")))


def _on_store(world: World, append: Append) -> None:
    store = world.store()
    store.put(f"{BUCKET}/{EPOCH}", b"1", when=ABSENT)
    _program(world, store, append, take_over)


def _on_boto3(world: World, append: Append) -> None:
    world.boto3_bucket(BUCKET)
    s3 = world.boto3_client("s3", config=ONCE)
    s3.put_object(Bucket=BUCKET, Key=EPOCH, Body="1")
    _program(world, s3, append, take_over_s3)


def broken(world: World) -> None:
    _on_store(world, append)


def fixed(world: World) -> None:
    _on_store(world, append_if_absent)


def tempting_read_the_epoch(world: World) -> None:
    _on_store(world, append_in_epoch)


def broken_boto3(world: World) -> None:
    _on_boto3(world, append_s3)


def fixed_boto3(world: World) -> None:
    _on_boto3(world, append_s3_if_absent)
