"""Two writers open a log at the same time, and the older one wins.

Counterexample (slatedb#271, found by a model of the protocol, #266): to open the log a writer claims the
next epoch, then lists the log for the next free slot and fences it. A second one claims and fences between
the two steps of the first; the first lists, sees the second's fence, and fences the slot behind it. Both
are open, and the log goes back from epoch 2 to epoch 1.

Fixed: look for the slot first, then claim the epoch, then fence that very slot. When it is taken, read the
manifest: a higher epoch there means that we are the older one and fenced. Why that is enough: a writer with a
later epoch claimed it after us, so it had not fenced when we looked. A fence of it that comes before ours
lies at or beyond our slot: we run into it, and find the higher epoch.

Tempting, but incorrect: look first, but on a taken slot just go to the next one.
"""

import json
from collections.abc import Callable

from fencepost.examples.storage import AnyStorage, Unknown, on_both
from fencepost.sim.world import View, World

MANIFEST = "manifest"


class Fenced(Exception):
    """A newer writer owns the log."""


def slot_name(slot: int) -> str:
    return f"wal/{slot:04}"


def current_epoch(storage: AnyStorage) -> tuple[int, str]:
    found = storage.get(MANIFEST)
    assert found is not None
    return int(found[0]), found[1]


def claim(storage: AnyStorage) -> int:
    epoch, etag = current_epoch(storage)
    if not storage.replace(MANIFEST, b"%d" % (epoch + 1), etag):
        raise Fenced
    return epoch + 1


def next_slot(storage: AnyStorage) -> int:
    return len(storage.keys("wal/")) + 1


def fence(storage: AnyStorage, epoch: int, slot: int) -> None:
    body = json.dumps({"epoch": epoch}).encode()
    while not storage.create(slot_name(slot), body):
        slot += 1


def fence_or_yield(storage: AnyStorage, epoch: int, slot: int) -> None:
    body = json.dumps({"epoch": epoch}).encode()
    while not storage.create(slot_name(slot), body):
        if current_epoch(storage)[0] > epoch:
            raise Fenced
        slot += 1


Fence = Callable[[AnyStorage, int, int], None]


def open_claiming_first(world: World, storage: AnyStorage, fence: Fence) -> None:
    epoch = claim(storage)
    fence(storage, epoch, next_slot(storage))
    world.note("open", epoch)


def open_looking_first(world: World, storage: AnyStorage, fence: Fence) -> None:
    slot = next_slot(storage)
    epoch = claim(storage)
    fence(storage, epoch, slot)
    world.note("open", epoch)


# Properties.


def epochs_rise(view: View) -> str | None:
    epochs = [json.loads(body)["epoch"] for body in view.contents("zoo/wal/").values()]
    return None if epochs == sorted(epochs) else f"the log was fenced by epochs {epochs}, in this order"


def _program(world: World, storage: AnyStorage, open_log: Callable[..., None], fence: Fence) -> None:
    storage.put(MANIFEST, b"0")
    for name in ("ann", "bob"):
        world.spawn(open_log, world, storage, fence, name=name, restart=False, may_raise=(Fenced, Unknown))
    world.always("epochs never go back along the log", epochs_rise)
    world.sometimes("one after the other, both open", lambda view: len(view.notes("open")) == 2)


broken, broken_boto3 = on_both(_program, open_claiming_first, fence_or_yield)
fixed, fixed_boto3 = on_both(_program, open_looking_first, fence_or_yield)
tempting_next_slot, _ = on_both(_program, open_looking_first, fence)
