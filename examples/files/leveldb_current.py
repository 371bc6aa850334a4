"""A key-value store that moves to a new manifest: the file CURRENT names it, and the old one is removed.

As reported of LevelDB (ALICE, OSDI 2014): the rename of CURRENT and the removal of the old manifest are not
ordered, so after a power loss CURRENT may name a manifest that is gone, and the store does not open. Fixed:
the directory is flushed between the two.
"""

import os
from pathlib import Path

from fencepost.examples.files import faulty, flush_folder, read, write
from fencepost.sim.world import View, World


def move_on(world: World, folder: Path, *, ordered: bool = True, flush_current: bool = True) -> None:
    write(folder / "MANIFEST-2", b"manifest 2")
    write(folder / "CURRENT.tmp", b"MANIFEST-2", flush=flush_current)
    if ordered:
        flush_folder(folder)
    os.rename(folder / "CURRENT.tmp", folder / "CURRENT")
    if ordered:
        flush_folder(folder)
    (folder / "MANIFEST-1").unlink()
    world.note("moved on")


def open_store(world: World, folder: Path) -> None:
    name = (read(folder / "CURRENT") or b"").decode()
    found = read(folder / name) if name.startswith("MANIFEST-") and len(name) == 10 else None
    world.note("opened", (name, found))


def opens(view: View) -> str | None:
    broken = [name for name, found in view.notes("opened") if found != b"manifest " + name[-1:].encode()]
    return f"CURRENT names {broken[0]!r}, which is not there" if broken else None


def _moving(world: World, **options: bool) -> None:
    folder = world.filesystem()
    write(folder / "MANIFEST-1", b"manifest 1")
    write(folder / "CURRENT", b"MANIFEST-1")
    world.spawn(move_on, world, folder, name="store", **options)
    world.spawn(open_store, world, folder, name="reopened", after_power_loss=True)
    world.always("the store opens", opens)


@faulty
def mutant_rename_and_removal_not_ordered(world: World) -> None:
    _moving(world, ordered=False)


@faulty
def mutant_current_not_flushed(world: World) -> None:
    _moving(world, flush_current=False)


@faulty
def fixed(world: World) -> None:
    _moving(world)
