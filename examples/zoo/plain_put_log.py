"""Two writers of one log overwrite each other's entries.

Counterexample (lance#6432): the writers of a shard are fenced by an epoch in its manifest, but the entries
of the log are written without a condition. A writer that was fenced does not notice before it next touches
the manifest; until then it and its successor count positions by themselves, and write to the same ones.
Acknowledged entries are gone.

Fixed: an entry is created only if absent; "exists" stops the writer. Why that is enough: what was
acknowledged was created, and what was created is never written again.

Tempting, but incorrect: read the epoch in the manifest before every entry. The takeover happens between the
look and the write.
"""

from collections.abc import Callable

from fencepost.examples.storage import AnyStorage, Unknown, on_both
from fencepost.sim.world import View, World

EPOCH, WAL = "shard-0/epoch", "shard-0/wal/"


class Stop(Exception):
    """Fenced: the writer gives up, as it does when it cannot know whether an entry was written."""


def position_name(position: int) -> str:
    return f"{WAL}{position:04}"


def append(storage: AnyStorage, _epoch: int, position: int, row: str) -> None:
    storage.put(position_name(position), row.encode())


def append_in_epoch(storage: AnyStorage, epoch: int, position: int, row: str) -> None:
    found = storage.get(EPOCH)
    if found is None or int(found[0]) > epoch:
        raise Stop
    append(storage, epoch, position, row)


def append_if_absent(storage: AnyStorage, _epoch: int, position: int, row: str) -> None:
    if not storage.create(position_name(position), row.encode()):
        raise Stop


# The writers.

Append = Callable[[AnyStorage, int, int, str], None]


def old_writer(world: World, storage: AnyStorage, append: Append) -> None:
    for position in (1, 2):
        append(storage, 1, position, f"old {position}")
        world.note("acknowledged", f"old {position}")


def new_writer(world: World, storage: AnyStorage, append: Append) -> None:
    """Claims epoch 2, and writes at the next position."""
    storage.put(EPOCH, b"2")
    append(storage, 2, len(storage.keys(WAL)) + 1, "new")
    world.note("acknowledged", "new")


# Properties.


def nothing_lost(view: View) -> str | None:
    rows = [body.decode() for body in view.contents(f"zoo/{WAL}").values()]
    lost = [row for row in view.notes("acknowledged") if row not in rows]
    return f"{' and '.join(lost)}: acknowledged, and the log holds {rows}" if lost else None


def _program(world: World, storage: AnyStorage, append: Append) -> None:
    storage.put(EPOCH, b"1")
    for name, writer in (("old", old_writer), ("new", new_writer)):
        world.spawn(writer, world, storage, append, name=name, restart=False, may_raise=(Stop, Unknown))
    world.always("no acknowledged row is lost", nothing_lost)
    world.sometimes("both writers write", lambda view: {"old 1", "new"} <= set(view.notes("acknowledged")))


broken, broken_boto3 = on_both(_program, append)
fixed, fixed_boto3 = on_both(_program, append_if_absent)
tempting_read_the_epoch, _ = on_both(_program, append_in_epoch)
