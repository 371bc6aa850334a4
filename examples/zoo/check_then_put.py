"""Two winners of one marker.

Counterexample (dbtrail#929, #806; Quickwit's documentation warns of the same for its file-backed
metastore): an agent that starts looks whether the marker of the archive is there, and writes its own if
not. Two that start together both see nothing and both write. The last one stays; the first goes on under a
key that nobody will ever look for.

Fixed: create the marker only if absent, and whatever the answer, read it and use what it says. Why that is
enough: the marker is created once and never changed, so everybody reads the same.

Tempting, but incorrect: write it, read it back, and use what it says. Another may write behind the reading.
"""

from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from fencepost.examples.storage import with_boto3, with_store
from fencepost.impl.store import ABSENT, ANYTHING, Outcome, Store
from fencepost.sim.world import View, World

BUCKET, MARKER = "zoo", "archive/_partition_key"
KEY = f"{BUCKET}/{MARKER}"


# On the store interface.


def read(store: Store) -> str | None:
    while (found := store.get(KEY)).outcome is Outcome.UNKNOWN:
        pass
    return found.body.decode() if found.done else None


def ensure(store: Store, mine: str) -> str:
    """The partition key to write under."""
    standing = read(store)
    if standing is not None:
        return standing
    while not store.put(KEY, mine.encode(), when=ANYTHING).done:
        pass
    return mine


def ensure_and_verify(store: Store, mine: str) -> str:
    while (standing := read(store)) is None:
        store.put(KEY, mine.encode(), when=ANYTHING)
    return standing


def ensure_created(store: Store, mine: str) -> str:
    while (standing := read(store)) is None:
        store.put(KEY, mine.encode(), when=ABSENT)
    return standing


# On boto3.


def ensure_s3(s3: Any, mine: str) -> str:
    try:
        s3.head_object(Bucket=BUCKET, Key=MARKER)
    except ClientError as error:
        if error.response["Error"]["Code"] != "404":
            raise
        s3.put_object(Bucket=BUCKET, Key=MARKER, Body=mine)
        return mine
    body: bytes = s3.get_object(Bucket=BUCKET, Key=MARKER)["Body"].read()
    return body.decode()


def ensure_s3_created(s3: Any, mine: str) -> str:
    try:
        s3.put_object(Bucket=BUCKET, Key=MARKER, Body=mine, IfNoneMatch="*")
    except ClientError as error:
        # Perhaps our own, of an attempt whose reply was lost: the reading tells.
        if error.response["Error"]["Code"] != "PreconditionFailed":
            raise
    body: bytes = s3.get_object(Bucket=BUCKET, Key=MARKER)["Body"].read()
    return body.decode()


# What must hold.


def agent(world: World, store: Any, ensure: Callable[[Any, str], str]) -> None:
    world.note("writes under", ensure(store, f"server={world.me}"))


def one_key(view: View) -> str | None:
    keys = sorted(set(view.notes("writes under")))
    return f"agents write under {' and '.join(keys)}" if len(keys) > 1 else None


def _program(world: World, store: Any, ensure: Callable[[Any, str], str]) -> None:
    for name in ("ann", "bob"):
        world.spawn(agent, world, store, ensure, name=name)
    world.always("all write under one key", one_key)


broken = with_store(_program, ensure)
fixed = with_store(_program, ensure_created)
tempting_verify = with_store(_program, ensure_and_verify)
broken_boto3 = with_boto3(_program, ensure_s3)
fixed_boto3 = with_boto3(_program, ensure_s3_created)
