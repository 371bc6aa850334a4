"""A stalled writer writes a slot of the log that was used, compacted and collected; it will never be read.

Counterexample (slatedb#352, #1622): writers fence each other by creating the next slot of a log. The old
writer is slow; a newer one takes the slot, flushes the log into the manifest ("replay after slot 1") and
collects the slots it no longer needs. The old one goes on: the slot is free again, its write succeeds and
is acknowledged. Recovery starts behind it.

Fixed (as SlateDB's RFC 26): before it deletes, the collector moves a boundary, and after every write a
writer reads the boundary: a slot that is not beyond it does not count. Why that is enough: a slot can only
be free again after the boundary has passed it, so a writer that fills it finds the boundary beyond it.

Tempting, but incorrect: look at the manifest before the write. The takeover happens between look and write.
"""

import json
from collections.abc import Callable

from fencepost.examples.storage import AnyStorage, Unknown, on_both
from fencepost.sim.world import View, World

MANIFEST, BOUNDARY = "manifest", "gc/wal.boundary"
FRESH = b'{"after": 0, "rows": []}'


class Stop(Exception):
    """Fenced: the writer gives up. It acknowledges nothing that it does not know for certain either."""


def slot_name(slot: int) -> str:
    return f"wal/{slot:04}"


def append(storage: AnyStorage, slot: int, row: str) -> None:
    if not storage.create(slot_name(slot), row.encode()):
        raise Stop


def append_after_a_look(storage: AnyStorage, slot: int, row: str) -> None:
    manifest = storage.get(MANIFEST)
    if manifest is None or json.loads(manifest[0])["after"] >= slot:
        raise Stop
    append(storage, slot, row)


def append_and_look(storage: AnyStorage, slot: int, row: str) -> None:
    append(storage, slot, row)
    boundary = storage.get(BOUNDARY)
    if boundary is None or int(boundary[0]) >= slot:
        raise Stop


def take_over(storage: AnyStorage, row: str) -> tuple[int, list[str]]:
    """Write our row into the first free slot; the rows of the log so far are replayed."""
    rows: list[str] = []
    while not storage.create(slot_name(len(rows) + 1), row.encode()):
        taken = storage.get(slot_name(len(rows) + 1))
        if taken is None:
            raise Stop
        rows.append(taken[0].decode())
    return len(rows) + 1, [*rows, row]


def flush(storage: AnyStorage, slot: int, rows: list[str]) -> None:
    found = storage.get(MANIFEST)
    body = json.dumps({"after": slot, "rows": rows}).encode()
    if found is None or not storage.replace(MANIFEST, body, found[1]):
        raise Stop


def collect(storage: AnyStorage, slot: int) -> None:
    for old in range(1, slot + 1):
        storage.delete(slot_name(old))


def collect_behind_boundary(storage: AnyStorage, slot: int) -> None:
    storage.put(BOUNDARY, b"%d" % slot)
    collect(storage, slot)


# The writers.

Append = Callable[[AnyStorage, int, str], None]
Collect = Callable[[AnyStorage, int], None]


def old_writer(world: World, storage: AnyStorage, append: Append) -> None:
    append(storage, 1, "old row")
    world.note("acknowledged", "old row")


def new_writer(world: World, storage: AnyStorage, collect: Collect) -> None:
    slot, rows = take_over(storage, "new row")
    world.note("acknowledged", "new row")
    flush(storage, slot, rows)
    collect(storage, slot)


# Properties.


def nothing_lost(view: View) -> str | None:
    """Recovery is the manifest, and the slots behind the one that it names."""
    manifest = json.loads(view.get(f"zoo/{MANIFEST}") or FRESH)
    recovered = list(manifest["rows"])
    slot = manifest["after"] + 1
    while (row := view.get(f"zoo/{slot_name(slot)}")) is not None:
        recovered.append(row.decode())
        slot += 1
    lost = sorted(set(view.notes("acknowledged")) - set(recovered))
    return f"{' and '.join(lost)}: acknowledged, and recovery finds {recovered}" if lost else None


def _program(world: World, storage: AnyStorage, append: Append, collect: Collect) -> None:
    storage.put(MANIFEST, FRESH)
    storage.put(BOUNDARY, b"0")
    world.spawn(old_writer, world, storage, append, restart=False, may_raise=(Stop, Unknown))
    world.spawn(new_writer, world, storage, collect, restart=False, may_raise=(Stop, Unknown))
    world.always("no acknowledged row is lost", nothing_lost)
    world.sometimes("both writers write", lambda view: len(view.notes("acknowledged")) == 2)


broken, broken_boto3 = on_both(_program, append, collect)
fixed, fixed_boto3 = on_both(_program, append_and_look, collect_behind_boundary)
tempting_look_before, _ = on_both(_program, append_after_a_look, collect)
