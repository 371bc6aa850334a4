"""A healthy writer that fences itself.

Counterexample (slatedb#766, slatedb#819): a writer owns its log by creating the next slot. A request is
applied and times out; the retry meets the slot, which exists, and "exists" means "a newer writer has taken
over": the only writer of a healthy database shuts itself down.

Fixed (as slatedb#1164): every write carries an identifier of its own beside the data. A writer that meets
"exists" reads the slot: our identifier means that the first attempt had landed, any other means that the
slot is somebody else's. Why that is enough: slots are never written twice, so the content is the one
write that won.

Tempting, but incorrect: on "exists" just take the next slot. The old writer then never learns that it is
fenced, and writes behind the new one.
"""

import json
from collections.abc import Callable
from typing import Any

from fencepost.examples.storage import AnyStorage, Unknown, on_both
from fencepost.sim.world import View, World

WAL = "wal/"


class Fenced(Exception):
    """A newer writer owns the log."""


def entry(epoch: int, record: str) -> bytes:
    return json.dumps({"epoch": epoch, "record": record}).encode()


def name(slot: int) -> str:
    return f"{WAL}{slot:020}.sst"


def create(storage: AnyStorage, slot: int, body: bytes) -> bool:
    """Return True if the slot is ours."""
    while True:
        try:
            return storage.create(name(slot), body)
        except Unknown:
            continue


def create_signed(storage: AnyStorage, slot: int, body: bytes) -> bool:
    mine = storage.new_id()
    while True:
        try:
            return storage.create(name(slot), body, mine) or storage.put_id(name(slot)) == mine
        except Unknown:
            continue


# The writers.

Create = Callable[[AnyStorage, int, bytes], bool]


def write(world: World, storage: AnyStorage, create: Create) -> None:
    """The writer of epoch 1, which has the log to itself until somebody takes over."""
    for slot, record in enumerate(("a", "b"), start=1):
        if not create(storage, slot, entry(1, record)):
            world.note("fenced", 1)
            raise Fenced


def write_on(_world: World, storage: AnyStorage, create: Create) -> None:
    """The same, never fenced: what is taken is stepped over."""
    slot = 1
    for record in ("a", "b"):
        while not create(storage, slot, entry(1, record)):
            slot += 1


def take_over(_world: World, storage: AnyStorage, create: Create) -> None:
    """The writer of epoch 2 fences the log by taking the next slot, whichever that is."""
    slot = 1
    while not create(storage, slot, entry(2, "")):
        slot += 1


# Properties.


def entries(view: View) -> list[dict[str, Any]]:
    return [json.loads(body) for body in view.contents(f"zoo/{WAL}").values()]


def fenced_by_newer(view: View) -> bool:
    return all(any(found["epoch"] > epoch for found in entries(view)) for epoch in view.notes("fenced"))


def epochs_rise(view: View) -> bool:
    epochs = [found["epoch"] for found in entries(view)]
    return epochs == sorted(epochs)


def promises(world: World) -> None:
    world.always("only a newer writer fences", fenced_by_newer)
    world.always("epochs never go back along the log", epochs_rise)


def _program(world: World, storage: AnyStorage, create: Create, old: Callable[..., None] = write) -> None:
    world.spawn(old, world, storage, create, name="old", restart=False, may_raise=(Fenced,))
    world.spawn(take_over, world, storage, create, name="new", restart=False)
    promises(world)


broken, broken_boto3 = on_both(_program, create)
fixed, fixed_boto3 = on_both(_program, create_signed)
tempting_step_over, _ = on_both(_program, create, write_on)
