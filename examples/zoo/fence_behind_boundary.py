"""A writer fences a slot that the old writer has long passed; both go on writing.

Counterexample (slatedb#1682, with three writers #1709): a new writer looks for the next slot of the log,
claims the next epoch in the manifest, and fences the old writer by creating that slot. Between looking and
claiming the old one has filled the slot and flushed, and the slot was collected. The fence lands where it
has no effect: the new writer reports itself open, and the old one keeps acknowledging rows the new one does
not know.

Fixed: after creating the fence, read the manifest again. A fence behind "replay after" has no effect: take
the next slot after it; another epoch means that we are fenced ourselves. Why that is enough: once our epoch
is in the manifest the old writer cannot flush any more, so nothing beyond "replay after" can be collected.
The old writer must still pass the first slot that we win beyond it.

Tempting, but incorrect: check that the slot is still beyond, write the fence, and claim the epoch last.
Until then the old writer may flush, and the fence is collected.
"""

import json
from collections.abc import Callable
from typing import Any

from fencepost.examples.storage import AnyStorage, Unknown, on_both
from fencepost.sim.world import View, World

MANIFEST = "manifest"
FRESH = b'{"epoch": 1, "after": 0, "rows": []}'


class Fenced(Exception):
    """A newer writer owns the log."""


def slot_name(slot: int) -> str:
    return f"wal/{slot:04}"


def read_manifest(storage: AnyStorage) -> tuple[dict[str, Any], str]:
    found = storage.get(MANIFEST)
    assert found is not None
    return json.loads(found[0]), found[1]


# The writers.


def old_writer(world: World, storage: AnyStorage) -> None:
    """The writer of epoch 1: a row, a flush, which frees the slot, and another row."""
    if not storage.create(slot_name(1), b"row 1"):
        raise Fenced
    world.note("acknowledged", "row 1")
    manifest, etag = read_manifest(storage)
    flushed = json.dumps({"epoch": 1, "after": 1, "rows": ["row 1"]}).encode()
    if manifest["epoch"] != 1 or not storage.replace(MANIFEST, flushed, etag):
        raise Fenced
    storage.delete(slot_name(1))
    if not storage.create(slot_name(2), b"row 2"):
        raise Fenced
    world.note("acknowledged", "row 2")


def next_slot(storage: AnyStorage) -> int:
    slots = [int(key[-4:]) for key in storage.keys("wal/")]
    return max([read_manifest(storage)[0]["after"], *slots]) + 1


def claim(storage: AnyStorage) -> dict[str, Any]:
    """The manifest with our epoch in it."""
    manifest, etag = read_manifest(storage)
    manifest["epoch"] += 1
    if not storage.replace(MANIFEST, json.dumps(manifest).encode(), etag):
        raise Fenced
    return manifest


def fence(storage: AnyStorage, slot: int) -> int:
    """Take the first free slot from `slot` on."""
    while not storage.create(slot_name(slot), b"fence"):
        slot += 1
    return slot


def replay(storage: AnyStorage, manifest: dict[str, Any], fence: int) -> list[str]:
    found = [storage.get(slot_name(slot)) for slot in range(manifest["after"] + 1, fence)]
    return [*manifest["rows"], *(row[0].decode() for row in found if row is not None)]


def open_log(storage: AnyStorage) -> list[str]:
    slot = next_slot(storage)
    manifest = claim(storage)
    return replay(storage, manifest, fence(storage, slot))


def open_log_claiming_last(storage: AnyStorage) -> list[str]:
    slot = next_slot(storage)
    if slot <= read_manifest(storage)[0]["after"]:
        raise Fenced
    slot = fence(storage, slot)
    return replay(storage, claim(storage), slot)


def open_log_and_check(storage: AnyStorage) -> list[str]:
    slot = next_slot(storage)
    epoch = claim(storage)["epoch"]
    while True:
        slot = fence(storage, slot)
        manifest, _ = read_manifest(storage)
        if manifest["epoch"] != epoch:
            raise Fenced
        if slot > manifest["after"]:
            return replay(storage, manifest, slot)
        slot = manifest["after"] + 1


OpenLog = Callable[[AnyStorage], list[str]]


def new_writer(world: World, storage: AnyStorage, open_log: OpenLog) -> None:
    world.note("opened with", tuple(open_log(storage)))


# Properties.


def one_writer(view: View) -> str | None:
    """Whatever was acknowledged to clients of the old writer is known to the new one, now and later."""
    for rows in view.notes("opened with"):
        unknown = [row for row in view.notes("acknowledged") if row not in rows]
        if unknown:
            return f"{' and '.join(unknown)}: acknowledged, and the writer that is open has {list(rows)}"
    return None


def _program(world: World, storage: AnyStorage, open_log: OpenLog) -> None:
    storage.put(MANIFEST, FRESH)
    failures = (Fenced, Unknown)
    world.spawn(old_writer, world, storage, name="old", restart=False, may_raise=failures)
    world.spawn(new_writer, world, storage, open_log, name="new", restart=False, may_raise=failures)
    world.always("one writer at a time", one_writer)
    world.sometimes("the new one takes over", lambda view: bool(view.notes("opened with")))


broken, broken_boto3 = on_both(_program, open_log)
fixed, fixed_boto3 = on_both(_program, open_log_and_check)
tempting_claim_last, _ = on_both(_program, open_log_claiming_last)
