"""A healthy writer that fences itself.

Counterexample (slatedb#766, slatedb#819): a writer owns its log by creating the next slot. A request is
applied and times out; the retry meets the slot, which exists, and "exists" means "a newer writer has taken
over": the only writer of a healthy database shuts itself down.

Fixed (as slatedb#1164): every write carries an identifier of its own beside the data. A writer that meets
"exists" reads the slot: our identifier means that the first attempt had landed, any other means that the
slot is somebody else's. Why that is enough: slots are never written twice, so what stands there is the one
write that won.

Tempting, but incorrect: on "exists" just take the next slot. The old writer then never learns that it is
fenced, and writes behind the new one.
"""

import json
import uuid
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from fencepost.examples.storage import with_boto3, with_store
from fencepost.impl.store import ABSENT, Outcome, Store
from fencepost.sim.world import View, World

BUCKET, WAL = "zoo", "wal/"


class Fenced(Exception):
    """A newer writer owns the log."""


def entry(epoch: int, record: str) -> bytes:
    return json.dumps({"epoch": epoch, "record": record}).encode()


def name(slot: int) -> str:
    return f"{WAL}{slot:020}.sst"


# On the store interface.


def create(store: Store, slot: int, body: bytes) -> bool:
    """Whether the slot is ours."""
    while True:
        outcome = store.put(f"{BUCKET}/{name(slot)}", body, when=ABSENT).outcome
        if outcome in (Outcome.DONE, Outcome.EXISTS):
            return outcome is Outcome.DONE


def create_signed(store: Store, slot: int, body: bytes) -> bool:
    key, mine = f"{BUCKET}/{name(slot)}", store.env.new_id()
    while True:
        reply = store.put(key, body, when=ABSENT, metadata={"put-id": mine})
        if reply.done:
            return True
        if reply.outcome is Outcome.EXISTS:
            stands = store.head(key)
            if stands.info is not None:
                return stands.info.metadata["put-id"] == mine


# On boto3.


def create_s3(s3: Any, slot: int, body: bytes) -> bool:
    try:
        s3.put_object(Bucket=BUCKET, Key=name(slot), Body=body, IfNoneMatch="*")
    except ClientError as error:
        if error.response["Error"]["Code"] == "PreconditionFailed":
            return False
        raise
    return True


def create_s3_signed(s3: Any, slot: int, body: bytes) -> bool:
    mine = uuid.uuid4().hex
    try:
        s3.put_object(Bucket=BUCKET, Key=name(slot), Body=body, IfNoneMatch="*", Metadata={"put-id": mine})
    except ClientError as error:
        if error.response["Error"]["Code"] != "PreconditionFailed":
            raise
        stands = s3.head_object(Bucket=BUCKET, Key=name(slot))
        return bool(stands["Metadata"].get("put-id") == mine)
    return True


# The writers, on either.

Create = Callable[[Any, int, bytes], bool]


def write(world: World, store: Any, create: Create) -> None:
    """The writer of epoch 1, which has the log to itself until somebody takes over."""
    for slot, record in enumerate(("a", "b"), start=1):
        if not create(store, slot, entry(1, record)):
            world.note("fenced", 1)
            raise Fenced


def write_on(_world: World, store: Any, create: Create) -> None:
    """The same, never fenced: what is taken is stepped over."""
    slot = 1
    for record in ("a", "b"):
        while not create(store, slot, entry(1, record)):
            slot += 1


def take_over(_world: World, store: Any, create: Create) -> None:
    """The writer of epoch 2 fences the log by taking the next slot, whichever that is."""
    slot = 1
    while not create(store, slot, entry(2, "")):
        slot += 1


# What must hold.


def entries(view: View) -> list[dict[str, Any]]:
    return [json.loads(body) for body in view.contents(f"{BUCKET}/{WAL}").values()]


def fenced_by_newer(view: View) -> bool:
    return all(any(found["epoch"] > epoch for found in entries(view)) for epoch in view.notes("fenced"))


def epochs_rise(view: View) -> bool:
    epochs = [found["epoch"] for found in entries(view)]
    return epochs == sorted(epochs)


def promises(world: World) -> None:
    world.always("only a newer writer fences", fenced_by_newer)
    world.always("epochs never go back along the log", epochs_rise)


def _program(world: World, store: Any, create: Create, old: Callable[..., None] = write) -> None:
    world.spawn(old, world, store, create, name="old", restart=False, may_raise=(Fenced,))
    world.spawn(take_over, world, store, create, name="new", restart=False)
    promises(world)


broken = with_store(_program, create)
fixed = with_store(_program, create_signed)
tempting_step_over = with_store(_program, create, write_on)
broken_boto3 = with_boto3(_program, create_s3)
fixed_boto3 = with_boto3(_program, create_s3_signed)
