"""A commit of a version control system: objects in files of their own, and a reference that names the last.

As reported of Git (ALICE, OSDI 2014): object files and references are written and renamed without an fsync.
After a power loss the reference may name an object that is empty or gone, and an acknowledged commit may be
lost. Fixed: the object is durable, with its name, before the reference is.
"""

import os
from pathlib import Path

from fencepost.examples.files import faulty, flush_folder, read, write
from fencepost.sim.world import View, World


def commit(
    world: World,
    folder: Path,
    *,
    flush_object: bool = True,
    flush_name: bool = True,
    flush_reference: bool = True,
) -> None:
    write(folder / "objects" / "tmp", b"commit 2", flush=flush_object)
    os.rename(folder / "objects" / "tmp", folder / "objects" / "c2")
    if flush_name:
        flush_folder(folder / "objects")
    write(folder / "refs" / "main.lock", b"c2", flush=flush_reference)
    os.rename(folder / "refs" / "main.lock", folder / "refs" / "main")
    if flush_reference:
        flush_folder(folder / "refs")
    world.note("committed")


def check_repository(world: World, folder: Path) -> None:
    name = (read(folder / "refs" / "main") or b"").decode()
    world.note("head", (name, read(folder / "objects" / name) if name else None))


def sound(view: View) -> str | None:
    for name, content in view.notes("head"):
        if content not in (b"commit 1", b"commit 2"):
            return f"the reference names {name!r}, which holds {content!r}"
        if view.notes("committed") and name != "c2":
            return "a commit was acknowledged and is gone"
    return None


def _committing(world: World, **options: bool) -> None:
    folder = world.filesystem()
    for name in ("objects", "refs"):
        (folder / name).mkdir()
    write(folder / "objects" / "c1", b"commit 1")
    write(folder / "refs" / "main", b"c1")
    world.spawn(commit, world, folder, name="git", **options)
    world.spawn(check_repository, world, folder, name="fsck", after_power_loss=True)
    world.always("the reference names a commit that is there", sound)


@faulty
def mutant_object_not_flushed(world: World) -> None:
    _committing(world, flush_object=False)


@faulty
def mutant_object_name_not_flushed(world: World) -> None:
    _committing(world, flush_name=False)


@faulty
def mutant_reference_not_flushed(world: World) -> None:
    _committing(world, flush_reference=False)


@faulty
def fixed(world: World) -> None:
    _committing(world)
